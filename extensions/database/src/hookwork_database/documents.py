"""JSON documents of the google-adk layouts: ``event_data`` and ``state`` (services ADKDB-1, spec DBL-1, DBL-4)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from hookwork.errors import BackendError, ValidationError
from hookwork.records.codec import dump, load
from hookwork.records.event import NO_ACTIONS, Event
from hookwork.records.frozen import FrozenDict, freeze
from hookwork.records.jsontext import sanitised

logger = logging.getLogger("hookwork.database")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

NO_STATE = FrozenDict({})
#: Keys of ``actions`` that google-adk always writes and that say nothing when empty (DBL-1).
_NOISE = ("requested_auth_configs", "requestedAuthConfigs")
#: How `event_document` ends when the event has no actions and no node. They say nothing, so a reader cuts them off: two
#: fifths of the work of reading a plain event.
_NO_ACTIONS = (
    ',"actions":{"state_delta":{},"artifact_delta":{},"requested_auth_configs":{},"requested_tool_confirmations":{}}}'
)
_NO_NODE = ',"node_info":{"path":""}}'


def event_document(event: Event) -> str:
    """The ``event_data`` of an event: snake_case, epoch seconds, with the keys google-adk always writes (ADKDB-1).

    Raises:
        ValidationError: JSON cannot hold a value in it.
    """
    document = dump(event, "snake")
    actions = document.pop("actions")
    actions.setdefault("requested_auth_configs", {})
    actions.setdefault("requested_tool_confirmations", {})
    document.setdefault("node_info", {"path": ""})
    document["actions"] = actions
    return _encode(document).decode()


def event_of_document(data: Any, *, id: str, invocation_id: str | None) -> Event:
    """The event of an ``event_data`` value: text, bytes, or what a driver parsed already.

    Args:
        data: None is an event of which only the columns are known.
        id, invocation_id: the columns, which win over the document as they do in google-adk (ADKDB-2).

    Raises:
        ValidationError: the document does not describe an event.
    """
    if type(data) is str and data.endswith(_NO_ACTIONS):
        data = data[: -len(_NO_ACTIONS)] + "}"
        if data.endswith(_NO_NODE):
            data = data[: -len(_NO_NODE)] + "}"
    event = Event() if data is None else _loaded(data)
    if event.id == id and event.invocation_id == invocation_id and event.actions is NO_ACTIONS:
        return event
    changes: dict[str, Any] = {}
    if event.id != id:
        changes["id"] = id
    if invocation_id is not None and event.invocation_id != invocation_id:
        changes["invocation_id"] = invocation_id
    actions = event.actions
    if actions.extra:
        kept = {key: value for key, value in actions.extra.items() if value or key not in _NOISE}
        if len(kept) != len(actions.extra):
            actions = actions.replace(extra=kept or None)
    if actions.requested_tool_confirmations is not None and not actions.requested_tool_confirmations:
        actions = actions.replace(requested_tool_confirmations=None)
    if actions is not event.actions:
        changes["actions"] = actions
    return event.replace(**changes) if changes else event


def _loaded(data: Any) -> Event:
    """The event of a document; NaN and infinities, which only google-adk writes, become null (DBL-4)."""
    try:
        return load(Event, data, "snake")
    except ValidationError:
        if isinstance(data, bytes | str):
            marks = (b"NaN", b"Infinity") if isinstance(data, bytes) else ("NaN", "Infinity")
            if any(mark in data for mark in marks):  # type: ignore[operator]
                return load(Event, _lenient(data))
        raise


def _lenient(data: str | bytes) -> Any:
    found: list[str] = []

    def replaced(name: str) -> None:
        found.append(name)

    try:
        value = json.loads(data, parse_constant=replaced)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"not JSON: {error}") from None
    if found:
        logger.warning("replaced %d number(s) that JSON cannot hold (%s) by null in a stored row", len(found), found[0])
    return value


def state_document(state: Mapping[str, Any]) -> str:
    """The ``state`` column of a map."""
    return _encode(state).decode() if state else "{}"


def state_of_document(data: Any, where: str) -> FrozenDict:
    """The frozen map of a ``state`` column; None and null are empty.

    Raises:
        BackendError: not a JSON object; ``where`` names the row (services DB-21).
    """
    if data is None or data == "{}" or data == b"{}":
        return NO_STATE
    try:
        value = data
        if isinstance(data, str | bytes | bytearray | memoryview):
            try:
                value = _decode(data)
            except (msgspec.DecodeError, UnicodeEncodeError):
                value = sanitised(_lenient(bytes(data) if not isinstance(data, str | bytes) else data))
        if value is None:
            return NO_STATE
        if not isinstance(value, dict):
            raise ValidationError("not an object")
        return freeze(value)  # type: ignore[no-any-return]
    except (ValidationError, RecursionError) as error:
        raise BackendError(f"{where}: the stored state cannot be read: {error}", code="broken_row") from error
