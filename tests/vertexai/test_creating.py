"""Names, creating and deleting sessions, line by line (services §5.1, VTX-1 … VTX-7, VTX-11, CS-41)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.vertexai.fake import FakeVertex, Fault
from tests.vertexai.steps import ENGINE, KEY, SESSION, sessions, until, waits

from hookwork.errors import (
    BackendError,
    SessionAlreadyExistsError,
    SessionNotFoundError,
    UnsupportedOperationError,
    ValidationError,
)
from hookwork.services import SessionCapabilities
from hookwork_testkit.suites.base import say, texts
from hookwork_vertexai import VertexAiSessionService


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
        {"project": "p", "location": "l", "ttl": 0},
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
    short = sessions(fake, ttl=86400)
    await short.create_session(app_name="42", user_id="u1")
    await short.create_session(app_name="42", user_id="u1", ttl=90000)
    await short.create_session(app_name="42", user_id="u1", expire_time=at)
    bodies = [request.body for request in fake.sent("create")[1:]]
    assert [(body.get("ttl"), body.get("expireTime")) for body in bodies] == [
        ("86400s", None),
        ("90000s", None),
        (None, "2030-01-01T00:00:00Z"),
    ]
    await short.close()
    for wrong in (
        {"ttl": 1, "expire_time": at},
        {"ttl": 0},
        {"ttl": True},
        {"ttl": float("inf")},
        {"ttl": "1s"},
        {"expire_time": datetime(2030, 1, 1)},
    ):
        with pytest.raises(ValidationError):
            await service.create_session(app_name="42", user_id="u1", **wrong)  # type: ignore[arg-type]
    assert len(fake.sent("create")) == 4
    await service.close()


@pytest.mark.parametrize("bad", ["", " ", "a\ud83d", "a\x00", None, 5])
async def test_evt_1_ids_that_cannot_be_sent(fake: FakeVertex, bad: Any) -> None:
    service = sessions(fake)
    for call in (
        service.create_session(app_name="42", user_id=bad),
        service.get_session(app_name="42", user_id=bad, session_id="s-1"),
        service.get_session(app_name="42", user_id="u1", session_id=bad),
        service.delete_session(app_name="42", user_id=bad, session_id="s-1"),
        service.list_sessions(app_name=bad),
    ):
        with pytest.raises((ValidationError, SessionNotFoundError)):
            await call
    with pytest.raises(ValidationError):
        await service.create_session(app_name="42", user_id="u1", display_name="\ud83d")
    assert fake.requests == []
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
