"""What a process knows of a stored session: its log as far as it was read, and where the store stood then.

One `LoadedSession` per session and incarnation is shared by all handles (services LOG-7). Positions are absolute: the
number of stored events in front. They stay valid however much of the log is loaded, because the log only grows, behind
by appends and in front by reading more.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict
from hookwork.records.session import EventLog, Session
from hookwork_database.documents import NO_STATE
from hookwork_database.keys import SessionKey
from hookwork_database.moments import moment_of


class StoredEvent(NamedTuple):
    """An event and its place in the store's order.

    Attributes:
        micros: the ordering column in microseconds.
        raw: the ordering column as the driver gives it, exact enough to compare with.
        tie: what orders rows of one time: the event id, or the row id where the layout says so.
    """

    event: Event
    micros: int
    raw: Any
    tie: Any


class Marker(NamedTuple):
    """Where a session stands: its row and its newest event (spec DBP-8). ``*_raw`` are as the driver gives them.

    ``twins`` counts the events at the update time: one that google-adk stores at an equal time, under an id that sorts
    before the newest one's, would show nowhere else. -1: not known, which equals nothing that is read.
    """

    created_raw: Any
    updated_raw: Any
    updated: int
    last_id: str
    twins: int


class LoadedSession:
    """A session as far as it is loaded; also the ``backend`` of its handles.

    Attributes:
        owner: the service that made it.
        marker: where the store stood when it was last read or written.
        created: microseconds; tells incarnations of one id apart.
        first, last: (raw, tie) of the first loaded and of the newest stored event; None when there is none.
        marks: the ordering column of each loaded event, in microseconds.
        positions: event id → absolute position, of the loaded events.
        app, user: (text, map) of the shared states as last read, to spare decoding an unchanged text.
        waiting, busy: appends in order; one is on its way at a time.
        successor: the one that replaces this one because history was changed in front of it (services DB-23).
    """

    __slots__ = (
        "__weakref__",
        "alive",
        "app",
        "busy",
        "created",
        "first",
        "key",
        "last",
        "last_micros",
        "log",
        "marker",
        "marks",
        "owner",
        "positions",
        "state",
        "successor",
        "user",
        "waiting",
    )

    def __init__(self, owner: object, key: SessionKey, created: int, marker: Marker, offset: int = 0) -> None:
        self.owner = owner
        self.key = key
        self.created = created
        self.marker = marker
        self.state: FrozenDict = NO_STATE
        self.app: tuple[Any, FrozenDict] = (None, NO_STATE)
        self.user: tuple[Any, FrozenDict] = (None, NO_STATE)
        self.log = EventLog(offset=offset)
        self.marks: list[int] = []
        self.positions: dict[str, int] = {}
        self.first: tuple[Any, Any] | None = None
        self.last: tuple[Any, Any] | None = None
        self.last_micros = 0
        self.alive = True
        self.busy = False
        self.waiting: deque[Any] = deque()
        self.successor: LoadedSession | None = None

    @property
    def end(self) -> int:
        """The absolute position behind the newest known event."""
        return self.log.offset + len(self.log.events)

    def add(self, stored: StoredEvent) -> None:
        """Add the event that follows the newest known one."""
        event, micros, raw, tie = stored
        self.positions[event.id] = self.log.offset + len(self.log.events)
        if self.first is None:
            self.first = raw, tie
        self.last = raw, tie
        self.last_micros = micros
        self.marks.append(micros)
        self.log.append(event)

    def add_in_front(self, earlier: list[StoredEvent]) -> None:
        """Put older events in front, in a new log: the handles that are out show theirs by its own positions."""
        if not earlier:
            return
        log = EventLog([stored.event for stored in earlier], offset=self.log.offset - len(earlier))
        for position, stored in enumerate(earlier, log.offset):
            self.positions[stored.event.id] = position
        for event in self.log.events:
            log.append(event)
        self.marks[0:0] = [stored.micros for stored in earlier]
        self.first = earlier[0].raw, earlier[0].tie
        if self.last is None:
            self.last, self.last_micros = (earlier[-1].raw, earlier[-1].tie), earlier[-1].micros
        self.log = log

    def revision_at(self, end: int) -> str:
        """The revision of the first ``end`` stored events (services LOG-4)."""
        if end >= self.end:
            return f"{self.created:x}.{self.marker.updated:x}.{self.marker.last_id}"
        index = end - self.log.offset - 1
        if index < 0:
            return f"{self.created:x}.{self.created:x}."
        return f"{self.created:x}.{self.marks[index]:x}.{self.log.events[index].id}"

    def updated_at(self, end: int) -> int:
        """The update time, in microseconds, that the session had with its first ``end`` events."""
        if end >= self.end:
            return self.marker.updated
        index = end - self.log.offset - 1
        return self.marks[index] if index >= 0 else self.created

    def handle(self, start: int, end: int, state: FrozenDict, log: EventLog | None = None) -> Session:
        """A new handle on the stored events ``start`` to ``end``; ``log`` is one of its own for a selection."""
        log = self.log if log is None else log
        app_name, user_id, id = self.key
        return Session(
            app_name=app_name,
            user_id=user_id,
            id=id,
            log=log,
            start=start - log.offset,
            length=end - start,
            session_state=state,
            app_state=self.app[1],
            user_state=self.user[1],
            last_update_time=moment_of(self.updated_at(end)),
            revision=self.revision_at(end),
            backend=self,
        )


class SelectedLog(EventLog):
    """The events a filter left, when they are no unbroken range; ``first`` is the absolute position of the first.

    ``offset`` counts what is missing, so that `end_of` holds here as well.
    """

    __slots__ = ("first",)

    def __init__(self, events: Iterable[Event], *, first: int, missing: int) -> None:
        super().__init__(list(events), offset=missing)
        self.first = first


def end_of(session: Session) -> int:
    """The absolute position behind the last event that a handle shows."""
    return session.log.offset + session.start + session.length


def extend(session: Session, loaded: LoadedSession, end: int) -> None:
    """Let a handle show the stored events up to ``end``; a log that is not the shared one gets them too."""
    log = session.log
    if log is not loaded.log:
        known = log.offset + len(log.events)
        for event in loaded.log.events[known - loaded.log.offset : end - loaded.log.offset]:
            log.append(event)
    session.length = end - log.offset - session.start


class LoadedCache:
    """The loaded sessions of a service: the most recent ones are kept, and all that a handle still holds are found.

    Args:
        size: how many are kept when nobody holds them; 0 keeps none (services LOG-7).
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._recent: OrderedDict[SessionKey, LoadedSession] = OrderedDict()
        self._alive: weakref.WeakValueDictionary[SessionKey, LoadedSession] = weakref.WeakValueDictionary()

    def get(self, key: SessionKey) -> LoadedSession | None:
        """The loaded session of a key, now the most recent one."""
        recent = self._recent
        loaded = recent.get(key)
        if loaded is not None:
            recent.move_to_end(key)
            return loaded
        loaded = self._alive.get(key)
        if loaded is not None:
            self._keep(key, loaded)
        return loaded

    def put(self, loaded: LoadedSession) -> None:
        """Make it the one of its key."""
        self._alive[loaded.key] = loaded
        self._keep(loaded.key, loaded)

    def _keep(self, key: SessionKey, loaded: LoadedSession) -> None:
        if self._size:
            self._recent[key] = loaded
            self._recent.move_to_end(key)
            if len(self._recent) > self._size:
                self._recent.popitem(last=False)

    def drop(self, key: SessionKey) -> LoadedSession | None:
        """Forget a key; what was known of it."""
        self._recent.pop(key, None)
        return self._alive.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        for loaded in list(self._alive.values()):
            loaded.alive = False
        self._recent.clear()
        self._alive.clear()
