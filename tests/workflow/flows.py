"""Small parts for tests of running graphs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from hookwork import Content, Event, FunctionResponse, Part
from hookwork_workflow import NodeContext, RequestInput, Workflow, node


def outputs(events: Sequence[Event]) -> dict[str, Any]:
    """Path → output, for the events of nodes that have one."""
    return {event.path: event.output for event in events if event.output is not None}


def paths(events: Sequence[Event]) -> list[str]:
    """The paths of nodes in the order in which they ended."""
    return [e.path for e in events if e.author != "user" and (e.output is not None or is_marker(e) or e.routes)]


def is_marker(event: Event) -> bool:
    return event.node_info is not None and event.node_info.status == "completed" and event.content is None


def answers(given: dict[str, Any]) -> Content:
    """A message that answers questions by their ids."""
    parts = [
        Part(function_response=FunctionResponse(id=call_id, name="adk_request_input", response=payload))
        for call_id, payload in given.items()
    ]
    return Content(role="user", parts=parts)


def step(name: str, ran: list[str] | None = None, give: Callable[[Any], Any] | None = None) -> Any:
    """A node that notes that it ran and gives its name and input, or what ``give`` makes of the input."""

    async def body(value: Any) -> Any:
        if ran is not None:
            ran.append(name)
        return give(value) if give is not None else f"{name}({value})"

    return node(name=name)(body)


class Meeting:
    """Lets bodies wait for each other, so that a test knows that they overlap."""

    def __init__(self) -> None:
        self.arrived: dict[str, asyncio.Event] = {}
        self.running: list[str] = []
        self.most = 0

    def event(self, name: str) -> asyncio.Event:
        return self.arrived.setdefault(name, asyncio.Event())

    async def inside(self, name: str, turns: int = 3) -> None:
        """Be counted among what runs, for some turns of the loop."""
        self.running.append(name)
        self.most = max(self.most, len(self.running))
        for _ in range(turns):
            await asyncio.sleep(0)
        self.running.remove(name)


async def run_flow(kit: Any, flow: Workflow, message: Any = "hi", **options: Any) -> Any:
    """One run of a workflow on a session of its own; raises what it raises. The turn has its ``lab``."""
    lab = kit.Lab(flow.as_agent)
    turn = await lab.run(message, **options)
    if turn.error is not None:
        raise turn.error
    return turn


def handoff(name: str, *ids: str, schema: Any = None, ran: list[str] | None = None) -> Any:
    """Asks by yielding; the answer is its output."""

    @node(name=name)
    async def body(value: Any) -> AsyncIterator[Any]:
        if ran is not None:
            ran.append(name)
        for question in ids or (f"{name}-q",):
            yield RequestInput(interrupt_id=question, message="?", response_schema=schema)

    return body


def rerun(name: str, *keys: str, ran: list[str] | None = None) -> Any:
    """Asks by awaiting; runs again with each answer."""

    @node(name=name)
    async def body(value: Any, ctx: NodeContext) -> list[Any]:
        if ran is not None:
            ran.append(name)
        return [await ctx.request_input(key, "?") for key in keys or ("k",)]

    return body


async def answered(lab: Any, given: dict[str, Any], **options: Any) -> Any:
    """One run with answers by id; raises what it raises."""
    turn = await lab.run(answers({key: {"result": value} for key, value in given.items()}), **options)
    if turn.error is not None:
        raise turn.error
    return turn


def calling(body: Any, **settings: Any) -> Any:
    """A dynamic node around ``body(ctx, input)``."""

    async def parent(value: Any, ctx: NodeContext) -> Any:
        return await body(ctx, value)

    return node(name="parent", **settings)(parent)


async def failure(kit: Any, *parts: Any) -> BaseException:
    """What a run of a workflow of these edges fails with."""
    turn = await kit.Lab(Workflow("wf", *parts).as_agent).run("hi")
    assert turn.error is not None
    return turn.error


async def in_turn(*awaitables: Any) -> list[Any]:
    """What each gives, one after the other."""
    return [await awaitable for awaitable in awaitables]
