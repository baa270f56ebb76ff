"""An event on its way into a database: complete, holdable, encoded (services SES-20, EVT-12, DB-11 step 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hookwork.errors import ValidationError
from hookwork.platform import new_uuid, timestamp
from hookwork.records.event import Event
from hookwork.records.session import split_state, without_temp
from hookwork.records.text import clean
from hookwork_database.keys import MAX_ID, MAX_INVOCATION_ID
from hookwork_database.layouts.base import Layout
from hookwork_database.moments import epoch_of_micros, micros_of_epoch

_REPLACED = "\ufffd".encode()


def _has_replaced(column: Any) -> bool:
    """Whether a column holds U+FFFD, by itself or because the codec put it there."""
    if type(column) is str:
        return "\ufffd" in column
    return type(column) is bytes and _REPLACED in column


class Entered(NamedTuple):
    """An event that can be stored.

    Attributes:
        event: as it is stored: with id and time, without ``temp:`` keys, its text holdable.
        data: the columns of the layout that hold what the event says.
        micros: its own time.
        app, user, own: its delta by scope, keys without prefix.
    """

    event: Event
    data: tuple[Any, ...]
    micros: int
    app: Mapping[str, Any]
    user: Mapping[str, Any]
    own: Mapping[str, Any]


_NOTHING: Mapping[str, Any] = {}


def enter(event: Event, layout: Layout) -> Entered:
    """Prepare an event; nothing outside is touched.

    Raises:
        ValidationError: its time lies outside years 1 to 9999, an id is too long, or JSON cannot hold a value in it.
    """
    stored = without_temp(event) if event.actions.state_delta else event
    changes: dict[str, Any] = {}
    moment = event.timestamp
    micros = micros_of_epoch(moment or timestamp())
    exact = epoch_of_micros(micros)
    if exact != moment:
        changes["timestamp"] = exact
    if not event.id:
        changes["id"] = new_uuid()
    if changes:
        stored = stored.replace(**changes)
    stored = layout.storable(stored)
    data = layout.encode(stored)
    if any(_has_replaced(column) for column in data):
        # The codec may have replaced text on the way out; what is shown live has to be what a reader finds.
        stored = layout.decode((clean(stored.invocation_id), *data), clean(stored.id))
    if len(stored.id) > MAX_ID:
        raise ValidationError(f"event.id has {len(stored.id)} characters; at most {MAX_ID} are kept", path="id")
    if len(stored.invocation_id) > MAX_INVOCATION_ID:
        raise ValidationError(
            f"event.invocation_id has {len(stored.invocation_id)} characters; at most {MAX_INVOCATION_ID} are kept",
            path="invocation_id",
        )
    data = layout.seal(data, stored)
    delta = stored.actions.state_delta
    if not delta:
        return Entered(stored, data, micros, _NOTHING, _NOTHING, _NOTHING)
    return Entered(stored, data, micros, *split_state(delta))
