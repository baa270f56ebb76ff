"""Reading a session: as much of its log as is wanted, in one snapshot (services LOG-5, LOG-8; spec DBP-7, DBP-10)."""

from __future__ import annotations

from typing import Any, NamedTuple

from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict
from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import EVERYTHING, Layout
from hookwork_database.loaded import LoadedSession, Marker, StoredEvent
from hookwork_database.plans import Plan, Rows, shared_state
from hookwork_database.windows import WindowIndex, newest_compaction, pairs_closed, window_closed

#: How many rows are read at a time while a window is not whole.
_PAGE = 64
#: Epoch seconds behind every event's.
_NEVER = 1e12


class Want(NamedTuple):
    """How much of a log a caller needs.

    Attributes:
        kind: ``all``; ``last`` (the newest ``number``); ``since`` (the ordering column at or behind ``number``
            microseconds); ``tail`` (a window of at least ``number`` events, LOG-8); ``listed`` (nothing up to the
            update time ``number``, what came later); ``from`` (the absolute position ``number`` and what is behind,
            pairs whole); ``summary`` (the ``tail`` back to what the newest compaction record does not cover).
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
    app = shared_state(layout, app_column, known.app if known else None, f"table app_states: app {key.app_name!r}")
    user = shared_state(layout, user_column, known.user if known else None, f"table user_states: user {key.user_id!r}")
    if known is not None and (known.created != created or not (known.loaded or known.whole or want == NOTHING)):
        known = None
    if want.kind == "summary":
        want = ALL if known is not None and known.whole else (yield from _summary(layout, key))
    if known is not None and known.marker == marker:
        earlier, start = yield from _in_front(layout, key, known, [], want)
        return Snapshot(created, marker, app, user, None, False, 0, [], earlier, [], known.end, start, None)
    state = layout.session_state(state_column, key)
    if known is not None:
        newer = yield from read_behind(layout, key, known)
        if newer is not None:
            earlier, start = yield from _in_front(layout, key, known, newer, want)
            end = known.end + len(newer)
            return Snapshot(created, marker, app, user, state, False, 0, [], earlier, newer, end, start, None)
    return (yield from _fresh(layout, key, created, marker, app, user, state, want))


def read_behind(layout: Layout, key: SessionKey, known: Known) -> Plan[list[StoredEvent] | None]:
    """The events behind the known ones; None when history was changed in front of them (services DB-23)."""
    if known.last is None:
        rows = yield layout.newest, (*key, EVERYTHING)
        return in_order(layout, key, rows)
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


def in_order(layout: Layout, key: SessionKey, rows: Rows) -> list[StoredEvent]:
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
        events = in_order(layout, key, (yield layout.newest, (*key, EVERYTHING)))
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


def _summary(layout: Layout, key: SessionKey) -> Plan[Want]:
    """How long a tail has to be to hold the newest compaction record and every event its span does not cover.

    Everything, where the database cannot be asked, where a rewind may have hidden a record, or where there is none.
    """
    if not layout.says or (yield layout.rewinds, key):
        return ALL
    records = [layout.stored(row, key) for row in (yield layout.compactions, key)]
    newest = newest_compaction([stored.event for stored in reversed(records)])
    if newest is None:
        return ALL
    at = records[len(records) - 1 - newest]
    span = at.event.actions.compaction
    assert span is not None, "it is a record"
    # Events that the record leaves out are taken by their earliest time: a tail that is longer is one as well.
    left_out = min((excluded.timestamp for excluded in span.excluded_events), default=_NEVER)
    bounds = (span.start_timestamp, span.end_timestamp, left_out)
    first = yield layout.uncovered, (*key, at.raw, at.raw, at.tie, *bounds)
    raw, tie = first[0] if first else (at.raw, at.tie)
    return Want("tail", (yield layout.count_from, (*key, raw, raw, tie))[0][0])


def _newest(layout: Layout, key: SessionKey, want: Want) -> Plan[list[StoredEvent]]:
    """The newest events as far as a wish can be told in rows."""
    number = want.number
    if want.kind == "since":
        return [layout.stored(row, key) for row in (yield layout.since, (*key, layout.time(number)))]
    if want.kind == "listed":
        return [layout.stored(row, key) for row in (yield layout.after, (*key, layout.time(number)))]
    if want.kind == "from":
        number = max(0, (yield layout.count, key)[0][0] - number)
    return in_order(layout, key, (yield layout.newest, (*key, number)))


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
        return in_order(layout, key, rows), None
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
    return in_order(layout, key, (yield layout.before, (*key, raw, raw, tie, number)))


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
    begun: set[str] = set()  # invocations of which nothing stands in front of what is read
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
        if want.kind == "tail" and start < len(events) and events[start].invocation_id not in begun:
            raw, tie = first
            begun.add(events[start].invocation_id)
            found = yield layout.first_of_invocation, (*key, events[start].invocation_id, raw, raw, tie)
            if found:
                rows = yield layout.before_down_to, (*key, raw, raw, tie, found[0][0])
                more = in_order(layout, key, rows)
                first = more[0].raw, more[0].tie
                read, offset = more + read, offset - len(more)
                events = [stored.event for stored in more] + events
                continue
        return read, offset + start
