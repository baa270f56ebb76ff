"""Appends: one at a time per session, each carried to its end whoever waits for it (services SES-22, GEN-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

from hookwork.errors import BackendError, EventConflictError, HookworkError, StaleSessionError
from hookwork.records.deleted import DELETED, applied, delta_of, is_deleting
from hookwork.records.event import Event
from hookwork.records.session import Session, is_taken_back, split_state
from hookwork_database.entered import Entered, enter
from hookwork_database.keys import not_found
from hookwork_database.layouts.base import Layout
from hookwork_database.loaded import LoadedCache, LoadedSession, Marker, StoredEvent, end_of, extend
from hookwork_database.merging import follow, take_foreign
from hookwork_database.moments import moment_of
from hookwork_database.reading import known_of
from hookwork_database.retries import RETRIES, back_off
from hookwork_database.store import Store
from hookwork_database.writing import Appended, AppendRequest, Existing, Missing, Outcome, Stale


class Job:
    """An append on its way. Everything about the event that can be wrong is found when it is made.

    ``more`` are the events behind it that are stored with it or not at all, as given and as entered.
    """

    __slots__ = ("context", "entered", "event", "future", "more", "redelivery", "request", "retries", "session")

    def __init__(
        self, session: Session, event: Event, layout: Layout, *, redelivery: bool, more: Sequence[Event] = ()
    ) -> None:
        self.session = session
        self.event = event
        self.entered = entered_of(event, layout)
        self.more = tuple((one, entered_of(one, layout)) for one in more)
        self.redelivery = redelivery
        self.context = copy_context()  # whose clock, randomness and sleep a retry uses
        self.request: AppendRequest | None = None
        self.retries = 0
        #: the stored event; of a batch all of them, in order.
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def keys(self) -> set[str]:
        """The state keys that it writes."""
        keys = set(self.entered.event.actions.state_delta)
        for _, entered in self.more:
            keys.update(entered.event.actions.state_delta)
        return keys

    def fail(self, error: BaseException) -> None:
        """Tell the one who waits, if anybody still does."""
        if not self.future.done():
            self.future.set_exception(error)

    def succeed(self, stored: Any) -> None:
        """Tell the one who waits, if anybody still does."""
        if not self.future.done():
            self.future.set_result(stored)


class Appends:
    """The appends of a service."""

    def __init__(self, owner: object, store: Store, cache: LoadedCache, *, refuse: bool) -> None:
        self._owner = owner
        self._store = store
        self._cache = cache
        self._refuse = refuse
        self._retrying: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._idle: asyncio.Future[None] | None = None

    def submit(self, loaded: LoadedSession, job: Job) -> None:
        """Start an append, or queue it behind the others of its session."""
        if loaded.busy:
            loaded.waiting.append(job)
        else:
            self._start(loaded, job)

    async def finish(self) -> None:
        """Wait until no append is under way."""
        if self._under_way:
            if self._idle is None or self._idle.done():
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)  # others may wait for it too

    # --- one append ---------------------------------------------------------------------------------------------------

    def _start(self, loaded: LoadedSession, job: Job) -> None:
        """Decide what can be decided here; hand the rest to the database. Ends with the queue moving on."""
        try:
            loaded = follow(job.session, loaded)
            if not loaded.alive:
                raise not_found(loaded.key)
            position = loaded.positions.get(job.entered.event.id)
            if job.more:
                if self._is_repeated(loaded, job):
                    return
            elif position is not None:
                job.succeed(self._delivered(loaded, job, loaded.log.events[position - loaded.log.offset], position))
                return
            self._check_foreign(loaded, job)
            job.request = self._request(loaded, job)
        except Exception as error:  # noqa: BLE001 - it belongs to the one who appended, and the queue moves on
            job.fail(error)
            return
        loaded.busy = True
        self._under_way += 1
        self._send(loaded, job)

    def _send(self, loaded: LoadedSession, job: Job) -> None:
        assert job.request is not None
        try:
            self._store.append(job.request, lambda outcome, error: self._done(loaded, job, outcome, error))
        except HookworkError as error:
            self._done(loaded, job, None, error)

    def _request(self, loaded: LoadedSession, job: Job) -> AppendRequest:
        entered = job.entered
        return AppendRequest(
            key=loaded.key,
            known=known_of(loaded),
            known_ids=loaded.positions,
            entered=entered,
            mark=max(entered.micros, loaded.marker.updated + 1, loaded.last_micros + 1),
            state=applied(loaded.state, entered.own) if entered.own else None,
            ours=job.session.written_keys,
            more=tuple(entered for _, entered in job.more),
            refuse=self._refuse,
            redelivery=job.redelivery,
            is_taken_back=partial(is_taken_back, job.session, job.event),
        )

    def _check_foreign(self, loaded: LoadedSession, job: Job) -> None:
        """Events of this process's log that the handle has not seen may be absorbed, or make it stale (DBP-11)."""
        session, log = job.session, loaded.log
        end = end_of(session)
        if end >= loaded.end:
            return
        ours = session.written_keys | job.keys
        touched: set[str] = set()
        foreign = log.events[end - log.offset :]
        for event in foreign:
            touched |= event.actions.state_delta.keys()
        rewound = is_taken_back(session, job.event, foreign)
        common = [] if rewound else sorted(touched & ours)
        if common or rewound or self._refuse:
            raise _stale(session, common, loaded.revision_at(loaded.end), rewound=rewound)

    def _done(self, loaded: LoadedSession, job: Job, outcome: Outcome | None, error: BaseException | None) -> None:
        """The database has answered. Log and handle follow even when nobody waits any more (spec DBP-2)."""
        if isinstance(error, BackendError) and error.retryable and job.retries < RETRIES:
            task = asyncio.get_running_loop().create_task(self._again(loaded, job), context=job.context)
            self._retrying.add(task)
            task.add_done_callback(self._retrying.discard)
            return
        self._under_way -= 1
        try:
            if error is not None:
                raise error
            assert outcome is not None
            job.succeed(self._settled(loaded, job, outcome))
        except Exception as failure:  # noqa: BLE001 - it belongs to the one who appended
            job.fail(failure)
        finally:
            while loaded.successor is not None:
                loaded = loaded.successor
            loaded.busy = False
            self._move_on(loaded)
            if self._idle is not None and not self._under_way and not self._idle.done():
                self._idle.set_result(None)

    def _move_on(self, loaded: LoadedSession) -> None:
        while loaded.waiting and not loaded.busy:
            job = loaded.waiting.popleft()
            if not job.future.done():  # cancelled while it waited: nothing of it is stored
                self._start(loaded, job)

    async def _again(self, loaded: LoadedSession, job: Job) -> None:
        await back_off(job.retries)
        job.retries += 1
        self._send(loaded, job)

    # --- its outcome --------------------------------------------------------------------------------------------------

    def _is_repeated(self, loaded: LoadedSession, job: Job) -> bool:
        """Whether the events of a batch are known to be stored already; then whoever waits has been told."""
        events = []
        for entered in (job.entered, *(entered for _, entered in job.more)):
            position = loaded.positions.get(entered.event.id)
            events.append(None if position is None else loaded.log.events[position - loaded.log.offset])
        if all(event is None for event in events):
            return False
        if None in events and loaded.log.offset:
            return False  # the others may stand in front of what is loaded: the database knows
        job.succeed(self._batch_delivered(loaded, job, events))
        return True

    def _batch_delivered(self, loaded: LoadedSession, job: Job, known: Sequence[Event | None]) -> list[Event]:
        """A batch whose ids are stored already: all of them, as they are, or it is a conflict (services SES-19)."""
        batch = ((job.event, job.entered), *job.more)
        found = [event for event in known if event is not None]
        if len(found) < len(batch):
            missing = next(one.event.id for (_, one), event in zip(batch, known, strict=True) if event is None)
            raise EventConflictError(
                f"session {job.session.id!r} holds some of these events and not {missing!r}; append the missing ones, "
                "or give all of them new ids"
            )
        for (given, entered), event in zip(batch, found, strict=True):
            _check_same(job.session, event, given, entered.event)
        for (given, _), event in zip(batch, found, strict=True):
            self._show_known(loaded, job.session, given, event, loaded.positions.get(event.id))
        return found

    def _settled(self, loaded: LoadedSession, job: Job, outcome: Outcome) -> Any:
        session, entered = job.session, job.entered
        if isinstance(outcome, Missing):
            loaded.alive = False
            if self._cache.get(loaded.key) is loaded:
                self._cache.drop(loaded.key)
            raise not_found(loaded.key)
        if isinstance(outcome, Stale):
            stored = f"{loaded.created:x}.{outcome.marker.updated:x}.{outcome.marker.last_id}"
            raise _stale(session, outcome.keys, stored, rewound=outcome.rewound)
        if outcome.foreign is not None:
            loaded = take_foreign(self._owner, self._cache, loaded, outcome.foreign)
            follow_handle(session, loaded)
        if isinstance(outcome, Existing):
            if job.more:
                return self._batch_delivered(loaded, job, (outcome.event, *outcome.more))
            assert outcome.event is not None, "it is the only one"
            return self._delivered(loaded, job, outcome.event, loaded.positions.get(entered.event.id))
        event = entered.event
        position = loaded.positions.get(event.id)
        if position is None:
            loaded.add(StoredEvent(event, outcome.mark, outcome.raw, outcome.tie))
            last_id, mark, raw = event.id, outcome.mark, outcome.raw
            for (_, one), (mark, raw, tie) in zip(job.more, outcome.more, strict=True):
                loaded.add(StoredEvent(one.event, mark, raw, tie))
                last_id = one.event.id
            loaded.marker = Marker(loaded.marker.created_raw, raw, mark, last_id, 1)
            assert job.request is not None
            if job.request.own:
                loaded.state = applied(loaded.state, job.request.own)
            loaded.app = outcome.app or loaded.app
            loaded.user = outcome.user or loaded.user
            position = loaded.end - 1
        # Else a read that saw the commit was quicker than this answer, and has worked the event in already.
        elif job.more:
            position = loaded.positions[job.more[-1][1].event.id]
        self._give(loaded, job, outcome, position)
        return [event, *(one.event for _, one in job.more)] if job.more else event

    def _give(self, loaded: LoadedSession, job: Job, outcome: Appended, position: int) -> None:
        """Let the handle show the stored events up to its own, with the state of then."""
        session, entered = job.session, job.entered
        self._follow_events(session, loaded, position)
        if outcome.app is not None:
            session.app_state = outcome.app[1]
        if outcome.user is not None:
            session.user_state = outcome.user[1]
        delta = entered.event.actions.state_delta
        if delta:
            session.written_keys.update(delta)
        if entered.event is not job.event:
            keep_temp(session, job.event)
        for given, one in job.more:
            session.written_keys.update(one.event.actions.state_delta)
            keep_temp(session, given)

    def _follow_events(self, session: Session, loaded: LoadedSession, position: int) -> None:
        """Let a handle show the events up to ``position``. At the log's end the state comes whole, else by deltas."""
        log, behind = loaded.log, end_of(session)
        for event in log.events[behind - log.offset : position + 1 - log.offset]:
            if event.actions.state_delta:
                app, user, own = split_state(delta_of(event))
                session.app_state = applied(session.app_state, app) if app else session.app_state
                session.user_state = applied(session.user_state, user) if user else session.user_state
                session.session_state = applied(session.session_state, own) if own else session.session_state
        if session.log is log:
            session.length = position + 1 - log.offset - session.start
        else:
            extend(session, loaded, position + 1)
        if position + 1 == loaded.end:
            session.session_state = loaded.state
        session.last_update_time = moment_of(loaded.updated_at(position + 1))
        session.revision = loaded.revision_at(position + 1)

    def _delivered(self, loaded: LoadedSession, job: Job, known: Event, position: int | None) -> Event:
        """An event whose id is stored already: the stored one, and the handle extends to it (services SES-19)."""
        if not job.redelivery:
            _check_same(job.session, known, job.event, job.entered.event)
        self._show_known(loaded, job.session, job.event, known, position)
        return known

    def _show_known(
        self, loaded: LoadedSession, session: Session, given: Event, known: Event, position: int | None
    ) -> None:
        """Let a handle show a stored event that it was given again, and all before it."""
        if position is None or position < end_of(session):
            return
        session.written_keys.update(known.actions.state_delta)
        keep_temp(session, given)
        self._follow_events(session, loaded, position)


def _check_same(session: Session, known: Event, given: Event, stored: Event) -> None:
    """Raise EventConflictError when an id is taken by another event; a time that was unset is no difference."""
    if not given.timestamp:
        stored = stored.replace(timestamp=known.timestamp)
    if stored != known:
        raise EventConflictError(
            f"session {session.id!r} holds another event of id {stored.id!r}; a different event needs a new id"
        )


def follow_handle(session: Session, loaded: LoadedSession) -> None:
    """Bring the appending handle to the log that now holds."""
    backend = session.backend
    if isinstance(backend, LoadedSession) and backend is not loaded:
        follow(session, backend)


def entered_of(event: Event, layout: Layout) -> Entered:
    """`enter`, with `DELETED` for the keys that the event deletes (services BEY-13)."""
    entered = enter(event, layout)
    if not is_deleting(entered.event):
        return entered
    app, user, own = split_state(delta_of(entered.event))
    return entered._replace(app=app, user=user, own=own)


def keep_temp(session: Session, event: Event) -> None:
    """``temp:`` keys reach the caller's live handle only (services SES-13)."""
    for key, value in delta_of(event).items():
        if not key.startswith("temp:"):
            continue
        if value is DELETED:
            session.temp_state.pop(key, None)
        else:
            session.temp_state[key] = value


def _stale(session: Session, keys: list[str], stored: str, *, rewound: bool) -> StaleSessionError:
    what = f"wrote {', '.join(map(repr, keys))} meanwhile" if keys else "appended to it meanwhile"
    what = "rewound it meanwhile" if rewound else what
    return StaleSessionError(
        f"session {session.id!r}: another handle {what}; nothing was stored. Call refresh(session), look at the state "
        "again and redo the change",
        stored=stored,
        local=session.revision,
        keys=keys,
    )
