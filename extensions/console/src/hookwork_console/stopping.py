"""What stops a run from outside: a time limit, and Ctrl-C that ends the turn but not the command."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hookwork.platform import sleep

if TYPE_CHECKING:
    from hookwork.run import Run


class Limit:
    """Whether a time limit was reached."""

    def __init__(self) -> None:
        self.reached = False


@asynccontextmanager
async def stopped_after(run: Run, seconds: float | None) -> AsyncIterator[Limit]:
    """Stop the run when its time is up; None: never."""
    limit = Limit()
    if seconds is None:
        yield limit
        return

    async def stop_later() -> None:
        await sleep(seconds)
        limit.reached = True
        await run.stop("timeout")

    timer = asyncio.create_task(stop_later())
    try:
        yield limit
    finally:
        if not limit.reached:
            timer.cancel()
        await _ended(timer)


@asynccontextmanager
async def stopped_by_interrupt(run: Run, enabled: bool) -> AsyncIterator[None]:
    """The first Ctrl-C stops the run; a second one, while it is still stopping, interrupts the command."""
    loop = asyncio.get_running_loop()
    stopping: asyncio.Task[None] | None = None
    command = asyncio.current_task()

    def interrupt() -> None:
        nonlocal stopping
        if stopping is None:
            stopping = asyncio.create_task(run.stop("interrupted"))
        elif command is not None:
            command.cancel()

    previous = signal.getsignal(signal.SIGINT)
    if enabled:
        try:
            loop.add_signal_handler(signal.SIGINT, interrupt)
        except (NotImplementedError, RuntimeError):  # Windows, or not the main thread: Ctrl-C stays what it was
            enabled = False
    try:
        yield
    finally:
        if enabled:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, previous)
        if stopping is not None:
            await _ended(stopping)


async def _ended(task: asyncio.Task[None]) -> None:
    """Wait for a task of ours; its error, if any, is raised here."""
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
