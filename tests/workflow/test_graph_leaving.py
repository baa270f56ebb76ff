"""Graph runs that are left, stopped or cancelled at any turn of the loop (core INV-3, HND-4; workflow SCH-8, DYN-7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.workflow.flows import is_marker, step

from hookwork import Event, Plugin, Runner, text_content
from hookwork.errors import NothingToResume, SessionNotFoundError
from hookwork_inmemory import InMemorySessionService
from hookwork_workflow import START, Join, NodeContext, Retry, Workflow, node, parallel


class Balance(Plugin):
    """Counts what is entered and left."""

    name = "balance"

    def __init__(self) -> None:
        self.open = 0
        self.after = 0

    @asynccontextmanager
    async def around_node(self, ctx: Any, node: Any, input: Any, stage: Any) -> AsyncIterator[None]:
        self.open += 1
        try:
            await asyncio.sleep(0)
            yield
        finally:
            self.open -= 1
            await asyncio.sleep(0)

    async def after_run(self, ctx: Any, outcome: Any) -> None:
        self.after += 1


def flow(bodies: list[int]) -> Workflow:
    """Branches, a join, children in a group, items, a sub-workflow, a retry, a timeout; bodies count themselves."""

    def counted(name: str, **settings: Any) -> Any:
        @node(name=name, **settings)
        async def body(value: Any, ctx: NodeContext) -> AsyncIterator[Any]:
            bodies.append(1)
            try:
                ctx.state[name] = True
                await asyncio.sleep(0)
                yield Event(content=text_content(name))
                await asyncio.sleep(0)
                if settings.get("retry") is not None and ctx.attempt == 1:
                    raise OSError("once")
                yield f"{name}"
            finally:
                bodies.pop()

        return body

    @node
    async def group(value: Any, ctx: NodeContext) -> list[Any]:
        async with asyncio.TaskGroup() as tasks:
            found = [tasks.create_task(ctx.run_node(counted(f"child{n}"), value)) for n in range(3)]
        return [task.result() for task in found]

    inner = Workflow("inner", START >> (counted("i1"), counted("i2")) >> Join("ij"))
    items = parallel(counted("item"), name="items", max_workers=2)
    listing = step("listing", give=lambda value: [1, 2, 3])
    retried = counted("retried", retry=Retry(max_attempts=2, initial_delay=0), timeout=60)
    end = step("end", give=lambda value: "end")
    edges = START >> (group, listing >> items, inner, retried) >> Join("all") >> end
    return Workflow("wf", edges, max_concurrency=3)


async def leave(run: Any, how: str, turns: int) -> None:
    async def follow() -> None:
        async with run:
            async for _ in run:
                pass

    following = asyncio.ensure_future(follow())
    for _ in range(turns):
        await asyncio.sleep(0)
        if following.done():
            break
    if how == "stop":
        await run.stop()
        await following
    else:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_inv_3_left_at_any_turn_nothing_goes_on_and_the_rest_runs_later(how: str) -> None:
    others = asyncio.all_tasks()
    turns, ended = 0, False
    while not ended:
        turns += 1
        service, balance, bodies = InMemorySessionService(), Balance(), list[int]()
        async with Runner(flow(bodies).as_agent(), sessions=service, plugins=[balance]) as runner:
            run = runner.run(user_id="u", session_id="s", message="hi")
            await leave(run, how, turns)
            assert (balance.open, bodies) == (0, []), f"after {turns} turns"
            assert asyncio.all_tasks() == others
            assert run.outcome is not None
            ended = run.outcome.kind == "completed"
            try:
                session = await service.get_session(app_name="wf", user_id="u", session_id="s")
            except SessionNotFoundError:
                continue
            if run.session is not None:
                assert dict(run.session.state) == dict(session.state)
            if not session.events:
                continue
            with suppress(NothingToResume):
                again = runner.run(user_id="u", session_id="s", invocation_id=session.events[0].invocation_id)
                async for _ in again:
                    pass
            stored = list((await service.get_session(app_name="wf", user_id="u", session_id="s")).events)
            ends = [e.path for e in stored if e.author != "user" and (e.output is not None or is_marker(e))]
            assert len(ends) == len(set(ends))
            assert "wf@1/end@1" in ends
    assert turns > 40


async def test_tmo_1_a_sub_workflow_out_of_time_is_left_and_tried_again() -> None:
    """FAIL-5, DYN-21: what had completed inside is not run again; nothing of the first attempt goes on."""
    ran: list[str] = []
    others = asyncio.all_tasks()

    @node
    async def slow(value: Any, ctx: NodeContext) -> str:
        ran.append("slow")
        if ran.count("slow") == 1:
            await asyncio.Event().wait()
        return "ok"

    inner = Workflow(
        "inner",
        START >> step("a", ran) >> slow >> step("b", ran),
        timeout=0.02,
        retry=Retry(max_attempts=2, initial_delay=0),
    )
    agent = Workflow("wf", START >> inner >> step("end")).as_agent()
    async with Runner(agent, sessions=InMemorySessionService()) as runner:
        outcome = await runner.run(user_id="u", session_id="s", message="hi").wait()
    assert outcome.output == "end(b(ok))"
    assert ran == ["a", "slow", "slow", "b"]
    assert asyncio.all_tasks() == others
