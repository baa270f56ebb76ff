"""What only the in-memory memory service promises, and the words it finds by (services MEM-7 … MEM-9)."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.platform import use_clock, use_uuids
from hookwork.records.content import Content, Part, user_content
from hookwork.records.event import Event, EventActions, new_event
from hookwork.services import MemoryEntry
from hookwork_inmemory import InMemoryMemoryService, InMemorySessionService
from hookwork_inmemory.words import IndexedText, Query, normal, words

KEY: dict[str, Any] = {"app_name": "a", "user_id": "u"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's 3.5 km, don't_stop!", ["it", "s", "3", "5", "km", "don", "t_stop"]),
        ("Straße", ["strasse"]),
        ("❤️love it❤️", ["love", "it"]),
        ("โครงการที่ฉัน", ["โครงการที่ฉัน"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("北极星，项目。", ["北极星", "项目"]),
        ("", []),
        ("— … !", []),
    ],
)
def test_mem_7_words(text: str, expected: list[str]) -> None:
    assert words(normal(text)) == [unicodedata.normalize("NFC", word) for word in expected]


@given(st.text())
def test_mem_7_words_do_not_depend_on_composition_or_case(text: str) -> None:
    folded = normal(text)
    assert normal(unicodedata.normalize("NFD", text)) == folded
    assert all(word and word in folded for word in words(folded))


@pytest.mark.parametrize(
    ("said", "query", "score"),
    [
        ("red blue", "blue red red", 2.0),  # distinct words
        ("我最喜欢的项目是北极星计划", "北极星", 1.0),  # every pair
        ("我最喜欢的项目是北极星计划", "你还记得我最喜欢的项目吗", 6 / 11),  # 我最 最喜 喜欢 欢的 的项 项目
        ("abcd一二", "一二三四五六七八九", 0.0),  # 1 of 8 pairs; 2 are needed
        ("一二三", "一二三四五六七八九", 2 / 8),  # just a quarter
        ("프로젝트이름", "이름은 프로", 1.5),
        ("北", "北", 1.0),
        ("在北边", "北", 1.0),  # a single character matches where it occurs
        ("größenwahn", "größe", 1.0),  # not ASCII: inside a text too
        ("steamship", "steam", 0.0),  # ASCII never
    ],
)
def test_mem_9_scores(said: str, query: str, score: float) -> None:
    assert Query(query).score(IndexedText([said])) == pytest.approx(score)


def test_mem_8_pairs_must_meet_in_one_text() -> None:
    """Eight pairs need two of one part; one in each of two parts is not enough."""
    query = Query("一二三四五六七八九")
    assert query.score(IndexedText(["一二", "五六"])) == 0
    assert query.score(IndexedText(["一二 五六"])) == pytest.approx(2 / 8)


async def test_mem_6_every_text_part_counts() -> None:
    sessions, memory = InMemorySessionService(), InMemoryMemoryService()
    session = await sessions.create_session(**KEY)
    parts = [Part(text="first part"), Part(text="hidden", thought=True), Part(text="second")]
    await sessions.append_event(session, new_event("i", author="agent", content=Content(parts=parts)))
    await memory.add_session_to_memory(session)
    assert len(await memory.search_memory(**KEY, query="second first")) == 1
    assert await memory.search_memory(**KEY, query="hidden") == []


async def test_what_a_rewind_hides_is_not_remembered() -> None:
    sessions, memory = InMemorySessionService(), InMemoryMemoryService()
    session = await sessions.create_session(**KEY)
    await sessions.append_event(session, new_event("i-1", author="user", content=user_content("keep this fact")))
    await sessions.append_event(session, new_event("i-2", author="user", content=user_content("drop this fact")))
    await memory.add_session_to_memory(session)
    assert len(await memory.search_memory(**KEY, query="fact")) == 2
    rewind = EventActions(rewind_before_invocation_id="i-2")
    await sessions.append_event(session, new_event("e-1", author="user", actions=rewind))
    await memory.add_session_to_memory(session)
    found = await memory.search_memory(**KEY, query="fact")
    assert [entry.content.text for entry in found if entry.content] == ["keep this fact"]


async def test_mem_1_a_handle_of_the_newest_events_keeps_what_is_known_of_the_older() -> None:
    sessions, memory = InMemorySessionService(), InMemoryMemoryService()
    session = await sessions.create_session(**KEY, session_id="s")
    for number in range(4):
        event = new_event(f"i-{number}", author="user", content=user_content(f"fact {number}"))
        await sessions.append_event(session, event)
    await memory.add_session_to_memory(session)
    await sessions.append_event(session, new_event("i-4", author="user", content=user_content("fact 4")))
    partial = await sessions.get_session(**KEY, session_id="s", num_recent_events=2)
    await memory.add_session_to_memory(partial)
    found = await memory.search_memory(**KEY, query="fact")
    assert [entry.content.text for entry in found if entry.content] == [f"fact {number}" for number in range(5)]


async def test_gen_2_unset_ids_and_times_come_from_the_platform() -> None:
    memory = InMemoryMemoryService()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    entry = MemoryEntry(content=user_content("a fact"), author="user")
    with use_clock(lambda: moment), use_uuids(lambda: "id-1"):
        await memory.add_memory(**KEY, entries=[entry])
    (found,) = await memory.search_memory(**KEY, query="fact")
    assert (found.id, found.timestamp, found.score) == ("id-1", moment, 1.0)


async def test_mem_9_max_results_is_an_option() -> None:
    sessions, memory = InMemorySessionService(), InMemoryMemoryService(max_results=2)
    session = await sessions.create_session(**KEY)
    for number in range(5):
        await sessions.append_event(session, Event(author="user", content=user_content(f"red {number}")))
    await memory.add_session_to_memory(session)
    assert len(await memory.search_memory(**KEY, query="red")) == 2
