"""Appending to sessions, line by line (services VTX-12 … VTX-14, CS-41)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests.vertexai.fake import FakeVertex, Fault
from tests.vertexai.steps import ENGINE, KEY, made, sessions, stored_texts, until, waits

from hookwork.errors import (
    BackendError,
    EventConflictError,
    SessionNotFoundError,
    ValidationError,
)
from hookwork.platform import use_clock, use_sleep, use_uuids
from hookwork.records.event import Event
from hookwork_testkit.suites.base import BASE_TIME, say, texts


async def test_vtx_12_temp_keys_are_sent_nowhere(fake: FakeVertex) -> None:
    service = sessions(fake)
    session = await service.create_session(**KEY, state={"temp:a": 1})
    await service.append_event(session, say("x", at=1.5, delta={"temp:secret": "s", "k": 1}))
    (sent,) = fake.sent("append")
    assert "secret" not in str(sent.body)
    assert sent.body["actions"] == {"stateDelta": {"k": 1}}
    assert sent.body["rawEvent"]["actions"]["stateDelta"] == {"k": 1}
    assert "temp" not in str(fake.sent("create")[0].body)
    assert dict(session.state) == {"k": 1, "temp:a": 1, "temp:secret": "s"}
    assert session.last_update_time == datetime(2025, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)
    await service.close()


async def test_vtx_12_partial_events_and_foreign_handles_cause_no_request(fake: FakeVertex) -> None:
    """TRAP-13, TRAP-17."""
    service, other = sessions(fake), sessions(fake)
    session = await service.create_session(**KEY)
    fake.requests.clear()
    partial = say("x", partial=True)
    assert await service.append_event(session, partial) is partial
    with pytest.raises(ValidationError, match="not opened by this service"):
        await other.append_event(session, say("x"))
    for field in ("author", "invocation_id"):
        with pytest.raises(ValidationError, match=field):
            await service.append_event(session, say("x").replace(**{field: ""}))
    assert fake.requests == []
    await service.close()
    await other.close()


@pytest.mark.parametrize("status", [429, 503])
async def test_vtx_13_reads_are_tried_again(fake: FakeVertex, status: int) -> None:
    await made(fake, 1)
    service = sessions(fake)
    fake.fail("get", status, status, status)
    with waits() as asked:
        assert texts(await service.get_session(**KEY)) == ["0"]
    assert asked == [0.25, 0.5, 1.0]
    fake.fail("list", status, status, status, status)
    with waits() as asked, pytest.raises(BackendError) as failed:
        await service.list_sessions(app_name="42")
    assert (len(asked), failed.value.status, failed.value.retryable) == (3, status, True)
    await service.close()


async def test_vtx_13_retry_after_is_honoured(fake: FakeVertex) -> None:
    await made(fake, 1)
    service = sessions(fake)
    fake.fail("get", Fault(429, headers=(("retry-after", "7"),)), Fault(503, headers=(("retry-after", "0"),)))
    with waits() as asked:
        await service.get_session(**KEY)
    assert asked == [7, 0]
    fake.fail("get", Fault(429, headers=(("retry-after", "3600"),)))
    with waits() as asked, pytest.raises(BackendError) as failed:
        await service.get_session(**KEY)
    assert (asked, failed.value.retryable) == ([], True)
    await service.close()


async def test_vtx_13_a_broken_connection_is_tried_again_by_reads(fake: FakeVertex) -> None:
    await made(fake, 1)
    service = sessions(fake)
    fake.fail("get", Fault(drop=True), Fault(text="{oops"))
    with waits() as asked:
        assert texts(await service.get_session(**KEY)) == ["0"]
    assert len(asked) == 2
    await service.close()


async def test_vtx_13_an_append_waits_once_for_the_quota(fake: FakeVertex) -> None:
    service = sessions(fake)
    session = await service.create_session(**KEY)
    fake.fail("append", 429)
    with waits() as asked:
        await service.append_event(session, say("one"))
    assert asked == [1.0]
    fake.fail("append", 429, 429)
    event = say("two")
    with waits() as asked, pytest.raises(BackendError) as failed:
        await service.append_event(session, event)
    assert (asked, failed.value.retryable) == ([1.0], True)
    await service.append_event(session, event)
    assert texts(session) == stored_texts(fake) == ["one", "two"]
    await service.close()


@pytest.mark.parametrize(
    "fault",
    [
        Fault(500, carried_out=True),
        Fault(503, carried_out=True),
        Fault(drop=True, carried_out=True),
        Fault(carried_out=True, delay=1.0),
    ],
    ids=["500", "503", "dropped", "late"],
)
async def test_vtx_13_an_append_whose_answer_was_lost_is_looked_for(fake: FakeVertex, fault: Fault) -> None:
    service = sessions(fake, timeout=0.4)
    session = await service.create_session(**KEY)
    fake.fail("append", fault)
    await service.append_event(session, say("one", delta={"k": 1}))
    assert texts(session) == ["one"]
    await until(lambda: stored_texts(fake) == ["one"])
    assert len(fake.sent("append")) == 1
    assert fake.sent("events")[-1].query == {"orderBy": "timestamp desc", "pageSize": "100"}
    await service.close()


@pytest.mark.parametrize("fault", [Fault(500), Fault(503), Fault(drop=True)], ids=["500", "503", "dropped"])
async def test_vtx_13_an_append_that_was_not_carried_out_is_sent_once_more(fake: FakeVertex, fault: Fault) -> None:
    service = sessions(fake)
    session = await service.create_session(**KEY)
    fake.fail("append", fault)
    with waits():
        await service.append_event(session, say("one"))
    assert texts(session) == stored_texts(fake) == ["one"]
    fake.fail("append", fault, fault)
    event = say("two")
    with waits(), pytest.raises(BackendError) as failed:
        await service.append_event(session, event)
    assert failed.value.retryable
    assert texts(session) == ["one"]
    await service.append_event(session, event)
    assert texts(session) == stored_texts(fake) == ["one", "two"]
    await service.close()


async def test_ses_19_a_retry_after_a_lost_answer_stores_no_second_copy(fake: FakeVertex) -> None:
    """Even when nobody could look meanwhile."""
    service = sessions(fake)
    session = await service.create_session(**KEY)
    fake.fail("append", Fault(drop=True, carried_out=True))
    fake.fail("events", 403)
    event = say("one", delta={"k": 1})
    with waits(), pytest.raises(BackendError, match="connection"):
        await service.append_event(session, event)
    assert (texts(session), dict(session.state)) == ([], {})
    assert await service.append_event(session, event) == event
    assert texts(session) == stored_texts(fake) == ["one"]
    assert session.state["k"] == 1
    with pytest.raises(EventConflictError):
        await service.append_event(session, event.replace(author="another"))
    await service.close()


async def test_vtx_12_an_event_that_was_stored_twice_counts_once(fake: FakeVertex) -> None:
    service = sessions(fake)
    session = await service.create_session(**KEY)
    await service.append_event(session, say("one"))
    stored = fake.engine(ENGINE).sessions["s-1"].events
    stored.append((stored[0][0], {**stored[0][1], "name": stored[0][1]["name"] + "9"}))
    other = sessions(fake)
    assert texts(await other.get_session(**KEY)) == ["one"]
    assert await service.refresh(session) == 0
    await service.close()
    await other.close()


async def test_gen_5_a_cancelled_append_is_carried_to_its_end(fake: FakeVertex) -> None:
    service = sessions(fake)
    session = await service.create_session(**KEY)
    fake.fail("append", Fault(delay=0.2))
    event = say("one")
    task = asyncio.ensure_future(service.append_event(session, event))
    await until(lambda: bool(fake.sent("append")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert texts(session) == []
    await service.append_event(session, event)
    assert texts(session) == stored_texts(fake) == ["one"]
    fake.fail("append", Fault(delay=0.2))
    task = asyncio.ensure_future(service.append_event(session, say("two")))
    await until(lambda: len(fake.sent("append")) == 2)
    task.cancel()
    await service.close()
    assert stored_texts(fake) == ["one", "two"], "close waits for what is under way"


async def test_vtx_14_errors_and_their_texts(fake: FakeVertex) -> None:
    service = sessions(fake, token_source=lambda: "very-secret")
    session = await service.create_session(**KEY)
    for fault, kind in (
        (Fault(400), ValidationError),
        (Fault(401), BackendError),
        (Fault(403), BackendError),
        (Fault(302, headers=(("location", "http://127.0.0.1:1/elsewhere"),)), BackendError),
        (Fault(413, text="<html>too large</html>"), BackendError),
        (Fault(404), SessionNotFoundError),
    ):
        fake.fail("append", fault)
        with pytest.raises(kind) as failed:
            await service.append_event(session, say("x"))
        assert "very-secret" not in f"{failed.value!r}{failed.value.__cause__!r}"
        refusal = failed.value if kind is BackendError else failed.value.__cause__
        assert isinstance(refusal, BackendError)
        assert (refusal.status, refusal.retryable) == (fault.status, False)
    await service.close()


async def test_ses_19_redelivery_looks_what_another_process_has_stored(fake: FakeVertex) -> None:
    """GEN-8, durable DUR-3: a run that is recovered elsewhere appends its own events again."""
    before, after = sessions(fake), sessions(fake)
    first = await before.create_session(**KEY)
    second = await after.get_session(**KEY)
    stored = await before.append_event(first, say("one", at=1, delta={"k": 1}))
    again = await after.append_event(second, stored.replace(author="again"), redelivery=True)
    assert again == stored
    assert (texts(second), second.state["k"]) == (["one"], 1)
    assert stored_texts(fake) == ["one"]
    await before.close()
    await after.close()


async def test_gen_4_nothing_begins_while_the_service_closes(fake: FakeVertex) -> None:
    service = sessions(fake)
    session = await service.create_session(**KEY)
    fake.fail("append", Fault(delay=0.2))
    running = asyncio.ensure_future(service.append_event(session, say("one")))
    await until(lambda: bool(fake.sent("append")))
    closing = asyncio.ensure_future(service.close())
    await asyncio.sleep(0)
    with pytest.raises(BackendError, match="closed"):
        await service.append_event(session, say("two"))
    assert (await running).text == "one"
    await closing
    await service.close()
    assert stored_texts(fake) == ["one"]


async def test_gen_1_gen_2_gen_3_arguments_ids_and_times(fake: FakeVertex) -> None:
    """Arguments are named; ids and times come from the platform providers and are rounded to microseconds."""
    service = sessions(fake)
    with pytest.raises(TypeError):
        await service.get_session("42", "u1", "s-1")  # type: ignore[misc]
    session = await service.create_session(**KEY)
    assert session.last_update_time.tzinfo is UTC
    moment = datetime(2025, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)
    with use_clock(lambda: moment), use_uuids(lambda: "made-1"):
        stored = await service.append_event(session, Event(author="a", invocation_id="i"))
    assert (stored.id, stored.time) == ("made-1", moment)
    assert session.last_update_time == moment
    exact = await service.append_event(session, say("x", timestamp=BASE_TIME + 2.00000049))
    assert exact.timestamp == BASE_TIME + 2
    await service.close()


async def test_case_cancel_1_what_was_stopped_is_not_stored_later(fake: FakeVertex) -> None:
    """An append that waits for its turn, or for the quota, is given up with its caller (GEN-5)."""
    service = sessions(fake)
    session = await service.create_session(**KEY)
    fake.fail("append", Fault(delay=0.2))
    first = asyncio.ensure_future(service.append_event(session, say("first")))
    await until(lambda: bool(fake.sent("append")))
    queued = asyncio.ensure_future(service.append_event(session, say("queued")))
    await asyncio.sleep(0)
    queued.cancel()
    assert (await first).text == "first"
    with pytest.raises(asyncio.CancelledError):
        await queued
    for fault in (Fault(429, headers=(("retry-after", "1"),)), Fault(503)):
        fake.fail("append", fault)
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def wait(seconds: float, asked: asyncio.Event = asked, go_on: asyncio.Event = go_on) -> None:
            asked.set()
            await go_on.wait()

        with use_sleep(wait):
            waiting = asyncio.ensure_future(service.append_event(session, say("refused")))
        async with asyncio.timeout(20):
            await asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
    await service.append_event(session, say("last"))
    assert texts(session) == stored_texts(fake) == ["first", "last"]
    await service.close()
