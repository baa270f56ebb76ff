"""Sessions as the text files of a RAG corpus, and back (services RAG-1, RAG-2). The format is google-adk's."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from hookwork.records.content import Content, Part
from hookwork.records.event import Event
from hookwork.services import MemoryEntry

_PREFIX = "adk-memory-v1."
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Owner(NamedTuple):
    """Whose session a file holds, and which."""

    app_name: str
    user_id: str
    session_id: str


class Line(NamedTuple):
    """One remembered event."""

    author: str
    timestamp: float
    text: str


def display_name(owner: Owner) -> str:
    """The name of a session's file, from which its owner can be read."""
    return _PREFIX + ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in owner)


def owner_of(name: Any) -> Owner | None:
    """The owner that a display name says; None for a file that no memory wrote."""
    if not isinstance(name, str) or not name.startswith(_PREFIX):
        return None
    parts = name.removeprefix(_PREFIX).split(".")
    if len(parts) != 3:
        return None
    try:
        padded = [part + "=" * (-len(part) % 4) for part in parts]
        return Owner(*(base64.b64decode(part.encode(), altchars=b"-_", validate=True).decode() for part in padded))
    except (binascii.Error, ValueError):
        return None


def transcript(events: Iterable[Event]) -> str:
    """One line of JSON for each event with text: author, time, and its texts on one line."""
    lines = []
    for event in events:
        parts = event.content.parts if event.content is not None else []
        texts = [" ".join(part.text.splitlines()) for part in parts if part.text and not part.thought]
        if any(text.strip() for text in texts):
            line = {"author": event.author, "timestamp": event.timestamp, "text": ".".join(texts)}
            lines.append(_encode(line).decode())
    return "\n".join(lines)


def lines_of(chunk: Any) -> list[Line]:
    """The whole lines of a chunk; one that was cut, at the ends of a chunk, is left out."""
    found = []
    for text in chunk.split("\n") if isinstance(chunk, str) else ():
        try:
            line = _decode(text)
        except msgspec.DecodeError:
            continue
        if isinstance(line, Mapping) and isinstance(line.get("text"), str):
            author, timestamp = line.get("author"), line.get("timestamp")
            moment = float(timestamp) if isinstance(timestamp, int | float) else 0.0
            found.append(Line(author if isinstance(author, str) else "", moment, line["text"]))
    return found


def entry_of(session_id: str, line: Line) -> MemoryEntry:
    """A line as a memory. Its id follows from the session and the time."""
    try:
        moment = datetime.fromtimestamp(line.timestamp, UTC) if line.timestamp else None
    except (OverflowError, ValueError, OSError):
        moment = None
    return MemoryEntry(
        id=f"{session_id}/{line.timestamp!r}",
        content=Content(role="user" if line.author == "user" else "model", parts=[Part(text=line.text)]),
        author=line.author,
        timestamp=moment,
        session_id=session_id,
    )
