"""Replaceable sources of time, ids, randomness, delay and fan-out (crosscutting PLAT).

Everything the kit does that is not decided by its input goes through here, so a test or a durable engine can fix it.
A provider lives in the current context (`contextvars`): the innermost one wins, two call trees never share one.

    with use_clock(lambda: datetime(2026, 1, 1, tzinfo=UTC)), use_uuids(lambda: "id-1"):
        ...
"""

from __future__ import annotations

import asyncio
import os
import random as _random
import time
from binascii import hexlify
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from struct import Struct
from typing import Any, TypeVar

T = TypeVar("T")

Clock = Callable[[], datetime]
TaskRunner = Callable[[Sequence[Callable[[], Awaitable[None]]]], Awaitable[None]]

_clock: ContextVar[Clock | None] = ContextVar("hookwork_clock", default=None)
_uuids: ContextVar[Callable[[], str] | None] = ContextVar("hookwork_uuids", default=None)
_randoms: ContextVar[Callable[[], float] | None] = ContextVar("hookwork_randoms", default=None)
_sleeper: ContextVar[Callable[[float], Awaitable[None]] | None] = ContextVar("hookwork_sleeper", default=None)
_replaying: ContextVar[bool] = ContextVar("hookwork_replaying", default=False)
_task_runner: ContextVar[TaskRunner | None] = ContextVar("hookwork_task_runner", default=None)


def now() -> datetime:
    """The current moment, timezone-aware UTC."""
    clock = _clock.get()
    return datetime.now(UTC) if clock is None else clock()


def timestamp() -> float:
    """`now()` as epoch seconds rounded to microseconds, the form of event times (services GEN-3)."""
    clock = _clock.get()
    if clock is None:
        return time.time_ns() // 1000 / 1_000_000  # the float nearest to a whole number of microseconds
    return round(clock().timestamp(), 6)


# uuid.uuid4() costs about 2 µs, most of it building an object nobody keeps; ids are taken from a block of random
# bytes instead. The block is per process: a fork starts a fresh one.
_pool: list[str] = []


_VERSION = bytes(byte & 0x0F | 0x40 for byte in range(256))
_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))
_PIECES = Struct("4sx24sx4sx4sx")


def _refill() -> None:
    raw = bytearray(os.urandom(16 * 128))
    raw[6::16] = raw[6::16].translate(_VERSION)
    raw[8::16] = raw[8::16].translate(_VARIANT)
    # In groups of four digits an id is 4, 24, 4 and 4 characters with the dashes between them that it keeps or loses.
    pieces = _PIECES.iter_unpack(hexlify(raw, b"-", 2) + b"-")
    _pool.extend(b",".join(map(b"".join, pieces)).decode().split(","))


def new_uuid() -> str:
    """A fresh random UUID (version 4) as text."""
    source = _uuids.get()
    if source is not None:
        return source()
    while True:
        try:
            return _pool.pop()
        except IndexError:
            _refill()


def _after_fork() -> None:
    _pool.clear()


os.register_at_fork(after_in_child=_after_fork)


def random() -> float:
    """A random float in [0, 1)."""
    source = _randoms.get()
    return _random.random() if source is None else source()


async def sleep(seconds: float) -> None:
    """Wait ``seconds``; a durable engine or a test may make this instantaneous."""
    sleeper = _sleeper.get()
    await (asyncio.sleep(seconds) if sleeper is None else sleeper(seconds))


def replaying() -> bool:
    """True while a durable engine repeats work that is known already; observers skip then."""
    return _replaying.get()


async def _run_all_at_once(tasks: Sequence[Callable[[], Awaitable[None]]]) -> None:
    if len(tasks) == 1:
        await tasks[0]()
        return
    running = [asyncio.ensure_future(_as_coroutine(task)) for task in tasks]
    try:
        await asyncio.gather(*running)
    finally:
        pending = [task for task in running if not task.done()]
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending)


async def _as_coroutine(task: Callable[[], Awaitable[None]]) -> None:
    await task()


async def run_tasks(tasks: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run every task exactly once and return when all are done, even if a custom runner returned earlier.

    Tasks catch their own errors. The default starts them in list order, concurrently (PLAT-3, PLAT-7). A custom runner
    that never starts a task makes this wait for ever (PLAT-5).
    """
    if not tasks:
        return
    runner = _task_runner.get()
    if runner is None:
        await _run_all_at_once(tasks)
        return
    left = len(tasks)
    all_done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def count_down() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            all_done.set()

    def counted(task: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            try:
                await task()
            finally:
                if asyncio.get_running_loop() is loop:
                    count_down()
                else:  # the runner uses a loop of another thread
                    loop.call_soon_threadsafe(count_down)

        return run

    await runner([counted(task) for task in tasks])
    await all_done.wait()


def has_task_runner() -> bool:
    """Whether a task runner other than the default is installed in the current context."""
    return _task_runner.get() is not None


async def run_sequentially(tasks: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """A task runner that runs one task after another: deterministic interleaving for tests."""
    for task in tasks:
        await task()


def run_bounded(limit: int) -> TaskRunner:
    """A task runner that keeps at most ``limit`` tasks going at once."""

    async def runner(tasks: Sequence[Callable[[], Awaitable[None]]]) -> None:
        gate = asyncio.Semaphore(limit)

        async def guarded(task: Callable[[], Awaitable[None]]) -> None:
            async with gate:
                await task()

        await _run_all_at_once([lambda task=task: guarded(task) for task in tasks])  # type: ignore[misc]

    return runner


@contextmanager
def _installed(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def use_clock(clock: Clock | None) -> AbstractContextManager[None]:
    """Install a clock for the current context; ``None`` restores the default."""
    return _installed(_clock, clock)


def use_uuids(source: Callable[[], str] | None) -> AbstractContextManager[None]:
    """Install a source of ids for the current context."""
    return _installed(_uuids, source)


def use_random(source: Callable[[], float] | None) -> AbstractContextManager[None]:
    """Install a source of random floats in [0, 1) for the current context."""
    return _installed(_randoms, source)


def use_sleep(sleeper: Callable[[float], Awaitable[None]] | None) -> AbstractContextManager[None]:
    """Install what `sleep` awaits for the current context."""
    return _installed(_sleeper, sleeper)


def use_replaying(replaying: bool) -> AbstractContextManager[None]:
    """Mark the current context as a replay."""
    return _installed(_replaying, replaying)


def use_task_runner(runner: TaskRunner | None) -> AbstractContextManager[None]:
    """Install how concurrent tasks are run for the current context: `run_sequentially`, `run_bounded(n)`, own code."""
    return _installed(_task_runner, runner)
