"""Platform providers (crosscutting PLAT)."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hookwork import platform

MOMENT = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
Tasks = Sequence[Callable[[], Awaitable[None]]]


def test_defaults_are_the_wall_clock_uuid4_and_a_float_below_one() -> None:
    assert abs(platform.now() - datetime.now(UTC)) < timedelta(minutes=1)
    assert platform.now().tzinfo is UTC
    ids = {platform.new_uuid() for _ in range(500)}
    assert len(ids) == 500
    assert all(str(uuid.UUID(text)) == text and uuid.UUID(text).version == 4 for text in ids)
    assert {uuid.UUID(text).variant for text in ids} == {uuid.RFC_4122}
    assert all(0 <= platform.random() < 1 for _ in range(100))
    assert platform.replaying() is False


def test_gen_3_a_timestamp_is_epoch_seconds_rounded_to_microseconds() -> None:
    with platform.use_clock(lambda: MOMENT):
        assert platform.timestamp() == 1767268800.123456
    now = platform.timestamp()
    assert round(now, 6) == now


def test_plat_1_the_innermost_provider_wins_and_none_restores_the_default() -> None:
    with platform.use_uuids(lambda: "outer"):
        with platform.use_uuids(lambda: "inner"):
            assert platform.new_uuid() == "inner"
            with platform.use_uuids(None):
                assert uuid.UUID(platform.new_uuid()).version == 4
            assert platform.new_uuid() == "inner"
        assert platform.new_uuid() == "outer"
    assert uuid.UUID(platform.new_uuid()).version == 4


def test_plat_1_a_provider_is_restored_after_an_error() -> None:
    def fail() -> None:
        with platform.use_clock(lambda: MOMENT), platform.use_random(lambda: 0.5), platform.use_replaying(True):
            assert (platform.now(), platform.random(), platform.replaying()) == (MOMENT, 0.5, True)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        fail()
    assert platform.now() != MOMENT
    assert platform.replaying() is False


async def test_plat_1_concurrent_call_trees_never_see_each_others_providers() -> None:
    ready = asyncio.Barrier(2)

    async def tree(name: str) -> str:
        with platform.use_uuids(lambda: name):
            await ready.wait()
            return platform.new_uuid()

    assert list(await asyncio.gather(tree("a"), tree("b"))) == ["a", "b"]
    assert platform.new_uuid() not in ("a", "b")


def test_plat_2_a_provider_is_called_every_time() -> None:
    numbers: Iterator[int] = iter(range(9))
    with platform.use_uuids(lambda: f"id-{next(numbers)}"), platform.use_random(lambda: next(numbers) / 10):
        assert [platform.new_uuid(), platform.new_uuid(), platform.random(), platform.random()] == [
            "id-0",
            "id-1",
            0.2,
            0.3,
        ]


async def test_sleep_goes_through_its_provider() -> None:
    slept: list[float] = []

    async def sleeper(seconds: float) -> None:
        slept.append(seconds)

    with platform.use_sleep(sleeper):
        await platform.sleep(3600)
    assert slept == [3600]
    await platform.sleep(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="waits for a system with fork")
def test_ids_of_a_forked_process_are_its_own() -> None:
    platform.new_uuid()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, platform.new_uuid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    theirs = os.read(reader, 36).decode()
    os.close(reader)
    assert uuid.UUID(theirs).version == 4
    assert theirs not in {platform.new_uuid() for _ in range(300)}


def recorders(count: int, log: list[str], gate: asyncio.Event | None = None) -> list[Any]:
    def make(name: int) -> Callable[[], Awaitable[None]]:
        async def task() -> None:
            log.append(f"start {name}")
            if gate is not None:
                await gate.wait()
            log.append(f"end {name}")

        return task

    return [make(i) for i in range(count)]


async def test_plat_3_no_tasks_do_nothing_and_ask_no_runner() -> None:
    asked: list[Any] = []

    async def runner(tasks: Tasks) -> None:
        asked.append(tasks)

    with platform.use_task_runner(runner):
        await platform.run_tasks([])
    assert asked == []


async def test_plat_7_the_default_starts_all_in_list_order_before_any_ends() -> None:
    log: list[str] = []
    gate = asyncio.Event()
    running = asyncio.ensure_future(platform.run_tasks(recorders(3, log, gate)))
    while len(log) < 3:
        await asyncio.sleep(0)
    assert log == ["start 0", "start 1", "start 2"]
    gate.set()
    await running
    assert log[3:] == ["end 0", "end 1", "end 2"]


async def test_plat_5_a_lone_task_is_just_awaited() -> None:
    seen: list[Any] = []

    async def task() -> None:
        seen.append(asyncio.current_task())

    await platform.run_tasks([task])
    assert seen == [asyncio.current_task()]


async def test_sequential_and_bounded_runners() -> None:
    log: list[str] = []
    with platform.use_task_runner(platform.run_sequentially):
        assert platform.has_task_runner()
        await platform.run_tasks(recorders(2, log))
    assert log == ["start 0", "end 0", "start 1", "end 1"]
    assert not platform.has_task_runner()
    log.clear()
    gate = asyncio.Event()
    with platform.use_task_runner(platform.run_bounded(2)):
        running = asyncio.ensure_future(platform.run_tasks(recorders(5, log, gate)))
    while len(log) < 2:
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == ["start 0", "start 1"]
    gate.set()
    await running
    assert sorted(log) == sorted([f"{what} {i}" for what in ("start", "end") for i in range(5)])


async def test_plat_3_a_runner_that_returns_early_is_waited_for() -> None:
    log: list[str] = []
    started: list[asyncio.Future[None]] = []

    async def early(tasks: Tasks) -> None:
        started.extend(asyncio.ensure_future(task()) for task in tasks)

    with platform.use_task_runner(early):
        await platform.run_tasks(recorders(3, log))
    assert log[-1] == "end 2"
    assert len(log) == 6
    await asyncio.gather(*started)


async def test_plat_3_a_runner_may_use_other_threads() -> None:
    names: list[str] = []

    async def task() -> None:
        names.append(threading.current_thread().name)

    threads: list[threading.Thread] = []

    async def elsewhere(tasks: Tasks) -> None:
        for i, each in enumerate(tasks):
            thread = threading.Thread(target=lambda run=each: asyncio.run(run()), name=f"worker-{i}")
            thread.start()
            threads.append(thread)

    with platform.use_task_runner(elsewhere):
        await asyncio.wait_for(platform.run_tasks([task, task, task]), 30)
    for thread in threads:
        thread.join()
    assert sorted(names) == ["worker-0", "worker-1", "worker-2"]


async def test_plat_3_a_failed_task_counts_as_run() -> None:
    async def fail() -> None:
        raise RuntimeError("no")

    async def patient(tasks: Tasks) -> None:
        await asyncio.gather(*[task() for task in tasks], return_exceptions=True)

    with platform.use_task_runner(patient):
        await asyncio.wait_for(platform.run_tasks([fail, fail]), 30)
    assert not platform.has_task_runner()


@pytest.mark.parametrize("runner", [None, platform.run_bounded(2)])
async def test_plat_5_cancelling_the_caller_cancels_all_tasks_and_waits_for_them(runner: Any) -> None:
    log: list[str] = []
    gate = asyncio.Event()

    async def task() -> None:
        log.append("start")
        try:
            await gate.wait()
        finally:
            await asyncio.sleep(0)
            log.append("cleaned")

    with platform.use_task_runner(runner):
        running = asyncio.ensure_future(platform.run_tasks([task, task]))
    while len(log) < 2:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert log == ["start", "start", "cleaned", "cleaned"]


async def test_plat_4_an_error_that_gets_out_ends_the_others() -> None:
    log: list[str] = []
    gate = asyncio.Event()

    async def waits() -> None:
        try:
            await gate.wait()
        finally:
            log.append("cleaned")

    async def fails() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await platform.run_tasks([waits, fails])
    assert log == ["cleaned"]
