"""What is read and written, in which order, whatever the database: plans that yield statements and get rows back.

A plan is a generator: it yields ``(sql, parameters)`` and is sent the rows. A database carries it out on its own
connection (`carried_out` does so where that blocks), inside one transaction that sees one snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict
from hookwork_database.documents import NO_STATE, state_of_document
from hookwork_database.entered import Entered
from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import EVERYTHING, Layout
from hookwork_database.loaded import LoadedSession, Marker, StoredEvent
from hookwork_database.windows import WindowIndex, pairs_closed, window_closed

T = TypeVar("T")
Rows = Sequence[Any]
Plan = Generator[tuple[str, tuple[Any, ...]], Rows, T]

#: How many rows are read at a time while a window is not whole.
_PAGE = 64


def carried_out(plan: Plan[T], execute: Callable[[str, tuple[Any, ...]], Rows]) -> T:
    """The result of a plan on a blocking connection."""
    try:
        statement = next(plan)
        while True:
            statement = plan.send(execute(*statement))
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]


class Want(NamedTuple):
    """How much of a log a caller needs.

    Attributes:
        kind: ``all``; ``last`` (the newest ``number``); ``since`` (the ordering column at or behind ``number``
            microseconds); ``tail`` (a window of at least ``number`` events, LOG-8); ``listed`` (nothing up to the
            update time ``number``, what came later); ``from`` (the absolute position ``number`` and what is behind,
            pairs whole).
    """

    kind: str
    number: int = 0


ALL = Want("all")
NOTHING = Want("last", 0)


class Known(NamedTuple):
    """What was loaded when a read was asked for; the event list only grows, so it can be looked at meanwhile."""

    created: int
    marker: Marker
    first: tuple[Any, Any] | None
    last: tuple[Any, Any] | None
    offset: int
    loaded: int
    events: list[Event]
    state: FrozenDict
    app: tuple[Any, FrozenDict]
    user: tuple[Any, FrozenDict]

    @property
    def end(self) -> int:
        """The absolute position behind the newest known event."""
        return self.offset + self.loaded

    @property
    def whole(self) -> bool:
        """Whether nothing is missing in front."""
        return self.offset == 0


def known_of(loaded: LoadedSession) -> Known:
    """What is loaded now."""
    return Known(
        loaded.created,
        loaded.marker,
        loaded.first,
        loaded.last,
        loaded.log.offset,
        len(loaded.log.events),
        loaded.log.events,
        loaded.state,
        loaded.app,
        loaded.user,
    )


class Snapshot(NamedTuple):
    """A session as one read found it.

    Attributes:
        fresh: ``events`` are the log from ``offset`` on and what was known does not count (nothing was known, or
            history has changed in front).
        earlier, newer: events in front of and behind the known ones (not fresh).
        end: the absolute position behind the newest stored event.
        state: None when unchanged.
        start: where a window begins, when one was wanted and the log is not whole.
        last: (raw, tie) of the newest stored event.
    """

    created: int
    marker: Marker
    app: tuple[Any, FrozenDict]
    user: tuple[Any, FrozenDict]
    state: FrozenDict | None
    fresh: bool
    offset: int
    events: list[StoredEvent]
    earlier: list[StoredEvent]
    newer: list[StoredEvent]
    end: int
    start: int | None
    last: tuple[Any, Any, int] | None


def read_session(layout: Layout, key: SessionKey, known: Known | None, want: Want) -> Plan[Snapshot | None]:
    """Open or refresh a session; None when there is none (services LOG-5, spec DBP-7)."""
    rows = yield layout.open, key
    if not rows:
        return None
    created_raw, updated_raw, state_column, app_column, user_column, last_id, twins = rows[0]
    created = layout.session_micros(created_raw, key)
    updated = layout.session_micros(updated_raw, key)
    marker = Marker(created_raw, updated_raw, updated, last_id or "", twins)
    app = shared_state(app_column, known.app if known else None, f"table app_states: app {key.app_name!r}")
    user = shared_state(user_column, known.user if known else None, f"table user_states: user {key.user_id!r}")
    if known is not None and (known.created != created or not (known.loaded or known.whole or want == NOTHING)):
        known = None
    if known is not None and known.marker == marker:
        earlier, start = yield from _in_front(layout, key, known, [], want)
        return Snapshot(created, marker, app, user, None, False, 0, [], earlier, [], known.end, start, None)
    state = layout.session_state(state_column, key)
    if known is not None:
        newer = yield from _behind(layout, key, known)
        if newer is not None:
            earlier, start = yield from _in_front(layout, key, known, newer, want)
            end = known.end + len(newer)
            return Snapshot(created, marker, app, user, state, False, 0, [], earlier, newer, end, start, None)
    return (yield from _fresh(layout, key, created, marker, app, user, state, want))


def shared_state(column: Any, known: tuple[Any, FrozenDict] | None, where: str) -> tuple[Any, FrozenDict]:
    """(column, map) of a shared state; a column that is what it was is not decoded again."""
    if known is not None and known[0] == column:
        return known
    return column, (NO_STATE if column is None else state_of_document(column, where))


def _behind(layout: Layout, key: SessionKey, known: Known) -> Plan[list[StoredEvent] | None]:
    """The events behind the known ones; None when history was changed in front of them (services DB-23)."""
    if known.last is None:
        rows = yield layout.newest, (*key, EVERYTHING)
        return _reversed(layout, key, rows)
    raw, tie = known.last
    rows = yield layout.behind, (*key, raw, raw, tie)
    newer = [layout.stored(row, key) for row in rows]
    if known.first is None or known.whole:
        counted = yield layout.count, key
        expected = known.end + len(newer)
    else:
        raw, tie = known.first
        counted = yield layout.count_from, (*key, raw, raw, tie)
        expected = known.loaded + len(newer)
    return newer if counted[0][0] == expected else None


def _reversed(layout: Layout, key: SessionKey, rows: Rows) -> list[StoredEvent]:
    """Events of rows that come newest first, in order."""
    events = [layout.stored(row, key) for row in rows]
    events.reverse()
    return events


def _fresh(
    layout: Layout,
    key: SessionKey,
    created: int,
    marker: Marker,
    app: tuple[Any, FrozenDict],
    user: tuple[Any, FrozenDict],
    state: FrozenDict,
    want: Want,
) -> Plan[Snapshot]:
    """Read as much of the log as is wanted."""
    start = None
    if want.kind == "all":
        events = _reversed(layout, key, (yield layout.newest, (*key, EVERYTHING)))
        offset = 0
    else:
        events = yield from _newest(layout, key, want)
        offset = (yield layout.count, key)[0][0] - len(events)
        if want.kind in ("tail", "from") and offset and events:
            first = events[0].raw, events[0].tie
            shown = [stored.event for stored in events]
            earlier, start = yield from _closed(layout, key, want, shown, first, offset)
            events = earlier + events
            offset -= len(earlier)
    last = (events[-1].raw, events[-1].tie, events[-1].micros) if events else None
    if last is None and offset:
        raw, tie = (yield layout.last_of_all, key)[0]
        last = raw, tie, layout.session_micros(raw, key)
    return Snapshot(created, marker, app, user, state, True, offset, events, [], [], offset + len(events), start, last)


def _newest(layout: Layout, key: SessionKey, want: Want) -> Plan[list[StoredEvent]]:
    """The newest events as far as a wish can be told in rows."""
    number = want.number
    if want.kind == "since":
        return [layout.stored(row, key) for row in (yield layout.since, (*key, layout.time(number)))]
    if want.kind == "listed":
        return [layout.stored(row, key) for row in (yield layout.after, (*key, layout.time(number)))]
    if want.kind == "from":
        number = max(0, (yield layout.count, key)[0][0] - number)
    return _reversed(layout, key, (yield layout.newest, (*key, number)))


def _in_front(
    layout: Layout, key: SessionKey, known: Known, newer: list[StoredEvent], want: Want
) -> Plan[tuple[list[StoredEvent], int | None]]:
    """What is wanted in front of the known events, and where a window begins (None: it does not have to be told)."""
    if known.whole or known.first is None:
        return [], None
    first, have = known.first, known.loaded + len(newer)
    if want.kind == "since":
        raw, tie = first
        rows = yield layout.before_down_to, (*key, raw, raw, tie, layout.time(want.number))
        return _reversed(layout, key, rows), None
    if want.kind in ("tail", "from"):
        events = [*known.events[: known.loaded], *(stored.event for stored in newer)]
        return (yield from _closed(layout, key, want, events, first, known.offset))
    number = EVERYTHING if want.kind == "all" else max(0, want.number - have if want.kind == "last" else 0)
    return (yield from _page(layout, key, first, number)), None


def _page(layout: Layout, key: SessionKey, first: tuple[Any, Any], number: int) -> Plan[list[StoredEvent]]:
    """The ``number`` events in front of the one at ``first``."""
    if number <= 0:
        return []
    raw, tie = first
    return _reversed(layout, key, (yield layout.before, (*key, raw, raw, tie, number)))


def _closed(
    layout: Layout, key: SessionKey, want: Want, events: list[Event], first: tuple[Any, Any], offset: int
) -> Plan[tuple[list[StoredEvent], int]]:
    """Read in front of ``events`` until the wanted window is whole (LOG-8): what was read, and where it begins.

    A tail begins where an invocation begins; a range from a position only keeps calls and responses together.
    """
    read: list[StoredEvent] = []
    end = offset + len(events)
    least = end - want.number if want.kind == "tail" else want.number
    page = max(0, offset - max(0, least))
    while True:
        if page:
            more = yield from _page(layout, key, first, page)
            if more:
                first = more[0].raw, more[0].tie
                read = more + read
                events = [stored.event for stored in more] + events
                offset -= len(more)
        index = WindowIndex()
        index.extend(events)
        close = window_closed if want.kind == "tail" else pairs_closed
        start, found_all = close(events, index, max(0, least - offset), len(events))
        if not offset or not events:
            return read, offset + start
        if not found_all:
            page = max(_PAGE, len(events))
            continue
        page = 0
        if want.kind == "tail" and start < len(events):
            raw, tie = first
            found = yield layout.first_of_invocation, (*key, raw, raw, tie, events[start].invocation_id)
            if found:
                rows = yield layout.before_down_to, (*key, raw, raw, tie, found[0][0])
                more = _reversed(layout, key, rows)
                first = more[0].raw, more[0].tie
                read, offset = more + read, offset - len(more)
                events = [stored.event for stored in more] + events
                continue
        return read, offset + start


# --- appending --------------------------------------------------------------------------------------------------------


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
    newer = yield from _behind(layout, key, known)
    whole = newer is None
    if newer is None:
        newer = _reversed(layout, key, (yield layout.newest, (*key, EVERYTHING)))
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


def merge_app(layout: Layout, key: SessionKey, delta: Mapping[str, Any], raw: Any) -> Plan[tuple[Any, FrozenDict]]:
    """Write app keys into the shared state: (column, map) as stored then."""
    where = f"table app_states: app {key.app_name!r}"
    statements = SharedState(layout.app_state, layout.lock_app, layout.ensure_app, layout.put_app)
    return (yield from _merge_shared(layout, statements, (key.app_name,), delta, raw, where))


def merge_user(layout: Layout, key: SessionKey, delta: Mapping[str, Any], raw: Any) -> Plan[tuple[Any, FrozenDict]]:
    """Write user keys into the shared state: (column, map) as stored then."""
    where = f"table user_states: user {key.user_id!r}"
    statements = SharedState(layout.user_state, layout.lock_user, layout.ensure_user, layout.put_user)
    return (yield from _merge_shared(layout, statements, key[:2], delta, raw, where))


class SharedState(NamedTuple):
    """The statements of one kind of shared state."""

    read: str
    lock: str
    ensure: str
    put: str


def _merge_shared(
    layout: Layout, sql: SharedState, key: tuple[str, ...], delta: Mapping[str, Any], raw: Any, where: str
) -> Plan[tuple[Any, FrozenDict]]:
    if not delta:
        rows = yield sql.read, key
        column = rows[0][0] if rows else None
        return column, state_of_document(column, where)
    if layout.merges:
        rows = yield sql.put, (*key, layout.encode_state(delta), raw)
        return rows[0][0], state_of_document(rows[0][0], where)
    rows = yield sql.lock, key
    if not rows and layout.lock:
        # Nothing to lock: the row of whoever comes first is locked then.
        yield sql.ensure, (*key, layout.encode_state({}), raw)
        rows = yield sql.lock, key
    old = state_of_document(rows[0][0], where) if rows else NO_STATE
    merged = FrozenDict({**old, **delta})
    column = layout.encode_state(merged)
    yield sql.put, (*key, column, raw)
    return column, merged


# --- creating, listing, deleting --------------------------------------------------------------------------------------


class Created(NamedTuple):
    """A new session's row and the shared states its user sees."""

    marker: Marker
    app: tuple[Any, FrozenDict]
    user: tuple[Any, FrozenDict]


def create_session(
    layout: Layout,
    key: SessionKey,
    micros: int,
    app: Mapping[str, Any],
    user: Mapping[str, Any],
    own: Mapping[str, Any],
) -> Plan[Created]:
    """Insert a session; the driver's unique violation on the first statement means the id is taken.

    Both shared rows are made when absent, since google-adk's append needs them (services ADKDB-3, DB-18).
    """
    raw = layout.time(micros)
    yield layout.insert_row, (*key, layout.encode_state(own), raw, raw)
    yield layout.ensure_app, (key.app_name, layout.encode_state({}), raw)
    yield layout.ensure_user, (key.app_name, key.user_id, layout.encode_state({}), raw)
    shared_app = yield from merge_app(layout, key, app, raw)
    shared_user = yield from merge_user(layout, key, user, raw)
    return Created(Marker(raw, raw, micros, "", 0), shared_app, shared_user)


class Listed(NamedTuple):
    """A session in a list."""

    key: SessionKey
    created: int
    marker: Marker
    state: FrozenDict
    app: tuple[Any, FrozenDict]
    user: tuple[Any, FrozenDict]
    has_events: bool


def list_sessions(layout: Layout, app_name: str, user_id: str | None) -> Plan[list[Listed]]:
    """The sessions of an app or of one user, by update time, user and id (services SES-9)."""
    rows = yield layout.app_state, (app_name,)
    column = rows[0][0] if rows else None
    app = column, state_of_document(column, f"table app_states: app {app_name!r}")
    if user_id is None:
        rows = yield layout.list_all, (app_name,)
    else:
        rows = yield layout.list_user, (app_name, user_id)
    users: dict[str, tuple[Any, FrozenDict]] = {}
    found = []
    for row in rows:
        key = SessionKey(*row[:3])
        user = users.get(key.user_id)
        if user is None:
            user = users[key.user_id] = shared_state(row[6], None, f"table user_states: user {key.user_id!r}")
        created, updated = layout.session_micros(row[3], key), layout.session_micros(row[4], key)
        marker = Marker(row[3], row[4], updated, "", -1)
        found.append(Listed(key, created, marker, layout.session_state(row[5], key), app, user, bool(row[7])))
    found.sort(key=lambda listed: (listed.marker.updated, listed.key.user_id, listed.key.id))
    return found


def delete_session(layout: Layout, key: SessionKey) -> Plan[None]:
    """Remove the events, then the session (services DB-17)."""
    yield layout.delete_events, key
    yield layout.delete_row, key
