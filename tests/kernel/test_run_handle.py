"""The run handle: iteration, leaving, stopping, dropping, text and outcome (core HND)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.kernel.running import runner_of, said, talking
from tests.kernel.watching import Gate, Watch, settle, stored, texts_of

from hookwork import (
    Agent,
    Event,
    EventActions,
    FunctionCall,
    FunctionPlugin,
    InvocationContext,
    Part,
    RunConfig,
    Stage,
    UsageMetadata,
    text_content,
)
from hookwork.errors import LimitExceeded, RunPaused, RunStateError
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, partial

# --- iteration (HND-1, HND-2) -----------------------------------------------------------------------------------------


async def test_hnd_1_nothing_happens_before_iteration() -> None:
    runner = runner_of(talking("hello"))
    run = runner.run(user_id="u", session_id="s", message="hi")
    await settle()
    assert (run.user_id, run.session_id, run.invocation_id, run.session, run.outcome) == ("u", "s", None, None, None)
    assert run.open_calls == []
    assert await runner.sessions.list_sessions(app_name="root") == []
    [event async for event in run]
    assert run.invocation_id is not None
    assert run.invocation_id.startswith("e-")
    assert run.session is not None
    assert [event.text for event in run.session.events[:2]] == ["hi", "hello"]


async def test_hnd_1_a_second_iteration_raises() -> None:
    run = runner_of(talking("hello")).run(user_id="u", message="hi")
    [event async for event in run]
    with pytest.raises(RunStateError, match="iterated once"):
        async for _ in run:
            pass


async def test_run_3_a_missing_session_id_gives_a_new_one_at_once() -> None:
    runner = runner_of(talking("hello"))
    run = runner.run(user_id="u", message="hi")
    assert run.session_id
    await run.wait()
    assert await texts_of(runner, run.session_id) == ["hi", "hello"]


async def test_inv_1_a_body_goes_on_only_after_its_event_was_stored_and_asked_for() -> None:
    seen: list[Any] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("one", actions=EventActions(state_delta={"n": 1}))
        seen.append((ctx.session.events[-1].text, ctx.state["n"]))
        yield said("two")

    runner = runner_of(body)
    async with runner.run(user_id="u", session_id="s", message="hi") as run:
        event = await anext(aiter(run))
        assert event.text == "one"
        await settle()
        assert seen == []  # nobody has asked for the next one
        assert await texts_of(runner) == ["hi", "one"]
        assert (await anext(run)).text == "two"
    assert seen == [("one", 1)]


async def test_wait_drains_a_run_that_was_begun_by_hand() -> None:
    run = runner_of(talking("one", "two")).run(user_id="u", message="hi")
    assert (await anext(run)).text == "one"
    outcome = await run.wait()
    assert (outcome.kind, outcome.final_event.text if outcome.final_event else None) == ("completed", "two")


# --- leaving (HND-2, HND-3) -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["break", "return", "raise", "aclose"])
async def test_hnd_2_leaving_the_block_ends_the_run_before_it_goes_on(way: str) -> None:
    gate, watch = Gate(), Watch()
    runner = runner_of(gate.body, watch.plugin())

    async def consume() -> None:
        async with runner.run(user_id="u", session_id="s", message="hi") as run:
            runs.append(run)
            async for _ in run:
                if way == "return":
                    return
                if way == "raise":
                    raise LookupError("the consumer's own")
                if way == "aclose":
                    await run.aclose()
                break

    runs: list[Any] = []
    if way == "raise":
        with pytest.raises(LookupError):
            await consume()
    else:
        await consume()
    assert gate.ended == "closed"
    assert watch.kinds == ["closed"]
    assert (runs[0].outcome.kind, runs[0].outcome.reason) == ("closed", "left")
    assert await texts_of(runner) == ["hi", "first"]
    gate.open.set()
    assert await runner.ask("again", user_id="u", session_id="s") == "second"


async def test_hnd_3_a_dropped_handle_is_ended_a_turn_later(caplog: pytest.LogCaptureFixture) -> None:
    gate, watch = Gate(), Watch()
    runner = runner_of(gate.body, watch.plugin())
    async for _ in runner.run(user_id="u", session_id="s", message="hi"):
        break
    await settle()
    assert gate.ended == "closed"
    assert watch.kinds == ["closed"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    gc.collect()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_hnd_3_the_next_turn_of_the_same_task_does_not_wait_for_a_bare_break() -> None:
    gate, watch = Gate(), Watch()
    runner = runner_of(gate.body, watch.plugin())
    async for _ in runner.run(user_id="u", session_id="s", message="hi"):
        break
    gate.open.set()
    assert await runner.ask("again", user_id="u", session_id="s") == "second"
    assert await texts_of(runner) == ["hi", "first", "again", "first", "second"]
    assert watch.kinds == ["closed", "completed"]


async def test_leaving_from_another_task_stops_the_running_consumer() -> None:
    gate = Gate()
    run = runner_of(gate.body).run(user_id="u", session_id="s", message="hi")
    task = asyncio.create_task(run.wait())
    await gate.entered.wait()
    await run.aclose()
    assert (await task).kind == "closed"
    assert gate.ended == "cancelled"


# --- outcome, text, ask -----------------------------------------------------------------------------------------------


async def test_hnd_6_text_shows_each_character_once_and_leaves_thoughts_out() -> None:
    model = ScriptedModel([[partial("Hel"), partial("lo"), "!"]])
    runner = runner_of(LlmAgent(name="root", model=model), config=RunConfig(streaming_mode="sse"))
    run = runner.run(user_id="u", message="hi", yield_user_message=True)
    assert [piece async for piece in run.text()] == ["Hel", "lo", "!"]


async def test_outcome_ended_carries_the_reason() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("enough")
        ctx.end_invocation("budget")

    runner = runner_of(body)
    outcome = await runner.run(user_id="u", session_id="s", message="hi").wait()
    assert (outcome.kind, outcome.reason) == ("ended", "budget")
    assert len((await stored(runner)).events) == 2  # no end marker (ACT-12)


async def test_outcome_limit_raises_and_is_told() -> None:
    watch = Watch()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("one")
        raise LimitExceeded("too dear")

    with pytest.raises(LimitExceeded, match="too dear"):
        await runner_of(body, watch.plugin()).run(user_id="u", message="hi").wait()
    assert [(outcome.kind, outcome.reason) for outcome in watch.outcomes] == [("limit", "too dear")]


async def test_outcome_failed_carries_the_error_and_the_events_stay() -> None:
    watch = Watch()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("one")
        raise LookupError("lost")

    runner = runner_of(body, watch.plugin())
    run = runner.run(user_id="u", session_id="s", message="hi")
    with pytest.raises(LookupError, match="lost") as raised:
        await run.wait()
    assert watch.outcomes[0].error is raised.value
    assert run.outcome is watch.outcomes[0]
    assert await texts_of(runner) == ["hi", "one"]


async def test_run_4_ask_gives_the_final_text_and_nothing_for_none() -> None:
    assert await runner_of(talking("one", "two")).ask("hi") == "two"
    assert await runner_of(talking()).ask("hi") == ""


async def test_run_4_ask_raises_run_paused_with_the_outcome() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        asked = Part(function_call=FunctionCall(id="c1", name="approve", args={}))
        yield Event(content=text_content("").replace(parts=[asked]), long_running_tool_ids=("c1",))

    with pytest.raises(RunPaused, match=r"approve \(c1\)") as raised:
        await runner_of(body).ask("hi")
    assert [call.id for call in raised.value.outcome.open_calls] == ["c1"]


# --- run_sync (RUN-4) -------------------------------------------------------------------------------------------------


def test_run_4_run_sync_is_a_plain_iterator_with_an_outcome() -> None:
    gate_thread: list[str] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        gate_thread.append(threading.current_thread().name)
        yield said("one")
        yield said("two")

    runner = runner_of(body)
    run = runner.run_sync(user_id="u", session_id="s", message="hi")
    assert [event.text for event in run if event.content is not None] == ["one", "two"]
    assert run.outcome is not None
    assert run.outcome.kind == "completed"
    assert gate_thread == ["hookwork-run-sync"]
    with pytest.raises(RunStateError, match="iterated once"):
        list(run)
    asyncio.run(runner.close())
    with pytest.raises(RunStateError, match="closed"):
        runner.run_sync(user_id="u", message="hi")


def test_run_4_breaking_out_of_run_sync_ends_the_run() -> None:
    watch = Watch()
    runner = runner_of(talking("one", "two"), watch.plugin())
    run = runner.run_sync(user_id="u", session_id="s", message="hi")
    for _ in run:
        break
    assert watch.kinds == ["closed"]
    assert run.outcome is not None
    assert run.outcome.reason == "left"
    asyncio.run(runner.close())


def test_run_26_close_from_another_loop_stops_a_blocking_run() -> None:
    watch = Watch()
    runner = runner_of(talking("one", "two"), watch.plugin())
    events = iter(runner.run_sync(user_id="u", session_id="s", message="hi"))
    assert next(events).text == "one"
    asyncio.run(runner.close())
    assert watch.outcomes[0].reason == "the runner was closed"
    assert list(events) == []


async def test_run_4_run_sync_inside_a_loop_raises() -> None:
    with pytest.raises(RuntimeError, match="running event loop"):
        runner_of(talking("one")).run_sync(user_id="u", message="hi")


# --- odd ways to drive and to lose a run ------------------------------------------------------------------------------


async def test_each_event_may_be_asked_for_by_another_task() -> None:
    """`asyncio.wait_for` does that; around hooks and the run's marks must not mind."""
    log: list[str] = []

    @asynccontextmanager
    async def around(ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
        log.append("in")
        yield
        log.append("out")

    run = runner_of(talking("one", "two"), FunctionPlugin("p", around_run=around)).run(user_id="u", message="hi")
    got = []
    while True:
        event = await asyncio.create_task(_next(run))
        if event is None:
            break
        got.append(event.text)
    assert got == ["one", "two", ""]
    assert log == ["in", "out"]


async def _next(run: Any) -> Event | None:
    try:
        event: Event = await anext(run)
    except StopAsyncIteration:
        return None
    return event


async def test_a_timeout_around_the_consumer_closes_the_run() -> None:
    gate, watch = Gate(), Watch()
    run = runner_of(gate.body, watch.plugin()).run(user_id="u", message="hi")

    async def consume() -> None:
        async with asyncio.timeout(0.01):
            await run.wait()

    with pytest.raises(TimeoutError):
        await consume()
    assert gate.ended == "cancelled"
    assert [(outcome.kind, outcome.reason) for outcome in watch.outcomes] == [("closed", "cancelled")]


async def test_hnd_4_stop_works_for_a_consumer_that_survived_a_cancellation_of_its_own() -> None:
    gate = Gate()
    run = runner_of(gate.body).run(user_id="u", message="hi")

    async def consume() -> None:
        async for _ in run:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)

    task = asyncio.create_task(consume())
    await gate.entered.wait()
    async with asyncio.timeout(5):
        await run.stop()
        await task
    assert gate.ended == "cancelled"
    assert run.outcome is not None
    assert run.outcome.kind == "closed"


def test_hnd_3_a_loop_that_ends_closes_a_run_that_is_still_held() -> None:
    gate, watch = Gate(), Watch()
    kept: list[Any] = []

    async def main() -> None:
        run = runner_of(gate.body, watch.plugin()).run(user_id="u", message="hi")
        kept.append(run)
        async for _ in run:
            break

    asyncio.run(main())
    assert (gate.ended, watch.kinds) == ("closed", ["closed"])


async def test_run_17_a_consumer_that_leaves_at_its_own_message_still_gets_after_run() -> None:
    watch = Watch()
    runner = runner_of(talking("never"), watch.plugin())
    async with runner.run(user_id="u", session_id="s", message="hi", yield_user_message=True) as run:
        async for event in run:
            assert event.author == "user"
            break
    assert watch.kinds == ["closed"]
    assert await texts_of(runner) == ["hi"]


async def test_a_finished_run_is_freed_by_reference_counting() -> None:
    runner = runner_of(talking("one"))
    gc.collect()
    gc.disable()
    try:
        run = runner.run(user_id="u", message="hi")
        await run.wait()
        core = weakref.ref(run._core)
        del run
        assert core() is None
    finally:
        gc.enable()


async def test_hnd_7_case_usage_1_usage_is_summed_by_agent_and_model_and_none_stays_none() -> None:
    child = LlmAgent(name="child", model=ScriptedModel(["c"], name="small", usage=_usage(7, 3)))
    silent = LlmAgent(name="silent", model=ScriptedModel(["s"], name="quiet"))

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        for agent in (child, silent):
            async for event in ctx.activate(agent):
                yield event

    root = Agent(name="root", body=body, sub_agents=[child, silent])
    run = runner_of(root).run(user_id="u", message="hi")
    outcome = await run.wait()
    total = run.usage.total
    assert (total.calls, total.prompt_token_count, total.candidates_token_count) == (2, 7, 3)
    assert total.cached_content_token_count is None
    assert run.usage.by_agent["child"].prompt_token_count == 7
    assert run.usage.by_agent["silent"].prompt_token_count is None
    assert set(run.usage.by_model) == {"small", "quiet"}
    assert outcome.usage.total.prompt_token_count == 7


def _usage(prompt: int, candidates: int) -> UsageMetadata:
    return UsageMetadata(
        prompt_token_count=prompt, candidates_token_count=candidates, total_token_count=prompt + candidates
    )
