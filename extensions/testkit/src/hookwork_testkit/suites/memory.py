"""The memory suite: services §8.2, CM-1 … CM-10 and CM-12, for memories that find by words."""

from __future__ import annotations

import asyncio
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from hookwork.errors import HookworkError, UnsupportedOperationError
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.event import Event, new_event
from hookwork.records.session import EventLog, Session
from hookwork.services import MemoryEntry, MemoryService
from hookwork_testkit.suites.base import BASE_TIME, say


class MemoryServiceSuite(ABC):
    """Subclass it in a test module and say how a service is made.

    Attributes:
        app_name, other_app_name: two apps of the backend.
        max_results: the limit of the service that `make_service` gives.
    """

    app_name: str = "suite"
    other_app_name: str = "suite-other"
    max_results: int = 10

    @abstractmethod
    async def make_service(self) -> MemoryService:
        """A service on an empty store."""

    @pytest_asyncio.fixture
    async def service(self) -> AsyncIterator[MemoryService]:
        """The service under test."""
        service = await self.make_service()
        yield service
        await service.close()

    def session(self, *events: Event | str, user: str = "u1", name: str = "s-1", app: str | None = None) -> Session:
        """A session of these events, or of one event a text."""
        made = [say(event, at=n, author="user") if isinstance(event, str) else event for n, event in enumerate(events)]
        return Session(
            app_name=self.app_name if app is None else app,
            user_id=user,
            id=name,
            log=EventLog(made),
            last_update_time=datetime.fromtimestamp(BASE_TIME, UTC),
            revision=f"{len(made)}",
        )

    async def search(self, service: MemoryService, query: str, **scope: str) -> list[MemoryEntry]:
        """Search as ``u1`` of the suite's app."""
        return await service.search_memory(**{"app_name": self.app_name, "user_id": "u1", "query": query, **scope})

    async def found(self, service: MemoryService, query: str, **scope: str) -> list[str]:
        """The texts that a query finds, in order."""
        return [_text(entry) for entry in await self.search(service, query, **scope)]

    async def test_cm_01_an_empty_store_finds_nothing(self, service: MemoryService) -> None:
        assert await self.search(service, "anything") == []

    async def test_cm_02_one_word_whatever_its_case(self, service: MemoryService) -> None:
        await service.add_session_to_memory(self.session("The Quick brown FOX", "something else"))
        for query in ("quick", "QUICK", "fox", "a fox?"):
            assert await self.found(service, query) == ["The Quick brown FOX"], query

    async def test_bey_14_a_user_is_forgotten_and_nobody_else(self, service: MemoryService) -> None:
        """Sessions and single memories alike; a second call, and a user that never was, are no error."""
        mine = {"app_name": self.app_name, "user_id": "u1"}
        others = [{**mine, "user_id": user} for user in ("U1", "u10", "ú1", "u%")]
        others.append({**mine, "app_name": self.other_app_name})
        for scope in (mine, *others):
            await service.add_session_to_memory(
                self.session("the secret", "more secret", user=scope["user_id"], app=scope["app_name"])
            )
        try:
            await service.add_memory(**mine, entries=[MemoryEntry(content=Content(parts=[Part(text="told secret")]))])
        except UnsupportedOperationError:
            pass  # it takes whole sessions only
        try:
            assert await service.delete_user(**mine) > 0
        except UnsupportedOperationError:
            pytest.skip("the backend cannot forget a user, and says so")
        assert await self.found(service, "secret") == []
        for scope in others:
            assert await self.found(service, "secret", **scope), scope
        assert await service.delete_user(**mine) == 0
        assert await service.delete_user(app_name=self.app_name, user_id="nobody") == 0
        await service.add_session_to_memory(self.session("a new secret"))
        assert await self.found(service, "secret") == ["a new secret"]

    async def test_cm_03_no_leak_across_users_and_apps(self, service: MemoryService) -> None:
        """MEM-2: the scope is app and user."""
        await service.add_session_to_memory(self.session("mine secret"))
        await service.add_session_to_memory(self.session("yours secret", user="u2"))
        await service.add_session_to_memory(self.session("elsewhere secret", app=self.other_app_name))
        assert await self.found(service, "secret") == ["mine secret"]
        assert await self.found(service, "secret", user_id="u2") == ["yours secret"]
        assert await self.found(service, "secret", app_name=self.other_app_name) == ["elsewhere secret"]
        assert await self.found(service, "secret", user_id="u3") == []

    async def test_cm_04_a_session_taken_in_again_replaces_itself(self, service: MemoryService) -> None:
        """MEM-1: as often as wanted, without duplicates."""
        first, second, third = (say(f"word {name}", at=n) for n, name in enumerate(("one", "two", "three")))
        await service.add_session_to_memory(self.session(first, second))
        await service.add_session_to_memory(self.session(first, second))
        assert await self.found(service, "word") == ["word one", "word two"]
        await service.add_session_to_memory(self.session(first, second, third))
        assert await self.found(service, "three") == ["word three"]
        await service.add_session_to_memory(self.session(second))
        assert await self.found(service, "word") == ["word two"]

    async def test_cm_05_rank_by_distinct_words_then_by_age(self, service: MemoryService) -> None:
        one = self.session("red", "red blue", name="s-1")
        two = self.session("red blue green", "blue red blue red", name="s-2")
        expected = ["red blue green", "red blue", "blue red blue red", "red"]
        await service.add_session_to_memory(one)
        await service.add_session_to_memory(two)
        assert await self.found(service, "green blue red") == expected
        await service.add_session_to_memory(one)
        assert await self.found(service, "green blue red red") == expected, "a session taken in again keeps its place"
        many = [f"red {n}" for n in range(self.max_results + 5)]
        await service.add_session_to_memory(self.session(*many, name="s-3"))
        assert len(await self.search(service, "red")) == self.max_results

    async def test_cm_06_what_is_never_returned(self, service: MemoryService) -> None:
        call = Part(function_call=FunctionCall(id="c", name="hidden", args={"hidden": "hidden"}))
        await service.add_session_to_memory(
            self.session(
                new_event("inv-1", author="agent"),
                new_event("inv-1", author="agent", content=Content(parts=[])),
                new_event("inv-1", author="agent", content=Content(parts=[call])),
                new_event("inv-1", author="agent", content=Content(parts=[Part(text="hidden", thought=True)])),
                new_event("inv-1", author="agent", content=Content(parts=[Part(text="?! …")])),
                say("shown", at=1),
            )
        )
        assert await self.found(service, "hidden") == []
        assert await self.found(service, "shown") == ["shown"]
        assert await self.search(service, "?! …") == []

    async def test_cm_07_words_are_runs_of_letters_and_digits(self, service: MemoryService) -> None:
        texts = ["well-known (e.g. U.S.A.)!", "Cafe\u0301 STRASSE", "snake_case room42"]
        await service.add_session_to_memory(self.session(*texts))
        for query, expected in {
            "known": texts[:1],
            "well": texts[:1],
            "usa": [],
            "caf\u00e9": texts[1:2],
            unicodedata.normalize("NFD", "CAFÉ"): texts[1:2],
            "straße": texts[1:2],
            "cafe": [],
            "snake": [],
            "snake_case": texts[2:],
            "room": [],
            "room42!": texts[2:],
            "": [],
            "  … ": [],
        }.items():
            assert await self.found(service, query) == expected, query

    async def test_cm_07_languages_without_blanks(self, service: MemoryService) -> None:
        """CASE-MEM-1: questions share character pairs with what was said, without being a substring of it."""
        said = {
            "我最喜欢的项目是北极星计划": ("北极星", "你还记得我最喜欢的项目吗"),
            "내프로젝트이름은알파야": ("프로젝트 이름이 뭐였지",),
            "ฉันชอบโครงการดาวเหนือ": ("จำโครงการที่ฉันชอบได้ไหม",),
            "私の犬の名前はポチです": ("犬の名前を覚えていますか",),
        }
        for number, text in enumerate(said):
            await service.add_session_to_memory(self.session(text, name=f"s-{number}"))
        for text, queries in said.items():
            for query in queries:
                assert (await self.found(service, query))[:1] == [text], query
        assert await self.found(service, "天气") == []
        assert await self.found(service, "날씨") == []
        await service.add_session_to_memory(self.session("北", name="single"))
        assert sorted(await self.found(service, "北")) == sorted(["北", "我最喜欢的项目是北极星计划"])

    async def test_cm_07_more_overlap_ranks_first(self, service: MemoryService) -> None:
        await service.add_session_to_memory(self.session("我喜欢的城市", "我喜欢的项目是北极星"))
        assert (await self.found(service, "喜欢的项目"))[0] == "我喜欢的项目是北极星"

    async def test_cm_07_other_scripts_match_inside_a_text_and_ascii_never(self, service: MemoryService) -> None:
        await service.add_session_to_memory(self.session("Донаудампфшифф", "steamship"))
        assert await self.found(service, "дампф") == ["Донаудампфшифф"]
        assert await self.found(service, "steam") == []

    async def test_cm_08_an_entry_keeps_author_time_and_content(self, service: MemoryService) -> None:
        """MEM-3: and the session it is of; times are aware."""
        event = say("hello memory", at=1.5, author="agent", custom_metadata={"source": "test"})
        await service.add_session_to_memory(self.session(event))
        (entry,) = await self.search(service, "memory")
        assert entry.author == "agent"
        assert entry.timestamp == datetime(2025, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)
        assert entry.timestamp.tzinfo is not None
        assert entry.content == event.content
        assert entry.id
        assert entry.session_id == "s-1"
        assert entry.custom_metadata in (None, {"source": "test"})

    async def test_cm_09_nothing_handed_out_can_change_the_store(self, service: MemoryService) -> None:
        """MEM-4: entries and events taken in are the memory's own."""
        session = self.session("hello memory")
        await service.add_session_to_memory(session)
        session.log.append(say("later memory"))
        session.length += 1
        found = await self.search(service, "memory")
        assert [_text(entry) for entry in found] == ["hello memory"]
        entry: Any = found[0]
        for attempt in (
            lambda: setattr(entry, "author", "forged"),
            lambda: entry.content.parts.clear(),
            lambda: setattr(entry.content, "parts", []),
        ):
            with pytest.raises((TypeError, AttributeError, HookworkError)):
                attempt()
        found.clear()
        assert await self.found(service, "memory") == ["hello memory"]

    async def test_cm_10_a_search_sees_a_session_whole(self, service: MemoryService) -> None:
        """MEM-10: the old contribution or the new one, never a mix."""
        old = self.session(*(f"word old {n}" for n in range(5)))
        new = self.session(*(f"word new {n}" for n in range(3)))
        sizes: Sequence[tuple[str, int]] = (("old", 5), ("new", 3))
        await service.add_session_to_memory(old)

        async def write() -> None:
            for n in range(20):
                await service.add_session_to_memory(new if n % 2 == 0 else old)
                await asyncio.sleep(0)

        async def read() -> None:
            for _ in range(40):
                texts = await self.found(service, "word")
                kinds = {(kind, sum(kind in text for text in texts)) for kind, _ in sizes}
                assert kinds in ({("old", 5), ("new", 0)}, {("old", 0), ("new", 3)}), kinds
                await asyncio.sleep(0)

        await asyncio.gather(write(), read(), read())
        assert len(await self.found(service, "word")) == 5

    async def test_bey_6_events_as_they_come(self, service: MemoryService) -> None:
        """They join what is remembered of their session, each once; a backend that takes whole sessions says so."""
        scope: dict[str, Any] = {"app_name": self.app_name, "user_id": "u1"}
        first, second = say("word one", at=1, author="user"), say("word two", at=2, author="user")
        call = new_event("inv-1", author="agent", content=Content(parts=[Part(function_call=FunctionCall(name="f"))]))
        try:
            await service.add_events_to_memory(**scope, session_id="s-1", events=[first, call])
        except UnsupportedOperationError:
            assert await self.found(service, "word") == []
            return
        await service.add_events_to_memory(**scope, session_id="s-1", events=[first, second])
        await service.add_events_to_memory(**scope, session_id="s-1", events=[], flush=True)
        assert sorted(await self.found(service, "word")) == ["word one", "word two"]
        assert await self.found(service, "word", user_id="u2") == []
        await service.add_events_to_memory(**scope, events=[say("word alone", author="user")], flush=True)
        assert "word alone" in await self.found(service, "word")
        await self.check_a_session_replaces_its_events(service, second)

    async def check_a_session_replaces_its_events(self, service: MemoryService, event: Event) -> None:
        """A session that is taken in whole is what it is then (MEM-1)."""
        await service.add_session_to_memory(self.session(event))
        assert sorted(await self.found(service, "word")) == ["word alone", "word two"]

    async def test_cm_12_single_memories_work_or_are_refused(self, service: MemoryService) -> None:
        scope = {"app_name": self.app_name, "user_id": "u1"}
        entry = MemoryEntry(id="m-1", author="user", content=Content(parts=[Part(text="single fact")]))
        try:
            await service.add_memory(**scope, entries=[entry])
        except UnsupportedOperationError:
            assert await self.found(service, "fact") == []
        else:
            assert await self.found(service, "fact") == ["single fact"]
            assert await self.found(service, "fact", user_id="u2") == []
        try:
            await service.delete_memory(**scope, memory_id="m-1")
        except UnsupportedOperationError:
            return
        assert await self.found(service, "fact") == []

    async def test_gen_4_use_after_close_raises(self) -> None:
        service = await self.make_service()
        await service.close()
        await service.close()
        with pytest.raises(HookworkError):
            await self.search(service, "anything")
        with pytest.raises(HookworkError):
            await service.add_session_to_memory(self.session("text"))


def _text(entry: MemoryEntry) -> str:
    return "" if entry.content is None else entry.content.text
