"""Session checklist line CS-47: any service beside a model of plain lists and dicts, driven by Hypothesis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from hookwork.errors import SessionAlreadyExistsError, SessionNotFoundError, StaleSessionError
from hookwork.records.deleted import DELETED, deleting, delta_of
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.services import SessionService
from hookwork_testkit.suites.base import BASE_TIME, SessionSuiteBase, assert_same_events, in_own_loop, say

T = TypeVar("T")

_KEYS = ("k", "j", "app:k", "app:j", "user:k", "user:j", "temp:k")
_deltas = st.dictionaries(st.sampled_from(_KEYS), st.integers(min_value=0, max_value=5), max_size=3)
_deletions = st.lists(st.sampled_from(_KEYS), min_size=1, max_size=2, unique=True)
_users = st.sampled_from(["u1", "u2"])
_numbers = st.integers(min_value=0, max_value=50)


class ModelSession:
    """A session as a list of events and a dict of its own state."""

    def __init__(self, user: str, id: str) -> None:
        self.user = user
        self.id = id
        self.events: list[Event] = []
        self.state: dict[str, Any] = {}
        self.alive = True
        #: (number of events, revision) pairs that were seen.
        self.revisions: dict[int, str] = {}


class ModelHandle:
    """What a handle must show. ``start`` and ``end`` are positions in the session's list."""

    def __init__(self, real: Session, session: ModelSession, start: int) -> None:
        self.real = real
        self.session = session
        self.start = start
        self.end = len(session.events)
        self.own: dict[str, Any] = dict(session.state)
        self.temp: dict[str, Any] = {}
        self.written: set[str] = set()


class SessionMachine(RuleBasedStateMachine):
    """Creates, opens, appends, refreshes and deletes at random; every handle and store must agree with the model."""

    make_service: Callable[[], Awaitable[SessionService]]
    app_name = "suite"
    ids_per_user = True

    handles: Bundle[ModelHandle] = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.sessions: list[ModelSession] = []
        self.shared: dict[str, dict[str, Any]] = {}
        self.serial = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something in the machine's own loop."""
        return self.runner.run(work)

    @initialize(target=handles, state=_deltas)
    def open_store(self, state: dict[str, Any]) -> Any:
        async def make() -> SessionService:
            return await type(self).make_service()

        self.service = self.run(make())
        return self.create("u1", 0, state)

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.run(self.service.close())
        self.runner.close()

    # --- rules --------------------------------------------------------------------------------------------------------

    @rule(target=handles, user=_users, number=st.integers(min_value=0, max_value=2), state=_deltas)
    def create_session(self, user: str, number: int, state: dict[str, Any]) -> Any:
        return self.create(user, number, state)

    def create(self, user: str, number: int, state: dict[str, Any]) -> Any:
        name = f"s-{number}" if self.ids_per_user else f"{user}-s-{number}"
        chosen = name if self.service.capabilities.user_provided_session_id else None
        taken = chosen is not None and self._alive(user, chosen) is not None
        work = self.service.create_session(app_name=self.app_name, user_id=user, session_id=chosen, state=state)
        if taken:
            _must_raise((SessionAlreadyExistsError,), lambda: self.run(work))
            return multiple()
        real = self.run(work)
        session = ModelSession(user, real.id)
        self.sessions.append(session)
        self._apply(session, state)
        handle = ModelHandle(real, session, 0)
        handle.temp = {key: value for key, value in state.items() if key.startswith("temp:")}
        return handle

    @rule(target=handles, known=handles, recent=st.none() | st.integers(min_value=0, max_value=4))
    def open(self, known: ModelHandle, recent: int | None) -> Any:
        session = self._alive(known.session.user, known.session.id)
        work = self.service.get_session(
            app_name=self.app_name, user_id=known.session.user, session_id=known.session.id, num_recent_events=recent
        )
        if session is None:
            _must_raise((SessionNotFoundError,), lambda: self.run(work))
            return multiple()
        start = 0 if recent is None else max(0, len(session.events) - recent)
        return ModelHandle(self.run(work), session, start)

    @rule(known=handles, delta=_deltas, at=_numbers)
    def append_to_any(self, known: ModelHandle, delta: dict[str, Any], at: int) -> None:
        self.append(known, delta, at)

    @rule(
        known=handles,
        other=handles,
        deltas=st.lists(_deltas, min_size=2, max_size=4),
        at=_numbers,
        fresh=st.booleans(),
    )
    def append_in_turns(
        self, known: ModelHandle, other: ModelHandle, deltas: list[dict[str, Any]], at: int, fresh: bool
    ) -> None:
        """``fresh``: the second handle knows what the first wrote, so what both write makes the first one stale."""
        for number, delta in enumerate(deltas):
            if fresh and number % 2:
                self.refresh(other)
            self.append((known, other)[number % 2], delta, at)

    @rule(known=handles, delta=_deltas, gone=_deletions, at=_numbers)
    def append_deleting(self, known: ModelHandle, delta: dict[str, Any], gone: list[str], at: int) -> None:
        """Deleted keys are absent (BEY-13); a key that is written too is deleted."""
        self.append(known, {**delta, **dict.fromkeys(gone, DELETED)}, at)

    @rule(known=handles, deltas=st.lists(_deltas, min_size=2, max_size=4), at=_numbers)
    def append_batch(self, known: ModelHandle, deltas: list[dict[str, Any]], at: int) -> None:
        """All or none (BEY-11)."""
        if self.service.capabilities.atomic_batches:
            self._append(known, deltas, at)

    def append(self, known: ModelHandle, delta: dict[str, Any], at: int) -> None:
        self._append(known, [delta], at)

    def _append(self, known: ModelHandle, deltas: list[dict[str, Any]], at: int) -> None:
        events = [self._event(delta, at) for delta in deltas]
        work = self._one(known, events[0]) if len(events) == 1 else self.service.append_events(known.real, events)
        session = known.session
        kept = [{key: value for key, value in delta.items() if not key.startswith("temp:")} for delta in deltas]
        written = {key for delta in kept for key in delta}
        foreign = {key for missed in session.events[known.end :] for key in missed.actions.state_delta}
        common = foreign & (known.written | written) if self.service.capabilities.detects_stale else set()
        if not session.alive:
            # What this process knows already of foreign events may be told before the store is asked.
            gone = (SessionNotFoundError, StaleSessionError) if common else (SessionNotFoundError,)
            _must_raise(gone, lambda: self.run(work))
            return
        if common:
            error = _must_raise((StaleSessionError,), lambda: self.run(work))
            assert error.keys
            assert set(error.keys) <= common
            assert len(deltas) > 1 or set(error.keys) == common, "a batch may be refused for its first event"
            return
        for stored, delta in zip(self.run(work), kept, strict=True):
            session.events.append(stored)
            assert dict(stored.actions.state_delta) == {k: None if v is DELETED else v for k, v in delta.items()}
            assert stored.timestamp == BASE_TIME + at
            self._apply(session, delta)
        for delta in deltas:
            for key, value in delta.items():
                if key.startswith("temp:"):
                    self._put(known.temp, key, value)
        known.written |= written
        self._catch_up(known)

    def _event(self, delta: dict[str, Any], at: int) -> Event:
        self.serial += 1
        written = {key: value for key, value in delta.items() if value is not DELETED}
        event = say(str(self.serial), at=at, delta=written, id=f"evt-{self.serial}")
        return deleting(event, [key for key in delta if key not in written])

    async def _one(self, known: ModelHandle, event: Event) -> list[Event]:
        return [await self.service.append_event(known.real, event)]

    @rule(known=handles)
    def append_again(self, known: ModelHandle) -> None:
        """An event that the session holds is taken once, wherever it stands."""
        session = known.session
        if not session.alive or not session.events:
            return
        event = session.events[0]
        assert self.run(self.service.append_event(known.real, event)) == event
        if known.end == 0:
            known.written |= event.actions.state_delta.keys()
            self._show(known, 1)

    @rule(known=handles)
    def refresh(self, known: ModelHandle) -> None:
        work = self.service.refresh(known.real)
        if not known.session.alive:
            _must_raise((SessionNotFoundError,), lambda: self.run(work))
            return
        assert self.run(work) == len(known.session.events) - known.end
        known.written.clear()
        self._catch_up(known)

    @rule(known=handles, number=st.integers(min_value=1, max_value=3))
    def load_earlier(self, known: ModelHandle, number: int) -> None:
        if known.session.alive:
            added = self.run(self.service.load_earlier(known.real, number))
            assert added == min(number, known.start), "these histories hold no call pairs"
            known.start -= added

    @rule(known=handles)
    def delete(self, known: ModelHandle) -> None:
        session = known.session
        self.run(self.service.delete_session(app_name=self.app_name, user_id=session.user, session_id=session.id))
        alive = self._alive(session.user, session.id)
        if alive is not None:
            alive.alive = False

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def store_agrees(self) -> None:
        if not hasattr(self, "service"):
            return
        alive = [session for session in self.sessions if session.alive]
        for session in alive:
            real = self.run(
                self.service.get_session(app_name=self.app_name, user_id=session.user, session_id=session.id)
            )
            assert_same_events(self.service, list(real.events), session.events)
            assert dict(real.state) == {**session.state, **self._shared_state(session.user)}
            self._note_revision(session, len(session.events), real.revision)
        listed = self.run(self.service.list_sessions(app_name=self.app_name))
        assert sorted((real.user_id, real.id) for real in listed) == sorted((s.user, s.id) for s in alive)

    def check(self, known: ModelHandle) -> None:
        """Assert that a handle shows its own range and state."""
        real = known.real
        assert_same_events(self.service, list(real.events), known.session.events[known.start : known.end])
        assert {key: value for key, value in real.state.items() if not key.startswith(("app:", "user:"))} == {
            **known.own,
            **known.temp,
        }
        assert real.complete == (known.start == 0)
        self._note_revision(known.session, known.end, real.revision)

    @rule(known=handles)
    def look(self, known: ModelHandle) -> None:
        """A handle shows its range whatever others did meanwhile."""
        self.check(known)

    # --- the model ----------------------------------------------------------------------------------------------------

    def _alive(self, user: str, id: str) -> ModelSession | None:
        return next((s for s in self.sessions if s.alive and (s.user, s.id) == (user, id)), None)

    def _shared_state(self, user: str) -> dict[str, Any]:
        return {**self.shared.get("app", {}), **self.shared.get(user, {})}

    def _apply(self, session: ModelSession, delta: dict[str, Any]) -> None:
        for key, value in delta.items():
            if key.startswith("app:"):
                self._put(self.shared.setdefault("app", {}), key, value)
            elif key.startswith("user:"):
                self._put(self.shared.setdefault(session.user, {}), key, value)
            elif not key.startswith("temp:"):
                self._put(session.state, key, value)

    def _put(self, state: dict[str, Any], key: str, value: Any) -> None:
        """Write a key of a model's state, or take it away; a backend that cannot delete shows None."""
        if value is not DELETED:
            state[key] = value
        elif key.startswith("temp:") or self.service.capabilities.deletes_state:
            state.pop(key, None)
        else:
            state[key] = None

    def _catch_up(self, known: ModelHandle) -> None:
        known.end = len(known.session.events)
        known.own = dict(known.session.state)
        self.check(known)

    def _show(self, known: ModelHandle, end: int) -> None:
        for event in known.session.events[known.end : end]:
            for key, value in delta_of(event).items():
                if not key.startswith(("app:", "user:")):
                    self._put(known.own, key, value)
        known.end = end
        self.check(known)

    def _note_revision(self, session: ModelSession, length: int, revision: str) -> None:
        """LOG-4: equal revisions mean equal events, and the reverse."""
        known = session.revisions.setdefault(length, revision)
        assert known == revision, f"{length} event(s) have the revisions {known} and {revision}"
        assert len(set(session.revisions.values())) == len(session.revisions)


class SessionLaws(SessionSuiteBase):
    """See the module."""

    async def test_cs_47_a_random_walk_agrees_with_lists_and_dicts(self) -> None:
        made = {"make_service": staticmethod(self.make_service)}
        machine = type(
            "Machine", (SessionMachine,), {**made, "app_name": self.app_name, "ids_per_user": self.ids_per_user}
        )
        walk = self.property_settings(stateful_step_count=30)
        await in_own_loop(lambda: run_machine(machine, settings=walk))


_E = TypeVar("_E", bound=BaseException)


def _must_raise(kinds: tuple[type[_E], ...], call: Callable[[], object]) -> _E:
    try:
        call()
    except kinds as error:
        return error
    raise AssertionError(f"{' or '.join(kind.__name__ for kind in kinds)} was not raised")
