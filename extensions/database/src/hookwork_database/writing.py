"""Appending an event: what a writer knows and wants, the outcomes, and the append in full (services DB-11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict
from hookwork_database.entered import Entered
from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import EVERYTHING, Layout
from hookwork_database.loaded import Marker, StoredEvent
from hookwork_database.plans import Plan, merge_app, merge_user
from hookwork_database.reading import Known, in_order, read_behind


class AppendRequest:
    """One event to store, and what its writer knows of the session. Made in the event loop, carried out elsewhere.

    Attributes:
        entered: the event. mark: the ordering column it gets when nobody else wrote meanwhile, microseconds.
        state: the session's own state with the event's delta, when the delta touches it; else None.
        ours: the state keys the handle wrote (services LOG-6); those of the event are added on need.
        refuse: every foreign event is stale (``foreign_appends="refuse"``).
        redelivery: a stored event of the id is not compared (services SES-19).
    """

    __slots__ = ("entered", "key", "known", "known_ids", "mark", "ours", "redelivery", "refuse", "state")

    def __init__(
        self,
        *,
        key: SessionKey,
        known: Known,
        known_ids: Mapping[str, int],
        entered: Entered,
        mark: int,
        state: FrozenDict | None,
        ours: set[str],
        refuse: bool,
        redelivery: bool,
    ) -> None:
        self.key = key
        self.known = known
        self.known_ids = known_ids
        self.entered = entered
        self.mark = mark
        self.state = state
        self.ours = ours
        self.refuse = refuse
        self.redelivery = redelivery


class Foreign(NamedTuple):
    """What others stored meanwhile: events behind the known ones, or (``whole``) the whole log read again."""

    events: list[StoredEvent]
    whole: bool
    marker: Marker
    state: FrozenDict


class Appended(NamedTuple):
    """It is stored. ``app`` and ``user`` are the shared states after it, None when it touches none."""

    mark: int
    raw: Any
    tie: Any
    foreign: Foreign | None
    app: tuple[Any, FrozenDict] | None
    user: tuple[Any, FrozenDict] | None


class Stale(NamedTuple):
    """It is not stored: foreign events touched these keys, or are refused altogether."""

    keys: list[str]
    marker: Marker


class Existing(NamedTuple):
    """An event of that id is stored already."""

    event: Event
    foreign: Foreign


class Missing(NamedTuple):
    """There is no such session (any more)."""


Outcome = Appended | Stale | Existing | Missing


def append_fully(layout: Layout, request: AppendRequest) -> Plan[Outcome]:
    """Store an event when the fast path did not: somebody else wrote, or the event is there already (DB-11)."""
    key, known, entered = request.key, request.known, request.entered
    rows = yield layout.row, key
    if not rows or layout.session_micros(rows[0][0], key) != known.created:
        return Missing()
    updated_raw, state_column = rows[0][1], rows[0][2]
    updated = layout.session_micros(updated_raw, key)
    found = yield layout.event, (*key, entered.event.id)
    newer = yield from read_behind(layout, key, known)
    whole = newer is None
    if newer is None:
        newer = in_order(layout, key, (yield layout.newest, (*key, EVERYTHING)))
    last_id = newer[-1].event.id if newer else known.marker.last_id
    marker = Marker(rows[0][0], updated_raw, updated, last_id, -1)
    state = layout.session_state(state_column, key)
    if found:
        return Existing(layout.stored(found[0], key).event, Foreign(newer, whole, marker, state))
    foreign = [stored.event for stored in newer if not whole or stored.event.id not in request.known_ids]
    touched: set[str] = set()
    for event in foreign:
        touched |= event.actions.state_delta.keys()
    common = sorted(touched & (request.ours | entered.event.actions.state_delta.keys()))
    if common or (foreign and request.refuse):
        return Stale(common, marker)
    newest = newer[-1].micros if newer else 0
    mark = max(request.mark, updated + 1, newest + 1)
    merged = FrozenDict({**state, **entered.own}) if entered.own else state
    written = yield from write_append(layout, request, mark, merged if entered.own else None)
    if not newer and not whole and updated_raw == known.marker.updated_raw:
        return written
    return written._replace(foreign=Foreign(newer, whole, marker, state))


def write_append(layout: Layout, request: AppendRequest, mark: int, state: FrozenDict | None) -> Plan[Appended]:
    """Write the shared states, the event and the session row, in this order (DB-12)."""
    key, entered = request.key, request.entered
    raw = layout.time(mark)
    app = user = None
    if entered.app:
        app = yield from merge_app(layout, key, entered.app, raw)
    if entered.user:
        user = yield from merge_user(layout, key, entered.user, raw)
    event = entered.event
    yield layout.insert_event, (*key, event.id, event.invocation_id, raw, *entered.data)
    tie = event.id if layout.last_tie is None else (yield layout.last_tie, ())[0][0]
    if state is None:
        yield layout.update_row, (raw, *key)
    else:
        yield layout.update_state, (raw, layout.encode_state(state), *key)
    return Appended(mark, raw, tie, None, app, user)
