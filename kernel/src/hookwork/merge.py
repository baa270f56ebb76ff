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

    __slots__ = ("_before_error", "_closed", "_error", "_items", "_tasks", "_wake")

    def __init__(self) -> None:
        self._items: deque[tuple[Event, asyncio.Future[None] | None]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None
        #: events that came before the error and are still handed on.
        self._before_error = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether its producers are being ended: from then on a cancellation in one of them is not its own doing."""
        return self._closed

    @property
    def over(self) -> bool:
        """Whether nothing further is started: its producers are being ended, or one of them failed."""
        return self._closed or self._error is not None

    async def put(self, event: Event) -> None:
        """Hand an event on; returns when it was stored and the consumer asked for the next one."""
        if self._closed:  # by an abandoned task: nobody takes its events any more
            raise asyncio.CancelledError("the stage that this event belongs to is over")
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
        self._tasks.discard(task)
        if self._closed:
            if not task.cancelled():
                task.exception()  # seen: it must not be reported as never retrieved
            return
        error = _error_of(task)
        if error is not None and not isinstance(error, Pause) and self._error is None:
            self._error = error
            self._before_error = len(self._items)
        self._notify()

    def start(self, producers: Sequence[Producer]) -> None:
        """Run further producers, each in a task of its own; one of them may do this. After an error none is started."""
        if not producers or self.over:
            return
        loop = asyncio.get_running_loop()
        if platform.has_task_runner():
            tasks = [loop.create_task(platform.run_tasks(producers))]
        else:
            tasks = [loop.create_task(producer()) for producer in producers]
        for task in tasks:
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def stream(self, producers: Sequence[Producer]) -> AsyncGenerator[Event, None]:
        """Run all producers to their end. The first error cancels the others, which are awaited, and is raised."""
        self.start(producers)
        try:
            while True:
                while self._items:
                    if self._error is not None:
                        if self._before_error == 0:
                            break
                        self._before_error -= 1
                    event, wait = self._items.popleft()
                    yield event
                    if wait is not None and not wait.done():
                        wait.set_result(None)
                if self._error is not None:
                    raise self._error
                if not self._tasks:
                    return
                self._wake = asyncio.get_running_loop().create_future()
                try:
                    await self._wake
                finally:
                    self._wake = None
        finally:
            self._closed = True
            if self._tasks:
                await cancel_and_wait([task for task in self._tasks if not task.done()])


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    if task.cancelled():  # by its own code, not by us: `stream` looks away once it cancels
        return RuntimeError("a concurrent branch was cancelled by its own code (a stray CancelledError)")
    return task.exception()


async def cancel_and_wait(tasks: Sequence[asyncio.Task[Any]], timeout: float = CANCEL_TIMEOUT) -> None:
    """Cancel tasks and wait until they have ended; one that swallows cancellation is abandoned with a warning.

    A cancellation of the caller meanwhile does not cut the wait short; it is raised afterwards (core INV-3).
    """
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    cancelled: asyncio.CancelledError | None = None
    pending = set(tasks)
    while pending:
        try:
            _, pending = await asyncio.wait(pending, timeout=max(0.0, end - loop.time()))
            break
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # seen: it must not be reported as never retrieved
    if pending:
        logger.warning("%d task(s) did not end within %s s of being cancelled; abandoned", len(pending), timeout)
        for task in pending:
            task.add_done_callback(_ended_late)
    if cancelled is not None:
        raise cancelled


def _ended_late(task: asyncio.Task[Any]) -> None:
    """An abandoned task failed after all: nobody takes its error any more, so it is told here."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a task that was abandoned ended with %s", type(error).__name__, exc_info=error)
