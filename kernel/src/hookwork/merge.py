"""The one place where several producers of events meet one consumer (activations ACT-19).

Parallel children, the calls of a tool batch and graph nodes all run through `MergePoint`: each producer has a task of
its own and is resumed only after its event was taken up, stored and handed on (core INV-1). Partial events need no
acknowledgement.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

from hookwork import platform
from hookwork.node import Pause
from hookwork.records.event import Event

logger = logging.getLogger("hookwork")

#: Seconds that a cancelled task of its own may take to end before it is abandoned with a warning (core INV-3).
CANCEL_TIMEOUT = 5.0
#: Partial events that may wait for the consumer before their producer has to.
_MAX_WAITING = 256

Producer = Callable[[], Coroutine[Any, Any, None]]


class MergePoint:
    """Runs producers concurrently; `stream` yields what they `put`, in the order in which it came."""

    __slots__ = ("_error", "_items", "_left", "_loop", "_wake")

    def __init__(self) -> None:
        self._items: deque[tuple[Event, asyncio.Future[None] | None]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._left = 0
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def put(self, event: Event) -> None:
        """Hand an event on; returns when it was stored and the consumer asked for the next one."""
        loop = asyncio.get_running_loop()
        wait = None if event.partial and len(self._items) < _MAX_WAITING else loop.create_future()
        self._items.append((event, wait))
        self._notify()
        if wait is not None:
            await wait

    def _notify(self) -> None:
        wake = self._wake
        if wake is not None and not wake.done():
            wake.set_result(None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._left -= 1
        if not task.cancelled():
            error = task.exception()
            if error is not None and not isinstance(error, Pause) and self._error is None:
                self._error = error
        self._notify()

    async def stream(self, producers: Sequence[Producer]) -> AsyncGenerator[Event, None]:
        """Run all producers to their end. The first error cancels the others, which are awaited, and is raised."""
        loop = asyncio.get_running_loop()
        if platform.has_task_runner():
            tasks = [loop.create_task(platform.run_tasks(producers))]
        else:
            tasks = [loop.create_task(producer()) for producer in producers]
        self._left = len(tasks)
        for task in tasks:
            task.add_done_callback(self._ended)
        try:
            while True:
                while self._items:
                    event, wait = self._items.popleft()
                    yield event
                    if wait is not None and not wait.done():
                        wait.set_result(None)
                if self._error is not None:
                    raise self._error
                if self._left == 0:
                    return
                self._wake = loop.create_future()
                try:
                    await self._wake
                finally:
                    self._wake = None
        finally:
            if self._left:
                await cancel_and_wait([task for task in tasks if not task.done()])


async def cancel_and_wait(tasks: Sequence[asyncio.Task[Any]], timeout: float = CANCEL_TIMEOUT) -> None:
    """Cancel tasks and wait until they have ended; one that swallows cancellation is abandoned with a warning."""
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    _, pending = await asyncio.wait(tasks, timeout=timeout)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # seen: it must not be reported as never retrieved
    if pending:
        logger.warning("%d task(s) did not end within %s s of being cancelled; abandoned", len(pending), timeout)
