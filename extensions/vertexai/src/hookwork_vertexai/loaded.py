"""What a process knows of a stored session, shared by all its handles (services LOG-1 … LOG-4, LOG-7).

A log is loaded whole or not at all, so a position in it is the number of stored events in front. A handle that shows
only what one request gave (`LooseSession`) finds its place when it is first used.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hookwork.errors import BackendError
from hookwork.records.event import Event, frozen_delta
from hookwork.records.frozen import FrozenDict
from hookwork.records.session import EventLog, Session, split_state
from hookwork_vertexai.envelopes import StoredEvent
from hookwork_vertexai.names import last_segment
from hookwork_vertexai.wire import micros_of_text, moment_of, whole


class SessionRow:
    """A session as the service describes it: who owns it, its times in microseconds, its merged state by scope."""

    __slots__ = ("app_state", "created", "id", "name", "own_state", "updated", "user_id", "user_state")

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.name: Any = document.get("name")
        self.id = last_segment(self.name)
        self.user_id = document.get("userId")
        self.created = micros_of_text(document.get("createTime"), "the createTime of a session")
        updated = document.get("updateTime")
        self.updated = self.created if updated is None else micros_of_text(updated, "the updateTime of a session")
        state = document.get("sessionState") or {}
        if not isinstance(state, dict):
            raise BackendError("Vertex AI: the state of a session is no object", code="malformed")
        named = {key: value for key, value in state.items() if key not in ("", "app:", "user:", "temp:")}
        self.app_state, self.user_state, self.own_state = map(FrozenDict, split_state(frozen_delta(whole(named))))


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> FrozenDict:
    """``old`` with the keys of ``new`` replaced, as a map of its own."""
    return FrozenDict({**old, **new})


class LoadedSession:
    """A session whose log is loaded; also the ``backend`` of its handles.

    Attributes:
        owner: the service that made it.
        name: the resource name that requests use. created: microseconds; tells incarnations of one id apart.
        marks: the time of each event's envelope, in microseconds. positions: event id → place in the log.
        unclear: ids of events whose append may have been carried out although it failed.
        successor: the one that replaces this one because something was stored in front of known events.
    """

    __slots__ = (
        "__weakref__",
        "alive",
        "app_state",
        "created",
        "id",
        "log",
        "marks",
        "name",
        "newest",
        "own_state",
        "owner",
        "positions",
        "successor",
        "unclear",
        "updated",
        "user_id",
        "user_state",
    )

    def __init__(self, owner: object, name: str, row: SessionRow) -> None:
        self.owner = owner
        self.name = name
        self.id = last_segment(name)
        self.user_id: Any = row.user_id
        self.created = row.created
        self.log = EventLog()
        self.marks: list[int] = []
        self.positions: dict[str, int] = {}
        self.newest = ""
        self.unclear: set[str] = set()
        self.alive = True
        self.successor: LoadedSession | None = None
        self.take_state(row)

    def take_state(self, row: SessionRow) -> None:
        """The state and update time as they are in the service now."""
        self.updated = row.updated
        self.app_state, self.user_state, self.own_state = row.app_state, row.user_state, row.own_state

    def add(self, stored: StoredEvent) -> None:
        """Add the event that follows the newest known one; its delta is not applied."""
        self.positions[stored.event.id] = len(self.log.events)
        self.marks.append(stored.micros)
        self.newest = stored.event.id
        self.log.append(stored.event)

    def apply(self, event: Event) -> None:
        """Apply the delta of an event that was just stored."""
        delta = event.actions.state_delta
        if delta:
            app, user, own = split_state(delta)
            self.app_state = merged(self.app_state, app) if app else self.app_state
            self.user_state = merged(self.user_state, user) if user else self.user_state
            self.own_state = merged(self.own_state, own) if own else self.own_state

    @property
    def last_mark(self) -> int:
        """The time of the newest envelope; 0 when there is no event."""
        return self.marks[-1] if self.marks else 0

    def revision_at(self, end: int) -> str:
        """The revision of the first ``end`` events (LOG-4)."""
        if end == 0:
            return f"{self.created:x}"
        id = self.newest if end == len(self.marks) else self.log.events[end - 1].id
        return f"{self.created:x}.{self.marks[end - 1]:x}.{id}"

    def time_at(self, end: int) -> datetime:
        """The update time with the first ``end`` events: that of the newest one's envelope (VTX-12, SES-20)."""
        return moment_of(self.marks[end - 1] if end else self.updated)

    def handle(self, app_name: str, start: int, log: EventLog | None = None) -> Session:
        """A new handle from ``start`` to the end; ``log`` is one of its own when it shows a selection."""
        end = len(self.marks)
        return Session(
            app_name=app_name,
            user_id=self.user_id,
            id=self.id,
            log=self.log if log is None else log,
            start=start,
            length=end - start if log is None else len(log.events),
            session_state=self.own_state,
            app_state=self.app_state,
            user_state=self.user_state,
            last_update_time=self.time_at(end),
            revision=self.revision_at(end),
            backend=self,
        )


class LooseSession:
    """The backend of a handle whose log is not loaded: of a list, or of a few events.

    Attributes:
        last_id: of the newest event the handle shows; ``""``: it shows none, and stands behind whatever is stored when
            it is first used.
    """

    __slots__ = ("created", "last_id", "name", "owner")

    def __init__(self, owner: object, name: str, created: int, last_id: str = "") -> None:
        self.owner = owner
        self.name = name
        self.created = created
        self.last_id = last_id

    def handle(
        self, app_name: str, row: SessionRow, events: list[StoredEvent], *, missing: bool, user_id: str
    ) -> Session:
        """The handle on a few events. ``missing``: others are, or may be, stored in front of them."""
        last = events[-1] if events else None
        return Session(
            app_name=app_name,
            user_id=user_id,
            id=last_segment(self.name),
            log=EventLog([stored.event for stored in events], offset=int(missing)),
            session_state=row.own_state,
            app_state=row.app_state,
            user_state=row.user_state,
            last_update_time=moment_of(row.updated if last is None else last.micros),
            revision=f"{row.created:x}.?" if last is None else f"{row.created:x}.{last.micros:x}.{last.event.id}",
            backend=self,
        )


class SelectedLog(EventLog):
    """The events that a filter left, when they are no unbroken range; ``first`` is the position of the first.

    ``offset`` counts what is missing, so that `end_of` holds here as well.
    """

    __slots__ = ("first",)

    def __init__(self, events: list[Event], *, first: int, missing: int) -> None:
        super().__init__(events, offset=missing)
        self.first = first


def end_of(session: Session) -> int:
    """The place behind the last event that a handle shows."""
    return session.log.offset + session.start + session.length


def extend(session: Session, loaded: LoadedSession, end: int) -> None:
    """Let a handle show the stored events up to ``end``; a log that is not the shared one gets them too."""
    if session.log is not loaded.log:
        for event in loaded.log.events[end_of(session) : end]:
            session.log.append(event)
    session.length = end - session.log.offset - session.start


def latest(loaded: LoadedSession) -> LoadedSession:
    """The one that took its place, however often."""
    while loaded.successor is not None:
        loaded = loaded.successor
    return loaded


def follow(session: Session, loaded: LoadedSession) -> LoadedSession:
    """Bring a handle of a replaced log over to the one in its place; it shows the same first and last event."""
    new = latest(loaded)
    if new is loaded:
        return new
    shown = list(session.events)
    if shown:
        start = new.positions.get(shown[0].id, 0) if session.start or session.log.offset else 0
        end = new.positions.get(shown[-1].id, -1) + 1
    else:
        place = end_of(session)
        before = loaded.log.events[place - 1].id if place else ""
        start = end = new.positions.get(before, -1) + 1
    session.log, session.start, session.length = new.log, start, max(end - start, 0)
    session.backend = new
    return new


class LoadedCache:
    """The loaded sessions of a service by resource name: the most recent ones, and all that a handle still holds.

    Args:
        size: how many are kept when nobody holds them; 0 keeps none.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._recent: OrderedDict[str, LoadedSession] = OrderedDict()
        self._alive: weakref.WeakValueDictionary[str, LoadedSession] = weakref.WeakValueDictionary()
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def lock(self, name: str) -> asyncio.Lock:
        """The lock of a session: its requests go one after the other, in the order they were asked for."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock

    def get(self, name: str) -> LoadedSession | None:
        """The loaded session of a name, now the most recent one."""
        loaded = self._alive.get(name)
        if loaded is not None:
            self._keep(loaded)
        return loaded

    def put(self, loaded: LoadedSession) -> None:
        """Make it the one of its name."""
        self._alive[loaded.name] = loaded
        self._keep(loaded)

    def _keep(self, loaded: LoadedSession) -> None:
        if self._size:
            self._recent[loaded.name] = loaded
            self._recent.move_to_end(loaded.name)
            if len(self._recent) > self._size:
                self._recent.popitem(last=False)

    def drop(self, name: str) -> None:
        """The session of a name is gone: its handles raise from now on."""
        self._recent.pop(name, None)
        loaded = self._alive.pop(name, None)
        if loaded is not None:
            loaded.alive = False
