"""Events on their way to Agent Engine and back (services VTX-4, VTX-16, VTX-17).

The whole event is ``rawEvent``. Two keys of our own may stand in it; other kits skip what they do not know:

- ``hookworkOrder``: the time of the envelope, when it is not the event's own. The service lists by that time, so an
  event that is older than its predecessor gets a later one there, and keeps its own in ``rawEvent``.
- ``hookworkText``: the event as JSON text, when a ``Struct`` would change it (whole numbers beyond 2**53), the service
  would refuse a field of it (``partMetadata``), or a reader would take it for google-adk's (empty maps).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hookwork.errors import BackendError, ValidationError
from hookwork.platform import new_uuid, timestamp
from hookwork.records.codec import dump, dump_json, load
from hookwork.records.event import Event
from hookwork.records.session import without_temp
from hookwork_vertexai.named import document_of, named_fields
from hookwork_vertexai.names import last_segment
from hookwork_vertexai.wire import (
    check_state,
    epoch_of_micros,
    is_exact,
    micros_of_epoch,
    micros_of_text,
    rfc3339,
    whole,
)

ORDER, TEXT = "hookworkOrder", "hookworkText"
_ALWAYS_WRITTEN = ("requestedAuthConfigs", "requestedToolConfirmations")
_REPLACED = "\ufffd".encode()


class StoredEvent(NamedTuple):
    """An event and its place in the service's order: the time of its envelope, in microseconds."""

    event: Event
    micros: int


class Entered(NamedTuple):
    """An event that can be sent: as it is stored, its own time in microseconds, and what goes into the request."""

    event: Event
    micros: int
    raw: dict[str, Any]
    named: dict[str, Any]

    def stored(self, order: int) -> StoredEvent:
        """The event at its place."""
        return StoredEvent(self.event, order)

    def request(self, order: int) -> dict[str, Any]:
        """The SessionEvent, whose envelope has the time ``order`` in microseconds."""
        event = self.event
        raw = self.raw if order == self.micros else {**self.raw, ORDER: rfc3339(order)}
        return {
            "author": event.author,
            "invocationId": event.invocation_id,
            "timestamp": rfc3339(order),
            **self.named,
            "rawEvent": raw,
        }


def enter(event: Event) -> Entered:
    """Prepare an event; nothing outside is touched.

    An unset id becomes a UUID, an unset time the current moment; other times are rounded to microseconds.

    Raises:
        ValidationError: the time is outside years 1 to 9999, author or invocation id is missing (VTX-4), a version
            of an artifact does not fit, or a state value is a number that the service cannot hold.
    """
    stored = without_temp(event) if event.actions.state_delta else event
    for name in ("author", "invocation_id"):
        if not getattr(event, name):
            raise ValidationError(f"event.{name} must be set; Agent Engine keeps no event without it", path=name)
    micros = micros_of_epoch(event.timestamp or timestamp())
    changes: dict[str, Any] = {}
    if epoch_of_micros(micros) != event.timestamp:
        changes["timestamp"] = epoch_of_micros(micros)
    if not event.id:
        changes["id"] = new_uuid()
    if changes:
        stored = stored.replace(**changes)
    check_state(stored.actions.state_delta)
    text = dump_json(stored)
    if _REPLACED in text:
        # The codec may have replaced text on the way out; what is shown live has to be what a reader finds.
        stored = load(Event, text)
    return Entered(stored, micros, _raw(stored), named_fields(stored))


def _raw(event: Event) -> dict[str, Any]:
    raw = dump(event)
    parts = (raw.get("content") or {}).get("parts") or []
    changed = not is_exact(raw) or any("partMetadata" in part for part in parts)
    changed = changed or any(raw["actions"].get(key) == {} for key in _ALWAYS_WRITTEN)
    text = dump_json(event).decode() if changed else None
    for part in parts:
        part.pop("partMetadata", None)
    if text is not None:
        raw[TEXT] = text
    return raw


def stored_event(item: Mapping[str, Any]) -> StoredEvent:
    """An item of ``sessionEvents``.

    Raises:
        BackendError: it is no event; its resource name says which.
    """
    name = item.get("name")
    shown = name if isinstance(name, str) else "?"
    order = micros_of_text(item.get("timestamp"), f"the timestamp of {shown}")
    try:
        raw = item.get("rawEvent")
        event = _of_raw(item, raw, order) if raw else _of_fields(item, order)
        if not event.id:
            event = event.replace(id=last_segment(name))
    except (ValidationError, TypeError, AttributeError, ValueError) as error:
        raise BackendError(f"Vertex AI: {shown} cannot be read as an event: {error}", code="malformed") from error
    return StoredEvent(event, order)


def _of_raw(item: Mapping[str, Any], raw: dict[str, Any], order: int) -> Event:
    """The envelope has the last word on who, in which invocation and when, unless we ordered it ourselves (VTX-17)."""
    text = raw.get(TEXT)
    event = load(Event, text if isinstance(text, str) else whole(_foreign(raw)))
    changes: dict[str, Any] = {}
    if raw.get(ORDER) is None or micros_of_text(raw[ORDER], "hookworkOrder") != order:
        changes["timestamp"] = epoch_of_micros(order)
    for field, key in (("invocation_id", "invocationId"), ("author", "author")):
        if item.get(key):
            changes[field] = item[key]
    changed = {field: value for field, value in changes.items() if getattr(event, field) != value}
    return event.replace(**changed) if changed else event


def _foreign(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The document without our own keys and without the empty maps that google-adk writes always (VTX-18)."""
    kept = {key: value for key, value in raw.items() if key not in (ORDER, TEXT)}
    actions = kept.get("actions")
    if isinstance(actions, Mapping):
        kept["actions"] = {key: value for key, value in actions.items() if value != {} or key not in _ALWAYS_WRITTEN}
    return kept


def _of_fields(item: Mapping[str, Any], order: int) -> Event:
    document = {
        **whole(document_of(item)),
        "id": last_segment(item.get("name")),
        "timestamp": epoch_of_micros(order),
        "author": item.get("author") or "",
        "invocationId": item.get("invocationId") or "",
    }
    return load(Event, document)
