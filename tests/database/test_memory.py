"""Memory in SQLite passes the suite, across services too, and opens a file that google-adk wrote (services §6.2a)."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from shutil import copyfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork.errors import ConfigurationError, ValidationError
from hookwork.services import MemoryEntry, MemoryService
from hookwork_database import SqliteMemoryService, memory_service
from hookwork_database.memory.words import Query, search_text
from hookwork_database.sqlite.connecting import Connector
from hookwork_testkit.suites import MemoryServiceSuite

GOLDEN = Path(__file__).with_name("golden") / "google_adk_memory.sqlite"


class TestInMemory(MemoryServiceSuite):
    async def make_service(self) -> MemoryService:
        return memory_service("sqlite://")


class TestFile(MemoryServiceSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.files = (tmp_path / f"{number}.db" for number in itertools.count())

    async def make_service(self) -> MemoryService:
        return memory_service(f"sqlite:///{next(self.files)}")

    async def test_fts_2_the_laws_hold_across_services(self, tmp_path: Path) -> None:
        """MEM-1, 2, 4, 10 between two processes' services on one file."""
        url = f"sqlite:///{tmp_path}/both.db"
        here, there = memory_service(url), memory_service(url)
        await here.add_session_to_memory(self.session("word one", "word two"))
        assert await self.found(there, "word") == ["word one", "word two"]
        await there.add_session_to_memory(self.session("word three"))
        assert await self.found(here, "word") == ["word three"]
        assert await self.found(here, "word", user_id="u2") == []

        async def write(service: MemoryService) -> None:
            for number in range(10):
                await service.add_session_to_memory(self.session(*["word"] * (2 + number % 2 * 3)))

        async def read(service: MemoryService) -> None:
            for _ in range(20):
                assert len(await self.found(service, "word")) in (1, 2, 5)

        await asyncio.gather(write(here), write(there), read(here), read(there))
        await here.close()
        await there.close()

    async def test_mem_9_a_session_replaced_altogether_keeps_its_place(self, service: MemoryService) -> None:
        await service.add_session_to_memory(self.session("red one", name="s-1"))
        await service.add_session_to_memory(self.session("red two", name="s-2"))
        await service.add_session_to_memory(self.session("red three", name="s-1"))
        assert await self.found(service, "red") == ["red three", "red two"]

    async def test_fts_2_no_query_is_syntax(self, service: MemoryService) -> None:
        await service.add_session_to_memory(self.session("near not and or column", "plain"))
        for query in ('"', "a OR", "NEAR(a b)", "search_text: plain", "plain*", "-plain", "(", "^plain", "a AND NOT b"):
            assert (await self.found(service, query) == ["plain"]) == ("plain" in query), query

    async def test_fts_3_a_ranker_reorders(self, tmp_path: Path) -> None:
        asked: list[tuple[str, int]] = []

        async def longest_first(query: str, entries: list[MemoryEntry]) -> list[MemoryEntry]:
            asked.append((query, len(entries)))
            return sorted(entries, key=lambda entry: -len(entry.content.text if entry.content else ""))

        service = SqliteMemoryService(Connector(str(tmp_path / "r.db")), max_results=2, ranker=longest_first)
        await service.add_session_to_memory(self.session("red", "red and blue", "red and"))
        assert await self.found(service, "red") == ["red and blue", "red and"]
        assert asked == [("red", 3)]
        await service.close()


async def test_fts_1_a_file_of_google_adk_opens(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    copyfile(GOLDEN, path)
    service = memory_service(f"sqlite:///{path}")

    async def found(query: str) -> list[str]:
        entries = await service.search_memory(app_name="golden", user_id="u1", query=query)
        return [entry.content.text for entry in entries if entry.content is not None]

    assert await found("fox") == ["The Quick brown fox"]
    assert await found("你还记得我最喜欢的项目吗") == ["我最喜欢的项目是北极星计划"]
    assert await found("STRASSE") == ["snake_case and Straße"]
    (entry,) = await service.search_memory(app_name="golden", user_id="u1", query="fox")
    assert (entry.id, entry.session_id, entry.author) == ("evt-0", "s", "user")
    assert entry.timestamp is not None
    assert entry.timestamp.timestamp() == 1735689600.5
    await service.close()


@settings(max_examples=200, deadline=None, database=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_fts_2_whatever_fits_shares_a_token_with_the_index(text: str, query: str) -> None:
    """The index finds every entry that the filter would take, but for words that match inside others."""
    wanted = Query(query)
    if wanted.score([text]) and not wanted.inside:
        assert set(wanted.tokens) & set(search_text([text]).split(" "))


async def test_url_8_memory_on_a_server_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="SQLite only"):
        memory_service("postgresql://localhost/x")
    with pytest.raises(ConfigurationError, match="from 1"):
        memory_service("sqlite://?max_results=0")
    with pytest.raises(ValidationError):
        SqliteMemoryService(Connector(":memory:"), max_results=0)
    with pytest.raises(ConfigurationError, match="max_results"):
        memory_service("sqlite://?max_result=3")
