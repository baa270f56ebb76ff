"""The memory suite catches backends that break one rule each (services §8.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookwork.errors import HookworkError, UnsupportedOperationError
from hookwork.records.session import Session
from hookwork.services import MemoryEntry, MemoryService
from hookwork_inmemory import InMemoryMemoryService
from hookwork_testkit.suites import MemoryServiceSuite
from hookwork_testkit.suites.broken import BrokenBackends, failures

BROKEN = BrokenBackends(MemoryServiceSuite)


class _Suite(MemoryServiceSuite):
    """The suite against a broken backend."""

    def __init__(self, kind: type[InMemoryMemoryService]) -> None:
        self.kind = kind

    async def make_service(self) -> MemoryService:
        return self.kind()


@BROKEN.breaks("test_bey_6", "test_bey_14", "test_cm_01", "test_cm_03", "test_cm_12", "test_gen_4")
class FailsForAnUnknownUser(InMemoryMemoryService):
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        if (app_name, user_id) not in self._scopes:
            raise KeyError(user_id)
        return await super().search_memory(app_name=app_name, user_id=user_id, query=query)


@BROKEN.breaks("test_cm_02", "test_cm_07_words", "test_cm_07_other")
class MindsTheCase(InMemoryMemoryService):
    async def search_memory(self, **key: Any) -> list[MemoryEntry]:
        if any(letter.isupper() or (ord(letter) > 0x400 and letter.islower()) for letter in key["query"]):
            return []
        return await super().search_memory(**key)


@BROKEN.breaks("test_bey_6", "test_bey_14", "test_cm_03", "test_cm_12")
class MixesUsers(InMemoryMemoryService):
    async def search_memory(self, **key: Any) -> list[MemoryEntry]:
        return await super().search_memory(**{**key, "user_id": "u1"})


@BROKEN.breaks("test_bey_14")
class ForgetsEveryUserOfTheApp(InMemoryMemoryService):
    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        for app, user in list(self._scopes):
            if app == app_name and user != user_id:
                del self._scopes[app, user]
        return await super().delete_user(app_name=app_name, user_id=user_id)


@BROKEN.breaks("test_cm_04", "test_bey_6")
class KeepsWhatASessionLost(InMemoryMemoryService):
    async def add_session_to_memory(self, session: Session) -> None:
        scope = self._scopes.setdefault((session.app_name, session.user_id), {})
        before = list(scope.get(session.id, []))
        await super().add_session_to_memory(session)
        new = scope[session.id]
        if len(new) < len(before):
            scope[session.id] = before


@BROKEN.breaks("test_cm_05")
class MovesASessionToTheEnd(InMemoryMemoryService):
    async def add_session_to_memory(self, session: Session) -> None:
        self._scopes.get((session.app_name, session.user_id), {}).pop(session.id, None)
        await super().add_session_to_memory(session)


@BROKEN.breaks("test_cm_06")
class RemembersThoughts(InMemoryMemoryService):
    async def add_session_to_memory(self, session: Session) -> None:
        events = session.log.events
        for position, event in enumerate(events):
            if event.content and any(part.thought for part in event.content.parts):
                parts = [part.replace(thought=None) for part in event.content.parts]
                events[position] = event.replace(content=event.content.replace(parts=parts))
        await super().add_session_to_memory(session)


@BROKEN.breaks("test_cm_07_words")
class SplitsOnUnderscores(InMemoryMemoryService):
    async def search_memory(self, **key: Any) -> list[MemoryEntry]:
        return await super().search_memory(**{**key, "query": key["query"].replace("_", " ")})


@BROKEN.breaks("test_cm_07_languages", "test_cm_07_more", "test_cm_07_other", "test_cm_07_words")
class KnowsAsciiOnly(InMemoryMemoryService):
    async def search_memory(self, **key: Any) -> list[MemoryEntry]:
        return await super().search_memory(**key) if key["query"].isascii() else []


@BROKEN.breaks("test_cm_07_more", "test_cm_05")
class GivesTheOldestFirst(InMemoryMemoryService):
    async def search_memory(self, **key: Any) -> list[MemoryEntry]:
        found = await super().search_memory(**key)
        return sorted(found, key=lambda entry: (entry.session_id, entry.timestamp))


@BROKEN.breaks("test_cm_08")
class ForgetsTimes(InMemoryMemoryService):
    async def search_memory(self, **key: Any) -> list[MemoryEntry]:
        return [entry.replace(timestamp=None) for entry in await super().search_memory(**key)]


@BROKEN.breaks("test_cm_09")
class KeepsTheSession(InMemoryMemoryService):
    async def add_session_to_memory(self, session: Session) -> None:
        self.session = session
        await super().add_session_to_memory(session)

    async def search_memory(self, **key: Any) -> list[MemoryEntry]:
        if key["query"] == "memory" and len(self.session.events) == 2:
            await super().add_session_to_memory(self.session)
        return await super().search_memory(**key)


@BROKEN.breaks("test_cm_10")
class EmptiesBeforeItFills(InMemoryMemoryService):
    async def add_session_to_memory(self, session: Session) -> None:
        scope = self._scopes.get((session.app_name, session.user_id), {})
        if session.id in scope:
            scope[session.id] = []
            await asyncio.sleep(0)
        await super().add_session_to_memory(session)


@BROKEN.breaks("test_bey_6")
class KeepsTheNewestEventsOnly(InMemoryMemoryService):
    async def add_events_to_memory(self, **key: Any) -> None:
        if key["events"]:
            self._scopes.get((key["app_name"], key["user_id"]), {}).pop(key.get("session_id", ""), None)
            key["events"] = key["events"][-1:]
        await super().add_events_to_memory(**key)


@BROKEN.breaks("test_cm_12")
class PretendsToForget(InMemoryMemoryService):
    async def delete_memory(self, **key: Any) -> None:
        pass


@BROKEN.breaks("test_gen_4")
class NeverCloses(InMemoryMemoryService):
    async def close(self) -> None:
        pass


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_backend_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_backend() -> None:
    assert BROKEN.uncaught(BROKEN.lines) == []


class _WithoutSingles(InMemoryMemoryService):
    """A memory that takes sessions only, as the contract allows."""

    async def add_memory(self, **_: Any) -> None:
        raise UnsupportedOperationError("sessions only")

    async def delete_memory(self, **_: Any) -> None:
        raise UnsupportedOperationError("sessions only")


async def test_a_memory_without_single_entries_passes() -> None:
    """CM-12: a missing capability is no fault when it is refused in the typed way."""
    assert issubclass(UnsupportedOperationError, HookworkError)
    assert await failures(_Suite(_WithoutSingles)) == {}
