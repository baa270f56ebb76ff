"""What a migration reads and writes, session by session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hookwork.errors import BackendError
from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict
from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import EVERYTHING, Layout
from hookwork_database.plans import Plan

_KEYS = "SELECT app_name, user_id, id FROM sessions ORDER BY app_name, user_id, id"


class Exported(NamedTuple):
    """A session as its database holds it.

    Attributes:
        created, updated: microseconds.
        events: each with its ordering column in microseconds.
        rejected: what could not be read: (event id, why).
    """

    key: SessionKey
    created: int
    updated: int
    state: FrozenDict
    app: FrozenDict
    user: FrozenDict
    events: list[tuple[Event, int]]
    rejected: list[tuple[str, str]]


def all_keys(_: Layout) -> Plan[list[SessionKey]]:
    """The keys of all sessions."""
    return [SessionKey(*row) for row in (yield _KEYS, ())]


def export_session(layout: Layout, key: SessionKey) -> Plan[Exported | None]:
    """Read a whole session; an event that cannot be read is reported and left out. Raises BackendError for the rest."""
    rows = yield layout.open, key
    if not rows:
        return None
    created, updated, state, app, user = rows[0][:5]
    events: list[tuple[Event, int]] = []
    rejected: list[tuple[str, str]] = []
    for row in reversed((yield layout.newest, (*key, EVERYTHING))):
        try:
            stored = layout.stored(row, key)
            events.append((stored.event, stored.micros))
        except BackendError as error:
            rejected.append((str(row[2]), str(error)))
    return Exported(
        key,
        layout.session_micros(created, key),
        layout.session_micros(updated, key),
        layout.session_state(state, key),
        layout.state(app, f"table app_states: app {key.app_name!r}"),
        layout.state(user, f"table user_states: user {key.user_id!r}"),
        events,
        rejected,
    )


def import_session(layout: Layout, session: Exported) -> Plan[int]:
    """Write a session as it was; the ordering column only moves where two events share a time. How many events."""
    key = session.key
    created = layout.time(session.created)
    yield layout.insert_row, (*key, layout.encode_state(session.state), created, created)
    mark = 0
    for event, micros in session.events:
        mark = max(micros, mark + 1)
        stored = layout.storable(event)
        columns = layout.seal(layout.encode(stored), stored)
        yield layout.insert_event, (*key, stored.id, stored.invocation_id, layout.time(mark), *columns)
    updated = layout.time(max(session.updated, mark))
    yield layout.update_row, (updated, *key)
    for put, where, state in _shared(layout, session):
        yield put, (*where, layout.encode_state(state), updated)
    return len(session.events)


def _shared(layout: Layout, session: Exported) -> list[tuple[str, tuple[str, ...], Mapping[str, Any]]]:
    key = session.key
    return [(layout.put_app, key[:1], session.app), (layout.put_user, key[:2], session.user)]


def count_sessions(_: Layout) -> Plan[int]:
    """How many sessions there are."""
    return int((yield "SELECT COUNT(*) FROM sessions", ())[0][0])
