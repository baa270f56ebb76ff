"""A consumer whose task is cancelled at an event: that ended the run, nobody's choice did (INV-3, HND-5, CMP-4)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest
from tests.kernel.watching import Watch, settle

from hookwork import Content, Event, Runner, ToolContext, text_content
from hookwork.settings import NO_SETTINGS
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import EventsCompaction, LlmAgent, tool
from hookwork_testkit import ScriptedModel, call

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


class Scene:
    """A long-running tool whose child has spoken: the consumer stands at the child's event while the body runs."""

    def __init__(self, *, compaction: bool = False) -> None:
        self.watch = Watch()
        self.sessions = InMemorySessionService()
        self.at_event = asyncio.Event()
        child = LlmAgent(name="child", model=ScriptedModel(["child speaks"]), mode="single_turn")

        @tool(long_running=True)
        async def ship(ctx: ToolContext) -> None:
            """Ships."""
            await ctx.run_node(child)
            await asyncio.Event().wait()

        class Short:
            async def summarize(self, events: Sequence[Event]) -> tuple[Content, None]:
                return text_content("short", role="model"), None

        agent = LlmAgent(name="a", model=ScriptedModel([call("ship", "c1"), "later"]), tools=[ship])
        config = EventsCompaction(compaction_interval=1, summarizer=Short()) if compaction else None
        self.runner = Runner(
            agent,
            sessions=self.sessions,
            plugins=[self.watch.plugin()],
            settings=NO_SETTINGS,
            events_compaction=config,
        )

    async def consume(self, *, within_block: bool = True) -> None:
        run = self.runner.run(message="go", **WHO)
        if within_block:
            async with run:
                await self._look(run)
        else:
            await self._look(run)

    async def _look(self, run: Any) -> None:
        async for event in run:
            if event.text == "child speaks":
                self.at_event.set()
                await asyncio.Event().wait()

    async def stored(self) -> list[str]:
        session = await self.sessions.get_session(app_name="a", **WHO)
        return [event.text or ",".join(r.name or "" for r in event.function_responses) for event in session.events]


async def test_hnd_5_cancelled_at_an_event_nothing_is_sealed_and_the_call_waits_no_longer_than_a_crash_leaves_it() -> (
    None
):
    scene = Scene()
    task = asyncio.create_task(scene.consume())
    await scene.at_event.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(outcome.kind, outcome.reason) for outcome in scene.watch.outcomes] == [("closed", "cancelled")]
    assert await scene.stored() == ["go", "", "child speaks"]
    await scene.runner.close()


async def test_ctx_6_a_deadline_of_the_consumer_is_a_cancellation_too() -> None:
    scene = Scene()

    async def with_deadline() -> None:
        async with asyncio.timeout(None) as deadline:
            reached = asyncio.create_task(scene.at_event.wait())
            reached.add_done_callback(lambda _: deadline.reschedule(asyncio.get_running_loop().time()))
            await scene.consume()

    with pytest.raises(TimeoutError):
        await with_deadline()
    assert [(outcome.kind, outcome.reason) for outcome in scene.watch.outcomes] == [("closed", "cancelled")]
    assert await scene.stored() == ["go", "", "child speaks"]
    await scene.runner.close()


async def test_hnd_3_without_a_block_the_finaliser_sees_that_the_consumer_was_cancelled() -> None:
    scene = Scene()
    task = asyncio.create_task(scene.consume(within_block=False))
    await scene.at_event.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gc.collect()
    await settle()
    assert [(outcome.kind, outcome.reason) for outcome in scene.watch.outcomes] == [("closed", "cancelled")]
    assert await scene.stored() == ["go", "", "child speaks"]
    await scene.runner.close()


@pytest.mark.parametrize("how", ["leave", "stop"])
async def test_hnd_5_ended_by_choice_the_long_running_call_is_sealed(how: str) -> None:
    scene = Scene()
    async with scene.runner.run(message="go", **WHO) as run:
        async for event in run:
            if event.text == "child speaks":
                if how == "stop":
                    await asyncio.create_task(run.stop())
                break
    assert [(o.kind, o.reason) for o in scene.watch.outcomes] == [("closed", {"leave": "left", "stop": "stopped"}[how])]
    assert await scene.stored() == ["go", "", "child speaks", "ship"]
    await scene.runner.close()


@pytest.mark.parametrize("how", ["cancel", "leave"])
async def test_cmp_4_a_cancelled_run_is_not_compacted_and_one_that_was_left_is(how: str) -> None:
    scene = Scene(compaction=True)
    if how == "cancel":
        task = asyncio.create_task(scene.consume())
        await scene.at_event.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        async with scene.runner.run(message="go", **WHO) as run:
            async for event in run:
                if event.text == "child speaks":
                    break
    session = await scene.sessions.get_session(app_name="a", **WHO)
    assert any(event.actions.compaction is not None for event in session.events) is (how == "leave")
    await scene.runner.close()


async def test_hnd_2_a_task_that_was_cancelled_before_and_went_on_leaves_like_any_other() -> None:
    """An old cancellation, caught and not taken back, says nothing about a run that was begun afterwards."""
    scene = Scene()

    async def consume() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        async with scene.runner.run(message="go", **WHO) as run:
            async for event in run:
                if event.text == "child speaks":
                    break

    task = asyncio.create_task(consume())
    await asyncio.sleep(0)
    task.cancel()
    await task
    assert [(outcome.kind, outcome.reason) for outcome in scene.watch.outcomes] == [("closed", "left")]
    assert (await scene.stored())[-1] == "ship"
    await scene.runner.close()
