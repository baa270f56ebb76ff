"""Stopping a run from any task in any state, and what is sealed (core HND-4, HND-5; CASE-CANCEL-1)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kernel.running import runner_of, said, talking
from tests.kernel.watching import Gate, Watch, settle, stored, texts_of

from hookwork import (
    Event,
    FunctionPlugin,
    InvocationContext,
    RunConfig,
    ToolContext,
)
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, block, call, partial

# --- stop (HND-4) -----------------------------------------------------------------------------------------------------


async def test_hnd_4_stop_before_the_start() -> None:
    watch = Watch()
    runner = runner_of(talking("hello"), watch.plugin())
    run = runner.run(user_id="u", session_id="s", message="hi")
    await run.stop("not wanted")
    assert [event async for event in run] == []
    assert run.outcome is not None
    assert (run.outcome.kind, run.outcome.reason) == ("closed", "not wanted")
    assert await runner.sessions.list_sessions(app_name="root") == []
    assert watch.kinds == []  # its context was never built (RUN-22)


async def test_hnd_4_stop_from_another_task_while_the_body_works() -> None:
    gate, watch = Gate(), Watch()
    runner = runner_of(gate.body, watch.plugin())
    run = runner.run(user_id="u", session_id="s", message="hi")
    got: list[str] = []

    async def consume() -> None:
        async for event in run:
            got.append(event.text)

    task = asyncio.create_task(consume())
    await gate.entered.wait()
    await run.stop()
    assert gate.ended == "cancelled"
    assert watch.kinds == ["closed"]
    assert run.outcome is not None
    assert run.outcome.reason == "stopped"
    await task  # the iterator ends normally
    assert got == ["first"]
    assert task.cancelling() == 0
    assert await texts_of(runner) == ["hi", "first"]


@pytest.mark.parametrize("by", ["consumer", "other"])
async def test_hnd_4_stop_while_the_consumer_looks_at_an_event(by: str) -> None:
    gate, watch = Gate(), Watch()
    run = runner_of(gate.body, watch.plugin()).run(user_id="u", session_id="s", message="hi")
    got = []
    async for event in run:
        got.append(event.text)
        await (run.stop() if by == "consumer" else asyncio.create_task(run.stop()))
        assert watch.kinds == ["closed"]
    assert (got, gate.ended) == (["first"], "closed")


async def test_hnd_4_many_stops_at_once_harm_nobody() -> None:
    """A second stop finds the first at work in the suspended run; the consumer's task must not be cancelled."""
    watch = Watch()
    tearing_down, let_go = asyncio.Event(), asyncio.Event()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        try:
            yield said("first")
        finally:
            tearing_down.set()
            await let_go.wait()

    run = runner_of(body, watch.plugin()).run(user_id="u", message="hi")
    at_event, carry_on = asyncio.Event(), asyncio.Event()

    async def consume() -> str:
        async with run:
            async for _ in run:
                at_event.set()
                await carry_on.wait()
        return "consumer went on"

    consumer = asyncio.create_task(consume())
    await at_event.wait()
    stops = [asyncio.create_task(run.stop()) for _ in range(3)]
    await tearing_down.wait()
    carry_on.set()  # the consumer asks for the next event, and leaves, while others tear the run down
    await settle()
    assert not consumer.done()
    let_go.set()
    await asyncio.gather(*stops)
    assert await consumer == "consumer went on"
    assert watch.kinds == ["closed"]


async def test_hnd_4_stop_does_not_cut_a_teardown_short() -> None:
    finished: list[str] = []
    in_cleanup, let_go = asyncio.Event(), asyncio.Event()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        try:
            yield said("first")
            await asyncio.Event().wait()
        finally:
            in_cleanup.set()
            await let_go.wait()
            finished.append("cleaned")

    run = runner_of(body).run(user_id="u", message="hi")
    task = asyncio.create_task(run.wait())
    await settle()
    task.cancel()
    await in_cleanup.wait()
    stop = asyncio.create_task(run.stop())
    await settle()
    let_go.set()
    await stop
    assert finished == ["cleaned"]
    with pytest.raises(asyncio.CancelledError):
        await task  # it was cancelled by somebody else as well


@pytest.mark.parametrize("hook", ["after_run", "on_run_error"])
async def test_hnd_4_stop_waits_for_the_last_hooks(hook: str) -> None:
    entered, let_go = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def slow(ctx: InvocationContext) -> None:
        entered.set()
        await let_go.wait()
        done.append(hook)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("all")
        if hook == "on_run_error":
            raise LookupError("broken")

    run = runner_of(body, FunctionPlugin("slow", **{hook: slow})).run(user_id="u", message="hi")
    task = asyncio.create_task(run.wait())
    await entered.wait()
    stop = asyncio.create_task(run.stop())
    await settle()
    assert not stop.done()
    let_go.set()
    await stop
    assert done == [hook]
    if hook == "after_run":
        assert (await task).kind == "completed"  # the outcome was fixed before
    else:
        with pytest.raises(LookupError):
            await task


async def test_hnd_4_stop_after_the_end_is_a_no_op() -> None:
    run = runner_of(talking("hello")).run(user_id="u", message="hi")
    outcome = await run.wait()
    await run.stop()
    assert run.outcome is outcome
    assert outcome.kind == "completed"


async def test_hnd_4_stop_while_the_run_waits_for_its_session_meets_no_hook() -> None:
    gate, watch = Gate(), Watch()
    runner = runner_of(gate.body, watch.plugin())
    first = asyncio.create_task(runner.run(user_id="u", session_id="s", message="one").wait())
    await gate.entered.wait()
    second = runner.run(user_id="u", session_id="s", message="two")
    waiting = asyncio.create_task(second.wait())
    await settle()
    await second.stop()
    assert (await waiting).kind == "closed"
    assert watch.kinds == []
    gate.open.set()
    assert (await first).kind == "completed"
    assert await texts_of(runner) == ["one", "first", "second"]


@pytest.mark.parametrize("where", ["body", "task of the body", "hook", "tool"])
async def test_hnd_4_stop_from_inside_names_end_invocation(where: str) -> None:
    errors: list[RuntimeError] = []

    async def try_stop() -> None:
        try:
            await run.stop()
        except RuntimeError as error:
            errors.append(error)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        if where == "body":
            await try_stop()
        elif where == "task of the body":
            await asyncio.gather(try_stop())
        yield said("went on")

    async def on_event(ctx: InvocationContext, event: Event) -> None:
        if where == "hook":
            await try_stop()

    async def stopper(ctx: ToolContext) -> str:
        await try_stop()
        return "tried"

    agent: Any = body
    if where == "tool":
        agent = LlmAgent(name="root", model=ScriptedModel([call("stopper"), "went on"]), tools=[stopper])
    run = runner_of(agent, FunctionPlugin("p", on_event=on_event)).run(user_id="u", message="hi")
    outcome = await run.wait()
    assert outcome.kind == "completed"
    assert outcome.final_event is not None
    assert outcome.final_event.text == "went on"
    assert errors
    assert all("ctx.end_invocation()" in str(error) for error in errors)


async def test_hnd_4_the_consumer_is_not_inside_between_events() -> None:
    """A task that the consumer starts while it looks at an event is none of the run's."""
    gate = Gate()
    run = runner_of(gate.body).run(user_id="u", message="hi")
    async for _ in run:
        await asyncio.create_task(run.stop())
    assert run.outcome is not None
    assert run.outcome.kind == "closed"


async def test_hnd_4_a_body_that_swallows_cancellation_says_nothing_more() -> None:
    entered = asyncio.Event()
    watch = Watch()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("first")
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        yield said("ghost")

    runner = runner_of(body, watch.plugin())
    run = runner.run(user_id="u", session_id="s", message="hi")
    task = asyncio.create_task(run.wait())
    await entered.wait()
    await run.stop()
    assert (await task).kind == "closed"
    assert task.cancelling() == 0
    assert await texts_of(runner) == ["hi", "first"]
    assert watch.kinds == ["closed"]


@pytest.mark.parametrize("suspended", [False, True])
async def test_hnd_4_a_teardown_that_raises_is_logged_and_the_iterator_ends_normally(
    suspended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    entered = asyncio.Event()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        try:
            yield said("first")
            entered.set()
            await asyncio.Event().wait()
        finally:
            raise LookupError("in the teardown")

    run = runner_of(body).run(user_id="u", message="hi")
    if suspended:
        async for _ in run:
            await run.stop()
    else:
        task = asyncio.create_task(run.wait())
        await entered.wait()
        await run.stop()
        await task
    assert run.outcome is not None
    assert run.outcome.kind == "closed"
    assert ["in the teardown" in record.getMessage() for record in caplog.records] == [True]


async def test_hnd_4_stop_threadsafe_works_from_another_thread() -> None:
    gate = Gate()
    run = runner_of(gate.body).run(user_id="u", message="hi")
    task = asyncio.create_task(run.wait())
    await gate.entered.wait()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(run.stop_threadsafe("from a thread").result(5)))
    thread.start()
    outcome = await task
    await asyncio.to_thread(thread.join)
    assert (outcome.kind, outcome.reason) == ("closed", "from a thread")
    assert results == [None]


async def test_hnd_4_stop_threadsafe_before_the_start() -> None:
    run = runner_of(talking("hello")).run(user_id="u", message="hi")
    stopping = await asyncio.to_thread(run.stop_threadsafe)
    assert stopping.done()
    assert [event async for event in run] == []
    assert run.outcome is not None
    assert run.outcome.kind == "closed"


async def test_case_cancel_1_a_stopped_reply_is_not_stored_and_the_next_turn_works() -> None:
    model = ScriptedModel([[partial("He"), partial("llo"), *block(), " world"], "fine"])
    watch = Watch()
    runner = runner_of(LlmAgent(name="root", model=model), watch.plugin(), config=RunConfig(streaming_mode="sse"))
    run = runner.run(user_id="u", session_id="s", message="hi")
    shown: list[str] = []

    async def consume() -> None:
        async for event in run:
            shown.append(event.text)

    task = asyncio.create_task(consume())
    await model.wait_blocked()
    await run.stop()
    await task
    assert shown == ["He", "llo"]
    assert model.cut_short == 1
    assert watch.kinds == ["closed"]
    model.release()
    await settle()
    assert await texts_of(runner) == ["hi"]
    assert await runner.ask("again", user_id="u", session_id="s") == "fine"


# --- seal (HND-5) -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["stop", "cancel"])
async def test_hnd_5_only_a_long_running_call_cut_by_stop_is_sealed(way: str) -> None:
    entered = asyncio.Event()

    @tool(long_running=True)
    async def slow() -> None:
        """Takes long."""
        entered.set()
        await asyncio.Event().wait()

    model = ScriptedModel([call("slow", id="c1"), "next turn"])
    runner = runner_of(LlmAgent(name="root", model=model, tools=[slow]))
    run = runner.run(user_id="u", session_id="s", message="hi")
    task = asyncio.create_task(run.wait())
    await entered.wait()
    if way == "stop":
        await run.stop()
        await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    session = await stored(runner)
    if way == "stop":
        seal = session.events[-1].function_responses[0]
        assert (seal.id, seal.name, list(seal.response or {})) == ("c1", "slow", ["error"])
        assert session.open_calls == {}
    else:
        assert session.events[-1].function_calls[0].id == "c1"
