"""The fake behaves as the services were seen to (services §5.4); each line over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.vertexai.fake import NUMBER, FakeVertex, Fault
from tests.vertexai.steps import ENGINE

EVENT: dict[str, Any] = {"author": "a", "invocationId": "i", "timestamp": "2025-01-01T00:00:00.5Z"}


class Client:
    """Requests to the fake."""

    def __init__(self, fake: FakeVertex) -> None:
        self.http = httpx.Client(base_url=fake.url + "/v1beta1/", timeout=10)

    def __call__(self, method: str, name: str, body: Any = None, **params: Any) -> httpx.Response:
        return self.http.request(method, name, json=body, params=params)

    def create(self, id: str = "", **session: Any) -> dict[str, Any]:
        answer = self("POST", f"{ENGINE}/sessions", {"userId": "u", **session}, **({"sessionId": id} if id else {}))
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def append(self, id: str, **event: Any) -> None:
        answer = self("POST", f"{ENGINE}/sessions/{id}:appendEvent", {**EVENT, **event})
        assert (answer.status_code, answer.json()) == (200, {}), answer.text

    def get(self, name: str, **params: Any) -> dict[str, Any]:
        answer = self("GET", name, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]


@pytest.fixture
def client(fake: FakeVertex) -> Any:
    made = Client(fake)
    yield made
    made.http.close()


def test_fake_1_create_answers_a_finished_operation(client: Client, fake: FakeVertex) -> None:
    client.create(sessionState={"app:shared": 1})
    made = client.create("s-1", sessionState={"k": 5}, ttl="90000s")
    name = f"projects/{NUMBER}/locations/us-central1/reasoningEngines/42/sessions/s-1"
    assert made["done"] is True
    assert made["name"].startswith(f"{name}/operations/")
    assert made["metadata"]["@type"].endswith("v1beta1.CreateSessionOperationMetadata")
    assert set(made["metadata"]["genericMetadata"]) == {"createTime", "updateTime"}
    response = made["response"]
    assert response["name"] == name
    assert set(response) == {"@type", "name", "createTime", "updateTime", "userId", "sessionState"}, (
        "as given, no expiry"
    )
    assert response["sessionState"] == {"k": 5}
    assert client.create()["response"]["name"].rpartition("/")[2].isdecimal()


def test_fake_1_a_create_that_takes_a_while(client: Client, fake: FakeVertex) -> None:
    fake.create_polls = 2
    made = client.create("s-1")
    assert "done" not in made
    assert client("GET", f"{ENGINE}/sessions/s-1").status_code == 404
    assert "done" not in client.get(made["name"])
    assert client.get(made["name"])["done"] is True
    assert client.get(f"{ENGINE}/sessions/s-1")["userId"] == "u"


def test_fake_2_get_merges_the_state_and_knows_the_expiry(client: Client) -> None:
    client.create("s-1", sessionState={"k": 1, "app:a": 1, "user:u": 1, "temp:t": 1})
    client.create("s-2", sessionState={"app:b": 2})
    client("POST", f"{ENGINE}/sessions", {"userId": "v", "sessionState": {"user:u": 9}})
    got = client.get(f"{ENGINE}/sessions/s-1")
    assert got["sessionState"] == {"k": 1, "app:a": 1, "app:b": 2, "user:u": 1}
    assert got["createTime"][:4] != got["expireTime"][:4], "a year later"
    client.create("s-3", ttl="86400s")
    assert client.get(f"{ENGINE}/sessions/s-3")["expireTime"] > client.get(f"{ENGINE}/sessions/s-3")["createTime"]
    elsewhere = ENGINE.replace("/42", "/43")
    client("POST", f"{elsewhere}/sessions", {"userId": "u"}, sessionId="s-1")
    assert "sessionState" not in client.get(f"{elsewhere}/sessions/s-1")


def test_fake_3_append_applies_deltas_by_scope(client: Client) -> None:
    before = client.create("s-1")["response"]["updateTime"]
    client.append("s-1", actions={"stateDelta": {"k": 1, "app:a": 2, "temp:t": 3}})
    got = client.get(f"{ENGINE}/sessions/s-1")
    assert got["sessionState"] == {"k": 1.0, "app:a": 2.0}
    assert got["updateTime"] > before
    client.append("s-1", timestamp=None)
    timeless, event = client.get(f"{ENGINE}/sessions/s-1/events")["sessionEvents"]
    assert event["actions"] == {"stateDelta": {"app:a": 2.0, "k": 1.0, "temp:t": 3.0}}, "kept as it came"
    assert event["name"].rpartition("/")[2].isdecimal()
    assert timeless["timestamp"] == "0001-01-01T00:00:00Z"
    assert {key: timeless[key] for key in ("content", "actions", "eventMetadata")} == {
        "content": {},
        "actions": {},
        "eventMetadata": {},
    }


def test_fake_4_order_and_pages(client: Client) -> None:
    for number in range(101):
        client.create(f"s-{number}")
    page = client.get(f"{ENGINE}/sessions")
    assert len(page["sessions"]) == 100
    assert page["sessions"][0]["name"].endswith("/s-100"), "newest first"
    rest = client.get(f"{ENGINE}/sessions", pageToken=page["nextPageToken"])
    assert [session["name"].rpartition("/")[2] for session in rest["sessions"]] == ["s-0"]
    assert "nextPageToken" not in rest
    refused = client("GET", f"{ENGINE}/sessions", pageToken=page["nextPageToken"], filter='user_id="u"')
    assert refused.status_code == 400
    for second in (3, 1, 2):
        client.append("s-1", timestamp=f"2025-01-01T00:00:0{second}Z")
    name = f"{ENGINE}/sessions/s-1/events"
    assert [event["timestamp"][18] for event in client.get(name)["sessionEvents"]] == ["1", "2", "3"]
    newest = client.get(name, orderBy="timestamp desc", pageSize=1)
    assert newest["sessionEvents"][0]["timestamp"] == "2025-01-01T00:00:03Z"
    later = client.get(name, filter='timestamp>="2025-01-01T00:00:02Z"')
    assert len(later["sessionEvents"]) == 2
    assert client("GET", name, filter="author=x").status_code == 400


def test_fake_5_errors(client: Client) -> None:
    client.create("s-1")

    def refused(method: str, name: str, body: Any = None, **params: Any) -> tuple[int, str, str]:
        answer = client(method, name, body, **params)
        error = answer.json()["error"]
        assert error["code"] == answer.status_code
        fields = [violation["field"] for detail in error["details"] for violation in detail.get("fieldViolations", ())]
        return answer.status_code, error["status"], ",".join(fields) or error["message"]

    taken = refused("POST", f"{ENGINE}/sessions", {"userId": "u"}, sessionId="s-1")
    assert taken == (400, "INVALID_ARGUMENT", "Session s-1 already exists.")
    for method, name in (("GET", "none"), ("DELETE", "none"), ("GET", "none/events")):
        assert refused(method, f"{ENGINE}/sessions/{name}")[:2] == (404, "NOT_FOUND")
    assert refused("POST", f"{ENGINE}/sessions/none:appendEvent", EVENT)[0] == 404
    assert refused("POST", f"{ENGINE}/sessions", {"userId": "u"}, sessionId="S_1")[0] == 400
    assert refused("POST", f"{ENGINE}/sessions", {})[2] == "session.user_id"
    append = f"{ENGINE}/sessions/s-1:appendEvent"
    assert refused("POST", append, {**EVENT, "author": ""})[2] == "event.author"
    assert refused("POST", append, {**EVENT, "invocationId": None})[2] == "event.invocation_id"
    assert "Unknown name" in refused("POST", append, {**EVENT, "colour": "red"})[2]
    deleted = client("DELETE", f"{ENGINE}/sessions/s-1").json()
    assert deleted["name"].startswith(f"projects/{NUMBER}/locations/us-central1/operations/")
    assert (deleted["done"], deleted["response"]) == (True, {"@type": "type.googleapis.com/google.protobuf.Empty"})


async def test_fake_6_what_can_go_wrong(fake: FakeVertex) -> None:
    url = f"{fake.url}/v1beta1/{ENGINE}/sessions"
    async with httpx.AsyncClient(timeout=0.5) as http:
        fake.fail("create", 429, 503, Fault(text="{oops"))
        statuses = [(await http.post(url, json={"userId": "u"})).status_code for _ in range(2)]
        assert statuses == [429, 503]
        assert fake.engines == {}, "not carried out"
        assert (await http.post(url, json={"userId": "u"}, params={"sessionId": "s-1"})).text == "{oops"
        fake.fail("append", Fault(drop=True, carried_out=True), Fault(delay=5))
        for error in (httpx.RemoteProtocolError, httpx.ReadTimeout):
            with pytest.raises(error):
                await http.post(f"{url}/s-1:appendEvent", json=EVENT)
        assert len(fake.engine(ENGINE).sessions["s-1"].events) == 1
        answers = await asyncio.gather(*(http.get(url) for _ in range(3)))
        assert {answer.status_code for answer in answers} == {200}
