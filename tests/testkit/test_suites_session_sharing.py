"""The session suite catches backends that share sessions wrongly (services §8.1, CS-29 … CS-38)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookwork.errors import StaleSessionError, ValidationError
from hookwork.records.event import Event
from hookwork.records.frozen import thaw
from hookwork.records.session import Session, StateView
from hookwork.services import SessionService
from hookwork_inmemory import InMemorySessionService
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_testkit.suites.broken import BrokenBackends
from hookwork_testkit.suites.session_sharing import SessionSharing
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


@BROKEN.breaks(
    "test_cs_29_a_rewind", "test_cs_29_foreign", "test_cs_29_temp", "test_cs_31_twenty_handles_with_keys", "test_log_11"
)
class RefusesForeignEvents(InMemorySessionService):
    def __init__(self) -> None:
        super().__init__(foreign_appends="refuse")


@BROKEN.breaks("test_cs_29_a_common", "test_cs_29_a_rewind", "test_cs_31_twenty_handles_with_one")
class NeverStale(InMemorySessionService):
    def _check_foreign(self, *_: Any) -> None:
        pass


@BROKEN.breaks("test_cs_29_a_shared")
class GuardsSharedKeysAcrossSessions(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        if isinstance(session, Session) and isinstance(event, Event) and "app:k" in event.actions.state_delta:
            shared = len(session.backend.app.users["u1"].sessions) > 1
            if shared and session.app_state != session.backend.app.state:
                raise StaleSessionError("stale", stored="a", local="b", keys=["app:k"])
        return await super().append_event(session, event, redelivery=redelivery)


@BROKEN.breaks("test_cs_29_temp")
class CountsTempKeys(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        writes = isinstance(session, Session) and isinstance(event, Event) and "temp:k" in event.actions.state_delta
        if writes and not session.is_current:
            raise StaleSessionError("stale", keys=["temp:k"])
        return await super().append_event(session, event, redelivery=redelivery)


@BROKEN.breaks("test_cs_30")
class ForgetsWhatOthersDidWhileItWaited(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        if not isinstance(session, Session) or session.backend.service is not self:
            return await super().append_event(session, event, redelivery=redelivery)
        before = session.session_state
        await asyncio.sleep(0)
        stored = await super().append_event(session, event, redelivery=redelivery)
        if len(_log(session)) > 1 and "last" in event.actions.state_delta:
            session.backend.state = type(session.backend.state)({**before, "last": -1})
        return stored


@BROKEN.breaks("test_cs_32")
class LosesConcurrentAppState(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        if not isinstance(session, Session) or event is None or "app:k0" not in event.actions.state_delta:
            return await super().append_event(session, event, redelivery=redelivery)
        before = session.backend.app.state
        await asyncio.sleep(0)
        stored = await super().append_event(session, event, redelivery=redelivery)
        session.backend.app.state = type(before)({**before, "k0": 0})
        return stored


@BROKEN.breaks("test_cs_33")
class ReadsEventsAndStateApart(InMemorySessionService):
    async def get_session(self, **key: Any) -> Session:
        session = await super().get_session(**key)
        await asyncio.sleep(0)
        session.session_state = session.backend.state
        return session


class _SnapshotSession(Session):
    __slots__ = ()

    @property
    def state(self) -> StateView:
        return StateView(self.view())


@BROKEN.breaks("test_cs_34")
class GivesSnapshotsOfState(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        session = await super().create_session(**key)
        session.__class__ = _SnapshotSession
        return session


@BROKEN.breaks("test_cs_35")
class HandsOutItsOwnMaps(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        session = await super().create_session(**key)
        if key.get("state") == {"i": {"inner": [1]}}:
            session.backend.state = session.session_state = dict(session.session_state)
        return session

    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        stored = await super().append_event(session, event, redelivery=redelivery)
        if isinstance(session.session_state, dict) and "i" in session.session_state:
            session.backend.state = session.session_state = dict(session.session_state)
        return stored


@BROKEN.breaks("test_case_state_2")
class ThawsStateOnReading(InMemorySessionService):
    async def get_session(self, **key: Any) -> Session:
        session = await super().get_session(**key)
        session.session_state = thaw(session.session_state)
        return session


@BROKEN.breaks("test_cs_36")
class TakesForeignHandles(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        if isinstance(session, Session) and session.backend.service is not self:
            mine = await self.get_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
            await super().append_event(mine, event)
            raise ValidationError("not mine")
        return await super().append_event(session, event, redelivery=redelivery)


@BROKEN.breaks("test_cs_37")
class TearsWhenCancelled(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        if event is not None and "k" in event.actions.state_delta and "k" in getattr(session, "app_state", ()):
            record = session.backend
            record.state = type(record.state)({**record.state, "k": event.actions.state_delta["k"]})
            await asyncio.sleep(0)
        return await super().append_event(session, event, redelivery=redelivery)


@BROKEN.breaks("test_cs_38")
class NeverCloses(InMemorySessionService):
    async def close(self) -> None:
        pass


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_backend_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_backend() -> None:
    assert BROKEN.uncaught(set(vars(SessionSharing)) - {"test_cs_29_refusing_every_foreign_append"}) == []
