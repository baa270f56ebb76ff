"""The layout of ADK-Go: a column for each field of an event (services §4.1, DB-1 … DB-3)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

from hookwork.records.codec import dump, load
from hookwork.records.deleted import DELETED_KEYS, delta_of, is_deleting, with_delta
from hookwork.records.event import Event
from hookwork_database.layouts.base import Layout
from hookwork_database.moments import micros_of, micros_of_text, text_of

#: Column → key of the event's camelCase form. These hold JSON text or nothing.
_JSON = {
    "long_running_tool_ids_json": "longRunningToolIds",
    "routes_json": "routes",
    "output_json": "output",
    "node_info_json": "nodeInfo",
    "requested_input_json": "requestedInput",
    "content": "content",
    "grounding_metadata": "groundingMetadata",
    "custom_metadata": "customMetadata",
    "usage_metadata": "usageMetadata",
    "citation_metadata": "citationMetadata",
}
#: These hold text or nothing.
_TEXT = {
    "author": "author",
    "branch": "branch",
    "isolation_scope": "isolationScope",
    "error_code": "errorCode",
    "error_message": "errorMessage",
}
#: These hold true, false or nothing.
_FLAGS = {"partial": "partial", "turn_complete": "turnComplete", "interrupted": "interrupted"}
#: What Go's own text form of a time adds behind its offset, which its SQLite drivers may write: a zone's name.
_ZONE_NAME = re.compile(r" ([+-]\d\d):?(\d\d)( [A-Z][A-Za-z0-9+-]*)?$")
#: Key under ``actions`` for the exact time of an event whose column had to be moved behind the one before it. ADK-Go,
#: the only other reader of this layout, passes over keys it does not know (services ACT-3).
_EXACT_TIME = "timestamp"
#: What else of `Event.extra` stands under ``actions``, for the layout has no place for unknown keys of an event.
_KEPT = DELETED_KEYS

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class AdkGoLayout(Layout):
    """ADK-Go's tables in SQLite, as its GORM driver writes them."""

    name = "ADK-Go"
    payload = ("invocation_id", "actions", *_JSON, *_TEXT, *_FLAGS)
    dropped_fields = frozenset(
        {
            "avg_logprobs",
            "extra",
            "finish_reason",
            "input_transcription",
            "logprobs_result",
            "model_version",
            "output_transcription",
            "session_resumption_handle",
        }
    )

    def storable(self, event: Event) -> Event:
        kept = super().storable(event)
        if kept.extra is event.extra or not is_deleting(event):
            return kept
        return with_delta(kept, delta_of(event))

    def encode(self, event: Event) -> tuple[Any, ...]:
        document = dump(event, "camel", "rfc3339")
        actions = document["actions"]
        actions.pop("route", None)  # the routes have a column
        excluded = document.pop("compactionExcludedEvents", None)
        if excluded:
            actions["compaction"]["excludedEvents"] = excluded
        actions[_EXACT_TIME] = event.timestamp
        if _KEPT in document:
            actions[_KEPT] = document[_KEPT]
        columns: list[Any] = [_encode(actions)]
        columns += [_encode(document[key]).decode() if key in document else None for key in _JSON.values()]
        columns += [document.get(key) or None for key in _TEXT.values()]
        columns[1 + len(_JSON)] = event.author
        columns += [document.get(key) for key in _FLAGS.values()]
        return tuple(columns)

    def decode(self, columns: tuple[Any, ...], id: str) -> Event:
        invocation_id, actions, *rest = columns
        document: dict[str, Any] = {"id": id, "invocationId": invocation_id or ""}
        if actions:
            read = _decode(bytes(actions) if not isinstance(actions, str) else actions)
            exact = read.pop(_EXACT_TIME, None)
            if exact is not None:
                document["timestamp"] = exact
            if _KEPT in read:
                document[_KEPT] = read.pop(_KEPT)
            document["actions"] = read
        for key, value in zip((*_JSON.values(), *_TEXT.values(), *_FLAGS.values()), rest, strict=True):
            if value is None:
                continue
            if key in _FLAGS.values():
                document[key] = bool(value)
            elif key in _TEXT.values():
                document[key] = value
            else:
                document[key] = _decode(value)
        return load(Event, document)

    def time(self, micros: int) -> Any:
        return f"{text_of(micros)}+00:00"

    def micros(self, raw: Any) -> int:
        if isinstance(raw, datetime):
            return micros_of(raw)
        return micros_of_text(_ZONE_NAME.sub(r"\1:\2", raw.partition(" m=")[0]))
