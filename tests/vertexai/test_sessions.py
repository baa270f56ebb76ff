"""Agent Engine sessions against the fake, line by line (services §5.1, §5.2, CS-41)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.vertexai.fake import FakeVertex, Fault
from tests.vertexai.steps import ENGINE, KEY, SESSION, sessions, until, waits

from hookwork.errors import (
    BackendError,
    EventConflictError,
    SessionAlreadyExistsError,
    SessionNotFoundError,
    SessionOwnershipError,
    UnsupportedOperationError,
    ValidationError,
)
from hookwork.platform import use_clock, use_uuids
from hookwork.records.event import Event
from hookwork.services import SessionCapabilities
from hookwork_testkit.suites.base import BASE_TIME, say, texts
from hookwork_vertexai import VertexAiSessionService

# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({"project": "p", "location": "us-central1"}, "https://us-central1-aiplatform.googleapis.com"),
        ({"project": "p", "location": "global"}, "https://aiplatform.googleapis.com"),
        ({"api_key": "k"}, "https://aiplatform.googleapis.com"),
        ({"project": "p", "location": "eu", "base_url": "http://127.0.0.1:1/"}, "http://127.0.0.1:1"),
    ],
)
def test_vtx_1_one_resolver_of_addresses(options: dict[str, Any], url: str) -> None:
    """TRAP-14 too."""
    assert VertexAiSessionService(**options)._api.base_url == url


@pytest.mark.parametrize(
    "options",
    [
        {"location": "us-central1"},
        {"project": "p"},
        {"project": "p/q", "location": "us-central1"},
        {"project": "p", "location": "us-central1.evil.example/"},
        {"project": "p", "location": "US"},
        {"project": "p", "location": "us-central1", "engine": "4a"},
        {"project": "p", "location": "us-central1", "engine": "+42"},
        {"project": "p", "location": "us-central1", "api_key": "k"},
        {"api_key": " "},
        {"project": "p", "location": "l", "credentials": object(), "token_source": lambda: "t"},
        {"project": "p", "location": "l", "base_url": "ftp://x"},
        {"project": "p", "location": "l", "base_url": "http://user:pass@x"},
        {"project": "p", "location": "l", "timeout": 0},
        {"project": "p", "location": "l", "timeout": float("nan")},
        {"project": "p", "location": "l", "cache_sessions": -1},
    ],
)
def test_vtx_1_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        VertexAiSessionService(**options)
    assert "pass" not in str(refused.value)


@pytest.mark.parametrize(
    ("app", "engine", "path"),
    [
        ("42", None, ENGINE),
        (ENGINE, None, ENGINE),
        ("shop", "42", ENGINE),
        ("43", "42", ENGINE),
    ],
)
async def test_vtx_2_which_engine_keeps_an_app(fake: FakeVertex, app: str, engine: str | None, path: str) -> None:
    service = sessions(fake, engine=engine)
    session = await service.create_session(app_name=app, user_id="u1")
    assert fake.requests[0].path == f"/v1beta1/{path}/sessions"
    assert session.app_name == app
    await service.close()


@pytest.mark.parametrize(
    "app",
    [
        *("shop", "+42", "-42", "４２", "42 ", "4.2"),
        "projects/p/locations/us-central1/reasoningEngines/x",
        f"{ENGINE}/sessions/1",
        f"x{ENGINE}",
        f"{ENGINE}\n",
        "projects/other/locations/us-central1/reasoningEngines/42",
        "projects/p/locations/eu/reasoningEngines/42",
    ],
)
async def test_vtx_2_other_apps_are_refused_without_a_request(fake: FakeVertex, app: str) -> None:
    """CS-41: an id that starts with a sign, a mismatch of engines."""
    service = sessions(fake)
    calls: list[Any] = [
        service.create_session(app_name=app, user_id="u1"),
        service.get_session(app_name=app, user_id="u1", session_id="s-1"),
        service.list_sessions(app_name=app),
        service.delete_session(app_name=app, user_id="u1", session_id="s-1"),
    ]
    for call in calls:
        with pytest.raises(ValidationError):
            await call
    assert fake.requests == []


# --- creating ---------------------------------------------------------------------------------------------------------


async def test_vtx_2_vtx_3_what_create_sends(fake: FakeVertex) -> None:
    service = sessions(fake)
    state = {"k": 1, "app:a": "x", "temp:t": 2}
    session = await service.create_session(
        **KEY, state=state, display_name="first", labels={"team": "blue"}, ttl=90000.5
    )
    (sent,) = fake.sent("create")
    assert (sent.method, sent.query) == ("POST", {"sessionId": "s-1"})
    assert sent.body == {
        "userId": "u1",
        "sessionState": {"k": 1, "app:a": "x"},
        "displayName": "first",
        "labels": {"team": "blue"},
        "ttl": "90000.5s",
    }
    assert dict(session.state) == state
    made = fake.engine(ENGINE).sessions["s-1"]
    assert (made.document["displayName"], made.document["labels"]) == ("first", {"team": "blue"})
    await service.close()


async def test_bey_5_an_expiry_is_a_time_or_a_duration(fake: FakeVertex) -> None:
    service = sessions(fake)
    at = datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    await service.create_session(app_name="42", user_id="u1", expire_time=at)
    assert fake.sent("create")[0].body == {"userId": "u1", "expireTime": "2030-01-01T00:00:00Z"}
    for wrong in (
        {"ttl": 1, "expire_time": at},
        {"ttl": 0},
        {"ttl": True},
        {"ttl": "1s"},
        {"expire_time": datetime(2030, 1, 1)},
    ):
        with pytest.raises(ValidationError):
            await service.create_session(app_name="42", user_id="u1", **wrong)  # type: ignore[arg-type]
    assert len(fake.sent("create")) == 1
    await service.close()


@pytest.mark.parametrize(
    "wrong", ["S1", "s_1", "-s", "s-", "s" * 64, "s/1", "../s", "s%2e", "s\n1", "sé", "s?x", "s:d"]
)
async def test_vtx_3_ids_that_the_service_cannot_hold_get_into_no_url(fake: FakeVertex, wrong: str) -> None:
    service = sessions(fake)
    with pytest.raises(ValidationError, match="63"):
        await service.create_session(app_name="42", user_id="u1", session_id=wrong)
    with pytest.raises(SessionNotFoundError):
        await service.get_session(app_name="42", user_id="u1", session_id=wrong)
    await service.delete_session(app_name="42", user_id="u1", session_id=wrong)
    assert fake.requests == []
    longest = await service.create_session(app_name="42", user_id="u1", session_id="0" + "s" * 62)
    assert len(longest.id) == 63
    await service.close()


async def test_bey_5_a_full_resource_name_is_a_session_id(fake: FakeVertex) -> None:
    service = sessions(fake)
    await service.create_session(**KEY)
    for name in (SESSION, f" {SESSION}", "reasoningEngines/42/sessions/s-1", fake.engine(ENGINE).sessions["s-1"].name):
        assert (await service.get_session(app_name="42", user_id="u1", session_id=name)).id == "s-1"
    with pytest.raises(ValidationError, match="another engine"):
        await service.get_session(app_name="43", user_id="u1", session_id=SESSION)
    await service.close()


@pytest.mark.parametrize("polls", [0, 1, 4])
async def test_vtx_7_create_waits_for_its_operation(fake: FakeVertex, polls: int) -> None:
    fake.create_polls = polls
    service = sessions(fake)
    with waits():
        await service.create_session(app_name="42", user_id="u1", session_id="s-0", state={"app:shared": 1})
    fake.requests.clear()
    with waits() as asked:
        session = await service.create_session(**KEY, state={"k": 1})
    assert asked == [0.5, 0.75, 1.125, 1.6875][:polls]
    assert [request.route for request in fake.requests] == ["create", *["poll"] * polls, "get"]
    assert dict(session.state) == {"k": 1, "app:shared": 1}, "the merged state comes with the session"
    await service.close()


async def test_vtx_7_an_operation_that_fails_or_never_ends(fake: FakeVertex) -> None:
    service = sessions(fake)
    for code, kind, retryable in ((3, ValidationError, None), (7, BackendError, False), (14, BackendError, True)):
        fake.operation_error = (code, "no luck")
        with pytest.raises(kind, match="no luck") as failed:
            await service.create_session(app_name="42", user_id="u1")
        assert getattr(failed.value, "retryable", None) == retryable
    fake.operation_error = (6, "taken")
    with pytest.raises(SessionAlreadyExistsError):
        await service.create_session(app_name="42", user_id="u1", session_id="taken")
    fake.operation_error = None
    fake.create_polls = 1000
    with waits() as asked, pytest.raises(BackendError, match="not done after 60 s") as late:
        await service.create_session(app_name="42", user_id="u1")
    assert late.value.retryable
    assert sum(asked) == 60
    assert max(asked) == 5
    await service.close()


async def test_vtx_7_waiting_for_an_operation_can_be_cancelled(fake: FakeVertex) -> None:
    """TRAP-16."""
    fake.create_polls = 1000
    service = sessions(fake)
    task = asyncio.ensure_future(service.create_session(**KEY))
    await until(lambda: bool(fake.sent("create")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await service.close()


@pytest.mark.parametrize(
    "answer",
    ["[]", "{", '{"done": false}', '{"done": false, "name": "../../x/operations/1"}', '{"done": true, "response": {}}'],
)
async def test_vtx_7_an_answer_that_is_none(fake: FakeVertex, answer: str) -> None:
    fake.fail("create", Fault(text=answer))
    service = sessions(fake)
    with pytest.raises((BackendError, ValidationError)):
        await service.create_session(app_name="42", user_id="u1")
    assert [request.route for request in fake.requests] == ["create"]
    await service.close()


async def test_vtx_7_the_id_stands_in_the_operations_name_too(fake: FakeVertex) -> None:
    service = sessions(fake)
    await service.create_session(**KEY)
    name = "projects/1/locations/l/reasoningEngines/42/sessions/s-1/operations/9"
    fake.fail("create", Fault(text=f'{{"done": true, "name": "{name}", "response": {{}}}}'))
    assert (await service.create_session(app_name="42", user_id="u1")).id == "s-1"
    await service.close()


# --- reading ----------------------------------------------------------------------------------------------------------


async def test_vtx_8_session_and_events_are_asked_for_at_once(fake: FakeVertex) -> None:
    await _made(fake, 3)
    service = sessions(fake)
    fake.fail("get", Fault(delay=5))
    fake.fail("events", Fault(404, delay=0.01))
    async with asyncio.timeout(4):  # the first failure cancels the other
        with pytest.raises(SessionNotFoundError):
            await service.get_session(**KEY)
    assert sorted(request.route for request in fake.requests[-2:]) == ["events", "get"]
    await service.close()


async def test_vtx_8_another_users_session_gives_nothing_away(fake: FakeVertex) -> None:
    await _made(fake, 1)
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
    await _made(fake, 1)
    service = sessions(fake)
    fake.fail("get", status)
    with pytest.raises(BackendError) as failed:
        await service.get_session(**KEY)
    assert (failed.value.status, failed.value.retryable) == (status, status not in (401, 403))
    await service.close()


async def test_vtx_9_after_goes_out_exactly(fake: FakeVertex) -> None:
    """TRAP-15: neither cut to seconds nor trusted."""
    await _made(fake, 5)
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
    await _made(fake, 240)
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
    await _made(fake, 3)
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
    await service.close()


async def test_vtx_6_all_pages_are_read(fake: FakeVertex) -> None:
    await _made(fake, 250)
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


# --- lists ------------------------------------------------------------------------------------------------------------


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
    await _made(fake, 0)
    fake.fail(
        "list",
        Fault(text='{"sessions": [{"name": "x/sessions/s-9", "userId": "u2", "createTime": "2025-01-01T00:00:00Z"}]}'),
    )
    service = sessions(fake)
    assert await service.list_sessions(app_name="42", user_id="u1") == []
    await service.close()


async def test_vtx_10_a_listed_handle_can_be_used(fake: FakeVertex) -> None:
    await _made(fake, 3)
    service = sessions(fake)
    (session,) = await service.list_sessions(app_name="42")
    assert (texts(session), dict(session.state), session.complete) == ([], {"n": 2}, False)
    assert await service.refresh(session) == 0
    await service.append_event(session, say("more", at=9))
    assert texts(session) == ["more"]
    assert await service.load_earlier(session, 2) == 2
    assert texts(session) == ["1", "2", "more"]
    await service.close()


# --- deleting ---------------------------------------------------------------------------------------------------------


async def test_vtx_11_delete_looks_first_and_waits(fake: FakeVertex) -> None:
    service = sessions(fake)
    await service.create_session(**KEY)
    fake.requests.clear()
    await service.delete_session(**KEY)
    assert [request.route for request in fake.requests] == ["get", "delete"]
    await service.delete_session(**KEY)
    assert [request.route for request in fake.requests] == ["get", "delete", "get"]
    await service.create_session(**KEY)
    fake.fail("delete", 404)  # somebody else was faster
    await service.delete_session(**KEY)
    fake.fail("delete", 403)
    with pytest.raises(BackendError):
        await service.delete_session(**KEY)
    assert (await service.get_session(**KEY)).id == "s-1"
    await service.close()


# --- appending --------------------------------------------------------------------------------------------------------


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


async def test_ses_23_what_the_backend_publishes(fake: FakeVertex) -> None:
    service = sessions(fake)
    assert service.capabilities == SessionCapabilities(
        detects_stale=False,
        session_id_pattern=r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?",
        supports_user_state_read=False,
    )
    with pytest.raises(UnsupportedOperationError):
        await service.get_user_state(app_name="42", user_id="u1")
    await service.close()


@pytest.mark.parametrize("status", [429, 503])
async def test_vtx_13_reads_are_tried_again(fake: FakeVertex, status: int) -> None:
    await _made(fake, 1)
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
    await _made(fake, 1)
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
    await _made(fake, 1)
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
    assert texts(session) == _stored(fake) == ["one", "two"]
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
    await until(lambda: _stored(fake) == ["one"])
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
    assert texts(session) == _stored(fake) == ["one"]
    fake.fail("append", fault, fault)
    event = say("two")
    with waits(), pytest.raises(BackendError) as failed:
        await service.append_event(session, event)
    assert failed.value.retryable
    assert texts(session) == ["one"]
    await service.append_event(session, event)
    assert texts(session) == _stored(fake) == ["one", "two"]
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
    assert texts(session) == _stored(fake) == ["one"]
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
    assert texts(session) == _stored(fake) == ["one"]
    fake.fail("append", Fault(delay=0.2))
    task = asyncio.ensure_future(service.append_event(session, say("two")))
    await until(lambda: len(fake.sent("append")) == 2)
    task.cancel()
    await service.close()
    assert _stored(fake) == ["one", "two"], "close waits for what is under way"


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


async def test_vtx_14_a_taken_id(fake: FakeVertex) -> None:
    service = sessions(fake)
    await service.create_session(**KEY)
    with pytest.raises(SessionAlreadyExistsError):  # the service says 400
        await service.create_session(**{**KEY, "user_id": "u2"})
    fake.fail("create", 409)
    with pytest.raises(SessionAlreadyExistsError):
        await service.create_session(**KEY)
    await service.close()


async def test_bey_5_express_mode(fake: FakeVertex) -> None:
    service = sessions(fake, project=None, location=None, token_source=None, api_key=" key ", engine="42")
    session = await service.create_session(app_name="shop", user_id="u1", session_id="s-1")
    await service.append_event(session, say("one"))
    assert texts(await service.get_session(app_name="shop", user_id="u1", session_id="s-1")) == ["one"]
    assert fake.requests[0].path == "/v1beta1/reasoningEngines/42/sessions"
    assert {request.headers.get("x-goog-api-key") for request in fake.requests} == {"key"}
    assert not [request for request in fake.requests if "authorization" in request.headers]
    assert "key=" not in str([request.query for request in fake.requests])
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


async def _made(fake: FakeVertex, count: int) -> None:
    """A session of ``count`` events, a second apart, made by another process."""
    service = sessions(fake)
    session = await service.create_session(**KEY)
    for number in range(count):
        await service.append_event(session, say(str(number), at=number, delta={"n": number}))
    await service.close()
    fake.requests.clear()


def _stored(fake: FakeVertex) -> list[str]:
    """The texts that the service holds."""
    events = fake.engine(ENGINE).sessions["s-1"].events
    return [item["content"]["parts"][0]["text"] for _, item in events]


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


async def test_ses_19_redelivery_looks_what_another_process_has_stored(fake: FakeVertex) -> None:
    """GEN-8, durable DUR-3: a run that is recovered elsewhere appends its own events again."""
    before, after = sessions(fake), sessions(fake)
    first = await before.create_session(**KEY)
    second = await after.get_session(**KEY)
    stored = await before.append_event(first, say("one", at=1, delta={"k": 1}))
    again = await after.append_event(second, stored.replace(author="again"), redelivery=True)
    assert again == stored
    assert (texts(second), second.state["k"]) == (["one"], 1)
    assert _stored(fake) == ["one"]
    await before.close()
    await after.close()


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
    await _made(fake, 1)
    service = sessions(fake)
    fake.fail(route, Fault(text=answer))
    with pytest.raises(BackendError) as failed:
        await service.get_session(**KEY)
    assert failed.value.code == "malformed"
    assert texts(await service.get_session(**KEY)) == ["0"]
    await service.close()


async def test_gen_6_a_list_without_end_is_an_error(fake: FakeVertex) -> None:
    await _made(fake, 0)
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
    assert _stored(fake) == ["one"]


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
