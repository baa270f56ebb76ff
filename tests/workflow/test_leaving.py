"""Runs of a mixed tree that are left, stopped, cancelled or broken behind each event, and continued by id (RES-10)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwork import Agent, Event, Plugin, Runner, text_content
from hookwork.errors import NothingToResume
from hookwork_inmemory import InMemorySessionService
from hookwork_testkit import call
from hookwork_workflow import LoopAgent, ParallelAgent, SequentialAgent

#: Events that the agents of the tree give in all.
COUNT = 12


def mixed_tree(kit: Any, ran: list[str]) -> Agent:
    """Sequence of: an LLM agent with a tool, a parallel agent of two, a loop of two rounds, a custom agent."""
    a = kit.llm("a", call("ta", id="a1"), "a done", tools=[kit.body_of(ran, "ta")])
    b = kit.llm("b", call("tb", id="b1"), "b done", tools=[kit.body_of(ran, "tb")])
    par = ParallelAgent(name="par", sub_agents=[b, kit.llm("c", "c done")])
    loop = LoopAgent(name="loop", sub_agents=[kit.llm("d", "d1", "d2"), kit.llm("e", "e1", "e2")], max_iterations=2)

    async def last(ctx: Any) -> Any:
        if not ctx.view.events:
            yield Event(content=text_content("z done"), output="z")

    return SequentialAgent(name="seq", sub_agents=[a, par, loop, Agent(name="z", body=last)])


def by_place(lines: list[str]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for line in lines:
        places.setdefault(line.split(" ")[0], []).append(line)
    return places


async def undisturbed(kit: Any) -> dict[str, list[str]]:
    lab = kit.Lab(lambda: mixed_tree(kit, []))
    assert (await lab.run("hi")).outcome.kind == "completed"
    lines = await lab.lines()
    assert len(lines) == COUNT + 1
    return by_place(lines)


async def leave(way: str, runner: Runner, after: int) -> tuple[str, int]:
    """Run until ``after`` events were seen, go away in that way; the outcome's kind, and how many events there were.

    A cancellation arrives where the run next waits for something, which may be some events later.
    """
    run = runner.run(user_id="u", session_id="s", message="hi")
    seen = 0

    async def consume() -> None:
        nonlocal seen
        async with run:
            async for _ in run:
                seen += 1
                if seen < after:
                    continue
                if way == "close":
                    break
                if way == "stop":
                    await run.stop()
                elif way == "cancel":
                    consumer.cancel()
                elif way == "raise":
                    raise ValueError("the consumer is broken")

    consumer = asyncio.ensure_future(consume())
    await asyncio.wait([consumer])
    assert consumer.cancelled() if way == "cancel" else (consumer.exception() is not None) == (way == "raise")
    assert seen == after or way == "cancel"
    assert run.outcome is not None
    return run.outcome.kind, seen


@pytest.mark.parametrize("way", ["close", "stop", "cancel", "raise"])
async def test_wfa_2_a_run_left_behind_each_event_leaves_nothing_running_and_goes_on_by_id(kit: Any, way: str) -> None:
    expected = await undisturbed(kit)
    for after in range(1, COUNT):
        ran: list[str] = []
        service = InMemorySessionService()
        before = asyncio.all_tasks()
        async with Runner(mixed_tree(kit, ran), sessions=service) as runner:
            kind, seen = await leave(way, runner, after)
            assert kind == ("completed" if seen == COUNT else "closed")
            assert asyncio.all_tasks() == before
        lab = kit.Lab(lambda ran=ran: mixed_tree(kit, ran), service)
        assert len(await lab.events()) == seen + 1
        if seen == COUNT:
            continue
        again = await lab.run(invocation_id=await lab.first_invocation())
        assert again.error is None
        assert by_place(await lab.lines()) == expected
        assert again.outcome.output == "z"
        assert {*ran} == {"ta", "tb"}
        once_more = await lab.run(invocation_id=await lab.first_invocation())
        assert isinstance(once_more.error, NothingToResume)


class Breaks(Plugin):
    """Refuses the n-th event."""

    name = "breaks"

    def __init__(self, after: int) -> None:
        self.left = after

    async def on_event(self, ctx: Any, event: Event) -> None:
        self.left -= 1
        if self.left == 0:
            raise ValueError("refused")


async def test_res_10_a_run_that_failed_behind_each_event_goes_on_by_id(kit: Any) -> None:
    expected = await undisturbed(kit)
    for after in range(1, COUNT + 1):
        ran: list[str] = []
        lab = kit.Lab(lambda ran=ran: mixed_tree(kit, ran))
        broken = await lab.run("hi", plugins=[Breaks(after)])
        assert isinstance(broken.error, ValueError)
        assert len(await lab.events()) == after
        again = await lab.run(invocation_id=await lab.first_invocation())
        assert again.error is None
        assert by_place(await lab.lines()) == expected


async def test_ard_14_around_hooks_see_every_agent_leave_when_a_run_is_left(kit: Any) -> None:
    inside: list[str] = []

    class Watch(Plugin):
        name = "watch"

        @asynccontextmanager
        async def around_agent(self, ctx: Any, agent: Agent, stage: Any) -> Any:
            inside.append(agent.name)
            try:
                yield
            finally:
                inside.remove(agent.name)

    most = 0
    for after in range(1, COUNT):
        async with Runner(mixed_tree(kit, []), sessions="memory:", plugins=[Watch()]) as runner:
            run = runner.run(user_id="u", session_id="s", message="hi")
            async with run:
                seen = 0
                async for _ in run:
                    seen += 1
                    most = max(most, len(inside))
                    if seen == after:
                        break
            assert inside == []
    assert most >= 4


async def test_wfa_2_a_paused_parallel_agent_has_awaited_its_children(kit: Any) -> None:
    ran: list[str] = []

    def build() -> Any:
        wait = kit.body_of(ran, "wait", None, long_running=True)
        slow = kit.llm("slow", call("ts", id="s1"), "slow done", tools=[kit.body_of(ran, "ts")])
        return ParallelAgent(name="par", sub_agents=[kit.llm("a", call("wait", id="w1"), "a", tools=[wait]), slow])

    before = asyncio.all_tasks()
    turn = await kit.Lab(build).run("hi")
    assert asyncio.all_tasks() == before
    assert turn.waits_for == ["w1"]
    assert turn.events[-1].text == "slow done"
