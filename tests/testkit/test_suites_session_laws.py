"""The property tests of the session suite find backends that break a law (services §8.1, CS-45, CS-47, CS-48)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, Verbosity, settings

from hookwork.errors import SessionNotFoundError
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.services import SessionService
from hookwork_inmemory import InMemorySessionService
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_testkit.suites.broken import failures


def _log(session: Session) -> list[Event]:
    events: list[Event] = session.backend.log.events
    return events


class NeverStale(InMemorySessionService):
    def _check_foreign(self, *_: Any) -> None:
        pass


class StoresTempKeys(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        stored = await super().append_event(session, event, redelivery=redelivery)
        if stored is not event and any(key.startswith("temp:") for key in event.actions.state_delta):
            _log(session)[-1] = event
        return stored


class AbsorbsEventsWithoutTheirState(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        behind = isinstance(session, Session) and not session.is_current
        before = dict(session.session_state) if behind else {}
        stored = await super().append_event(session, event, redelivery=redelivery)
        if behind and stored is event:
            session.session_state = {**before, **event.actions.state_delta}
            session.backend.state = type(session.backend.state)(session.session_state)
        return stored


class DeletesSharedState(InMemorySessionService):
    async def delete_session(self, **key: Any) -> None:
        await super().delete_session(**key)
        self._apps.pop(key["app_name"], None)


class TakesTheNewestExactly(InMemorySessionService):
    """Breaks LOG-8: calls are cut off from their responses."""

    async def get_session(self, **key: Any) -> Session:
        tail = key.pop("tail", None)
        return await super().get_session(**key, num_recent_events=tail if isinstance(tail, int) else None)


class LoadsPairsApart(InMemorySessionService):
    """Breaks LOG-9: what is loaded earlier may begin behind a call."""

    async def load_earlier(self, session: Session, count: int) -> int:
        added = min(count, session.start)
        session.start -= added
        session.length += added
        return added


class SummarisesTooMuch(InMemorySessionService):
    """Breaks LOG-8: a window of the summary alone."""

    async def get_session(self, **key: Any) -> Session:
        return await super().get_session(**{**key, "tail": 1 if key.get("tail") == "summary" else key.get("tail")})


class ForgetsRewinds(InMemorySessionService):
    """Breaks LOG-12: what a rewind hides stays in the log's index."""

    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        index = session.log.index()
        stored = await super().append_event(session, event, redelivery=redelivery)
        session.log._index = index
        return stored


class ForgetsWhatItWrote(InMemorySessionService):
    """Breaks LOG-6."""

    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        session.written_keys.clear()
        return await super().append_event(session, event, redelivery=redelivery)


class RevivesDeletedEvents(InMemorySessionService):
    """Breaks SES-10: a session made again has its old events."""

    def __init__(self) -> None:
        super().__init__()
        self.old: dict[tuple[str, str], list[Event]] = {}

    async def delete_session(self, **key: Any) -> None:
        try:
            session = await self.get_session(**key)
        except SessionNotFoundError:
            return
        self.old[session.user_id, session.id] = list(session.events)
        await super().delete_session(**key)

    async def create_session(self, **key: Any) -> Session:
        session = await super().create_session(**key)
        for event in self.old.get((session.user_id, session.id), ()):
            await super().append_event(session, event)
        return session


WINDOWS, WALK, DERIVED, _ = SessionServiceSuite.property_tests

LAW_BROKEN: list[tuple[type[InMemorySessionService], str]] = [
    (TakesTheNewestExactly, WINDOWS),
    (LoadsPairsApart, WINDOWS),
    (SummarisesTooMuch, WINDOWS),
    (ForgetsRewinds, DERIVED),
    (ForgetsWhatItWrote, WALK),
    (RevivesDeletedEvents, WALK),
    (NeverStale, WALK),
    (StoresTempKeys, WALK),
    (AbsorbsEventsWithoutTheirState, WALK),
    (DeletesSharedState, WALK),
]


class _Suite(SessionServiceSuite):
    """The suite against a broken backend."""

    def __init__(self, kind: type[InMemorySessionService]) -> None:
        self.kind = kind

    def property_settings(self, **more: Any) -> settings:
        """The same examples each time, and no search for the smallest one: only whether one is found counts."""
        return super().property_settings(
            **{**more, "max_examples": 200}, derandomize=True, phases=[Phase.generate], verbosity=Verbosity.quiet
        )

    async def make_service(self) -> SessionService:
        return self.kind()


@pytest.mark.parametrize(("kind", "law"), LAW_BROKEN, ids=lambda value: getattr(value, "__name__", ""))
async def test_the_property_tests_find_what_is_broken(kind: type[InMemorySessionService], law: str) -> None:
    assert list(await failures(_Suite(kind), [law])) == [law]
