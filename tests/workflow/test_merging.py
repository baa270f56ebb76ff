"""Parallel agents at the merge point: what goes wrong at the same moment (core HND-3, ACT-19)."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from hookwork import Agent, Event, text_content
from hookwork.platform import run_sequentially, use_task_runner
from hookwork_workflow import ParallelAgent


async def test_hnd_3_two_errors_at_once_are_both_taken_notice_of(kit: Any) -> None:
    """The second child has failed already when the first one's error ends the run."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    async def broken(ctx: Any) -> Any:
        raise ValueError(ctx.agent_name)
        yield

    root = ParallelAgent(name="p", sub_agents=[Agent(name=name, body=broken) for name in "abc"])
    turn = await kit.Lab(lambda: root).run("hi")
    assert str(turn.error) == "a"
    del turn
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_hnd_3_an_error_beside_a_consumer_that_leaves_is_taken_notice_of(kit: Any) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    fails = asyncio.Event()

    async def says(ctx: Any) -> Any:
        yield Event(content=text_content("a"))

    async def broken(ctx: Any) -> Any:
        await fails.wait()
        raise ValueError("b")
        yield

    root = ParallelAgent(name="p", sub_agents=[Agent(name="a", body=says), Agent(name="b", body=broken)])

    async def leave(event: Event) -> None:
        fails.set()
        await asyncio.sleep(0)
        raise KeyError("the consumer leaves in the very turn in which b fails")

    turn = await kit.Lab(lambda: root).run("hi", on_event=leave)
    assert isinstance(turn.error, KeyError)
    del turn
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_inv_5_a_task_runner_that_runs_one_after_the_other_is_enough(kit: Any) -> None:
    async def body(ctx: Any) -> Any:
        for number in (1, 2):
            yield Event(content=text_content(f"{ctx.agent_name}{number}"))

    root = ParallelAgent(name="p", sub_agents=[Agent(name=name, body=body) for name in "abc"])
    with use_task_runner(run_sequentially):
        turn = await kit.Lab(lambda: root).run("hi")
    assert [event.text for event in turn.events if event.text] == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert turn.outcome.kind == "completed"


async def test_inv_5_an_error_under_such_a_runner_ends_the_run(kit: Any) -> None:
    async def broken(ctx: Any) -> Any:
        yield Event(content=text_content("a"))
        raise ValueError("broken")

    async def says(ctx: Any) -> Any:
        yield Event(content=text_content("b"))

    root = ParallelAgent(name="p", sub_agents=[Agent(name="a", body=broken), Agent(name="b", body=says)])
    with use_task_runner(run_sequentially):
        turn = await kit.Lab(lambda: root).run("hi")
    assert str(turn.error) == "broken"
    assert turn.error.__notes__ == ["raised in 'a', a child of the parallel agent 'p'"]
