"""Function tools: worker threads, cancellation, time limits (tools-plugins FN-22, CASE-TOOL-5, CASE-TOOL-7)."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.errors import ContextClosedError, ToolError
from hookwork.invocation import Invocation, Setup
from hookwork.records.session import EventLog, Session
from hookwork.state import DeltaBuffer
from hookwork_llm.functions import FunctionTool

CALLER = contextvars.ContextVar("caller", default="nobody")


def call_context(
    pool: Any = None, buffer: DeltaBuffer | None = None, invocation: Invocation | None = None
) -> ToolContext:
    """A tool context as the flow makes it, on a session without a service."""
    if invocation is None:
        session = Session(
            app_name="app", user_id="u", id="s", log=EventLog(), last_update_time=datetime.now(UTC), revision=""
        )
        invocation = Invocation(app_name="app", user_id="u", session=session, invocation_id="i", setup=Setup(pool=pool))
    return ToolContext(
        invocation,
        None,
        "",
        "",
        "",
        parent_path="",
        buffer=DeltaBuffer() if buffer is None else buffer,
        place="tool/1",
        function_call_id="c1",
    )


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as executor:
        yield executor


# --- FN-22: threads ---------------------------------------------------------------------------------------------------


async def test_fn_22_case_tool_5_blocking_functions_run_beside_each_other(pool: ThreadPoolExecutor) -> None:
    gate = threading.Barrier(5, timeout=10)  # passes only when five threads are in the function at once

    def block(n: int, ctx: ToolContext) -> str:
        gate.wait()
        ctx.state[f"k{n}"] = n
        return f"{CALLER.get()} {threading.current_thread() is threading.main_thread()}"

    made = FunctionTool(block)
    CALLER.set("me")
    first = call_context(lambda: pool)
    invocation = first._inv
    buffers = [DeltaBuffer() for _ in range(5)]
    results = await asyncio.gather(
        *(made.run(call_context(buffer=buffers[n], invocation=invocation), {"n": n}) for n in range(5))
    )
    assert results == [{"result": "me False"}] * 5
    assert invocation.live.settle(buffers).delta == {f"k{n}": n for n in range(5)}


async def test_fn_22_inline_stays_in_the_loop() -> None:
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await FunctionTool(where, inline=True).run(call_context(), {}) == {"result": True}
    assert await FunctionTool(where).run(call_context(), {}) == {"result": False}


async def test_fn_22_cancelling_does_not_wait_and_late_writes_are_refused(
    pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    started, release, over = threading.Event(), threading.Event(), threading.Event()
    late: list[BaseException] = []

    def block(ctx: ToolContext) -> str:
        started.set()
        release.wait(10)
        try:
            ctx.state["k"] = 1
        except BaseException as error:
            late.append(error)
            raise
        finally:
            over.set()
        return "too late"

    buffer = DeltaBuffer()
    ctx = call_context(lambda: pool, buffer)
    task = asyncio.ensure_future(FunctionTool(block).run(ctx, {}))
    assert await asyncio.to_thread(started.wait, 10)
    task.cancel()
    begun = time.perf_counter()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.perf_counter() - begun < 1
    ctx._inv.live.discard(buffer)
    with caplog.at_level(logging.WARNING):
        release.set()
        assert await asyncio.to_thread(over.wait, 10)
        pool.shutdown(wait=True)
    assert [type(error) for error in late] == [ContextClosedError]
    assert "block" in caplog.text


async def test_fn_22_a_call_that_waits_for_a_thread_is_never_started_once_cancelled() -> None:
    release = threading.Event()
    ran: list[str] = []
    with ThreadPoolExecutor(1) as one:
        one.submit(release.wait, 10)
        task = asyncio.ensure_future(FunctionTool(lambda: ran.append("x"), name="f").run(call_context(lambda: one), {}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
    assert ran == []


async def test_fn_22_stop_iteration_in_a_thread_does_not_hang() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(FunctionTool(lambda: next(iter([])), name="f").run(call_context(), {}), 10)


async def test_case_tool_7_cancelled_error_of_a_library_comes_out_as_it_is() -> None:
    async def stray() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await FunctionTool(stray).run(call_context(), {})
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_timeout_is_a_tool_error_and_a_timeout_of_the_function_its_own() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def own() -> None:
        raise TimeoutError("the server is slow")

    with pytest.raises(ToolError, match=r"'never' did not finish within 0\.01 s"):
        await FunctionTool(never, timeout=0.01).run(call_context(), {})
    with pytest.raises(TimeoutError, match="server"):
        await FunctionTool(own, timeout=10).run(call_context(), {})
