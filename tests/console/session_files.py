"""Stores, files and laws that the tests of ``hookwork sessions`` share."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from hookwork.records.codec import load
from hookwork.records.event import Event
from hookwork.services import SessionService
from hookwork_console.session_check import Checked, check
from hookwork_console.session_export import export_sessions
from hookwork_console.session_import import Imported, OnConflict, import_sessions
from hookwork_console.session_lines import by_session, entries
from hookwork_console.session_store import Place

_UPDATED = re.compile(rb',"lastUpdateTime":[0-9.e+]+\}$', re.MULTILINE)


def event(id: str, text: str = "", *, state: dict[str, Any] | None = None, **more: Any) -> Event:
    """An event with a text and a state delta; ``more`` are keys of the wire."""
    document: dict[str, Any] = {"id": id, "author": "user", "invocationId": "e-1", "timestamp": 1_700_000_000.5}
    document["actions"] = {"stateDelta": state or {}}
    if text:
        document["content"] = {"role": "user", "parts": [{"text": text}]}
    return load(Event, {**document, **more})


def file_of(*documents: Any) -> io.BytesIO:
    """A file with one document a line; bytes and text stand as they are."""
    lines = [
        d.encode() if isinstance(d, str) else d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents
    ]
    return io.BytesIO(b"\n".join(lines) + b"\n")


def session(id: str = "s1", user: str = "u1", state: Any = None, **more: Any) -> dict[str, Any]:
    """A session's line."""
    return {"id": id, "appName": "weather", "userId": user, "state": state or {}, "lastUpdateTime": 1.5, **more}


def event_line(id: str, state: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An event's line."""
    line = {"id": id, "timestamp": 1.5, "invocationId": "e-1", "author": "user", "actions": {"stateDelta": state or {}}}
    return {**line, **more}


async def exported(service: SessionService, app: str = "weather") -> bytes:
    """All sessions of an app."""
    lines: list[bytes] = []
    place = Place(service=service, app_name=app, user_id=None, name="store")
    async for done in export_sessions(service, await place.keys(), lines.append):
        assert not done.failure
    return b"".join(lines)


def timeless(text: bytes) -> bytes:
    """An export without its update times, which a store sets itself (services SES-20)."""
    return _UPDATED.sub(b"}", text)


async def imported(
    service: SessionService, stream: io.BytesIO, *, on_conflict: OnConflict = "refuse", **where: str
) -> tuple[Checked, list[Imported], list[str]]:
    """Check a file and store it: (what was found, what was stored, what a person was told)."""
    checked = await check(service, stream, "file.jsonl", **where)
    assert checked.problems == []
    done: list[Imported] = []
    notes: list[str] = []
    stream.seek(0)
    await import_sessions(
        service,
        by_session(entries(stream)),
        checked.planned,
        on_conflict=on_conflict,
        done=done.append,
        note=notes.append,
    )
    return checked, done, notes
