"""How reads and writes are told apart from the database that carries them out: plans that yield statements.

A plan is a generator: it yields ``(sql, parameters)`` and is sent the rows. A database carries it out on its own
connection (`carried_out` does so where that blocks), inside one transaction that sees one snapshot. Here are the plans
of sessions as a whole; `reading` has those of logs, `writing` those of appends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from hookwork.records.deleted import DELETED, applied
from hookwork.records.frozen import FrozenDict
from hookwork_database.documents import NO_STATE
from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import Layout
from hookwork_database.loaded import Marker, StoredEvent
from hookwork_database.moments import FIRST

T = TypeVar("T")
Rows = Sequence[Any]
Plan = Generator[tuple[str, tuple[Any, ...]], Rows, T]


def carried_out(plan: Plan[T], execute: Callable[[str, tuple[Any, ...]], Rows]) -> T:
    """The result of a plan on a blocking connection."""
    try:
        statement = next(plan)
        while True:
            statement = plan.send(execute(*statement))
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]


# --- shared state -----------------------------------------------------------------------------------------------------


def shared_state(
    layout: Layout, column: Any, known: tuple[Any, FrozenDict] | None, where: str
) -> tuple[Any, FrozenDict]:
    """(column, map) of a shared state; a column that is what it was is not decoded again."""
    if known is not None and known[0] == column:
        return known
    return column, (NO_STATE if column is None else layout.state(column, where))


def merge_app(layout: Layout, key: SessionKey, delta: Mapping[str, Any], raw: Any) -> Plan[tuple[Any, FrozenDict]]:
    """Write app keys into the shared state: (column, map) as stored then."""
    where = f"table app_states: app {key.app_name!r}"
    statements = SharedState(layout.app_state, layout.lock_app, layout.ensure_app, layout.put_app, layout.rewrite_app)
    return (yield from _merge_shared(layout, statements, (key.app_name,), delta, raw, where))


def merge_user(layout: Layout, key: SessionKey, delta: Mapping[str, Any], raw: Any) -> Plan[tuple[Any, FrozenDict]]:
    """Write user keys into the shared state: (column, map) as stored then."""
    where = f"table user_states: user {key.user_id!r}"
    statements = SharedState(
        layout.user_state, layout.lock_user, layout.ensure_user, layout.put_user, layout.rewrite_user
    )
    return (yield from _merge_shared(layout, statements, key[:2], delta, raw, where))


class SharedState(NamedTuple):
    """The statements of one kind of shared state."""

    read: str
    lock: str
    ensure: str
    put: str
    rewrite: str


def _merge_shared(
    layout: Layout, sql: SharedState, key: tuple[str, ...], delta: Mapping[str, Any], raw: Any, where: str
) -> Plan[tuple[Any, FrozenDict]]:
    if not delta:
        rows = yield sql.read, key
        column = rows[0][0] if rows else None
        return column, layout.state(column, where)
    if layout.merges and not any(value is DELETED for value in delta.values()):
        rows = yield sql.put, (*key, layout.encode_state(delta), raw)
        return rows[0][0], layout.state(rows[0][0], where)
    rows = yield sql.lock, key
    if not rows and layout.lock:
        # Nothing to lock: the row of whoever comes first is locked then.
        yield sql.ensure, (*key, layout.encode_state({}), raw)
        rows = yield sql.lock, key
    old = layout.state(rows[0][0], where) if rows else NO_STATE
    merged = applied(old, delta)
    column = layout.encode_state(merged)
    if layout.merges:
        yield sql.rewrite, (column, raw, *key)  # the row is there: it was locked
    else:
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
    app = yield from _app_of(layout, app_name)
    if user_id is None:
        rows = yield layout.list_all, (app_name,)
    else:
        rows = yield layout.list_user, (app_name, user_id)
    found = _listed(layout, rows, app_name, user_id, app)
    found.sort(key=lambda listed: (listed.marker.updated, listed.key.user_id, listed.key.id))
    return found


#: A place in the list of sessions: update time as `Layout.marked` gives it, user, id. This one is before all.
ListPlace = tuple[Any, str, str]
LIST_START: ListPlace = (FIRST, "", "")


def list_page(
    layout: Layout, app_name: str, user_id: str | None, place: ListPlace, limit: int
) -> Plan[tuple[list[Listed], ListPlace | None]]:
    """At most ``limit`` sessions behind a place, and the place behind them when there are more (BEY-12)."""
    app = yield from _app_of(layout, app_name)
    mark, user, id = place
    raw = layout.unmarked(mark)
    behind = (raw, raw, user, user, id, limit + 1)
    if user_id is None:
        rows = yield layout.page_all, (app_name, *behind)
    else:
        rows = yield layout.page_user, (app_name, user_id, *behind)
    last = rows[limit - 1] if len(rows) > limit else None
    found = _listed(layout, rows[:limit], app_name, user_id, app)
    return found, None if last is None else (layout.marked(last[4]), last[1], last[2])


def _app_of(layout: Layout, app_name: str) -> Plan[tuple[Any, FrozenDict]]:
    rows = yield layout.app_state, (app_name,)
    column = rows[0][0] if rows else None
    return column, layout.state(column, f"table app_states: app {app_name!r}")


def _listed(
    layout: Layout, rows: Rows, app_name: str, user_id: str | None, app: tuple[Any, FrozenDict]
) -> list[Listed]:
    users: dict[str, tuple[Any, FrozenDict]] = {}
    found = []
    for row in rows:
        key = SessionKey(*row[:3])
        if key.app_name != app_name or user_id not in (None, key.user_id):
            continue  # another one, to which a loose collation answers as well (spec DBL-2)
        user = users.get(key.user_id)
        if user is None:
            user = users[key.user_id] = shared_state(layout, row[6], None, f"table user_states: user {key.user_id!r}")
        created, updated = layout.session_micros(row[3], key), layout.session_micros(row[4], key)
        marker = Marker(row[3], row[4], updated, "", -1)
        found.append(Listed(key, created, marker, layout.session_state(row[5], key), app, user, bool(row[7])))
    return found


def events_behind(
    layout: Layout, key: SessionKey, place: tuple[Any, Any] | None, limit: int
) -> Plan[list[StoredEvent]]:
    """At most ``limit`` events behind one at (raw, tie), or from the first on."""
    raw, tie = place if place is not None else (layout.time(FIRST), "")
    rows = yield layout.behind_page, (*key, raw, raw, tie, limit)
    return [layout.stored(row, key) for row in rows]


def delete_user(layout: Layout, app_name: str, user_id: str) -> Plan[list[SessionKey]]:
    """Remove the sessions of a user, their events and the user's state (services BEY-14): which sessions there were."""
    user = (app_name, user_id) * 2
    rows = yield layout.user_rows, user
    yield layout.delete_user_events, user
    yield layout.delete_user_rows, user
    yield layout.delete_user_state, user
    return [SessionKey(app_name, user_id, row[0]) for row in rows]


def delete_session(layout: Layout, key: SessionKey) -> Plan[None]:
    """Remove the events, then the session (services DB-17)."""
    yield layout.delete_events, key
    yield layout.delete_row, key
