"""Children whose callers are cancelled, and callers that are late (workflow §6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.workflow.flows import outputs, run_flow

from hookwork.errors import ContextClosedError
from hookwork_workflow import START, NodeContext, Workflow, node, progress


class Once:
    """A child that waits in its first run until it is cancelled, and gives the number of the run in the next."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.runs = 0

    def node(self) -> Any:
        @node
        async def child(value: Any) -> int:
            self.runs += 1
            if self.runs == 1:
                self.begun.set()
                await asyncio.Event().wait()
            return self.runs

        return child


async def test_dyn_22_a_cancelled_caller_takes_nothing_from_the_other(kit: Any) -> None:
    """DYN-22: who waits for the same child goes on; the child is run again for it."""
    once = Once()

    @node
    async def parent(value: str, ctx: NodeContext) -> int:
        first = asyncio.create_task(ctx.run_node(once.node(), 1, run_id="x"))
        await once.begun.wait()
        second = asyncio.create_task(ctx.run_node(once.node(), 1, run_id="x"))
        await asyncio.sleep(0)
        first.cancel()
        return int(await second)

    turn = await run_flow(kit, Workflow("wf", START >> parent))
    assert outputs(turn.events) == {"wf@1/parent@1/child@x": 2, "wf@1/parent@1": 2}


async def test_dyn_7_a_cancelled_caller_leaves_the_child_to_the_one_that_runs_it(kit: Any) -> None:
    release, begun = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @node
    async def child(value: Any) -> str:
        ran.append("child")
        begun.set()
        await release.wait()
        return "done"

    @node
    async def parent(value: str, ctx: NodeContext) -> str:
        first = asyncio.create_task(ctx.run_node(child, 1, run_id="x"))
        await begun.wait()
        second = asyncio.create_task(ctx.run_node(child, 1, run_id="x"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        release.set()
        return str(await first)

    turn = await run_flow(kit, Workflow("wf", START >> parent))
    assert (turn.outcome.output, ran) == ("done", ["child"])


async def test_dyn_24_a_delegate_that_was_cancelled_leaves_the_output_to_the_body(kit: Any) -> None:
    """DYN-24: a body that gives up on its delegate gives an output of its own, or delegates to another."""
    once = Once()

    @node
    async def parent(value: str, ctx: NodeContext) -> str:
        delegate = asyncio.create_task(ctx.run_node(once.node(), 1, use_as_output=True))
        await once.begun.wait()
        delegate.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delegate
        return "fallback"

    turn = await run_flow(kit, Workflow("wf", START >> parent))
    assert turn.outcome.output == "fallback"


@pytest.mark.parametrize("what", ["emit", "run_node", "request_input"])
async def test_hk_3_a_context_whose_body_has_ended_starts_nothing(kit: Any, what: str) -> None:
    """HK-3: background work that comes too late is told so, and no child of it runs."""
    kept: list[NodeContext] = []
    ran: list[str] = []

    @node
    async def body(value: str, ctx: NodeContext) -> str:
        kept.append(ctx)
        return value

    @node
    async def child(value: Any) -> None:
        ran.append("child")

    await run_flow(kit, Workflow("wf", START >> body))
    [ctx] = kept
    calls: dict[str, Callable[[], Any]] = {
        "emit": lambda: ctx.emit(progress("late")),
        "run_node": lambda: ctx.run_node(child),
        "request_input": lambda: ctx.request_input("k", "?"),
    }
    with pytest.raises(ContextClosedError, match=f'{what} in node "body" after it had ended'):
        await calls[what]()
    assert ran == []
