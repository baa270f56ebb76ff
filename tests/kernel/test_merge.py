"""The merge point: many producers, one consumer, one acknowledgement per event (activations ACT-19, core INV-1)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork import Event, Pause, text_content
from hookwork.merge import MergePoint, Producer, cancel_and_wait
from hookwork.platform import run_sequentially, use_task_runner


def event(text: str, *, partial: bool | None = None) -> Event:
    return Event(content=text_content(text), partial=partial)


async def texts_of(merge: MergePoint, producers: list[Producer]) -> list[str]:
    return [item.text async for item in merge.stream(producers)]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_act_19_a_producer_goes_on_only_after_its_event_was_taken_and_the_next_asked_for() -> None:
    merge = MergePoint()
    log: list[str] = []

    async def producer() -> None:
        await merge.put(event("one"))
        log.append("acknowledged")
        await merge.put(event("two"))

    async with aclosing(merge.stream([producer])) as events:
        assert (await anext(events)).text == "one"
        await settle()
        assert log == []
        assert (await anext(events)).text == "two"
        assert log == ["acknowledged"]


async def test_inv_2_partial_events_need_no_acknowledgement() -> None:
    merge = MergePoint()
    log: list[str] = []

    async def producer() -> None:
        for i in range(3):
            await merge.put(event(f"p{i}", partial=True))
        log.append("went on")
        await merge.put(event("whole"))

    async with aclosing(merge.stream([producer])) as events:
        assert (await anext(events)).text == "p0"
        assert log == ["went on"]
        assert [item.text async for item in events] == ["p1", "p2", "whole"]


async def test_partial_events_are_held_back_when_the_consumer_is_slow() -> None:
    merge = MergePoint()
    made = 0

    async def producer() -> None:
        nonlocal made
        for _ in range(1000):
            await merge.put(event("p", partial=True))
            made += 1

    async with aclosing(merge.stream([producer])) as events:
        await anext(events)
        await settle()
        assert made < 300
        assert len([item async for item in events]) == 999


@given(st.lists(st.lists(st.booleans(), max_size=5), max_size=5))
async def test_wfa_1_each_producers_events_stay_in_order_and_none_is_lost(shape: list[list[bool]]) -> None:
    merge = MergePoint()

    def producing(number: int, pauses: list[bool]) -> Producer:
        async def produce() -> None:
            for i, pause in enumerate(pauses):
                if pause:
                    await asyncio.sleep(0)
                await merge.put(event(f"{number}.{i}", partial=pause or None))

        return produce

    got = await texts_of(merge, [producing(n, pauses) for n, pauses in enumerate(shape)])
    for number, pauses in enumerate(shape):
        mine = [text for text in got if text.startswith(f"{number}.")]
        assert mine == [f"{number}.{i}" for i in range(len(pauses))]
    assert len(got) == sum(len(pauses) for pauses in shape)


async def test_wfa_3_the_first_error_cancels_the_others_awaits_them_and_is_raised() -> None:
    merge = MergePoint()
    log: list[str] = []

    async def fails() -> None:
        await merge.put(event("before"))
        raise LookupError("broken")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            log.append("torn down")

    with pytest.raises(LookupError, match="broken"):
        await texts_of(merge, [fails, waits])
    assert log == ["torn down"]


async def test_wfa_3_a_busy_sibling_does_not_outlive_the_first_error() -> None:
    """A sibling that always has a further event ready must not keep the error waiting."""
    merge = MergePoint()
    failed = asyncio.Event()
    after: list[str] = []

    async def fails() -> None:
        await merge.put(event("last words"))
        failed.set()
        raise LookupError("broken")

    async def busy() -> None:
        for i in range(1000):
            await merge.put(event(f"b{i}"))

    got: list[str] = []

    async def consume() -> None:
        async with aclosing(merge.stream([fails, busy])) as events:
            async for item in events:
                got.append(item.text)
                await asyncio.sleep(0)  # storing an event takes the loop a turn or more
                if failed.is_set():
                    after.append(item.text)

    with pytest.raises(LookupError):
        await consume()
    assert "last words" in got
    assert len(after) <= 1


async def test_what_came_before_the_error_is_still_handed_on() -> None:
    merge = MergePoint()

    async def speaks() -> None:
        await merge.put(event("said before"))

    async def fails() -> None:
        raise LookupError("broken")

    got: list[str] = []

    async def consume() -> None:
        async for item in merge.stream([speaks, fails]):
            got.append(item.text)

    with pytest.raises(LookupError):
        await consume()
    assert got == ["said before"]


async def test_act_19_a_pause_ends_only_its_own_task() -> None:
    merge = MergePoint()

    async def pauses() -> None:
        await merge.put(event("asks"))
        raise Pause

    async def speaks() -> None:
        await asyncio.sleep(0)
        await merge.put(event("goes on"))

    assert sorted(await texts_of(merge, [pauses, speaks])) == ["asks", "goes on"]


async def test_a_branch_that_cancels_itself_is_an_error_not_a_silent_end() -> None:
    async def stray() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="stray CancelledError"):
        await texts_of(MergePoint(), [stray])


async def test_wfa_2_leaving_early_tears_every_producer_down_before_it_returns() -> None:
    merge = MergePoint()
    down: list[int] = []

    def producing(number: int) -> Producer:
        async def produce() -> None:
            try:
                await merge.put(event(str(number)))
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                down.append(number)

        return produce

    async with aclosing(merge.stream([producing(n) for n in range(3)])) as events:
        await anext(events)
    assert sorted(down) == [0, 1, 2]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_zero_producers_give_no_events() -> None:
    assert await texts_of(MergePoint(), []) == []


async def test_inv_5_a_task_runner_decides_how_producers_run() -> None:
    merge = MergePoint()

    def producing(number: int) -> Producer:
        async def produce() -> None:
            for i in range(2):
                await asyncio.sleep(0)
                await merge.put(event(f"{number}.{i}"))

        return produce

    with use_task_runner(run_sequentially):
        assert await texts_of(merge, [producing(n) for n in range(2)]) == ["0.0", "0.1", "1.0", "1.1"]


async def test_inv_3_a_second_cancellation_does_not_cut_the_wait_short() -> None:
    log: list[str] = []
    entered, let_go = asyncio.Event(), asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            entered.set()
            await let_go.wait()
            log.append("ended")

    inner = asyncio.create_task(slow_to_end())
    await settle()
    waiting = asyncio.create_task(cancel_and_wait([inner]))
    await entered.wait()
    waiting.cancel()
    await settle()
    assert not waiting.done()
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert log == ["ended"]


async def test_inv_3_a_task_that_swallows_cancellation_is_abandoned_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    task: asyncio.Task[Any] = asyncio.create_task(stubborn())
    await settle()
    await cancel_and_wait([task], timeout=0.01)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    let_go.set()
    await task


async def test_act_19_producers_are_started_while_others_run() -> None:
    """A graph starts the nodes that a node triggers (workflow SCH-1)."""
    merge = MergePoint()

    def producer(number: int) -> Producer:
        async def produce() -> None:
            await merge.put(event(str(number)))
            if number < 3:
                merge.start([producer(number + 1), producer(number + 1)])

        return produce

    texts = await texts_of(merge, [producer(0)])
    assert sorted(texts) == sorted("0" + "11" + "2222" + "3" * 8)


async def test_act_19_after_an_error_nothing_further_is_started() -> None:
    merge = MergePoint()
    ran: list[str] = []

    async def late() -> None:
        ran.append("late")

    async def going_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            merge.start([late])

    async def failing() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await texts_of(merge, [going_on, failing])
    await settle()
    assert ran == []


async def test_inv_5_a_task_runner_gets_each_batch_that_is_started() -> None:
    merge = MergePoint()
    running: list[int] = []
    most = 0

    def producer(number: int, further: int) -> Producer:
        async def produce() -> None:
            nonlocal most
            running.append(number)
            most = max(most, len(running))
            await merge.put(event(str(number)))
            running.remove(number)
            if further:
                merge.start([producer(10 + k, 0) for k in range(3)])

        return produce

    with use_task_runner(run_sequentially):
        assert await texts_of(merge, [producer(0, 1)]) == ["0", "10", "11", "12"]
    assert most == 1
