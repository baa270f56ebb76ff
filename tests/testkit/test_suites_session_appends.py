"""The session suite catches backends that append wrongly (services §8.1, CS-15 … CS-28)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hookwork.errors import SessionNotFoundError, ValidationError
from hookwork.records.content import Content, Part
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.services import SessionService
from hookwork_inmemory import InMemorySessionService
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_testkit.suites.broken import BrokenBackends
from hookwork_testkit.suites.session_appends import SessionAppends
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


def _rewrites(change: Callable[[Event], Event]) -> type[InMemorySessionService]:
    """A backend that stores something else than it was given."""

    class Rewriting(InMemorySessionService):
        async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
            if isinstance(event, Event) and not event.partial:
                event = change(event)
            return await super().append_event(session, event, redelivery=redelivery)

    return Rewriting


@BROKEN.breaks("test_cs_15")
class AppliesStateOfALostSession(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        try:
            return await super().append_event(session, event, redelivery=redelivery)
        except SessionNotFoundError:
            session.session_state = {**session.session_state, **event.actions.state_delta}
            raise


@BROKEN.breaks("test_cs_16", "test_ses_20", "test_cs_44_refresh")
class LeavesTheHandlesTime(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        time = getattr(session, "last_update_time", None)
        stored = await super().append_event(session, event, redelivery=redelivery)
        session.last_update_time = time  # type: ignore[assignment]
        return stored


@BROKEN.breaks("test_ses_20")
class LetsTheUpdateTimeGoBack(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        stored = await super().append_event(session, event, redelivery=redelivery)
        if not event.partial and stored.timestamp < session.backend.updated - 100:
            session.backend.updated = stored.timestamp
            session.last_update_time = stored.time
        return stored


@BROKEN.breaks("test_cs_17")
class StoresPartialEvents(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        if isinstance(event, Event) and event.partial:
            await super().append_event(session, event.replace(partial=None))
            return event
        return await super().append_event(session, event, redelivery=redelivery)


def _without_empty_bytes(event: Event) -> Event:
    content = event.content
    if content is None or not any(part.inline_data and part.inline_data.data == b"" for part in content.parts):
        return event
    parts = [p.replace(inline_data=p.inline_data.replace(data=None)) if p.inline_data else p for p in content.parts]
    return event.replace(content=content.replace(parts=parts))


def _without_video(event: Event) -> Event:
    if event.content is None or not any(part.video_metadata for part in event.content.parts):
        return event
    parts: list[Part] = [part.replace(video_metadata=None) for part in event.content.parts]
    return event.replace(content=Content(role=event.content.role, parts=parts))


def _with_coarse_times(event: Event) -> Event:
    compaction = event.actions.compaction
    if compaction is None:
        return event
    coarse = compaction.replace(end_timestamp=round(compaction.end_timestamp, 3))
    return event.replace(actions=event.actions.replace(compaction=coarse))


for _name, _tag, _change in (
    ("LosesEmptyBytes", "test_cs_18", _without_empty_bytes),
    ("DropsModelVersion", "test_cs_19", lambda event: event.replace(model_version=None)),
    ("DropsFalsyOutput", "test_cs_20", lambda event: event.replace(output=event.output or None)),
    ("RoundsCompactionTimes", "test_cs_21", _with_coarse_times),
    ("LosesVideoMetadata", "test_cs_22", _without_video),
):
    BROKEN.kinds[_name] = _rewrites(_change), (_tag,)


@BROKEN.breaks("test_cs_23")
class SharesUserStateWithEveryone(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        session = await super().create_session(**key)
        if key["user_id"] != "u1" and "u1" in session.backend.app.users and not key.get("state"):
            session.user_state = session.backend.app.users["u1"].state
        return session


@BROKEN.breaks("test_cs_24", "test_cs_27_a_lost")
class StoresTempKeys(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        stored = await super().append_event(session, event, redelivery=redelivery)
        if stored is not event and any(key.startswith("temp:") for key in event.actions.state_delta):
            _log(session)[-1] = event
        return stored


@BROKEN.breaks("test_cs_25")
class TakesNoneAsDeletion(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        stored = await super().append_event(session, event, redelivery=redelivery)
        record = session.backend
        record.state = type(record.state)({key: value for key, value in record.state.items() if value is not None})
        return stored


@BROKEN.breaks("test_cs_26")
class IgnoresNamelessKeys(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        state = {name: value for name, value in (key.get("state") or {}).items() if name}
        return await super().create_session(**{**key, "state": state})


@BROKEN.breaks("test_cs_27_a_failed")
class AppliesStateBeforeItFails(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        try:
            return await super().append_event(session, event, redelivery=redelivery)
        except ValidationError:
            if isinstance(session, Session) and isinstance(event, Event):
                session.session_state = {**session.session_state, **event.actions.state_delta}
            raise


@BROKEN.breaks("test_cs_27_a_lost", "test_ses_19")
class KnowsOnlyTheIdsOfTheHandle(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        if isinstance(event, Event) and isinstance(session, Session):
            end = session.start + session.length
            if session.backend.positions.get(event.id, -1) >= end:
                del session.backend.positions[event.id]
        return await super().append_event(session, event)


@BROKEN.breaks("test_cs_28")
class TakesAnyEventOfAKnownId(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        return await super().append_event(session, event, redelivery=True)


@BROKEN.breaks("test_ses_19")
class ComparesRedeliveries(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        return await super().append_event(session, event)


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_backend_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_backend() -> None:
    assert BROKEN.uncaught(set(vars(SessionAppends))) == []
