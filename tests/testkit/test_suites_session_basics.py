"""The session suite catches backends that create, read, list or delete wrongly (services §8.1, CS-1 … CS-14)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import pytest

from hookwork.errors import HookworkError, SessionNotFoundError, ValidationError
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.services import SessionCapabilities, SessionPage, SessionService
from hookwork.session_pages import page_of
from hookwork_inmemory import InMemorySessionService
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_testkit.suites.broken import BrokenBackends
from hookwork_testkit.suites.session_basics import SessionBasics
from hookwork_testkit.suites.sessions import BEYOND

BROKEN = BrokenBackends(SessionServiceSuite, without=BEYOND)


class _Suite(SessionServiceSuite):
    """The suite against a broken backend."""

    def __init__(self, kind: type[InMemorySessionService]) -> None:
        self.kind = kind

    async def make_service(self) -> SessionService:
        return self.kind()


class NaiveTimes(Session):
    __slots__ = ()

    @property
    def last_update_time(self) -> datetime:  # type: ignore[override]
        return datetime.fromtimestamp(self.updated_at)


@BROKEN.breaks("test_cs_01")
class GivesNaiveTimesOnCreate(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        session = await super().create_session(**key)
        if key.get("session_id") == "s-1" and key.get("state") == {"k": 5}:
            session.__class__ = NaiveTimes
        return session


@BROKEN.breaks("test_cs_02")
class MakesIdsItself(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        key["session_id"] = (key.get("session_id") or "").strip() or str(uuid.uuid4())
        return await super().create_session(**key)


@BROKEN.breaks("test_cs_03")
class WritesSharedStateOfATakenId(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        try:
            return await super().create_session(**key)
        except HookworkError:
            if key.get("session_id") == "s-1" and key.get("state"):
                await super().create_session(**{**key, "session_id": "side"})
                await self.delete_session(app_name=key["app_name"], user_id=key["user_id"], session_id="side")
            raise


@BROKEN.breaks("test_cs_04")
class ChecksBeforeItWaits(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        wanted = {name: key.get(name) for name in ("app_name", "user_id", "session_id")}
        if (key.get("session_id") or "").strip():
            try:
                await self.get_session(**wanted)  # type: ignore[arg-type]
            except HookworkError:
                await asyncio.sleep(0)
                await self.delete_session(**wanted)  # type: ignore[arg-type]
        return await super().create_session(**key)


@BROKEN.breaks("test_cs_05")
class TakesAnEmptyUser(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        return await super().create_session(**{**key, "user_id": key["user_id"] or "anonymous"})


@BROKEN.breaks("test_ses_23")
class IgnoresItsOwnLimits(InMemorySessionService):
    capabilities = SessionCapabilities(max_id_length=10, session_id_pattern="[a-z0-9][a-z0-9-]*")


@BROKEN.breaks("test_cs_06")
class StoresInitialTempKeys(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        session = await super().create_session(**key)
        session.backend.state = type(session.backend.state)({**session.backend.state, **session.temp_state})
        return session


@BROKEN.breaks("test_cs_07", "test_cs_35", "test_case_state_2")
class KeepsTheCallersState(InMemorySessionService):
    async def create_session(self, **key: Any) -> Session:
        session = await super().create_session(**key)
        if key.get("state") and not any(":" in name for name in key["state"]):
            session.backend.state = session.session_state = key["state"]
        return session


@BROKEN.breaks("test_cs_08")
class FindsSessionsOfOthers(InMemorySessionService):
    async def get_session(self, **key: Any) -> Session:
        try:
            return await super().get_session(**key)
        except SessionNotFoundError:
            for session in await self.list_sessions(app_name=key["app_name"]):
                if session.id == key["session_id"]:
                    return await super().get_session(**{**key, "user_id": session.user_id})
            raise


@BROKEN.breaks("test_cs_09", "test_cs_10", "test_cs_11", "test_log_09")
class TakesAfterAsStrictlyLater(InMemorySessionService):
    async def get_session(self, **key: Any) -> Session:
        after = key.get("after")
        if after is not None:
            seconds = after if isinstance(after, float) else after.timestamp()
            key["after"] = seconds + 1e-6
        return await super().get_session(**key)


@BROKEN.breaks("test_cs_10")
class TakesZeroAsAll(InMemorySessionService):
    async def get_session(self, **key: Any) -> Session:
        return await super().get_session(**{**key, "num_recent_events": key.get("num_recent_events") or None})


@BROKEN.breaks("test_cs_11", "test_log_09")
class SortsByTime(InMemorySessionService):
    async def get_session(self, **key: Any) -> Session:
        session = await super().get_session(**key)
        session.backend.log.events.sort(key=lambda event: event.timestamp)
        return session


@BROKEN.breaks("test_cs_12", "test_bey_12_a", "test_bey_14")
class ListsBackwards(InMemorySessionService):
    async def list_sessions(self, **key: Any) -> list[Session]:
        return (await super().list_sessions(**key))[::-1]


@BROKEN.breaks("test_bey_12_a_session_used_between_pages_is_not_missed")
class PagesByNumber(InMemorySessionService):
    async def list_session_page(self, **key: Any) -> SessionPage:
        limit, token = key.pop("limit", 100), key.pop("page_token", None)
        if token is not None and not token.isdigit():
            raise ValidationError("no token")
        page_of([], limit, None)
        found, start = await self.list_sessions(**key), int(token or 0)
        more = start + limit < len(found)
        return SessionPage(found[start : start + limit], str(start + limit) if more else None)


@BROKEN.breaks("test_bey_12_events_come_as_a_stream")
class StreamsByTime(InMemorySessionService):
    async def stream_events(self, *, page_size: int = 500, **key: Any) -> AsyncGenerator[Event, None]:
        session = await self.get_session(**key)
        for event in sorted(session.events, key=lambda event: event.timestamp):
            yield event


@BROKEN.breaks("test_bey_14_unused_sessions_are_purged")
class PurgesEverybodys(InMemorySessionService):
    async def purge_sessions(self, *, app_name: str, user_id: str | None = None, unused_for: float) -> int:
        return await super().purge_sessions(app_name=app_name, unused_for=unused_for)


@BROKEN.breaks("test_cs_13")
class ListsOnePage(InMemorySessionService):
    async def list_sessions(self, **key: Any) -> list[Session]:
        return (await super().list_sessions(**key))[:100]


@BROKEN.breaks("test_cs_14", "test_bey_14")
class DeletesSharedState(InMemorySessionService):
    async def delete_session(self, **key: Any) -> None:
        await super().delete_session(**key)
        self._apps.pop(key["app_name"], None)


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_backend_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_backend() -> None:
    assert BROKEN.uncaught(set(vars(SessionBasics))) == []
