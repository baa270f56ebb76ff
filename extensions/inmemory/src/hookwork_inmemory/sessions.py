"""Sessions in the process (services §2, §3).

No lock is needed: no method awaits anything, so within one event loop each call is one step that nothing can interrupt,
neither another task nor a cancellation (GEN-4, GEN-5).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from hookwork.errors import (
    BackendError,
    EventConflictError,
    HookworkError,
    SessionAlreadyExistsError,
    SessionNotFoundError,
    StaleSessionError,
    ValidationError,
)
from hookwork.platform import new_uuid, timestamp
from hookwork.records.deleted import DELETED, applied, delta_of
from hookwork.records.event import Event, frozen_delta
from hookwork.records.session import Session, is_taken_back, split_state
from hookwork.services import SessionCapabilities, SessionService, check_batch
from hookwork_inmemory.entry import entered
from hookwork_inmemory.stored import (
    NO_STATE,
    SelectedLog,
    StoredApp,
    StoredSession,
    StoredUser,
    end_of,
    extend,
)
from hookwork_inmemory.window import summary_start


class InMemorySessionService(SessionService):
    """Sessions that live as long as the process.

    Args:
        max_sessions: how many sessions are kept; a further one evicts the one with the oldest update time. None: all.
        foreign_appends: ``absorb`` takes in events that another handle stored meanwhile, as long as they touch no
            state key that this handle wrote or is about to write; ``refuse`` makes every such event stale (SES-18).

    Raises:
        ValidationError: an option has no valid value.
    """

    capabilities = SessionCapabilities(deletes_state=True, atomic_batches=True, erases_users=True)

    def __init__(
        self, max_sessions: int | None = None, foreign_appends: Literal["absorb", "refuse"] = "absorb"
    ) -> None:
        if max_sessions is not None and (type(max_sessions) is not int or max_sessions < 1):
            raise ValidationError(f"max_sessions must be a whole number from 1 or None, not {max_sessions!r}")
        if foreign_appends not in ("absorb", "refuse"):
            raise ValidationError(f"foreign_appends must be 'absorb' or 'refuse', not {foreign_appends!r}")
        self.max_sessions = max_sessions
        self.foreign_appends = foreign_appends
        self._apps: dict[str, StoredApp] = {}
        self._serial = 0
        self._count = 0
        #: (update time when last looked at, serial) and the sessions by serial; used with max_sessions only.
        self._ages: list[tuple[float, int]] = []
        self._by_serial: dict[int, StoredSession] = {}
        self._closed = False

    # --- creating and reading -----------------------------------------------------------------------------------------

    async def create_session(
        self, *, app_name: str, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None
    ) -> Session:
        """See `SessionService.create_session`. ``temp:`` keys of ``state`` stay on the returned handle only."""
        self._check_open()
        _check_ids(app_name=app_name, user_id=user_id)
        if session_id is not None and not isinstance(session_id, str):
            raise ValidationError(f"session_id must be text, not {type(session_id).__name__}", path="session_id")
        chosen = (session_id or "").strip() or new_uuid()
        initial = frozen_delta(state)
        stored_app = self._apps.get(app_name)
        stored_user = stored_app.users.get(user_id) if stored_app is not None else None
        if stored_user is not None and chosen in stored_user.sessions:
            raise SessionAlreadyExistsError(
                f"session {chosen!r} of user {user_id!r} in app {app_name!r} exists already; "
                "use get_session, or leave session_id out to get a fresh one"
            )
        self._make_room()
        stored_app = self._apps.setdefault(app_name, StoredApp())
        stored_user = stored_app.users.setdefault(user_id, StoredUser())
        self._serial += 1
        record = StoredSession(self, self._serial, app_name, stored_app, user_id, stored_user, chosen)
        record.updated = timestamp()
        stored_user.sessions[chosen] = record
        self._count += 1
        if self.max_sessions is not None:
            heapq.heappush(self._ages, (record.updated, record.serial))
            self._by_serial[record.serial] = record
        if initial:
            _write(record, *split_state(initial))
        handle = record.handle(0)
        handle.temp_state = {key: value for key, value in initial.items() if key.startswith("temp:")}
        return handle

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        num_recent_events: int | None = None,
        after: float | datetime | None = None,
        tail: int | str | None = None,
    ) -> Session:
        """See `SessionService.get_session`. ``tail`` is not combined with the other two."""
        record = self._find(app_name, user_id, session_id)
        if num_recent_events is None and after is None and tail is None:
            return record.handle(0)
        if tail is not None:
            if num_recent_events is not None or after is not None:
                raise ValidationError("give either tail, or num_recent_events and after; not both", path="tail")
            return record.handle(_tail_start(record, tail))
        return _filtered(record, num_recent_events, after)

    async def refresh(self, session: Session) -> int:
        """See `SessionService.refresh`. ``temp:`` keys stay."""
        record = self._record_of(session)
        session.written_keys.clear()
        return record.sync(session)

    async def load_earlier(self, session: Session, count: int) -> int:
        """See `SessionService.load_earlier`. A handle that shows a selection shows every event of its range after."""
        record = self._record_of(session)
        if type(count) is not int or count < 0:
            raise ValidationError(f"count must be a whole number from 0, not {count!r}", path="count")
        log = session.log
        first = log.first if isinstance(log, SelectedLog) else session.start
        end = end_of(session)
        start = record.window_index().close_pairs(record.log.events, max(0, first - count), end)
        added = end - start - session.length
        session.log, session.start, session.length = record.log, start, end - start
        return added

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> list[Session]:
        """See `SessionService.list_sessions`."""
        self._check_open()
        _check_ids(app_name=app_name)
        app = self._apps.get(app_name)
        if app is None:
            return []
        users: Iterable[StoredUser] = app.users.values()
        if user_id is not None:
            _check_ids(user_id=user_id)
            users = [app.users[user_id]] if user_id in app.users else []
        records = [record for user in users for record in user.sessions.values()]
        records.sort(key=lambda record: record.key)
        return [record.handle(len(record.log.events)) for record in records]

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """See `SessionService.delete_session`."""
        try:
            record = self._find(app_name, user_id, session_id)
        except SessionNotFoundError:
            return
        self._remove(record)

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """See `SessionService.delete_user`."""
        self._check_open()
        _check_ids(app_name=app_name, user_id=user_id)
        app = self._apps.get(app_name)
        user = app.users.get(user_id) if app is not None else None
        if app is None or user is None:
            return 0
        gone = list(user.sessions.values())
        user.state = NO_STATE
        for record in gone:
            self._remove(record)
        app.users.pop(user_id, None)  # one without sessions had state alone
        return len(gone)

    async def get_user_state(self, *, app_name: str, user_id: str) -> Mapping[str, Any]:
        """The ``user:`` state of a user, keys without prefix; empty for an unknown user (capability
        ``supports_user_state_read``)."""
        self._check_open()
        _check_ids(app_name=app_name, user_id=user_id)
        app = self._apps.get(app_name)
        user = app.users.get(user_id) if app is not None else None
        return NO_STATE if user is None else user.state

    # --- appending ----------------------------------------------------------------------------------------------------

    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        """See `SessionService.append_event`."""
        # The hot path of every run, hence written out flat. Everything that can fail stands before the first change.
        if not isinstance(event, Event):
            raise ValidationError(f"event must be an Event, not {type(event).__name__}", path="event")
        if event.partial:
            return event
        record = self._record_of(session)
        stored = entered(event)
        if stored.id in record.positions:
            return self._deliver_again(record, session, event, stored, redelivery)
        log = record.log
        delta = stored.actions.state_delta
        if session.log.offset + session.start + session.length != len(log.events):
            self._check_foreign(record, session, delta, stored)
        updated = stored.timestamp
        if updated <= record.updated:
            updated = round(record.updated + 1e-6, 6)
        # From here on nothing fails and nothing waits.
        record.positions[stored.id] = len(log.events)
        log.append(stored)
        record.updated = updated
        if delta:
            _write(record, *split_state(delta_of(stored)))
            session.written_keys.update(delta)
        if stored is not event:
            _keep_temp(session, event)
        if session.log is log:
            session.length = len(log.events) - session.start
        else:
            extend(session, record, len(log.events))
        session.session_state = record.state
        session.app_state = record.app.state
        session.user_state = record.user.state
        session.updated_at = updated
        session.revision = f"{record.serial}.{len(log.events)}"
        return stored

    async def append_events(self, session: Session, events: Sequence[Event]) -> list[Event]:
        """See `SessionService.append_events`: all or none."""
        check_batch(events)
        whole = [event for event in events if not event.partial]
        if not whole:
            return list(events)
        record = self._record_of(session)
        stored = {id(event): entered(event) for event in whole}
        known = [one.id in record.positions for one in stored.values()]
        if any(known):
            self._check_repeated(record, session, [(event, stored[id(event)]) for event in whole])
        else:
            delta = {key: None for event in stored.values() for key in event.actions.state_delta}
            if session.log.offset + session.start + session.length != len(record.log.events):
                self._check_foreign(record, session, delta, next(iter(stored.values())))
        # From here on nothing fails and nothing waits.
        result = []
        for event in events:
            one = stored.get(id(event), event)
            result.append(await self.append_event(session, event if any(known) else one))
            if one is not event and not any(known):
                _keep_temp(session, event)
        return result

    def _check_repeated(self, record: StoredSession, session: Session, batch: Sequence[tuple[Event, Event]]) -> None:
        """Raise EventConflictError unless every event of a batch is stored, as it is (SES-19)."""
        for event, stored in batch:
            position = record.positions.get(stored.id)
            if position is None:
                raise EventConflictError(
                    f"session {session.id!r} holds some of these events and not {stored.id!r}; append the missing "
                    "ones, or give all of them new ids"
                )
            _check_same(session, record.log.events[position], event, stored)

    def _check_foreign(self, record: StoredSession, session: Session, delta: Mapping[str, Any], first: Event) -> None:
        """Raise `StaleSessionError` unless the events behind the handle's last one may be absorbed (SES-18)."""
        ours = session.written_keys | delta.keys()
        touched: set[str] = set()
        foreign = record.log.events[end_of(session) :]
        for event in foreign:
            touched |= event.actions.state_delta.keys()
        rewound = is_taken_back(session, first, foreign)
        common = [] if rewound else sorted(touched & ours)
        if common or rewound or self.foreign_appends == "refuse":
            what = f"wrote {', '.join(map(repr, common))} meanwhile" if common else "appended to it meanwhile"
            what = "rewound it meanwhile" if rewound else what
            raise StaleSessionError(
                f"session {session.id!r}: another handle {what}; nothing was stored. Call refresh(session), look at "
                "the state again and redo the change",
                stored=record.revision_at(len(record.log.events)),
                local=session.revision,
                keys=common,
            )

    def _deliver_again(
        self, record: StoredSession, session: Session, event: Event, stored: Event, redelivery: bool
    ) -> Event:
        """An event whose id is stored already: the stored one, and the handle extends to it (SES-19)."""
        position = record.positions[stored.id]
        known = record.log.events[position]
        if not redelivery:
            _check_same(session, known, event, stored)
        start = end_of(session)
        if position < start:
            return known
        session.written_keys.update(known.actions.state_delta)
        _keep_temp(session, event)
        if position + 1 == len(record.log.events):
            record.sync(session)
            return known
        for earlier in record.log.events[start : position + 1]:
            app, user, own = split_state(delta_of(earlier))
            session.app_state = applied(session.app_state, app)
            session.user_state = applied(session.user_state, user)
            session.session_state = applied(session.session_state, own)
        extend(session, record, position + 1)
        session.updated_at = max(session.updated_at, known.timestamp)
        session.revision = record.revision_at(position + 1)
        return known

    # --- keeping ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Forget everything; later calls raise."""
        self._closed = True
        for app in self._apps.values():
            for user in app.users.values():
                for record in user.sessions.values():
                    record.alive = False
        self._apps.clear()
        self._ages.clear()
        self._by_serial.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise BackendError("the in-memory session service is closed; make a new one", code="closed")

    def _find(self, app_name: str, user_id: str, session_id: str) -> StoredSession:
        self._check_open()
        _check_ids(app_name=app_name, user_id=user_id, session_id=session_id)
        app = self._apps.get(app_name)
        user = app.users.get(user_id) if app is not None else None
        record = user.sessions.get(session_id.strip()) if user is not None else None
        if record is None:
            raise _not_found(session_id, user_id, app_name)
        return record

    def _record_of(self, session: Session) -> StoredSession:
        """The live session behind a handle of this service."""
        record = session.backend if isinstance(session, Session) else None
        if not isinstance(record, StoredSession) or record.service is not self:
            raise _foreign(session)
        if not record.alive:
            self._check_open()
            raise _not_found(record.id, record.user_id, record.app_name)
        return record

    def _remove(self, record: StoredSession) -> None:
        record.alive = False
        self._count -= 1
        self._by_serial.pop(record.serial, None)
        del record.user.sessions[record.id]
        # Boxes without content are dropped, so that a server that deletes its sessions does not grow.
        if not record.user.sessions and not record.user.state:
            del record.app.users[record.user_id]
            if not record.app.users and not record.app.state:
                del self._apps[record.app_name]

    def _make_room(self) -> None:
        """Evict until one more session fits. Update times only grow, so an entry that is behind is put back."""
        if self.max_sessions is None:
            return
        while self._count >= self.max_sessions:
            seen, serial = heapq.heappop(self._ages)
            record = self._by_serial.get(serial)
            if record is None:
                continue
            if record.updated > seen:
                heapq.heappush(self._ages, (record.updated, serial))
            else:
                self._remove(record)
        if len(self._ages) > 2 * self._count + 64:  # mostly deleted sessions
            self._ages = [(record.updated, serial) for serial, record in self._by_serial.items()]
            heapq.heapify(self._ages)


def _check_ids(**ids: Any) -> None:
    for value in ids.values():
        if type(value) is not str or not value.strip():
            break
    else:
        return
    wrong = [name for name, value in ids.items() if not isinstance(value, str) or not value.strip()]
    if wrong:
        raise ValidationError(f"{', '.join(wrong)} must be non-empty text", path=wrong[0])


def _write(record: StoredSession, app: Mapping[str, Any], user: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    if own:
        record.state = applied(record.state, own)
    if app:
        record.app.state = applied(record.app.state, app)
    if user:
        record.user.state = applied(record.user.state, user)


def _keep_temp(session: Session, event: Event) -> None:
    """``temp:`` keys reach the caller's live handle only (SES-13)."""
    for key, value in delta_of(event).items():
        if not key.startswith("temp:"):
            continue
        if value is DELETED:
            session.temp_state.pop(key, None)
        else:
            session.temp_state[key] = value


def _check_same(session: Session, known: Event, event: Event, stored: Event) -> None:
    """Raise EventConflictError when an id is taken by another event; a time that was unset is no difference."""
    if not event.timestamp:
        stored = stored.replace(timestamp=known.timestamp)
    if stored != known:
        raise EventConflictError(
            f"session {session.id!r} holds another event of id {event.id!r}; a different event needs a new id"
        )


def _tail_start(record: StoredSession, tail: int | str) -> int:
    events = record.log.events
    if tail == "summary":
        start = summary_start(events)
    elif type(tail) is int and tail >= 0:
        start = max(0, len(events) - tail)
    else:
        raise ValidationError(f"tail must be a whole number from 0 or 'summary', not {tail!r}", path="tail")
    return record.window_index().close(events, start, len(events))


def _filtered(record: StoredSession, recent: int | None, after: float | datetime | None) -> Session:
    """The handle of SES-5 and SES-6: first ``after``, then the newest ``recent``."""
    if recent is not None and (type(recent) is not int or recent < 0):
        raise ValidationError(
            f"num_recent_events must be a whole number from 0 or None, not {recent!r}", path="num_recent_events"
        )
    events = record.log.events
    total = len(events)
    if after is None:
        return record.handle(total - min(recent or 0, total))
    since = _epoch(after)
    kept = [position for position in range(total) if events[position].timestamp >= since]
    if recent is not None:
        kept = kept[len(kept) - min(recent, len(kept)) :]
    if not kept:
        return record.handle(total)
    if kept[0] + len(kept) == total:  # an unbroken range, as it is whenever time runs forward
        return record.handle(kept[0])
    selected = SelectedLog([events[p] for p in kept], first=kept[0], missing=total - len(kept))
    return record.handle(0, selected)


def _epoch(after: float | datetime) -> float:
    if isinstance(after, datetime):
        if after.tzinfo is None:
            raise ValidationError("after must be an aware datetime; add tzinfo=UTC", path="after")
        return round(after.timestamp(), 6)
    if isinstance(after, int | float) and not isinstance(after, bool):
        return round(after, 6)
    raise ValidationError("after must be epoch seconds or an aware datetime", path="after")


def _not_found(session_id: str, user_id: str, app_name: str) -> SessionNotFoundError:
    return SessionNotFoundError(
        f"no session {session_id!r} of user {user_id!r} in app {app_name!r}; create it with create_session"
    )


def _foreign(session: Any) -> HookworkError:
    if isinstance(session, Session):
        return ValidationError(
            f"session {session.id!r} was not opened by this service; get it from the service you append to",
            path="session",
        )
    return ValidationError(f"session must be a Session, not {type(session).__name__}", path="session")
