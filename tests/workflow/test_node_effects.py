"""Bodies of nodes as effects, and what nodes write (workflow HK-6, §1.6; tools-plugins EFF-1 … EFF-8)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.workflow.flows import run_flow, step

from hookwork import Event, Plugin, text_content
from hookwork.effects import NodeResult
from hookwork.errors import InputValidationError, InvalidRunNodeContext, RemoteEffectError
from hookwork.records.event import EventActions
from hookwork_workflow import (
    START,
    Join,
    NodeContext,
    Retry,
    Workflow,
    node,
)

# --- effects ----------------------------------------------------------------------------------------------------------


class Engine(Plugin):
    """Carries bodies out itself and keeps a record of the calls, as JSON."""

    name = "engine"

    def __init__(self, answer: Any = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self.answer = answer

    async def perform_node(self, call: Any) -> Any:
        self.calls.append(json.loads(json.dumps(call.to_json())))
        if self.answer is not None:
            return self.answer
        return await call.default()


async def test_hk_6_and_eff_8_leaf_bodies_are_effects_orchestration_is_not(kit: Any) -> None:
    engine = Engine()
    leaf = step("leaf")

    @node
    async def dynamic(value: str, ctx: NodeContext) -> Any:
        return await ctx.run_node(leaf, value)

    @node(state=["known"])
    async def bound(value: Any, known: int = 3) -> int:
        return known

    flow = Workflow("wf", START >> dynamic >> bound >> Join("j"))
    turn = await run_flow(kit, flow, plugins=[engine])
    assert turn.outcome.output == {"bound": 3}
    assert [call["path"] for call in engine.calls] == ["wf@1/dynamic@1/leaf@1", "wf@1/bound@1"]
    first = engine.calls[0]
    assert (first["kind"], first["node"], first["run_id"], first["attempt"], first["input"], first["answers"]) == (
        "node", "leaf", "1", 1, "hi", {})  # fmt: skip
    assert first["key"].endswith("/wf@1/dynamic@1/leaf@1/node/1")


async def test_eff_3_the_place_is_innermost_and_once_per_attempt(kit: Any) -> None:
    engine = Engine()

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def flaky(value: int) -> int:
        if len(engine.calls) < 3:
            raise OSError("once")
        return value

    await run_flow(kit, Workflow("wf", START >> step("a", give=lambda v: 1) >> flaky), plugins=[engine])
    attempts = [call for call in engine.calls if call["node"] == "flaky"]
    assert [call["attempt"] for call in attempts] == [1, 2]
    assert attempts[0]["key"] == attempts[1]["key"]


async def test_eff_3_an_input_that_does_not_fit_never_becomes_an_effect(kit: Any) -> None:
    engine = Engine()

    @node
    async def work(value: int) -> int:
        return value

    lab = kit.Lab(Workflow("wf", START >> work).as_agent)
    assert isinstance((await lab.run("no number", plugins=[engine])).error, InputValidationError)
    assert engine.calls == []


async def test_eff_5_what_came_from_elsewhere_is_applied(kit: Any) -> None:
    said = Event(content=text_content("from far away"))
    result = NodeResult(output="far", events=(said,), actions=EventActions(state_delta={"k": "v"}))
    lab = kit.Lab(Workflow("wf", START >> step("leaf")).as_agent)
    turn = await lab.run("hi", plugins=[Engine(result)])
    assert turn.outcome.output == "far"
    assert [event.text for event in turn.events if event.text] == ["from far away"]
    assert dict((await lab.session()).state) == {"k": "v"}


async def test_eff_7_an_error_from_elsewhere(kit: Any) -> None:
    failed = NodeResult(error={"type": "ValueError", "message": "broken there", "retryable": False})
    lab = kit.Lab(Workflow("wf", START >> step("leaf")).as_agent)
    error = (await lab.run("hi", plugins=[Engine(failed)])).error
    assert isinstance(error, RemoteEffectError)
    assert "broken there" in str(error)


async def test_eff_8_a_declared_effect_may_neither_start_nor_ask(kit: Any) -> None:
    tried: list[str] = []

    @node(effect=True)
    async def declared(value: str, ctx: NodeContext) -> str:
        for attempt in (lambda: ctx.run_node(step("x")), lambda: ctx.request_input("k")):
            with pytest.raises(InvalidRunNodeContext, match="effect"):
                await attempt()
            tried.append("refused")
        return "ok"

    turn = await run_flow(kit, Workflow("wf", START >> declared), plugins=[Engine()])
    assert tried == ["refused", "refused"]
    assert turn.outcome.output == "ok"


# --- state ------------------------------------------------------------------------------------------------------------


async def test_state_1_writes_ride_on_the_next_event_and_leftovers_on_one_of_their_own(kit: Any) -> None:
    """WT-4: no write is lost."""

    @node
    async def writer(value: str, ctx: NodeContext) -> AsyncIterator[Any]:
        ctx.state["a"] = 1
        yield Event(content=text_content("one"))
        ctx.state["b"] = 2
        yield "two"
        ctx.state["c"] = 3

    lab = kit.Lab(Workflow("wf", START >> writer).as_agent)
    await lab.run("hi")
    deltas = [dict(event.actions.state_delta) for event in await lab.events() if event.actions.state_delta]
    assert deltas == [{"a": 1}, {"b": 2, "c": 3}] or deltas == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert dict((await lab.session()).state) == {"a": 1, "b": 2, "c": 3}


async def test_state_1_a_silent_node_keeps_its_writes_on_its_marker(kit: Any) -> None:
    @node
    async def writer(value: str, ctx: NodeContext) -> None:
        ctx.state["a"] = 1

    lab = kit.Lab(Workflow("wf", START >> writer).as_agent)
    turn = await lab.run("hi")
    assert [(event.node_info.status, dict(event.actions.state_delta)) for event in turn.events] == [
        ("completed", {"a": 1})
    ]


async def test_state_1_writes_of_a_failed_attempt_are_dropped(kit: Any) -> None:
    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def writer(value: str, ctx: NodeContext) -> str:
        ctx.state[f"attempt{ctx.attempt}"] = True
        if ctx.attempt == 1:
            raise OSError("once")
        return str("attempt1" in ctx.state)

    lab = kit.Lab(Workflow("wf", START >> writer).as_agent)
    assert (await lab.run("hi")).outcome.output == "False"
    assert dict((await lab.session()).state) == {"attempt2": True}


async def test_state_2_writes_are_seen_by_other_nodes_at_once_and_the_last_wins(kit: Any) -> None:
    import asyncio

    written, seen = asyncio.Event(), []

    @node
    async def first(value: str, ctx: NodeContext) -> None:
        ctx.state["k"] = "first"
        written.set()

    @node
    async def second(value: str, ctx: NodeContext) -> None:
        await written.wait()
        seen.append(ctx.state["k"])
        ctx.state["k"] = "second"

    lab = kit.Lab(Workflow("wf", START >> (first, second)).as_agent)
    await lab.run("hi")
    assert seen == ["first"]
    assert dict((await lab.session()).state) == {"k": "second"}


@pytest.mark.parametrize(("key", "value", "fits"), [("n", 1, True), ("n", "x", False), ("m", 1, False),
                                                     ("user:any", object, True), ("temp:x", 1, True)])  # fmt: skip
async def test_state_3_writes_are_checked_and_children_inherit_it(kit: Any, key: str, value: Any, fits: bool) -> None:
    value = "fine" if value is object else value

    @node
    async def child(given: Any, ctx: NodeContext) -> None:
        ctx.state[key] = value

    @node
    async def parent(given: str, ctx: NodeContext) -> None:
        await ctx.run_node(child)

    for flow in (
        Workflow("wf", START >> child, state_schema={"n": int}),
        Workflow("wf", START >> parent, state_schema={"n": int}),
        Workflow("wf", START >> Workflow("inner", START >> child), state_schema={"n": int}),
    ):
        lab = kit.Lab(flow.as_agent)
        error = (await lab.run("hi")).error
        assert (error is None) is fits
        if not fits:
            assert key in str(error)
            assert dict((await lab.session()).state) == {}


async def test_state_3_writes_of_tool_nodes_are_checked_too(kit: Any) -> None:
    from hookwork import ToolContext
    from hookwork_llm import tool

    @tool
    def note(key: str, ctx: ToolContext) -> str:
        """Notes."""
        ctx.state[key] = 1
        return "noted"

    flow = Workflow("wf", START >> node(note), state_schema={"n": int})
    assert (await run_flow(kit, flow, '{"key": "n"}')).outcome.kind == "completed"
    lab = kit.Lab(flow.as_agent)
    assert "'m'" in str((await lab.run('{"key": "m"}')).error)
    assert dict((await lab.session()).state) == {}
