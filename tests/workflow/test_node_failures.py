"""Failures, retries, timeouts, cancellation, and what a node may give (workflow §1.4, §7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from tests.workflow.flows import outputs, run_flow, step

import hookwork.merge
from hookwork import Content, Event, FunctionResponse, Part, Runner, text_content
from hookwork.platform import use_random, use_sleep
from hookwork_inmemory import InMemorySessionService
from hookwork_workflow import (
    START,
    GraphNode,
    InputValidationError,
    MultipleOutputs,
    MultipleRoutes,
    NodeConfig,
    NodeContext,
    NodeTimeout,
    Pause,
    Retry,
    Workflow,
    node,
    progress,
)


class Raw(GraphNode[Any, Any]):
    """Yields what it is given, as it is."""

    def __init__(self, name: str, *items: Any, config: NodeConfig | None = None) -> None:
        self.name = name
        self.items = items
        if config is not None:
            self.config = config

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        for item in self.items:
            if isinstance(item, BaseException):
                raise item
            yield item


async def failing(kit: Any, *parts: Any, **options: Any) -> tuple[BaseException, list[Event]]:
    lab = kit.Lab(Workflow("wf", *parts).as_agent)
    turn = await lab.run("hi", **options)
    assert turn.error is not None
    return turn.error, await lab.events()


# --- failure ----------------------------------------------------------------------------------------------------------


async def test_fail_1_the_original_error_leaves_with_a_note_and_is_recorded(kit: Any) -> None:
    """WT-10: a failure leaves an event."""
    wrong = LookupError("gone")
    error, events = await failing(kit, START >> step("a") >> Raw("b", wrong) >> step("c"))
    assert error is wrong
    assert any('"b"' in note and "wf@1/b@1" in note for note in error.__notes__)
    failed = [event for event in events if event.error_code]
    assert [(e.path, e.error_code, e.error_message, e.author) for e in failed] == [
        ("wf@1/b@1", "LookupError", "gone", "wf")
    ]


async def test_fail_1_siblings_are_cancelled_and_awaited_queued_ones_dropped(kit: Any) -> None:
    begun, left, ran = asyncio.Event(), [], []

    @node
    async def sibling(value: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            left.append("cleaned up")

    @node
    async def broken(value: str) -> None:
        await begun.wait()
        raise OSError("no")

    queued = step("queued", ran)
    error, _ = await failing(kit, START >> (sibling, broken, step("quick")), step_after(queued))
    assert isinstance(error, OSError)
    assert left == ["cleaned up"]


def step_after(queued: Any) -> Any:
    return START >> queued


async def test_fail_1_the_first_error_wins(kit: Any) -> None:
    @node
    async def first(value: str) -> None:
        raise OSError("first")

    @node
    async def second(value: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("second")

    error, _ = await failing(kit, START >> (second, first))
    assert isinstance(error, OSError)


async def test_fail_2_what_ended_before_keeps_its_output(kit: Any) -> None:
    ran: list[str] = []
    broken = [True]

    @node
    async def sometimes(value: str) -> str:
        if broken[0]:
            raise OSError("no")
        return "ok"

    lab = kit.Lab(Workflow("wf", START >> (step("a", ran), sometimes) >> step("z", give=lambda v: None)).as_agent)
    assert isinstance((await lab.run("hi")).error, OSError)
    broken[0] = False
    assert (await lab.run(invocation_id=await lab.first_invocation())).outcome.kind == "completed"
    assert ran == ["a"]


async def test_fail_3_a_deadline_is_a_timeout_error() -> None:
    @node(retry=Retry())
    async def slow(value: str) -> None:
        await asyncio.Event().wait()

    agent = Workflow("wf", START >> slow).as_agent()
    async with Runner(agent, sessions=InMemorySessionService()) as runner:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await runner.ask("hi", user_id="u", session_id="s")


async def test_fail_3_task_cancellation_leaves_as_such() -> None:
    begun = asyncio.Event()

    @node(retry=Retry())
    async def slow(value: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    agent = Workflow("wf", START >> slow).as_agent()
    async with Runner(agent, sessions=InMemorySessionService()) as runner:
        asking = asyncio.ensure_future(runner.ask("hi", user_id="u", session_id="s"))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_fail_4_a_body_that_swallows_cancellation_is_abandoned(
    kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hookwork.merge.cancel_and_wait, "__defaults__", (0.01,))
    release, begun = asyncio.Event(), asyncio.Event()

    @node
    async def stubborn(value: str) -> None:
        begun.set()
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    @node
    async def broken(value: str) -> None:
        await begun.wait()
        raise OSError("no")

    error, _ = await failing(kit, START >> (stubborn, broken))
    assert isinstance(error, OSError)
    assert "abandoned" in caplog.text
    release.set()
    await asyncio.sleep(0)


async def test_fail_5_a_retried_sub_workflow_keeps_the_children_that_completed(kit: Any) -> None:
    ran: list[str] = []
    tries: list[int] = []

    @node
    async def flaky(value: str) -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("not yet")
        return value

    retry = Retry(max_attempts=3, initial_delay=0)
    inner = Workflow("inner", START >> step("a", ran) >> flaky >> step("b", ran), retry=retry)
    turn = await run_flow(kit, Workflow("wf", START >> inner))
    assert turn.outcome.output == "b(a(hi))"
    assert ran == ["a", "b"]
    assert len(tries) == 3


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError("x"), Odd("x"), asyncio.CancelledError("stray"), StopAsyncIteration()])
async def test_fail_6_any_type_is_a_failure(kit: Any, error: BaseException) -> None:
    """TOOL-3: a stray CancelledError too; each can be tried again."""
    tries: list[int] = []

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def once(value: str) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise error
        return "ok"

    turn = await run_flow(kit, Workflow("wf", START >> once))
    assert turn.outcome.output == "ok"
    assert len([event for event in turn.events if event.error_code]) == 1


# --- retry ------------------------------------------------------------------------------------------------------------


async def test_rty_3_the_same_place_and_a_fresh_accumulator(kit: Any) -> None:
    """An output of the failed attempt does not count, though its event stays in history."""
    seen: list[Any] = []

    class Flaky(GraphNode[Any, Any]):
        name = "flaky"
        config = NodeConfig(retry=Retry(max_attempts=2, initial_delay=0))

        async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
            seen.append((input, ctx.path, ctx.branch, ctx.isolation_scope, ctx.attempt))
            yield Event(output=f"attempt {ctx.attempt}")
            if ctx.attempt == 1:
                raise OSError("after the output")

    turn = await run_flow(kit, Workflow("wf", START >> (Flaky(), step("side", give=lambda v: None)) >> step("z")))
    assert [entry[-1] for entry in seen] == [1, 2]
    assert seen[0][:-1] == seen[1][:-1] == ("hi", "wf@1/flaky@1", "flaky@1", "")
    assert [e.output for e in turn.events if e.path == "wf@1/flaky@1" and e.output] == ["attempt 1", "attempt 2"]
    assert "z(attempt 2)" in outputs(turn.events).values()
    assert "z(attempt 1)" not in outputs(turn.events).values()


async def test_rty_3_each_round_of_a_loop_has_a_full_budget(kit: Any) -> None:
    from hookwork_workflow import routed

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def flaky(value: Any, ctx: NodeContext) -> Any:
        if ctx.attempt == 1:
            raise OSError("once per round")
        return routed("again" if int(ctx.run_id) < 3 else "on", ctx.run_id)

    flow = Workflow("wf", START >> flaky, flaky.on({"again": flaky, "on": step("end")}))
    turn = await run_flow(kit, flow)
    assert turn.outcome.output == "end(3)"
    assert len([event for event in turn.events if event.error_code]) == 3


async def test_rty_3_pauses_are_never_retried(kit: Any) -> None:
    tries: list[int] = []

    @node(retry=Retry(max_attempts=3, initial_delay=0))
    async def ask(value: str, ctx: NodeContext) -> str:
        tries.append(ctx.attempt)
        return str(await ctx.request_input("k"))

    assert (await run_flow(kit, Workflow("wf", START >> ask))).outcome.kind == "paused"
    assert tries == [1]


async def test_rty_2_delays_come_from_the_policy_and_the_platform(kit: Any) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    flaky = Raw("flaky", OSError("no"), config=NodeConfig(retry=Retry(max_attempts=4, max_delay=3, jitter=0.5)))
    with use_sleep(sleep), use_random(lambda: 0.5):
        await failing(kit, START >> flaky)
    assert slept == [1.0, 2.0, 2.0]


async def test_rty_4_siblings_go_on_during_the_delay_and_cancellation_stops_it() -> None:
    sleeping, ran = asyncio.Event(), []

    async def sleep(seconds: float) -> None:
        sleeping.set()
        await asyncio.Event().wait()

    flaky = Raw("flaky", OSError("no"), config=NodeConfig(retry=Retry()))
    agent = Workflow(
        "wf", START >> (flaky, step("a", ran) >> step("b", ran) >> step("z", ran, lambda v: None))
    ).as_agent()
    with use_sleep(sleep):
        async with Runner(agent, sessions=InMemorySessionService()) as runner:
            asking = asyncio.ensure_future(runner.ask("hi", user_id="u", session_id="s"))
            await sleeping.wait()
            for _ in range(50):
                await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
    assert ran == ["a", "b", "z"]


# --- timeout ----------------------------------------------------------------------------------------------------------


async def test_tmo_1_expiry_is_a_failure_of_the_attempt(kit: Any) -> None:
    left: list[int] = []
    limits: list[float] = []

    async def sleep(seconds: float) -> None:
        limits.append(seconds)
        await asyncio.sleep(0)

    @node(timeout=7, retry=Retry(max_attempts=2, initial_delay=0, jitter=0))
    async def slow(value: str, ctx: NodeContext) -> str:
        if ctx.attempt == 2:
            return "quick"
        try:
            await asyncio.Event().wait()
        finally:
            left.append(ctx.attempt)
        return "never"

    with use_sleep(sleep):
        turn = await run_flow(kit, Workflow("wf", START >> slow))
    assert turn.outcome.output == "quick"
    assert left == [1]
    assert limits.count(7) == 2
    failed = next(event for event in turn.events if event.error_code)
    assert failed.error_code == "NodeTimeout"
    assert "7 s" in str(failed.error_message)


async def test_tmo_1_the_error_names_node_and_seconds_and_is_a_timeout_error(kit: Any) -> None:
    @node(timeout=0.01)
    async def slow(value: str) -> None:
        await asyncio.Event().wait()

    error, _ = await failing(kit, START >> slow)
    assert isinstance(error, NodeTimeout)
    assert isinstance(error, TimeoutError)
    assert (error.node, error.seconds) == ("slow", 0.01)


async def test_tmo_1_a_body_that_is_quick_enough_is_left_alone(kit: Any) -> None:
    turn = await run_flow(kit, Workflow("wf", START >> step("a").replace(config=NodeConfig(timeout=30))))
    assert turn.outcome.output == "a(hi)"


# --- what a node may give ---------------------------------------------------------------------------------------------


async def test_node_1_a_bad_input_is_not_retried_and_the_body_does_not_run(kit: Any) -> None:
    ran: list[int] = []

    @node(retry=Retry(max_attempts=3, initial_delay=0))
    async def typed(value: int) -> int:
        ran.append(1)
        return value

    error, events = await failing(kit, START >> typed)
    assert isinstance(error, InputValidationError)
    assert 'input validation failed for node "typed"' in str(error)
    assert ran == []
    assert len([event for event in events if event.error_code]) == 1


async def test_rty_1_an_explicit_predicate_may_retry_validation_errors(kit: Any) -> None:
    policy = Retry(max_attempts=3, initial_delay=0, retry_on=lambda error: True)

    @node(retry=policy)
    async def typed(value: int) -> int:
        return value

    _, events = await failing(kit, START >> typed)
    assert len([event for event in events if event.error_code]) == 3


async def test_node_4_an_invalid_output_is_never_stored_and_may_be_tried_again(kit: Any) -> None:
    """WT-16: it counts as a failure of the attempt."""
    tries: list[int] = []

    @node(retry=Retry(max_attempts=3, initial_delay=0))
    async def typed(value: str) -> int:
        tries.append(1)
        return "wrong" if len(tries) < 3 else 7  # type: ignore[return-value]

    turn = await run_flow(kit, Workflow("wf", START >> typed))
    assert turn.outcome.output == 7
    assert outputs(turn.events) == {"wf@1/typed@1": 7}
    messages = [str(event.error_message) for event in turn.events if event.error_code]
    assert len(messages) == 2
    assert all('output validation failed for node "typed"' in message for message in messages)


async def test_node_6_at_most_one_output_and_one_routing_event(kit: Any) -> None:
    error, events = await failing(kit, START >> Raw("a", Event(output=1), Event(output=2)))
    assert isinstance(error, MultipleOutputs)
    assert outputs(events) == {"wf@1/a@1": 1}
    error, _ = await failing(kit, START >> Raw("a", Event(routes=("x",)), Event(routes=("y",))))
    assert isinstance(error, MultipleRoutes)


async def test_node_6_output_and_route_may_be_two_events_and_progress_is_free(kit: Any) -> None:
    a = Raw("a", progress("1"), Event(output="out"), progress("2"), Event(routes=("x",)), progress("3"))
    flow = Workflow("wf", START >> a, a.on({"x": step("x"), "y": step("y")}))
    lab = kit.Lab(flow.as_agent)
    assert (await lab.run("hi")).outcome.output == "x(out)"


async def test_node_6_partial_events_give_no_output_and_no_route(kit: Any) -> None:
    a = Raw("a", Event(partial=True, output="no", routes=("y",), content=text_content("…")), Event(output="yes"))
    turn = await run_flow(kit, Workflow("wf", START >> a))
    assert turn.outcome.output == "yes"
    assert [(event.output, event.routes) for event in turn.events if event.partial] == [(None, ())]


async def test_node_7_events_are_completed_and_explicit_values_kept(kit: Any) -> None:
    response = Content(parts=[Part(function_response=FunctionResponse(id="x", name="t", response={}))])
    a = Raw(
        "a",
        Event(content=Content(parts=[Part(text="t")])),
        Event(content=response),
        Event(content=text_content("mine"), branch="own", isolation_scope="s", author="me"),
    )
    turn = await run_flow(kit, Workflow("wf", START >> (a, step("b", give=lambda v: None))))
    own = [event for event in turn.events if event.path == "wf@1/a@1" and event.content is not None]
    assert [(e.content.role, e.branch, e.isolation_scope, e.author) for e in own] == [
        ("model", "a@1", "", "wf"),
        ("user", "a@1", "", "wf"),
        ("model", "own", "s", "me"),
    ]
    assert all(event.id and event.timestamp and event.invocation_id for event in own)


async def test_node_8_a_message_may_be_the_output_and_an_explicit_one_wins(kit: Any) -> None:
    from hookwork import NodeInfo

    info = NodeInfo(message_as_output=True)
    turn = await run_flow(kit, Workflow("wf", START >> Raw("a", Event(content=text_content("said"), node_info=info))))
    assert turn.outcome.output == "said"
    stored = next(event for event in turn.events if event.path == "wf@1/a@1")
    assert stored.output is None
    assert stored.text == "said"
    a = Raw("a", Event(content=text_content("said"), output={"x": 1}, node_info=info))
    assert (await run_flow(kit, Workflow("wf", START >> a))).outcome.output == {"x": 1}


async def test_ask_7_a_pause_passes_except_exception_and_a_mixed_group_fails(kit: Any) -> None:
    @node
    async def careless(value: str, ctx: NodeContext) -> str:
        try:
            return str(await ctx.request_input("k"))
        except Exception:
            return "swallowed"

    assert (await run_flow(kit, Workflow("wf", START >> careless))).outcome.kind == "paused"

    @node
    async def group(value: str, ctx: NodeContext) -> None:
        raise BaseExceptionGroup("all pauses", [Pause(), Pause()])

    assert (await run_flow(kit, Workflow("wf", START >> group))).outcome.kind == "paused"
    error, _ = await failing(kit, START >> Raw("mixed", BaseExceptionGroup("mixed", [Pause(), OSError("x")])))
    assert isinstance(error, ExceptionGroup)


async def test_per_2_what_json_cannot_hold_is_refused_when_it_is_emitted(kit: Any) -> None:
    error, events = await failing(kit, START >> step("a", give=lambda value: object()))
    assert "JSON" in str(error)
    assert outputs(events) == {}


async def test_wt_11_a_silent_completion_leaves_a_marker(kit: Any) -> None:
    turn = await run_flow(kit, Workflow("wf", START >> step("a", give=lambda value: None)))
    assert [(event.path, event.node_info.status, event.content) for event in turn.events] == [
        ("wf@1/a@1", "completed", None)
    ]
