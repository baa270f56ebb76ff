"""The session suite catches backends that read on wrongly (services §8.1, CS-43 … CS-46, CS-48)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.errors import SessionNotFoundError, ValidationError
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.services import SessionService
from hookwork_inmemory import InMemorySessionService
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_testkit.suites.broken import BrokenBackends
from hookwork_testkit.suites.session_reads import SessionReads
from hookwork_testkit.suites.sessions import BEYOND

BROKEN = BrokenBackends(SessionServiceSuite, without=BEYOND)


class _Suite(SessionServiceSuite):
    """The suite against a broken backend."""

    def __init__(self, kind: type[InMemorySessionService]) -> None:
        self.kind = kind

    async def make_service(self) -> SessionService:
        return self.kind()


def _log(session: Session) -> list[Event]:
    events: list[Event] = session.backend.log.events
    return events


@BROKEN.breaks("test_cs_43")
class StoresRawErrorTexts(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        stored = await super().append_event(session, event, redelivery=redelivery)
        if stored.error_message is not None:  # a store that puts raw text where the record had cleaned it
            _log(session)[-1] = stored = stored.replace(error_message=stored.error_message.replace("\ufffd", "?"))
        return stored


@BROKEN.breaks("test_cs_44_refresh")
class CountsNothingOnRefresh(InMemorySessionService):
    async def refresh(self, session: Session) -> int:
        added = await super().refresh(session)
        return added if added < 2 and not session.start else 0


@BROKEN.breaks("test_cs_44_refresh_tells")
class MixesAnOldAndANewSession(InMemorySessionService):
    async def refresh(self, session: Session) -> int:
        try:
            return await super().refresh(session)
        except SessionNotFoundError:
            again = await self.get_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
            for event in again.events:
                session.log.append(event)
            session.length += len(again.events)
            return len(again.events)


@BROKEN.breaks("test_cs_45_wrong")
class TakesAnyTail(InMemorySessionService):
    async def get_session(self, **key: Any) -> Session:
        try:
            return await super().get_session(**key)
        except ValidationError:
            if key.get("tail") is None:
                raise
            return await super().get_session(**{**key, "tail": None})


@BROKEN.breaks("test_log_09")
class LoadsNothingIntoASelection(InMemorySessionService):
    async def load_earlier(self, session: Session, count: int) -> int:
        return 0 if session.log is not session.backend.log else await super().load_earlier(session, count)


@BROKEN.breaks("test_cs_46")
class LooksThroughTheHistory(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        stored = await super().append_event(session, event, redelivery=redelivery)
        assert event.partial or any(known.id == stored.id for known in session.events)
        return stored


@BROKEN.breaks("test_cs_48_opening")
class CopiesTheHistoryOnOpening(InMemorySessionService):
    async def get_session(self, **key: Any) -> Session:
        session = await super().get_session(**key)
        assert len([event.id for event in session.events]) == session.length
        return session


@BROKEN.breaks("test_cs_29_foreign", "test_cs_31_twenty_handles_with_keys", "test_log_11")
class AbsorbsEventsWithoutTheirState(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        behind = isinstance(session, Session) and not session.is_current
        before = dict(session.session_state) if behind else {}
        stored = await super().append_event(session, event, redelivery=redelivery)
        if behind and stored is event:
            session.session_state = {**before, **event.actions.state_delta}
            session.backend.state = type(session.backend.state)(session.session_state)
        return stored


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_backend_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_backend() -> None:
    assert BROKEN.uncaught(set(vars(SessionReads)) - {"test_cs_44_two_services_on_one_store"}) == []
