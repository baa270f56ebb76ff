"""Rows on their way to a sink: a bounded queue, written in batches, one write at a time (tools-plugins SP-21)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass

from hookwork.platform import sleep
from hookwork_analytics.rows import Row
from hookwork_analytics.sinks import Sink

logger = logging.getLogger("hookwork.analytics")

#: Factor between two waits for a retry, and the longest one in seconds (SP-20).
_GROWTH, _LONGEST_WAIT = 2.0, 10.0


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How rows are written: counts, and times in seconds."""

    batch_size: int = 100
    flush_interval: float = 1.0
    flush_timeout: float = 1.0
    queue_size: int = 10_000
    shutdown_timeout: float = 10.0
    max_retries: int = 3
    retry_delay: float = 0.1


class RowQueue:
    """Takes rows without waiting; one task of its own writes them.

    A full batch, the flush interval or `flush` wakes the task. A row that finds the queue full is dropped with a
    warning, a batch that could not be written after all retries with an error.
    """

    def __init__(self, sink: Sink, pace: Pace) -> None:
        self._sink = sink
        self._pace = pace
        self._rows: deque[Row] = deque()
        self._guard = threading.Lock()
        #: rows that found the queue full.
        self.dropped = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        #: rows taken in and rows done with so far; who flushes waits for the second to reach the first.
        self._taken = 0
        self._done = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._closing = False

    def put(self, row: Row) -> None:
        """Add a row; never waits."""
        with self._guard:
            if len(self._rows) >= self._pace.queue_size:
                self.dropped += 1
                if self.dropped == 1 or self.dropped % self._pace.queue_size == 0:
                    logger.warning("the queue is full (%s rows): %s dropped so far", len(self._rows), self.dropped)
                return
            self._rows.append(row)
            self._taken += 1
            full = len(self._rows) >= self._pace.batch_size
        if self._has_worker_here() and full:
            self._wake.set()

    async def flush(self) -> None:
        """Return when all rows that are there now were written, or given up, or the flush timeout is over.

        Rows that come meanwhile are not waited for, so many runs at once do not wait for each other for ever.
        """
        if not self._has_worker_here() or self._done >= self._taken:
            return  # nothing to do, or the task belongs to another event loop and sees these rows at its next interval
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((self._taken, written))
        self._wake.set()
        await asyncio.wait([written], timeout=self._pace.flush_timeout)

    async def close(self) -> None:
        """Write what is left within the shutdown time, end the task, close the sink."""
        if self._loop is asyncio.get_running_loop() and self._worker is not None:
            self._closing = True
            self._wake.set()
            task = self._worker
        else:
            task = asyncio.get_running_loop().create_task(self._write_all(), context=Context())
        _, late = await asyncio.wait([task], timeout=self._pace.shutdown_timeout)
        if late:
            task.cancel()
            await asyncio.wait([task])
            logger.warning("%s rows were not written within %s s", len(self._rows), self._pace.shutdown_timeout)
        self._loop = self._worker = None
        await asyncio.to_thread(self._sink.close)

    # --- the task -----------------------------------------------------------------------------------------------------

    def _has_worker_here(self) -> bool:
        """Whether the task runs in this event loop; it is started if it runs nowhere."""
        loop = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed() or self._worker is None or self._worker.done():
            self._loop, self._closing = loop, False
            self._wake, self._waiting = asyncio.Event(), []
            # In an empty context: the task outlives the run that happened to start it.
            self._worker = loop.create_task(self._work(), name="hookwork-analytics", context=Context())
        return self._loop is loop

    async def _work(self) -> None:
        try:
            while not self._closing:
                with suppress(TimeoutError):  # the interval is over
                    async with asyncio.timeout(self._pace.flush_interval):
                        await self._wake.wait()
                self._wake.clear()
                await self._write_all()
            await self._write_all()
        finally:
            self._release(all_of_them=True)

    async def _write_all(self) -> None:
        while batch := self._next_batch():
            await self._write(batch)
            self._done += len(batch)
            self._release()

    def _release(self, *, all_of_them: bool = False) -> None:
        """Let those go on whose rows are done with."""
        still: list[tuple[int, asyncio.Future[None]]] = []
        for target, future in self._waiting:
            if target > self._done and not all_of_them:
                still.append((target, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still

    def _next_batch(self) -> list[Row]:
        with self._guard:
            return [self._rows.popleft() for _ in range(min(len(self._rows), self._pace.batch_size))]

    async def _write(self, batch: list[Row]) -> None:
        delay = self._pace.retry_delay
        for attempt in range(self._pace.max_retries + 1):
            try:
                await asyncio.to_thread(self._sink.write, batch)
                return
            except Exception as error:
                # A sink may fail in any way; analytics must not disturb the program.
                if attempt == self._pace.max_retries:
                    logger.error("%s rows were lost: %s", len(batch), error, exc_info=error)
                    return
                logger.info("writing %s rows failed (%s); next try in %.1f s", len(batch), error, delay)
            try:
                await sleep(delay)
            except asyncio.CancelledError:
                with self._guard:
                    self._rows.extendleft(reversed(batch))
                raise
            delay = min(delay * _GROWTH, _LONGEST_WAIT)
