"""Generators as nodes: events as they come, then one value (workflow §1.4, NODE-6)."""

from __future__ import annotations

import gc
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.workflow.bare import Bare, events_of

from hookwork import Event
from hookwork_workflow import MultipleOutputs, node, progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass
class City:
    name: str


async def test_node_an_async_generator_forwards_events_and_gives_one_value() -> None:
    """§1.4: a text is said as well."""

    @node
    async def stream(city: City) -> AsyncIterator[Any]:
        yield progress("formatting")
        yield progress("almost", partial=True)
        yield f"{city.name} is fine"
        yield progress("done")

    events = await events_of(stream, City("Oslo"))
    assert [event.text for event in events] == ["formatting", "almost", "done", "Oslo is fine"]
    assert [event.output for event in events] == [None, None, None, "Oslo is fine"]
    assert [bool(event.partial) for event in events] == [False, True, False, False]
    assert stream.kind == "emitting"
    assert (stream.input_schema, stream.output_schema) == (City, None)


async def test_node_a_generator_without_value_gives_no_terminal_event() -> None:
    @node
    async def stream(x: Any) -> AsyncIterator[Event]:
        yield progress("one")

    assert [event.text for event in await events_of(stream, 1)] == ["one"]
    assert stream.output_schema is None


async def test_node_6_two_values_of_one_generator_are_too_many() -> None:
    @node
    async def stream(x: Any) -> Any:
        yield 1
        yield 2

    with pytest.raises(MultipleOutputs, match='node "stream" gave more than one output'):
        await events_of(stream, 1)

    @node
    def plain(x: Any) -> Any:
        yield 1
        return 2

    with pytest.raises(MultipleOutputs):
        await events_of(plain, 1)


async def test_node_a_plain_generator_is_stepped_in_a_thread_and_returns_its_value() -> None:
    names = []

    @node
    def stream(x: int) -> Any:
        names.append(threading.current_thread() is threading.main_thread())
        yield progress("one")
        return x + 1

    events = await events_of(stream, 1)
    assert [(event.text, event.output) for event in events] == [("one", None), ("", 2)]
    assert names == [False]


@pytest.mark.parametrize("inline", [True, False])
async def test_node_a_generator_is_closed_when_the_node_is_left_early(inline: bool) -> None:
    closed = []

    async def one(x: Any) -> Any:
        try:
            yield progress("one")
            yield progress("two")
        finally:
            closed.append("async")

    def other(x: Any) -> Any:
        try:
            yield progress("one")
            yield progress("two")
        finally:
            closed.append("plain")

    for function in (one, other):
        events: Any = node(function, inline=inline).run(Bare(), 1)
        assert (await anext(events)).text == "one"
        await events.aclose()
    assert closed == ["async", "plain"]
    gc.collect()
