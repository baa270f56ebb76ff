"""Blocking work beside the event loop (services GEN-5)."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from hookwork.platform import now, use_clock
from hookwork.threads import in_thread

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


async def test_results_errors_and_context_pass() -> None:
    with use_clock(lambda: MOMENT):
        assert await in_thread(now) == MOMENT
    assert await in_thread(threading.get_ident) != threading.get_ident()

    def fail() -> None:
        raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        await in_thread(fail)


@pytest.mark.parametrize("fails", [False, True])
async def test_gen_5_a_cancelled_caller_waits_for_the_work_to_stop(fails: bool) -> None:
    started, stop, ended = asyncio.Event(), threading.Event(), False
    loop = asyncio.get_running_loop()

    def work() -> None:
        nonlocal ended
        loop.call_soon_threadsafe(started.set)
        assert stop.wait(timeout=30)
        ended = True
        if fails:
            raise LookupError("too late for anybody to see")

    task = asyncio.ensure_future(in_thread(work, on_cancel=stop.set))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended
