"""Rows on their way to the sink (tools-plugins SP-20, SP-21)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from hookwork_analytics.queue import Pace, RowQueue
from hookwork_analytics.rows import Row

LONG = 3600.0


class Recorder:
    """A sink that notes its batches, fails as often as it is told, and may be held up."""

    def __init__(self, failures: int = 0) -> None:
        self.batches: list[list[int]] = []
        self.failures = failures
        self.tries = 0
        self.closed = 0
        self.together = 0
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self._inside = 0

    def write(self, rows: Sequence[Row]) -> None:
        self.tries += 1
        self._inside += 1
        self.together = max(self.together, self._inside)
        self.entered.set()
        self.gate.wait()
        self._inside -= 1
        if self.failures:
            self.failures -= 1
            raise OSError("disk full")
        self.batches.append([row["n"] for row in rows])

    def close(self) -> None:
        self.closed += 1


def queue_of(sink: Recorder, **pace: Any) -> RowQueue:
    return RowQueue(sink, Pace(**{"flush_interval": LONG, "retry_delay": 0.0, **pace}))


def put(queue: RowQueue, *numbers: int) -> None:
    for number in numbers:
        queue.put({"n": number})


async def until(seen: Any) -> None:
    """Yield to the other tasks and threads until something is seen; a test that hangs here has failed."""
    async with asyncio.timeout(20):
        while not seen():
            await asyncio.sleep(0)


async def test_sp_21_a_full_batch_is_written_at_once() -> None:
    sink = Recorder()
    queue = queue_of(sink, batch_size=3)
    put(queue, 1, 2)
    put(queue, 3)
    await until(lambda: sink.batches)
    assert sink.batches == [[1, 2, 3]]
    await queue.close()


async def test_sp_21_the_timer_writes_a_smaller_one() -> None:
    sink = Recorder()
    queue = queue_of(sink, flush_interval=0.001)
    put(queue, 1)
    await until(lambda: sink.batches)
    assert sink.batches == [[1]]
    await queue.close()


async def test_sp_21_flush_returns_when_all_rows_are_written() -> None:
    sink = Recorder()
    queue = queue_of(sink, batch_size=2)
    await queue.flush()
    put(queue, *range(5))
    await asyncio.gather(queue.flush(), queue.flush())
    assert [n for batch in sink.batches for n in batch] == [0, 1, 2, 3, 4]
    assert max(len(batch) for batch in sink.batches) == 2
    assert sink.together == 1  # one flush at a time
    await queue.close()


async def test_sp_21_flush_does_not_wait_for_rows_that_come_later() -> None:
    queue: RowQueue

    class Endless(Recorder):
        """While a row is written the next one comes, as from many runs at once."""

        def write(self, rows: Sequence[Row]) -> None:
            super().write(rows)
            if not self.closed:
                loop.call_soon_threadsafe(put, queue, len(self.batches))

    loop = asyncio.get_running_loop()
    sink = Endless()
    queue = queue_of(sink, batch_size=1, flush_timeout=LONG)
    put(queue, 0)
    async with asyncio.timeout(20):
        await queue.flush()
    assert sink.batches[0] == [0]
    sink.closed = 1
    await queue.close()


async def test_sp_21_a_sink_that_hangs_holds_up_the_end_of_a_run_for_the_flush_timeout_only() -> None:
    sink = Recorder()
    sink.gate.clear()
    queue = queue_of(sink, flush_timeout=0.01)
    put(queue, 1)
    await queue.flush()
    assert sink.batches == []
    sink.gate.set()
    await queue.close()
    assert sink.batches == [[1]]


async def test_sp_21_a_full_queue_drops_rows_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    sink = Recorder()
    queue = queue_of(sink, queue_size=3)
    put(queue, *range(5))
    assert queue.dropped == 2
    await queue.close()
    assert sink.batches == [[0, 1, 2]]
    assert ["the queue is full" in record.message for record in caplog.records] == [True]


async def test_sp_20_a_write_that_fails_is_tried_again() -> None:
    sink = Recorder(failures=3)
    queue = queue_of(sink)
    put(queue, 1)
    await queue.flush()
    assert (sink.tries, sink.batches) == (4, [[1]])
    await queue.close()


async def test_sp_20_after_three_retries_the_rows_are_lost_and_the_program_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Recorder(failures=4)
    queue = queue_of(sink)
    put(queue, 1)
    await queue.flush()
    put(queue, 2)
    await queue.flush()
    assert sink.batches == [[2]]
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [
        "1 rows were lost: disk full"
    ]
    await queue.close()


async def test_sp_21_close_writes_what_is_left_and_closes_the_sink() -> None:
    sink = Recorder()
    queue = queue_of(sink)
    put(queue, 1, 2)
    await queue.close()
    assert (sink.batches, sink.closed) == ([[1, 2]], 1)
    assert [task for task in asyncio.all_tasks() if task.get_name() == "hookwork-analytics"] == []


async def test_sp_21_close_gives_up_after_the_shutdown_time(caplog: pytest.LogCaptureFixture) -> None:
    sink = Recorder()
    sink.gate.clear()
    queue = queue_of(sink, shutdown_timeout=0.01, batch_size=1)
    put(queue, 1, 2)
    await until(sink.entered.is_set)
    await queue.close()
    sink.gate.set()
    assert "1 rows were not written within 0.01 s" in caplog.text
    assert sink.closed == 1


async def test_a_row_between_two_tries_is_not_lost_when_the_task_is_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "hookwork.analytics")
    sink = Recorder(failures=1)
    queue = queue_of(sink, retry_delay=LONG, shutdown_timeout=0.01, batch_size=1)
    put(queue, 1)
    await until(lambda: "next try" in caplog.text)
    await queue.close()
    await queue.close()
    assert sink.batches == [[1]]


async def test_a_task_that_somebody_cancelled_is_started_anew() -> None:
    sink = Recorder()
    queue = queue_of(sink)
    put(queue, 1)
    [task] = [task for task in asyncio.all_tasks() if task.get_name() == "hookwork-analytics"]
    task.cancel()
    await asyncio.wait([task])
    put(queue, 2)
    await queue.flush()
    assert sink.batches == [[1, 2]]
    await queue.close()


def test_rows_of_an_event_loop_that_ended_are_written_in_the_next() -> None:
    sink = Recorder()
    queue = queue_of(sink)

    async def first() -> None:
        put(queue, 1)

    async def second() -> None:
        put(queue, 2)
        await queue.flush()
        await queue.close()

    asyncio.run(first())
    asyncio.run(second())
    assert sink.batches == [[1, 2]]
