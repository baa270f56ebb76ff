"""What the session service keeps: apps, their users, their sessions.

State maps are copy-on-write: a write replaces the map, so a handle can hold the map of its moment without a copy.
"""

from __future__ import annotations

from typing import Any

from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict
from hookwork.records.session import EventLog, Session
from hookwork_inmemory.window import WindowIndex

NO_STATE = FrozenDict({})


class StoredApp:
    """One app: its shared state and its users."""

    __slots__ = ("state", "users")

    def __init__(self) -> None:
        self.state: FrozenDict = NO_STATE
        self.users: dict[str, StoredUser] = {}


class StoredUser:
    """One user of an app: the user's shared state and sessions."""

    __slots__ = ("sessions", "state")

    def __init__(self) -> None:
        self.state: FrozenDict = NO_STATE
        self.sessions: dict[str, StoredSession] = {}


class StoredSession:
    """One session. ``positions`` maps an event id to its place in the log; ``updated`` is in epoch seconds.

    ``serial`` is unique per service, so that a session created again under a deleted one's id has other revisions.
    """

    __slots__ = (
        "alive",
        "app",
        "app_name",
        "id",
        "log",
        "positions",
        "serial",
        "service",
        "state",
        "updated",
        "user",
        "user_id",
        "window",
    )

    def __init__(
        self, service: Any, serial: int, app_name: str, app: StoredApp, user_id: str, user: StoredUser, id: str
    ) -> None:
        self.service = service
        self.serial = serial
        self.app_name = app_name
        self.app = app
        self.user_id = user_id
        self.user = user
        self.id = id
        self.log = EventLog()
        self.positions: dict[str, int] = {}
        self.state: FrozenDict = NO_STATE
        self.updated = 0.0
        self.alive = True
        self.window: WindowIndex | None = None

    def revision_at(self, length: int) -> str:
        """The revision of the first ``length`` events; they fix the session's own state too (LOG-4)."""
        return f"{self.serial}.{length}"

    @property
    def key(self) -> tuple[float, str, str]:
        """The order of lists (SES-9)."""
        return self.updated, self.user_id, self.id

    def handle(self, start: int, log: EventLog | None = None) -> Session:
        """A new handle from ``start`` to the end; ``log`` is one of its own when it shows a selection of events."""
        return Session(
            app_name=self.app_name,
            user_id=self.user_id,
            id=self.id,
            log=self.log if log is None else log,
            start=start,
            session_state=self.state,
            app_state=self.app.state,
            user_state=self.user.state,
            updated_at=self.updated,
            revision=self.revision_at(len(self.log.events)),
            backend=self,
        )

    def window_index(self) -> WindowIndex:
        """What the windows of LOG-8 need to know, brought up to date; built when it is first asked for."""
        if self.window is None:
            self.window = WindowIndex()
        self.window.extend(self.log.events)
        return self.window

    def sync(self, session: Session) -> int:
        """Extend a handle to the end of the log and give it the state of now; how many events came."""
        events = self.log.events
        end = end_of(session)
        fresh = len(events) - end
        if fresh:
            extend(session, self, len(events))
        session.session_state = self.state
        session.app_state = self.app.state
        session.user_state = self.user.state
        session.updated_at = self.updated
        session.revision = self.revision_at(len(events))
        return fresh


class SelectedLog(EventLog):
    """The events a filter left, when they are no unbroken range of the log; ``first`` is the position of the first.

    ``offset`` counts the stored events that are missing, so `end_of` holds for this log as for a shared one.
    """

    __slots__ = ("first",)

    def __init__(self, events: list[Event], *, first: int, missing: int) -> None:
        super().__init__(events, offset=missing)
        self.first = first


def end_of(session: Session) -> int:
    """The position in the stored log behind the last event that a handle shows."""
    return session.log.offset + session.start + session.length


def extend(session: Session, record: StoredSession, end: int) -> None:
    """Let a handle show the stored events up to position ``end``, which is behind its own; its state is not touched."""
    events = record.log.events
    start = end_of(session)
    if session.log is not record.log:
        for event in events[start:end]:
            session.log.append(event)
    session.length += end - start
