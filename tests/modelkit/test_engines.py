"""One thread per engine, one call at a time (models LOC-1, MOD-4)."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from contextlib import aclosing

import pytest

from hookwork.errors import ModelError
from hookwork_modelkit.engines import Emit, Engine

DEADLINE = 30  # s; reached only when the rule is broken


@pytest.fixture
def engine() -> Engine[int]:
    return Engine("test-engine")


async def test_pieces_come_while_the_work_goes_on(engine: Engine[int]) -> None:
    seen = threading.Event()

    def work(emit: Emit[int]) -> None:
        assert emit(1)
        assert seen.wait(DEADLINE)  # set by the consumer of the first piece only
        assert emit(2)

    pieces = []
    async for piece in engine.stream(work):
        pieces.append(piece)
        seen.set()
    assert pieces == [1, 2]


async def test_loc_1_calls_run_one_after_another_in_one_thread(engine: Engine[int]) -> None:
    threads, inside, most = set(), 0, 0
    lock = threading.Lock()

    def work() -> int:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
            threads.add(threading.get_ident())
        for _ in range(1000):
            pass
        with lock:
            inside -= 1
        return 1

    assert await asyncio.gather(*(engine.call(work) for _ in range(20))) == [1] * 20
    assert most == 1
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_an_error_of_the_work_is_raised_after_its_pieces(engine: Engine[int]) -> None:
    def work(emit: Emit[int]) -> None:
        emit(1)
        raise ValueError("broken")

    pieces = []
    with pytest.raises(ValueError, match="broken"):  # noqa: PT012
        async for piece in engine.stream(work):
            pieces.append(piece)
    assert pieces == [1]


async def test_mod_4_leaving_early_stops_the_work_and_waits_for_its_end(engine: Engine[int]) -> None:
    refused = threading.Event()

    def work(emit: Emit[int]) -> None:
        while emit(1):
            pass
        refused.set()

    async with aclosing(engine.stream(work)) as pieces:
        await anext(pieces)
    assert refused.is_set()


async def test_mod_4_a_cancelled_call_waits_for_the_thread_and_stays_cancelled(engine: Engine[int]) -> None:
    begun, refused = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(emit: Emit[int]) -> None:
        loop.call_soon_threadsafe(begun.set)
        while emit(1):
            pass
        refused.set()

    async def consume() -> None:
        async for _ in engine.stream(work):
            pass

    task = asyncio.create_task(consume())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert refused.is_set()


async def test_a_call_cancelled_in_the_queue_never_runs(engine: Engine[int]) -> None:
    begun, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    ran = []

    def first() -> int:
        loop.call_soon_threadsafe(begun.set)
        assert release.wait(DEADLINE)
        return 1

    def second() -> int:
        ran.append(2)
        return 2

    running = asyncio.create_task(engine.call(first))
    await begun.wait()
    queued = asyncio.create_task(engine.call(second))
    await asyncio.sleep(0)
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await queued
    release.set()
    assert await running == 1
    assert await engine.call(lambda: 3) == 3
    assert ran == []


async def test_context_variables_reach_the_work(engine: Engine[int]) -> None:
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number")
    number.set(7)
    assert await engine.call(number.get) == 7


async def test_a_closed_engine_takes_no_call(engine: Engine[int]) -> None:
    engine.close()
    with pytest.raises(RuntimeError):
        await engine.call(lambda: 1)


async def test_err_1_a_call_that_waits_when_its_engine_is_closed_fails_as_a_model_error() -> None:
    engine: Engine[int] = Engine("thread", provider="local", model="local/x.gguf")
    begun, gate = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        assert gate.wait(DEADLINE)
        return 7

    running = asyncio.create_task(engine.call(work))
    await asyncio.to_thread(begun.wait, DEADLINE)
    waiting = asyncio.create_task(engine.call(work))
    await asyncio.sleep(0)
    engine.close()
    gate.set()
    assert await running == 7, "a call that has begun is not cut off"
    for late in (waiting, engine.call(work)):
        with pytest.raises(ModelError) as caught:
            await late
        assert (caught.value.kind, caught.value.retryable) == ("connection", True)
        assert (caught.value.provider, caught.value.model) == ("local", "local/x.gguf")


async def test_loc_1_an_engine_says_that_a_fork_left_it_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked process has no threads but one: the call would wait for ever."""
    engine: Engine[int] = Engine("thread", provider="local", model="local/x.gguf")
    assert await engine.call(lambda: 1) == 1
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    with pytest.raises(ModelError, match="forked") as caught:
        await engine.call(lambda: 2)
    assert (caught.value.kind, caught.value.retryable, caught.value.code) == ("invalid_request", False, "forked")
