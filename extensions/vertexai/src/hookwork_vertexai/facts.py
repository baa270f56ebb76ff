"""What goes into Memory Bank and comes out of it (services VMB-3 … VMB-5)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hookwork.errors import ValidationError
from hookwork.records.content import Content, Part
from hookwork.records.event import Event
from hookwork.services import MemoryEntry
from hookwork_vertexai.named import content_fields
from hookwork_vertexai.names import last_segment
from hookwork_vertexai.wire import micros_of, micros_of_epoch, micros_of_text, moment_of, rfc3339

#: A request may have 8 MB (VMB-5); this much of it may be events.
EVENT_BYTES = 7_500_000

_SCOPES = (("app_name", "user_id"), ("user_id",))
# What the service lets a user choose, and what it makes itself.
_CHOSEN_ID = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_MADE_ID = re.compile(r"[0-9]{1,40}", re.ASCII)
_encode = msgspec.json.Encoder().encode


def check_scope_keys(keys: str | Sequence[str]) -> tuple[str, ...]:
    """The keys of a scope. Raises ValidationError for others than the two forms in use (VMB-2)."""
    found = tuple(key.strip() for key in keys.split(",")) if isinstance(keys, str) else tuple(keys)
    if found not in _SCOPES:
        raise ValidationError(
            f"scope_keys must be ('app_name', 'user_id') or ('user_id',), not {found!r}", path="scope_keys"
        )
    return found


def moment_micros(value: Any, key: str) -> int:
    """A time of the state in microseconds: a datetime, epoch seconds or ISO text (VMB-3, TRAP-22).

    Raises:
        ValidationError: it is none of them.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return micros_of(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return micros_of_epoch(value)
    raise ValidationError(f"state {key!r} must be a time with its zone: epoch seconds or ISO 8601 text", path=key)


def source_event(event: Event, *, identified: bool = False) -> dict[str, Any] | None:
    """An event as a source of memories; None when it says and shows nothing.

    Thoughts, calls and their answers are left out, and so are media of an event that would not fit into a request.
    """
    parts = [part for part in event.content.parts if _is_said(part)] if event.content is not None else []
    found = _source(event, parts, identified)
    if found is not None and len(_encode(found)) > EVENT_BYTES:
        found = _source(event, [part for part in parts if part.inline_data is None], identified)
        if found is not None and len(_encode(found)) > EVENT_BYTES:
            raise ValidationError(f"event {event.id!r} is too large to be remembered: Memory Bank takes 8 MB")
    return found


def _is_said(part: Part) -> bool:
    said = bool(part.text) or part.inline_data is not None
    return said and not part.thought


def _source(event: Event, parts: list[Part], identified: bool) -> dict[str, Any] | None:
    if not parts:
        return None
    role = (event.content.role if event.content is not None else None) or (
        "user" if event.author == "user" else "model"
    )
    found: dict[str, Any] = {"content": content_fields(Content(role=role, parts=parts))}
    if identified:
        found["eventId"] = event.id
        if event.timestamp:
            found["eventTime"] = rfc3339(micros_of_epoch(event.timestamp))
    return found


def batches(events: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The events in order, in as few lists as fit into a request each."""
    batch: list[Mapping[str, Any]] = []
    size = 0
    for event in events:
        more = len(_encode(event)) + 1
        if batch and size + more > EVENT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += more
    if batch:
        yield batch


def fact_of(entry: MemoryEntry) -> str:
    """The text of an entry. Raises ValidationError when it has none."""
    fact = entry.content.text.strip() if entry.content is not None else ""
    if not fact:
        raise ValidationError("a memory needs content with text", path="entries")
    return fact


def memory_id(id: str) -> str:
    """The id under which Memory Bank keeps an entry: its own, or one made from it where the service takes no such."""
    if _CHOSEN_ID.fullmatch(id):
        return id
    return f"m-{hashlib.sha256(id.encode('utf-8', 'replace')).hexdigest()[:40]}"


def memory_ids(id: str) -> list[str]:
    """The ids under which an entry may be kept, the likelier first: the service's own ids are numbers."""
    return [*([id] if _MADE_ID.fullmatch(id) else []), memory_id(id)]


def metadata_values(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata as the service types it; what is neither text, number nor truth value becomes JSON text."""
    found: dict[str, Any] = {}
    for name, value in (metadata or {}).items():
        if isinstance(value, bool):
            found[name] = {"boolValue": value}
        elif isinstance(value, int | float):
            found[name] = {"doubleValue": float(value)}
        elif value is not None:
            found[name] = {"stringValue": value if isinstance(value, str) else _encode(value).decode()}
    return found


def _plain(value: Any) -> Any:
    """A typed metadata value as it is in JSON."""
    if not isinstance(value, Mapping):
        return None
    found = next((value[kind] for kind in ("boolValue", "stringValue", "timestampValue") if kind in value), None)
    if found is not None:
        return found
    number = value.get("doubleValue")
    return int(number) if isinstance(number, float) and number.is_integer() else number


def entry_of(item: Mapping[str, Any]) -> MemoryEntry | None:
    """A retrieved memory (VMB-4); None when it is no fact."""
    memory = item.get("memory")
    fact = memory.get("fact") if isinstance(memory, Mapping) else None
    if not isinstance(memory, Mapping) or not isinstance(fact, str):
        return None
    updated, distance = memory.get("updateTime"), item.get("distance")
    metadata = memory.get("metadata")
    return MemoryEntry(
        id=last_segment(memory.get("name")),
        content=Content(role="user", parts=[Part(text=fact)]),
        author="user",
        timestamp=None if updated is None else moment_of(micros_of_text(updated, "the updateTime of a memory")),
        custom_metadata={name: _plain(value) for name, value in metadata.items()} if metadata else None,
        score=1.0 - distance if isinstance(distance, int | float) else None,
    )
