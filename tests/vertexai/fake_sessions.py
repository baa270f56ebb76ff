"""Sessions and events of the fake (services FAKE-1 … FAKE-5)."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from tests.vertexai.shapes import SESSION, SESSION_EVENT, Refused, accepted, bad, camel, micros_of, shown_time

if TYPE_CHECKING:
    from tests.vertexai.fake import FakeVertex

YEAR = 365 * 86400 * 1_000_000
PAGE = 100
ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LITERAL = r'"((?:[^"\\]|\\.)*)"'


class Stored:
    """A session as the fake keeps it."""

    def __init__(self, name: str, document: dict[str, Any], created: int) -> None:
        self.name = name
        self.user = document["userId"]
        self.document = document
        self.created = self.updated = created
        self.state: dict[str, Any] = {}
        #: (time of the envelope, item), in the order in which they came.
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.hidden_polls = 0


class EngineStore:
    """One engine: its sessions by id, and the state that they share."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sessions: dict[str, Stored] = {}
        self.app: dict[str, Any] = {}
        self.users: dict[str, dict[str, Any]] = {}

    def write(self, session: Stored, delta: dict[str, Any]) -> None:
        """Apply a delta by scope; ``temp:`` keys are in no state."""
        for key, value in delta.items():
            if key.startswith("app:"):
                self.app[key] = value
            elif key.startswith("user:"):
                self.users.setdefault(session.user, {})[key] = value
            elif not key.startswith("temp:"):
                session.state[key] = value

    def shown(self, session: Stored) -> dict[str, Any]:
        """The Session message, its state merged."""
        merged = {**session.state, **self.app, **self.users.get(session.user, {})}
        expires = session.document.get("expireTime") or shown_time(session.created + YEAR)
        return {
            "name": session.name,
            "createTime": shown_time(session.created),
            "updateTime": shown_time(session.updated),
            **{key: value for key, value in session.document.items() if key not in ("sessionState", "ttl")},
            "expireTime": expires,
            **({"sessionState": merged} if merged else {}),
        }


class Sessions:
    """The methods of SessionService."""

    def __init__(self, fake: FakeVertex) -> None:
        self.fake = fake

    def create(self, engine: EngineStore, query: dict[str, str], body: Any) -> dict[str, Any]:
        document = accepted(SESSION, body)
        if not document.get("userId"):
            raise bad("The user id is required.", "session.user_id")
        if "ttl" in document and "expireTime" in document:
            raise bad("ttl and expire_time exclude each other.")
        id = query.get("sessionId") or self.fake.next_id()
        if not ID.fullmatch(id):
            raise bad(f"Invalid session id {id}.", "session_id")
        if id in engine.sessions:
            raise bad(f"Session {id} already exists.")
        now = self.fake.now()
        if "ttl" in document:
            document["expireTime"] = shown_time(now + round(float(document["ttl"][:-1]) * 1e6))
        session = Stored(f"{engine.name}/sessions/{id}", document, now)
        engine.sessions[id] = session
        engine.write(session, document.get("sessionState") or {})
        # The answer is the session as it was sent: no expiry, nothing of the state that others share (FAKE-1).
        given = {key: value for key, value in document.items() if key not in ("ttl", "expireTime")}
        times = {"createTime": shown_time(now), "updateTime": shown_time(now)}
        response = {"name": session.name, **times, **given}
        session.hidden_polls = self.fake.create_polls
        return self.fake.operation(
            f"{session.name}/operations",
            "CreateSession",
            response=response,
            kind="Session",
            polls=self.fake.create_polls,
        )

    def find(self, engine: EngineStore, id: str) -> Stored:
        session = engine.sessions.get(id)
        if session is None or self.fake.is_pending(f"{session.name}/operations"):
            raise Refused(404, "NOT_FOUND", f"The Session {engine.name}/sessions/{id} does not exist.")
        return session

    def get(self, engine: EngineStore, id: str) -> dict[str, Any]:
        return engine.shown(self.find(engine, id))

    def update(self, engine: EngineStore, id: str, query: dict[str, str], body: Any) -> dict[str, Any]:
        session = self.find(engine, id)
        document = accepted(SESSION, body)
        mask = {camel(name) for name in query.get("updateMask", "").split(",") if name} or set(document)
        for name in mask - {"name"}:
            if name == "sessionState":
                session.state = {}
                engine.write(session, document.get(name) or {})
            else:
                session.document[name] = document.get(name)
        session.updated = self.fake.now()
        return engine.shown(session)

    def delete(self, engine: EngineStore, id: str) -> dict[str, Any]:
        self.find(engine, id)
        del engine.sessions[id]
        place = engine.name.rpartition("/reasoningEngines/")[0]
        return self.fake.operation(f"{place}/operations", "Delete", response={}, kind=None)

    def list(self, engine: EngineStore, query: dict[str, str]) -> dict[str, Any]:
        sessions = list(engine.sessions.values())
        text = query.get("filter", "")
        if text:
            match = re.fullmatch(rf"\s*(user_id|userId|display_name|displayName)\s*=\s*{_LITERAL}\s*", text)
            if match is None:
                raise bad(f"Invalid filter: {text}")
            field, wanted = camel(match[1]), re.sub(r"\\(.)", r"\1", match[2])
            sessions = [session for session in sessions if session.document.get(field) == wanted]
        field, descending = _order(query.get("orderBy") or "createTime desc", ("createTime", "updateTime"))
        sessions.sort(
            key=lambda session: session.created if field == "createTime" else session.updated, reverse=descending
        )
        return page_of([engine.shown(session) for session in sessions], "sessions", query)

    def append(self, engine: EngineStore, id: str, body: Any) -> dict[str, Any]:
        session = self.find(engine, id)
        event = accepted(SESSION_EVENT, body)
        for field, name in (("author", "author"), ("invocationId", "invocation_id")):
            if not event.get(field):
                raise bad(f"The {name} is required.", f"event.{name}")
        micros = micros_of(event.setdefault("timestamp", "0001-01-01T00:00:00Z"), "timestamp")
        for name in ("content", "actions", "eventMetadata"):
            event.setdefault(name, {})
        event["name"] = f"{session.name}/events/{self.fake.next_id()}"
        session.events.append((micros, event))
        engine.write(session, event["actions"].get("stateDelta") or {})
        session.updated = self.fake.now()
        return {}

    def events(self, engine: EngineStore, id: str, query: dict[str, str]) -> dict[str, Any]:
        events = list(self.find(engine, id).events)
        for condition in filter(None, re.split(r"\s+AND\s+", query.get("filter", ""))):
            match = re.fullmatch(rf"\s*timestamp\s*(>=|<=|>|<|=)\s*{_LITERAL}\s*", condition)
            if match is None:
                raise bad(f"Invalid filter: {condition}")
            bound = micros_of(match[2], "filter")
            events = [event for event in events if _holds(event[0], match[1], bound)]
        _, descending = _order(query.get("orderBy") or "timestamp", ("timestamp",))
        events.sort(key=lambda event: event[0])
        items = [item for _, item in (reversed(events) if descending else events)]
        return page_of(items, "sessionEvents", query)


def _holds(value: int, sign: str, bound: int) -> bool:
    return {
        ">=": value >= bound,
        "<=": value <= bound,
        ">": value > bound,
        "<": value < bound,
        "=": value == bound,
    }[sign]


def _order(text: str, fields: tuple[str, ...]) -> tuple[str, bool]:
    field, _, direction = text.strip().partition(" ")
    if camel(field) not in fields or direction not in ("", "asc", "desc"):
        raise bad(f"Invalid order_by: {text}")
    return camel(field), direction == "desc"


def page_of(items: list[Any], key: str, query: dict[str, str]) -> dict[str, Any]:
    """One page; the token is opaque and belongs to its filter (FAKE-4)."""
    size = min(int(query.get("pageSize") or PAGE) or PAGE, PAGE)
    about = [query.get("filter", ""), query.get("orderBy", "")]
    start = 0
    if query.get("pageToken"):
        try:
            start, *known = json.loads(base64.urlsafe_b64decode(query["pageToken"]))
        except ValueError:
            raise bad("Invalid page token.") from None
        if known != about:
            raise bad("The page token was issued for another request.")
    found: dict[str, Any] = {key: items[start : start + size]} if items[start:] else {}
    if start + size < len(items):
        found["nextPageToken"] = base64.urlsafe_b64encode(json.dumps([start + size, *about]).encode()).decode()
    return found
