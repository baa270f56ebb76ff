"""Records to plain JSON values: the writing half of the codec's walker (services COD-1 … COD-6)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from hookwork.records.event import Event
from hookwork.records.jsontext import Fault
from hookwork.records.layout import ALWAYS, fields_of, inner, is_moment, is_record
from hookwork.records.times import is_epoch, rfc3339

Writer = Callable[[Any], Any]

_writers: dict[tuple[type, str, str], Writer] = {}
_plain = msgspec.to_builtins
_values = msgspec.structs.astuple


def writer_of(kind: type, keys: str, times: str) -> Writer:
    """The compiled writer of a record type for one casing and one form of times."""
    writer = _writers.get((kind, keys, times))
    if writer is None:
        writer = _writers[kind, keys, times] = _record_writer(kind, keys, times)
    return writer


def _record_writer(kind: type, keys: str, times: str) -> Writer:
    rows = [
        (
            field.name if keys == "snake" else field.wire,
            field.default,
            _value_writer(field.name, field.type, keys, times),
        )
        for field in fields_of(kind)
    ]
    # Written even as null. Such a field is its record's last one, so adding it behind the others keeps the order.
    nullable = [
        key
        for (key, default, _), field in zip(rows, fields_of(kind), strict=True)
        if default is ALWAYS and field.type is Any
    ]
    fold = _event_folder(keys) if kind is Event else None

    def write(record: Any) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for row, value in zip(rows, _values(record)):  # noqa: B905 - `extra` is the last value and has no row
            if value is not None:
                key, default, convert = row
                if value is not default:  # by identity, as msgspec leaves defaults out
                    document[key] = value if convert is None else convert(value)
        for key in nullable:
            document.setdefault(key, None)
        if fold is not None:
            fold(record, document)
        if record.extra:
            for key, value in record.extra.items():
                document.setdefault(key, _plain(value))
        return document

    return write


def _value_writer(name: str, annotation: Any, keys: str, times: str) -> Writer | None:
    """How one field's value is written; None when it goes out as it is."""
    kind, args = inner(annotation)
    if is_record(kind):
        return writer_of(kind, keys, times)
    if kind is bytes:
        return _base64_text
    if kind is datetime:
        return rfc3339 if times == "rfc3339" else _datetime_epoch
    if is_moment(name, kind):
        return _moment_writer(name) if times == "rfc3339" else None
    if kind in (tuple, list):
        item = _value_writer("", args[0], keys, times)
        return list if item is None else lambda values: [item(value) for value in values]
    if kind is dict:
        value_of = _value_writer("", args[1], keys, times)
        if value_of is not None and is_record(args[1]):
            return lambda values: {key: value_of(value) for key, value in values.items()}
        return _plain
    return _plain if kind is Any else None


def _base64_text(value: bytes) -> str:
    return b64encode(value).decode()


def _datetime_epoch(moment: datetime) -> float:
    return round(moment.timestamp(), 6)


def _moment_writer(name: str) -> Writer:
    def write(seconds: float) -> str:
        if not is_epoch(seconds):
            raise Fault(f"{name} lies outside years 1 to 9999; times are epoch seconds", name)
        return rfc3339(datetime.fromtimestamp(seconds, UTC))

    return write


def _event_folder(keys: str) -> Callable[[Event, dict[str, Any]], None]:
    """What of an event stands at another place on the wire, for google-adk forbids it where it belongs (ACT-3)."""
    if keys == "snake":
        nested, lifted = "excluded_events", "compaction_excluded_events"
    else:
        nested, lifted = "excludedEvents", "compactionExcludedEvents"

    def fold(event: Event, document: dict[str, Any]) -> None:
        routes = event.routes
        if routes:
            document["actions"].setdefault("route", route_form(routes))
        compaction = event.actions.compaction
        if compaction is not None and compaction.excluded_events:
            document[lifted] = document["actions"]["compaction"].pop(nested)

    return fold


def route_form(routes: tuple[str, ...]) -> str | list[str]:
    """The form of google-adk's ``actions.route``: one as text, several as a list."""
    return routes[0] if len(routes) == 1 else list(routes)
