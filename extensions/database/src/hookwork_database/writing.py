"""Appending an event: what a writer knows and wants, the outcomes, and the append in full (services DB-11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from hookwork.records.deleted import applied
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
        entered: the event. more: those behind it that are stored with it or not at all (services BEY-11).
        own, app, user: the delta of all of them by scope, keys without prefix.
        mark: the ordering column it gets when nobody else wrote meanwhile, microseconds.
        state: the session's own state with the event's delta, when the delta touches it; else None.
        ours: the state keys the handle wrote (services LOG-6); those of the events are added on need.
        refuse: every foreign event is stale (``foreign_appends="refuse"``).
        redelivery: a stored event of the id is not compared (services SES-19).
        is_taken_back: whether foreign events take back what the event belongs to.
    """

    __slots__ = (
        "app", "entered", "is_taken_back", "key", "known", "known_ids", "mark", "more", "ours", "own", "redelivery",
        "refuse", "state", "user",
    )  # fmt: skip

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
        more: tuple[Entered, ...] = (),
        is_taken_back: Callable[[Iterable[Event]], bool] = lambda foreign: False,
    ) -> None:
        self.is_taken_back = is_taken_back
        self.more = more
        self.app, self.user, self.own = entered.app, entered.user, entered.own
        for one in more:
            self.app, self.user = {**self.app, **one.app}, {**self.user, **one.user}
            self.own = {**self.own, **one.own}
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
    """It is stored. ``app`` and ``user`` are the shared states after it, None when it touches none.

    ``more``: (mark, raw, tie) of each event behind the first.
    """

    mark: int
    raw: Any
    tie: Any
    foreign: Foreign | None
    app: tuple[Any, FrozenDict] | None
    user: tuple[Any, FrozenDict] | None
    more: tuple[tuple[int, Any, Any], ...] = ()


class Stale(NamedTuple):
    """It is not stored: foreign events touched these keys, took back what it belongs to, or are refused altogether."""

    keys: list[str]
    marker: Marker
    rewound: bool = False


class Existing(NamedTuple):
    """An event of that id is stored already. ``more``: the stored ones of the ids behind it, None where there is none.

    ``event`` is None only when one of those behind it is stored and it is not.
    """

    event: Event | None
    foreign: Foreign
    more: tuple[Event | None, ...] = ()


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
    found: list[Event | None] = []
    for one in (entered, *request.more):
        stored = yield layout.event, (*key, one.event.id)
        found.append(layout.stored(stored[0], key).event if stored else None)
    newer = yield from read_behind(layout, key, known)
    whole = newer is None
    if newer is None:
        newer = in_order(layout, key, (yield layout.newest, (*key, EVERYTHING)))
    last_id = newer[-1].event.id if newer else known.marker.last_id
    marker = Marker(rows[0][0], updated_raw, updated, last_id, -1)
    state = layout.session_state(state_column, key)
    if any(event is not None for event in found):
        return Existing(found[0], Foreign(newer, whole, marker, state), tuple(found[1:]))
    foreign = [other.event for other in newer if not whole or other.event.id not in request.known_ids]
    if request.is_taken_back(foreign):
        return Stale([], marker, rewound=True)
    touched: set[str] = set()
    for event in foreign:
        touched |= event.actions.state_delta.keys()
    common = sorted(touched & request.ours.union(*(one.event.actions.state_delta for one in (entered, *request.more))))
    if common or (foreign and request.refuse):
        return Stale(common, marker)
    newest = newer[-1].micros if newer else 0
    mark = max(request.mark, updated + 1, newest + 1)
    merged = applied(state, request.own) if request.own else None
    written = yield from write_append(layout, request, mark, merged)
    if not newer and not whole and updated_raw == known.marker.updated_raw:
        return written
    return written._replace(foreign=Foreign(newer, whole, marker, state))


def write_append(layout: Layout, request: AppendRequest, mark: int, state: FrozenDict | None) -> Plan[Appended]:
    """Write the shared states, the events and the session row, in this order (DB-12)."""
    key = request.key
    raw = layout.time(mark)
    app = user = None
    if request.app:
        app = yield from merge_app(layout, key, request.app, raw)
    if request.user:
        user = yield from merge_user(layout, key, request.user, raw)
    places: list[tuple[int, Any, Any]] = []
    for entered in (request.entered, *request.more):
        event, mark = entered.event, max(mark, entered.micros, places[-1][0] + 1 if places else 0)
        raw = layout.time(mark)
        yield layout.insert_event, (*key, event.id, event.invocation_id, raw, *entered.data)
        tie = event.id if layout.last_tie is None else (yield layout.last_tie, ())[0][0]
        places.append((mark, raw, tie))
    if state is None:
        yield layout.update_row, (raw, *key)
    else:
        yield layout.update_state, (raw, layout.encode_state(state), *key)
    return Appended(*places[0], None, app, user, tuple(places[1:]))
