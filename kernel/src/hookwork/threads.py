"""Blocking work beside the event loop, without leaving it behind (services GEN-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], *, on_cancel: Callable[[], None] | None = None) -> T:
    """The result of ``work``, run in a worker thread with this context's variables.

    A thread cannot be interrupted. When the caller is cancelled, ``on_cancel`` may tell the work to stop, and the
    cancellation passes on once the thread has ended.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        if not task.done():
            await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, since nobody else will; the cancellation is what the caller must see
        raise
