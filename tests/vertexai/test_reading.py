"""Reading sessions and lists of them, line by line (services VTX-6, VTX-8 … VTX-10, VTX-12, CS-41)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.vertexai.fake import FakeVertex, Fault
from tests.vertexai.steps import ENGINE, KEY, made, sessions, until, waits

from hookwork.errors import (
    BackendError,
    SessionNotFoundError,
    SessionOwnershipError,
)
from hookwork.platform import use_clock
from hookwork_testkit.suites.base import BASE_TIME, say, texts


async def test_vtx_8_session_and_events_are_asked_for_at_once(fake: FakeVertex) -> None:
    await made(fake, 3)
    service = sessions(fake)
    fake.fail("get", Fault(delay=5))
    fake.fail("events", Fault(404, delay=0.01))
    async with asyncio.timeout(4):  # the first failure cancels the other
        with pytest.raises(SessionNotFoundError):
            await service.get_session(**KEY)
    assert sorted(request.route for request in fake.requests[-2:]) == ["events", "get"]
    await service.close()


async def test_vtx_8_another_users_session_gives_nothing_away(fake: FakeVertex) -> None:
    await made(fake, 1)
    service = sessions(fake)
    for filters in ({}, {"num_recent_events": 1}, {"num_recent_events": 0}, {"after": BASE_TIME}, {"tail": 1}):
        with pytest.raises(SessionOwnershipError) as refused:
            await service.get_session(**{**KEY, "user_id": "u2"}, **filters)  # type: ignore[arg-type]
        assert "u1" not in str(refused.value)
    with pytest.raises(SessionOwnershipError):
        await service.delete_session(**{**KEY, "user_id": "u2"})
    assert texts(await service.get_session(**KEY)) == ["0"]
    await service.close()


@pytest.mark.parametrize("status", [401, 403, 408, 500, 504])
async def test_gen_7_other_failures_are_not_taken_for_absence(fake: FakeVertex, status: int) -> None:
    await made(fake, 1)
    service = sessions(fake)
    fake.fail("get", status)
    with pytest.raises(BackendError) as failed:
        await service.get_session(**KEY)
    assert (failed.value.status, failed.value.retryable) == (status, status not in (401, 403))
    await service.close()


async def test_vtx_9_after_goes_out_exactly(fake: FakeVertex) -> None:
    """TRAP-15: neither cut to seconds nor trusted."""
    await made(fake, 5)
    for after, sent in (
        (BASE_TIME + 1, "2025-01-01T00:00:01Z"),
        (BASE_TIME + 1.000001, "2025-01-01T00:00:01.000001Z"),
        (datetime(2025, 1, 1, 1, 0, 3, 5, tzinfo=timezone(timedelta(hours=1))), "2025-01-01T00:00:03.000005Z"),
    ):
        service = sessions(fake)
        session = await service.get_session(**KEY, after=after)
        assert fake.sent("events")[-1].query["filter"] == f'timestamp>="{sent}"'
        bound = after if isinstance(after, float) else after.timestamp()
        assert [event.timestamp for event in session.events] == [
            BASE_TIME + n for n in range(5) if BASE_TIME + n >= bound
        ]
        await service.close()


async def test_vtx_9_after_is_applied_to_the_events_own_times(fake: FakeVertex) -> None:
    """An event that came late keeps its time, though the service lists it under a later one."""
    service = sessions(fake)
    session = await service.create_session(**KEY)
    for text, at in (("a", 5), ("b", 1), ("c", 7)):
        await service.append_event(session, say(text, at=at))
    other = sessions(fake)
    found = await other.get_session(**KEY, after=BASE_TIME + 4)
    assert texts(found) == ["a", "c"]
    assert texts(await other.get_session(**KEY, after=BASE_TIME, num_recent_events=2)) == ["b", "c"]
    assert await other.refresh(found) == 0
    await other.append_event(found, say("d", at=8))
    assert texts(found) == ["a", "c", "d"]
    while not found.complete:
        assert await other.load_earlier(found, 1) >= 1
    assert texts(found) == ["a", "b", "c", "d"]
    await service.close()
    await other.close()


@pytest.mark.parametrize(("count", "pages"), [(1, ["1"]), (30, ["30"]), (100, ["100"]), (150, ["100", "100"])])
async def test_vtx_9_the_newest_are_asked_for_from_the_end(fake: FakeVertex, count: int, pages: list[str]) -> None:
    await made(fake, 240)
    service = sessions(fake)
    session = await service.get_session(**KEY, num_recent_events=count)
    assert texts(session) == [str(n) for n in range(240 - count, 240)]
    sent = [request.query for request in fake.sent("events")]
    assert [query["pageSize"] for query in sent] == pages
    assert {query["orderBy"] for query in sent} == {"timestamp desc"}
    assert not session.complete
    await service.append_event(session, say("more", at=1000))
    assert texts(session) == [*(str(n) for n in range(240 - count, 240)), "more"]
    await service.close()


async def test_vtx_9_no_events_no_request_for_them(fake: FakeVertex) -> None:
    await made(fake, 3)
    service = sessions(fake)
    session = await service.get_session(**KEY, num_recent_events=0)
    assert [request.route for request in fake.requests[-1:]] == ["get"]
    assert not fake.sent("events")
    assert (texts(session), dict(session.state)) == ([], {"n": 2})
    assert not session.complete
    await service.append_event(session, say("more", at=1000))
    assert texts(session) == ["more"]
    await service.load_earlier(session, 1)
    assert texts(session) == ["2", "more"]
    fake.requests.clear()
    other = sessions(fake)
    await other.append_event(await other.get_session(**KEY), say("foreign", at=2000, delta={"n": 9}))
    fake.requests.clear()
    session = await service.get_session(**KEY, num_recent_events=0)
    assert [request.route for request in fake.requests] == ["get"], "nor when the log is known"
    assert (texts(session), session.state["n"]) == ([], 9)
    assert await service.refresh(session) == 1
    await service.append_event(session, say("own", at=3000))
    assert texts(session) == ["foreign", "own"]
    await service.close()
    await other.close()


async def test_vtx_6_all_pages_are_read(fake: FakeVertex) -> None:
    await made(fake, 250)
    service = sessions(fake)
    session = await service.get_session(**KEY)
    assert texts(session) == [str(n) for n in range(250)]
    assert [bool(request.query.get("pageToken")) for request in fake.sent("events")] == [False, True, True]
    assert {request.query["pageSize"] for request in fake.sent("events")} == {"100"}
    await service.close()


async def test_log_5_a_second_read_asks_only_for_what_is_new(fake: FakeVertex) -> None:
    """LOG-7, LOG-10: the answer is bounded whatever the length."""
    service = sessions(fake)
    session = await service.create_session(**KEY)
    for number in range(250):
        await service.append_event(session, say(str(number), at=number / 10))
    fake.requests.clear()
    again = await service.get_session(**KEY)
    assert again.log is session.log
    assert await service.refresh(session) == 0
    sent = [request.query for request in fake.sent("events")]
    assert (
        sent
        == [
            {"orderBy": "timestamp desc", "pageSize": "25", "filter": 'timestamp>="2024-12-31T23:59:24.900000Z"'},
        ]
        * 2
    )
    await service.close()


async def test_vtx_12_foreign_events_come_with_the_next_refresh(fake: FakeVertex) -> None:
    here, there = sessions(fake), sessions(fake)
    ours = await here.create_session(**KEY)
    theirs = await there.get_session(**KEY)
    for number in range(40):
        await there.append_event(theirs, say(f"theirs {number}", at=10 + number, delta={"n": number}))
    await here.append_event(ours, say("ours", at=100, delta={"k": 1}))
    assert texts(ours) == ["ours"], "nobody tells an append that others came before it"
    assert await here.refresh(ours) == 40
    assert texts(ours) == [*(f"theirs {n}" for n in range(40)), "ours"]
    assert dict(ours.state) == {"n": 39, "k": 1}
    assert await there.refresh(theirs) == 1
    assert ours.revision == theirs.revision
    await here.close()
    await there.close()


async def test_trap_32_a_slow_clock_elsewhere_hides_no_event(fake: FakeVertex) -> None:
    here, there = sessions(fake), sessions(fake)
    ours = await here.create_session(**KEY)
    theirs = await there.get_session(**KEY)
    await here.append_event(ours, say("first", at=100))
    held = await here.get_session(**KEY, tail=0)
    await there.append_event(theirs, say("slow", at=99))
    assert await here.refresh(ours) == 1
    assert texts(ours) == ["slow", "first"]
    assert texts(await here.get_session(**KEY)) == ["slow", "first"]
    await here.append_event(held, say("last", at=101))
    assert texts(held) == ["last"], "a handle of the replaced log goes on where it stood"
    await here.close()
    await there.close()


async def test_cs_33_the_state_is_read_again_when_it_is_older_than_the_events(fake: FakeVertex) -> None:
    here, there = sessions(fake), sessions(fake)
    ours = await here.create_session(**KEY, state={"n": 0})
    theirs = await there.get_session(**KEY)
    fake.fail("events", Fault(delay=0.3))
    task = asyncio.ensure_future(here.refresh(ours))
    await until(lambda: len(fake.sent("get")) >= 3)
    await there.append_event(theirs, say("between", delta={"n": 1}))
    assert await task == 1
    assert (texts(ours), ours.state["n"]) == (["between"], 1)
    await here.close()
    await there.close()


async def test_log_4_a_session_made_again_is_another_one(fake: FakeVertex) -> None:
    here, there = sessions(fake), sessions(fake)
    ours = await here.create_session(**KEY)
    await here.append_event(ours, say("old", at=1))
    await there.delete_session(**KEY)
    theirs = await there.create_session(**KEY)
    await there.append_event(theirs, say("new", at=1))
    with pytest.raises(SessionNotFoundError):
        await here.refresh(ours)
    assert texts(await here.get_session(**KEY)) == ["new"]
    with pytest.raises(SessionNotFoundError):
        await here.append_event(ours, say("late", at=2))
    await here.close()
    await there.close()


async def test_vtx_10_lists_are_filtered_paged_and_checked(fake: FakeVertex) -> None:
    service = sessions(fake)
    for number in range(205):
        await service.create_session(app_name="42", user_id="u1" if number % 2 else "u2")
    fake.requests.clear()
    assert len(await service.list_sessions(app_name="42")) == 205
    assert [request.query.get("filter") for request in fake.sent("list")] == [None] * 3
    mine = await service.list_sessions(app_name="42", user_id="u1")
    assert (len(mine), {session.user_id for session in mine}) == (102, {"u1"})
    assert fake.sent("list")[-1].query["filter"] == 'user_id="u1"'
    await service.close()


@pytest.mark.parametrize("user", ['a" OR user_id="b', "a\\", '\\"', "b"])
async def test_vtx_6_a_user_id_cannot_widen_a_filter(fake: FakeVertex, user: str) -> None:
    """TRAP-15, CS-41: a quote in a user id."""
    service = sessions(fake)
    await service.create_session(app_name="42", user_id="b", state={"secret": 1})
    mine = await service.create_session(app_name="42", user_id=user)
    found = await service.list_sessions(app_name="42", user_id=user)
    assert mine.id in {session.id for session in found}
    assert {session.user_id for session in found} == {user}
    await service.close()


async def test_vtx_10_what_a_filter_lets_through_is_not_believed(fake: FakeVertex) -> None:
    await made(fake, 0)
    fake.fail(
        "list",
        Fault(text='{"sessions": [{"name": "x/sessions/s-9", "userId": "u2", "createTime": "2025-01-01T00:00:00Z"}]}'),
    )
    service = sessions(fake)
    assert await service.list_sessions(app_name="42", user_id="u1") == []
    await service.close()


async def test_vtx_10_a_listed_handle_can_be_used(fake: FakeVertex) -> None:
    await made(fake, 3)
    service = sessions(fake)
    (session,) = await service.list_sessions(app_name="42")
    assert (texts(session), dict(session.state), session.complete) == ([], {"n": 2}, False)
    assert await service.refresh(session) == 0
    await service.append_event(session, say("more", at=9))
    assert texts(session) == ["more"]
    assert await service.load_earlier(session, 2) == 2
    assert texts(session) == ["1", "2", "more"]
    await service.close()


async def test_log_7_old_logs_are_let_go(fake: FakeVertex) -> None:
    service = sessions(fake, cache_sessions=1)
    for name in ("s-1", "s-2"):
        session = await service.create_session(**{**KEY, "session_id": name})
        await service.append_event(session, say(name))
        del session
    fake.requests.clear()
    assert texts(await service.get_session(**{**KEY, "session_id": "s-2"})) == ["s-2"]
    assert fake.sent("events")[0].query["orderBy"] == "timestamp desc", "kept: only what is new is read"
    assert texts(await service.get_session(**KEY)) == ["s-1"]
    assert "orderBy" not in fake.sent("events")[1].query, "let go: read whole"
    await service.close()


async def test_fake_3_an_event_of_year_one_can_be_lived_with(fake: FakeVertex) -> None:
    """A writer that sends no time gets that one."""
    service = sessions(fake)
    session = await service.create_session(**KEY)
    item = {"name": "x/events/1", "author": "a", "invocationId": "i", "timestamp": "0001-01-01T00:00:00Z"}
    fake.engine(ENGINE).sessions["s-1"].events.append((-62135596800000000, item))
    assert await service.refresh(session) == 1
    assert await service.refresh(session) == 0
    await service.append_event(session, say("later", at=1))
    assert texts(await service.get_session(**KEY)) == ["", "later"]
    await service.close()


async def test_cs_46_a_turn_asks_for_as_much_whatever_the_length(fake: FakeVertex) -> None:
    """LOG-10: the same requests, with the same limits, at 30, 100 and 300 events."""
    service = sessions(fake)
    session = await service.create_session(**KEY)
    asked = []
    for length in (30, 100, 300):
        while len(session.events) < length:
            await service.append_event(session, say(str(len(session.events)), at=len(session.events)))
        fake.requests.clear()
        turn = await service.get_session(**KEY)
        await service.append_event(turn, say("question", at=1000 + length))
        await service.append_event(turn, say("answer", at=1001 + length))
        await service.refresh(session)
        asked.append([(request.route, request.query.get("pageSize")) for request in fake.requests])
    assert sorted(asked[0]) == sorted(asked[1]) == sorted(asked[2])
    assert len(asked[0]) == 6
    await service.close()


@pytest.mark.parametrize(
    ("route", "answer"),
    [
        ("get", '{"userId": "u1"}'),
        ("get", '{"userId": "u1", "createTime": 5}'),
        ("get", '{"userId": "u1", "createTime": "2025-01-01T00:00:00Z", "sessionState": [1]}'),
        ("events", '{"sessionEvents": [{"name": "n"}]}'),
    ],
)
async def test_gen_6_answers_that_make_no_sense_are_backend_errors(fake: FakeVertex, route: str, answer: str) -> None:
    await made(fake, 1)
    service = sessions(fake)
    fake.fail(route, Fault(text=answer))
    with pytest.raises(BackendError) as failed:
        await service.get_session(**KEY)
    assert failed.value.code == "malformed"
    assert texts(await service.get_session(**KEY)) == ["0"]
    await service.close()


async def test_gen_6_a_list_without_end_is_an_error(fake: FakeVertex) -> None:
    await made(fake, 0)
    service = sessions(fake)
    page = Fault(text='{"sessions": [], "sessionEvents": [], "nextPageToken": "again"}')
    for route, call in (
        ("list", service.list_sessions(app_name="42")),
        ("events", service.get_session(**KEY)),
        ("events", service.get_session(**KEY, num_recent_events=5)),
    ):
        fake.fail(route, page, page)
        with pytest.raises(BackendError, match="itself"):
            await call
    await service.close()


async def test_sta_1_keys_that_nobody_can_write_are_not_shown(fake: FakeVertex) -> None:
    """Another writer's: a scope without a name, and ``temp:`` keys that should never have been stored."""
    service = sessions(fake)
    session = await service.create_session(**KEY)
    fake.engine(ENGINE).sessions["s-1"].state = {"": 1, "app:": 2, "user:": 3, "temp:": 4, "temp:x": 5, "k": 6.0}
    await service.refresh(session)
    assert dict(session.state) == {"k": 6}
    await service.close()


async def test_vtx_13_retry_after_may_be_a_date(fake: FakeVertex) -> None:
    await made(fake, 1)
    service = sessions(fake)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for header, waited in (("Thu, 01 Jan 2026 00:00:05 GMT", 5), ("Wed, 31 Dec 2025 23:00:00 GMT", 0), ("soon", 0.25)):
        fake.fail("get", Fault(429, headers=(("retry-after", header),)))
        with waits() as asked, use_clock(lambda: at):
            await service.get_session(**KEY)
        assert asked == [waited], header
    await service.close()


async def test_gen_5_a_cancelled_read_leaves_nothing_running(fake: FakeVertex) -> None:
    await made(fake, 1)
    service = sessions(fake)
    fake.fail("get", Fault(delay=5))
    fake.fail("events", Fault(delay=5))
    before = asyncio.all_tasks()
    task = asyncio.ensure_future(service.get_session(**KEY))
    await until(lambda: len(fake.requests) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before
    async with asyncio.timeout(4):
        assert texts(await service.get_session(**KEY)) == ["0"], "the session is not locked"
    await service.close()
