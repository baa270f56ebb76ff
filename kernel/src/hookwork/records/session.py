"""Session handles over shared append-only logs (services §2.1).

A log holds a session's events once, in append order. A handle is a view: a log, a start, a length and the state as of
then. Opening one copies nothing; what is derived from history hangs on the log, never on a handle (LOG-12).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, overload

from hookwork.errors import StateMutationError, ValidationError
from hookwork.records.deleted import without_deleted_temp
from hookwork.records.event import Event, is_rewind

if TYPE_CHECKING:
    from hookwork.records.history import Call, HistoryIndex, Record

_NO_STATE: Mapping[str, Any] = {}


class EventLog:
    """The events of one session as far as they are loaded, and what is derived from them.

    ``offset`` is the number of stored events in front of the first loaded one (0 for a whole log). ``slots`` is a place
    where others keep what they derive (the flow's prompt cache); it is emptied whenever history changes in front.
    """

    __slots__ = ("_index", "events", "generation", "has_rewinds", "has_scopes", "offset", "slots")

    def __init__(self, events: Sequence[Event] = (), *, offset: int = 0) -> None:
        self.events: list[Event] = []
        self.offset = offset
        self.has_scopes = False
        self.has_rewinds = False
        self.generation = 0
        self.slots: dict[Any, Any] = {}
        self._index: HistoryIndex | None = None
        for event in events:
            self.append(event)

    def __len__(self) -> int:
        return len(self.events)

    def append(self, event: Event) -> None:
        """Add an event that was stored."""
        self.events.append(event)
        if event.isolation_scope:
            self.has_scopes = True
        if event.actions.rewind_before_invocation_id:
            self.has_rewinds = True
            self._forget()

    def prepend(self, events: Sequence[Event]) -> None:
        """Put older events in front; everything derived is built anew when it is next asked for."""
        self.events[0:0] = events
        self.offset -= len(events)
        self.has_scopes = self.has_scopes or any(event.isolation_scope for event in events)
        self.has_rewinds = self.has_rewinds or any(is_rewind(event) for event in events)
        self._forget()

    def _forget(self) -> None:
        self._index = None
        self.slots.clear()
        self.generation += 1

    def index(self) -> HistoryIndex:
        """The index over all loaded events, brought up to date (activations ACT-5)."""
        from hookwork.records.history import HistoryIndex

        index = self._index
        if index is None:
            index = self._index = HistoryIndex()
        if index.length < len(self.events):
            # A rewind drops the index, so what comes behind a built one is live: older events are looked at once only.
            fresh = self.has_rewinds and index.length == 0
            index.extend(self.events, live_positions(self.events) if fresh else None)
        return index


def is_taken_back(session: Session, event: Event, foreign: Iterable[Event]) -> bool:
    """Whether events that came in behind a handle take the invocation back in which ``event`` goes on (SES-18).

    A rewind hides all up to itself, so what is appended to an invocation that is under way would stand there without
    its beginning. One that begins an invocation stands for itself.
    """
    if not session.length or session.events[-1].invocation_id != event.invocation_id:
        return False
    return any(other.actions.rewind_before_invocation_id for other in foreign)


def live_positions(events: Sequence[Event]) -> list[int]:
    """Positions that no rewind hides, ascending (core REW-2)."""
    keep: list[int] = []
    position = len(events) - 1
    while position >= 0:
        target = events[position].actions.rewind_before_invocation_id
        if target:
            first = next((i for i in range(position) if events[i].invocation_id == target), None)
            if first is not None:
                position = first - 1
                continue
            position -= 1
            continue
        keep.append(position)
        position -= 1
    keep.reverse()
    return keep


class EventsView(Sequence[Event]):
    """A fixed range of a log, as an immutable sequence. Iterating while others append is safe."""

    __slots__ = ("_events", "_length", "_start")

    def __init__(self, events: list[Event], start: int, length: int) -> None:
        self._events = events
        self._start = start
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return self._events[self._start + start : self._start + stop : step] if step > 0 else list(self)[index]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"event index out of range: the session shows {self._length} event(s)")
        return self._events[self._start + index]

    def __iter__(self) -> Iterator[Event]:
        events, start = self._events, self._start
        for i in range(start, start + self._length):
            yield events[i]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self._length} event(s)>"


class StateView(Mapping[str, Any]):
    """A session's merged state as of its handle: session keys, then ``app:`` and ``user:`` ones. Read-only (STA-5).

    Of equal keys the later one is shown (STA-3): stores make no session key with a prefix, foreign rows may have one.
    """

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getitem__(self, key: str) -> Any:
        session = self._session
        if key in session.temp_state:
            return session.temp_state[key]
        if key.startswith("app:") and key[4:] in session.app_state:
            return session.app_state[key[4:]]
        if key.startswith("user:") and key[5:] in session.user_state:
            return session.user_state[key[5:]]
        return session.session_state[key]

    def __contains__(self, key: object) -> bool:
        try:
            self[key]  # type: ignore[index]
        except (KeyError, AttributeError):
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    def __len__(self) -> int:
        return len(self._keys())

    def _keys(self) -> list[str]:
        session = self._session
        keys = [*session.session_state]
        keys += [f"app:{key}" for key in session.app_state]
        keys += [f"user:{key}" for key in session.user_state]
        return list(dict.fromkeys([*keys, *session.temp_state]))

    def _refuse(self, key: str, *_: Any) -> NoReturn:
        raise StateMutationError(
            f"session.state is read-only; to change {key!r} use ctx.state[{key!r}] = … in a tool or callback, "
            "or append an event whose actions.state_delta has it"
        )

    __setitem__ = __delitem__ = _refuse

    def __repr__(self) -> str:
        return repr(dict(self))


class Session:
    """A handle on a session (services EVT-1, LOG-2). Made by a session service, never by hand.

    Attributes:
        session_state, app_state, user_state: frozen maps, replaced (never changed) by appends; keys without prefix.
        temp_state: ``temp:`` keys of the live handle, with prefix; never stored.
        updated_at: when the session last changed, epoch seconds; `last_update_time` is the same as an aware datetime.
        revision: opaque, equal = same events and state (LOG-4).
        written_keys: non-temp keys written through this handle since it was read (LOG-6).
        complete: False when older stored events are not loaded (LOG-9).
    """

    __slots__ = (
        "__weakref__",
        "app_name",
        "app_state",
        "backend",
        "id",
        "length",
        "log",
        "revision",
        "session_state",
        "start",
        "temp_state",
        "updated_at",
        "user_id",
        "user_state",
        "written_keys",
    )

    def __init__(
        self,
        *,
        app_name: str,
        user_id: str,
        id: str,
        log: EventLog,
        revision: str,
        last_update_time: datetime | None = None,
        updated_at: float = 0.0,
        start: int = 0,
        length: int | None = None,
        session_state: Mapping[str, Any] = _NO_STATE,
        app_state: Mapping[str, Any] = _NO_STATE,
        user_state: Mapping[str, Any] = _NO_STATE,
        temp_state: dict[str, Any] | None = None,
        backend: Any = None,
    ) -> None:
        self.app_name = app_name
        self.user_id = user_id
        self.id = id
        self.log = log
        self.start = start
        self.length = len(log.events) - start if length is None else length
        self.session_state = session_state
        self.app_state = app_state
        self.user_state = user_state
        self.temp_state: dict[str, Any] = {} if temp_state is None else temp_state
        self.updated_at = updated_at if last_update_time is None else _epoch_seconds(last_update_time)
        self.revision = revision
        self.written_keys: set[str] = set()
        self.backend = backend

    def __repr__(self) -> str:
        return f"Session(app={self.app_name!r}, user={self.user_id!r}, id={self.id!r}, events={self.length})"

    @property
    def last_update_time(self) -> datetime:
        """When the session last changed, aware UTC."""
        return datetime.fromtimestamp(self.updated_at, UTC)

    @last_update_time.setter
    def last_update_time(self, moment: datetime) -> None:
        self.updated_at = _epoch_seconds(moment)

    @property
    def events(self) -> Sequence[Event]:
        """The events this handle shows, in append order."""
        return EventsView(self.log.events, self.start, self.length)

    @property
    def live_events(self) -> Sequence[Event]:
        """The events no rewind hides (core REW-2)."""
        events = self.events
        if not self.log.has_rewinds:
            return events
        return [events[i] for i in live_positions(events)]

    @property
    def state(self) -> StateView:
        """The merged state; reading it later shows later appends of this handle."""
        return StateView(self)

    @property
    def complete(self) -> bool:
        """Whether every stored event before the handle's end is loaded and shown."""
        return self.start == 0 and self.log.offset == 0

    @property
    def is_current(self) -> bool:
        """Whether the handle shows the log to its end."""
        return self.start + self.length == len(self.log.events) and self.start == 0

    def history(self) -> HistoryIndex:
        """The index at this handle's own range (LOG-12): the log's when the handle is current, else one of its own."""
        if self.is_current:
            return self.log.index()
        from hookwork.records.history import HistoryIndex

        events = list(self.events)
        index = HistoryIndex()
        index.extend(events, live_positions(events) if self.log.has_rewinds else None)
        return index

    @property
    def open_calls(self) -> dict[str, Call]:
        """What the session waits for: call id → the newest open call of that id, in order of raising (core PND-2)."""
        return self.history().open_calls()

    @property
    def open_delegations(self) -> list[Call]:
        """Unanswered calls whose place is the isolation scope of a later event (core PND-4)."""
        return self.history().open_delegations() if self.log.has_scopes else []

    @property
    def open_tasks(self) -> list[Record]:
        """Places of nodes that talk with the user in a scope of their own until they have a result (workflow WB-6)."""
        return self.history().open_tasks() if self.log.has_scopes else []

    def view(
        self,
        *,
        length: int | None = None,
        state: Mapping[str, Any] | None = None,
        revision: str | None = None,
    ) -> Session:
        """A further handle on the same log, cut at ``length`` events, with the given state (LOG-11)."""
        app, user, own = split_state(state) if state is not None else (self.app_state, self.user_state, None)
        cut = Session(
            app_name=self.app_name,
            user_id=self.user_id,
            id=self.id,
            log=self.log,
            start=self.start,
            length=self.length if length is None else min(length, self.length),
            session_state=self.session_state if own is None else own,
            app_state=app,
            user_state=user,
            temp_state=dict(self.temp_state),
            updated_at=self.updated_at,
            revision=self.revision if revision is None else revision,
            backend=self.backend,
        )
        return cut


def _epoch_seconds(moment: datetime) -> float:
    if moment.tzinfo is None:
        raise ValidationError("last_update_time must be an aware datetime; add tzinfo=UTC", path="last_update_time")
    return moment.timestamp()


def split_state(delta: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(app, user, session) parts without prefixes, ``temp:`` dropped, order kept (STA-1, STA-4)."""
    app: dict[str, Any] = {}
    user: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in delta.items():
        if key.startswith("app:"):
            app[key[4:]] = value
        elif key.startswith("user:"):
            user[key[5:]] = value
        elif not key.startswith("temp:"):
            own[key] = value
    return app, user, own


def without_temp(event: Event) -> Event:
    """The event as it is stored: ``temp:`` keys removed from its delta; the same object when there are none."""
    delta = event.actions.state_delta
    for key in delta:
        if key.startswith("temp:"):
            kept = {key: value for key, value in delta.items() if not key.startswith("temp:")}
            actions = event.actions.replace(state_delta=kept)
            if event.extra is None:
                return event.replace(actions=actions)
            return event.replace(actions=actions, extra=without_deleted_temp(event.extra))
    return event
