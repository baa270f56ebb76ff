"""Around hooks: order, outcome, errors, cancellation, context variables (tools-plugins §7.1)."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.plugins.dispatch import Chain, Hooks
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.stages import Stage, StageOutcome, around_call, around_stream, stage_stream

colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def chain_of(**hooks: Callable[..., Any]) -> Chain:
    """The compiled around_run hooks of plugins given as name=function(stage)."""
    return Hooks([FunctionPlugin(name, around_run=hook) for name, hook in hooks.items()]).around_run


def noting(log: list[Any], name: str) -> Callable[..., Any]:
    """An around hook that notes entering, leaving, the error thrown in and the outcome."""

    @asynccontextmanager
    async def around(stage: Stage) -> AsyncIterator[None]:
        log.append(f"+{name}")
        assert stage.outcome is None
        try:
            yield
        except BaseException as error:
            log.append(f"!{name} {type(error).__name__}")
            raise
        finally:
            outcome = stage.outcome
            log.append(f"-{name} {outcome.value if outcome is not None else 'unset'}")

    return around


def entering_fails(stage: Stage) -> Any:
    raise LookupError("no entry")


@asynccontextmanager
async def leaving_fails(stage: Stage) -> AsyncIterator[None]:
    try:
        yield
    finally:
        raise LookupError("no exit")


@asynccontextmanager
async def swallows(stage: Stage) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        return


def answering(stage: Stage, value: Any = "value") -> Callable[[], Any]:
    async def body() -> Any:
        stage.outcome = StageOutcome(value)
        return value

    return body


async def call_stage(chain: Chain, body: Callable[..., Any] | None = None, own_task: bool = False) -> tuple[Stage, Any]:
    stage = Stage("run")
    return stage, await around_call(chain, ("ctx",), stage, body or answering(stage), own_task=own_task)


@given(st.integers(0, 6))
async def test_ard_10_entered_in_hook_order_and_left_in_reverse(count: int) -> None:
    log: list[Any] = []
    names = [f"p{i}" for i in range(count)]
    stage, result = await call_stage(chain_of(**{name: noting(log, name) for name in names}))
    assert log == [*(f"+{name}" for name in names), *(f"-{name} value" for name in reversed(names))]
    assert result == "value"
    assert stage.outcome is not None


async def test_ard_11_the_outcome_is_set_before_leaving_with_its_source() -> None:
    seen: list[StageOutcome | None] = []

    @asynccontextmanager
    async def look(stage: Stage) -> AsyncIterator[None]:
        seen.append(stage.outcome)
        yield
        seen.append(stage.outcome)

    stage = Stage("run")

    async def body() -> str:
        stage.outcome = StageOutcome("answer", source="cache")
        return "answer"

    await around_call(chain_of(look=look), ("ctx",), stage, body, own_task=False)
    assert seen[0] is None
    assert seen[1] is not None
    assert (seen[1].value, seen[1].error, seen[1].source) == ("answer", None, "cache")


async def test_ard_12_an_error_is_thrown_in_and_swallowing_has_no_effect() -> None:
    log: list[Any] = []
    stage = Stage("run")

    async def body() -> Any:
        raise ValueError("stage error")

    chain = chain_of(outer=noting(log, "outer"), swallows=swallows, inner=noting(log, "inner"))
    with pytest.raises(ValueError, match="stage error"):
        await around_call(chain, ("ctx",), stage, body, own_task=False)
    assert log == ["+outer", "+inner", "!inner ValueError", "-inner None", "!outer ValueError", "-outer None"]
    assert stage.outcome is not None
    assert isinstance(stage.outcome.error, ValueError)


async def test_ard_12_a_tool_error_that_the_flow_answers_is_thrown_in_too() -> None:
    log: list[Any] = []
    stage = Stage("run")

    async def body() -> dict[str, Any]:
        stage.outcome = StageOutcome({"error": "bad"}, ValueError("bad"))
        return {"error": "bad"}

    result = await around_call(chain_of(a=noting(log, "a"), s=swallows), ("ctx",), stage, body, own_task=True)
    assert result == {"error": "bad"}
    assert log[1] == "!a ValueError"


async def test_ard_13_a_raise_on_entering_skips_the_stage_and_leaves_those_entered() -> None:
    log: list[Any] = []
    ran: list[str] = []

    async def body() -> None:
        ran.append("body")

    chain = chain_of(a=noting(log, "a"), faulty=entering_fails, c=noting(log, "c"))
    stage = Stage("run")
    with pytest.raises(LookupError, match="no entry") as caught:
        await around_call(chain, ("ctx",), stage, body, own_task=False)
    assert ran == []
    assert log == ["+a", "!a LookupError", "-a None"]
    assert caught.value.__notes__ == ["raised by plugin 'faulty' on entering around_run"]
    assert stage.outcome is not None
    assert stage.outcome.error is caught.value


async def test_ard_13_a_raise_on_leaving_is_the_stages_error_and_managers_further_out_see_it() -> None:
    log: list[Any] = []
    stage = Stage("run")
    with pytest.raises(LookupError, match="no exit") as caught:
        await around_call(
            chain_of(a=noting(log, "a"), faulty=leaving_fails), ("ctx",), stage, answering(stage), own_task=False
        )
    assert log == ["+a", "!a LookupError", "-a None"]
    assert "raised by plugin 'faulty' on leaving around_run" in caught.value.__notes__
    assert stage.outcome is not None
    assert (stage.outcome.error, stage.outcome.source) == (caught.value, "faulty")


async def test_ard_13_the_stages_own_error_wins_over_one_on_leaving() -> None:
    async def body() -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first") as caught:
        await call_stage(chain_of(faulty=leaving_fails), body)
    assert caught.value.__notes__ == ["plugin 'faulty' also raised on leaving around_run: LookupError('no exit')"]


async def test_a_timeout_error_of_a_manager_is_not_taken_for_ours() -> None:
    @asynccontextmanager
    async def slow_backend(stage: Stage) -> AsyncIterator[None]:
        yield
        raise TimeoutError("the backend's")

    with pytest.raises(TimeoutError, match="the backend's"):
        await call_stage(chain_of(slow=slow_backend))


async def test_ard_14_a_cancelled_stage_of_its_own_task_waits_for_leaving_only_so_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hookwork.stages.LEAVE_TIMEOUT", 0.01)
    log: list[Any] = []
    started, forever = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def hangs(stage: Stage) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await forever.wait()

    async def body() -> None:
        started.set()
        await forever.wait()

    running = asyncio.ensure_future(call_stage(chain_of(a=noting(log, "a"), hangs=hangs), body, own_task=True))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert log == ["+a", "!a CancelledError", "-a None"]
    assert "plugin 'hangs' did not leave around_run within 0.01 s; abandoned" in caplog.text


async def test_ard_14_cancellation_while_leaving_after_an_error_is_not_lost() -> None:
    leaving, forever = asyncio.Event(), asyncio.Event()
    log: list[Any] = []

    @asynccontextmanager
    async def lingers(stage: Stage) -> AsyncIterator[None]:
        try:
            yield
        finally:
            leaving.set()
            await forever.wait()

    async def body() -> None:
        raise ValueError("stage error")

    running = asyncio.ensure_future(call_stage(chain_of(outer=noting(log, "outer"), lingers=lingers), body))
    await leaving.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert log[1] == "!outer CancelledError"


async def test_ard_14_an_early_close_is_a_cancelled_error_for_the_managers(caplog: pytest.LogCaptureFixture) -> None:
    log: list[Any] = []
    stage = Stage("run")
    closed: list[str] = []

    async def body() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            closed.append("body")

    stream = around_stream(chain_of(a=noting(log, "a"), faulty=leaving_fails), ("ctx",), stage, body)
    async with aclosing(stream):
        async for item in stream:
            assert item == 1
            break
    assert closed == ["body"]
    assert log == ["+a", "!a CancelledError", "-a None"]
    assert stage.outcome is not None
    assert isinstance(stage.outcome.error, asyncio.CancelledError)
    with caplog.at_level(logging.WARNING):
        assert "plugin 'faulty' also raised on leaving around_run" in caplog.text


async def test_a_stream_inside_its_around_hooks_gives_every_item_and_its_error() -> None:
    log: list[Any] = []
    stage = Stage("run")

    async def body() -> AsyncGenerator[int, None]:
        yield 1
        log.append("between")
        yield 2
        raise ValueError("at the end")

    items = stage_stream(chain_of(a=noting(log, "a")), ("ctx",), stage, body)
    assert [await anext(items), await anext(items)] == [1, 2]
    with pytest.raises(ValueError, match="at the end"):
        await anext(items)
    assert log == ["+a", "between", "!a ValueError", "-a None"]


def painting(name: str, seen: list[str]) -> Callable[..., Any]:
    """An around hook that sets a context variable for its stage, as a tracer sets the current span."""

    @asynccontextmanager
    async def around(stage: Stage) -> AsyncIterator[None]:
        token = colour.set(name)
        yield
        seen.append(f"leaving: {colour.get()}")
        colour.reset(token)

    return around


async def test_ard_15_context_variables_hold_for_the_stage_and_not_for_the_consumer() -> None:
    seen: list[str] = []
    stage = Stage("run")

    async def body() -> AsyncGenerator[str, None]:
        for _ in range(2):
            await asyncio.sleep(0)
            yield colour.get()

    consumer: list[str] = []
    colour.set("mine")
    async for inside in stage_stream(chain_of(p=painting("red", seen)), ("ctx",), stage, body):
        consumer.append(f"{inside}/{colour.get()}")
    assert consumer == ["red/mine", "red/mine"]
    assert seen == ["leaving: red"]
    assert colour.get() == "mine"


async def test_ard_15_stages_within_stages_and_side_by_side_do_not_mix() -> None:
    seen: list[str] = []

    def stream(name: str, depth: int) -> AsyncIterator[str]:
        async def body() -> AsyncGenerator[str, None]:
            yield colour.get()
            if depth:
                inner = stream(f"{name}{depth}", depth - 1)
                async for item in inner:
                    yield item
            yield colour.get()

        return stage_stream(chain_of(p=painting(name, seen)), ("ctx",), Stage("run"), body)

    left, right = stream("l", 2), stream("r", 2)
    got: list[str] = []
    for _ in range(6):
        got += [await anext(left), await anext(right)]
    assert got[::2] == ["l", "l2", "l21", "l21", "l2", "l"]
    assert got[1::2] == ["r", "r2", "r21", "r21", "r2", "r"]
    assert [item async for item in left] == [item async for item in right] == []


async def test_ard_15_closing_a_driven_stream_leaves_in_the_stages_own_context() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def around(stage: Stage) -> AsyncIterator[None]:
        token = colour.set("red")
        try:
            yield
        finally:
            await asyncio.sleep(0)
            seen.append(colour.get())
            colour.reset(token)

    async def body() -> AsyncGenerator[int, None]:
        yield 1
        yield 2

    stream: Any = stage_stream(chain_of(a=around), ("ctx",), Stage("run"), body)
    assert await anext(stream) == 1
    await stream.aclose()
    assert seen == ["red"]


async def test_ard_14_cancelling_the_consumer_reaches_a_driven_stage() -> None:
    log: list[Any] = []
    started, forever = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncGenerator[int, None]:
        started.set()
        await forever.wait()
        yield 1

    async def consume() -> None:
        async for _ in stage_stream(chain_of(a=noting(log, "a")), ("ctx",), Stage("run"), body):
            raise AssertionError("nothing is yielded")

    running = asyncio.ensure_future(consume())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert log == ["+a", "!a CancelledError", "-a None"]
