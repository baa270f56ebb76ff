"""RAG memory against the fake (services §6.4)."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.vertexai.fake import FakeVertex, Fault
from tests.vertexai.steps import waits

from hookwork.errors import BackendError, UnsupportedOperationError, ValidationError
from hookwork.records.content import Content, Part
from hookwork.records.session import EventLog, Session
from hookwork_testkit.suites.base import BASE_TIME, say
from hookwork_vertexai import VertexAiRagMemoryService
from hookwork_vertexai.transcripts import Owner, display_name, owner_of

CORPUS = "projects/p/locations/us-central1/ragCorpora/c"
SCOPE = {"app_name": "shop", "user_id": "u1"}
#: google-adk's name of the file of (shop, u1, s-1).
NAME = "adk-memory-v1.c2hvcA.dTE.cy0x"


def rag(fake: FakeVertex, corpora: Any = CORPUS, **options: Any) -> VertexAiRagMemoryService:
    """The memory of a corpus that is made when it is not there."""
    for corpus in (corpora,) if isinstance(corpora, str) else corpora:
        if corpus not in fake.rag.corpora:
            fake.rag.make(corpus)
    return VertexAiRagMemoryService(corpora, base_url=fake.url, token_source=lambda: "t", **options)


def session(*events: Any, user: str = "u1", name: str = "s-1", start: int = 0) -> Session:
    made = [say(event, at=n) if isinstance(event, str) else event for n, event in enumerate(events)]
    return Session(
        app_name="shop",
        user_id=user,
        id=name,
        log=EventLog(made),
        start=start,
        last_update_time=datetime(2025, 1, 1, tzinfo=UTC),
        revision="1",
    )


async def found(memory: VertexAiRagMemoryService, query: str, **scope: str) -> list[str]:
    entries = await memory.search_memory(**{**SCOPE, **scope}, query=query)
    return [entry.content.text for entry in entries if entry.content is not None]


async def test_rag_1_one_file_of_json_lines(fake: FakeVertex) -> None:
    memory = rag(fake)
    parts = [Part(text="two\nlines"), Part(text="hidden", thought=True), Part(text="and ü more")]
    mixed = say("", at=1.5).replace(content=Content(role="model", parts=parts))
    await memory.add_session_to_memory(session(say("hi", at=0, author="user"), mixed, say("").replace(content=None)))
    (sent,) = fake.sent("rag.upload")
    assert (sent.method, sent.path) == ("POST", f"/upload/v1beta1/{CORPUS}/ragFiles:upload")
    assert sent.headers["x-goog-upload-protocol"] == "multipart"
    ((file, text),) = fake.rag.corpora[CORPUS].values()
    assert file["displayName"] == NAME
    assert text.split("\n") == [
        '{"author":"user","timestamp":1735689600.0,"text":"hi"}',
        '{"author":"agent","timestamp":1735689601.5,"text":"two lines.and ü more"}',
    ]
    assert NAME.encode() in sent.body
    await memory.close()


@pytest.mark.parametrize("owner", [Owner("shop", "u1", "s-1"), Owner("a.b", "ü/\\", "%2e"), Owner("?>~", "x", "y")])
def test_rag_1_display_names_say_whose_a_file_is(owner: Owner) -> None:
    assert owner_of(display_name(owner)) == owner
    assert re.fullmatch(r"adk-memory-v1\.[\w-]+\.[\w-]+\.[\w-]+", display_name(owner), re.ASCII)


@pytest.mark.parametrize(
    "name",
    ["shop.u1.s-1", "adk-memory-v1.c2hvcA.dTE", "adk-memory-v1.c2hvcA.dTE.!!", "adk-memory-v1._w._w._w", "", None],
)
def test_rag_1_other_files_belong_to_nobody(name: Any) -> None:
    assert owner_of(name) is None


async def test_rag_2_what_search_sends_and_gives(fake: FakeVertex) -> None:
    memory = rag(fake, top_k=4)
    await memory.add_session_to_memory(session(say("green tea", at=0, author="user"), "the tea is ready", "bye"))
    await memory.add_session_to_memory(session("tea for two", name="s-2"))
    await memory.add_session_to_memory(session("their tea", user="u2"))
    entries = await memory.search_memory(**SCOPE, query="tea")
    (sent,) = fake.sent("rag.retrieve")
    mine = [id for id, (file, _) in fake.rag.corpora[CORPUS].items() if owner_of(file["displayName"])[1] == "u1"]  # type: ignore[index]
    assert sent.path == "/v1beta1/projects/p/locations/us-central1:retrieveContexts"
    assert sent.body == {
        "vertexRagStore": {
            "ragResources": [{"ragCorpus": CORPUS, "ragFileIds": mine}],
            "vectorDistanceThreshold": 10,
        },
        "query": {"text": "tea", "similarityTopK": 4},
    }
    by_session = {entry.session_id for entry in entries}
    assert by_session == {"s-1", "s-2"}
    first = next(entry for entry in entries if entry.session_id == "s-1")
    assert first.content == Content(role="user", parts=[Part(text="green tea")])
    assert (first.author, first.timestamp) == ("user", datetime(2025, 1, 1, tzinfo=UTC))
    assert (first.id, first.score) == (f"s-1/{BASE_TIME}", None)
    await memory.close()


async def test_rag_2_overlapping_pieces_are_merged_in_order_of_time(fake: FakeVertex) -> None:
    fake.rag.chunk_lines, fake.rag.chunk_overlap = 3, 2
    memory = rag(fake)
    await memory.add_session_to_memory(session(*(f"tea {n}" for n in range(8))))
    assert await found(memory, "tea") == [f"tea {n}" for n in range(8)]
    await memory.close()


async def test_rag_2_cut_lines_are_left_out(fake: FakeVertex) -> None:
    memory = rag(fake)
    await memory.add_session_to_memory(session("tea"))
    line = '{"author":"user","timestamp":1735689600.0,"text":"whole tea"}'
    context = {"sourceDisplayName": NAME, "text": f'"text":"cut off"}}\n{line}\n[1]\n\n{{"author":"us'}
    odd = {"sourceDisplayName": NAME, "text": '{"author":5,"timestamp":"x","text":"odd tea"}\n{"text":7}'}
    answer = {"contexts": {"contexts": [context, odd, {"text": line}, 5]}}
    fake.fail("rag.retrieve", Fault(text=json.dumps(answer)))
    assert await found(memory, "tea") == ["odd tea", "whole tea"]
    await memory.close()


async def test_rag_2_nothing_of_others_and_no_search_over_everybodys_files(fake: FakeVertex) -> None:
    memory = rag(fake)
    await memory.add_session_to_memory(session("secret tea", user="u2"))
    assert await found(memory, "tea") == []
    assert await found(memory, "tea", app_name="other") == []
    assert fake.sent("rag.retrieve") == []
    await memory.add_session_to_memory(session("my tea"))
    stolen = {"sourceDisplayName": display_name(Owner("shop", "u2", "s-1")), "text": '{"text":"secret tea"}'}
    fake.fail("rag.retrieve", Fault(text=json.dumps({"contexts": {"contexts": [stolen]}})))
    assert await found(memory, "tea") == [], "what the service lets through by mistake is left out"
    assert await found(memory, " ") == []
    assert await found(memory, "car \ud83d") == []
    with pytest.raises(ValidationError):
        await found(memory, "tea", user_id="\ud83d")
    with pytest.raises(ValidationError):
        await memory.add_session_to_memory(session("tea", user="\ud83d"))
    await memory.close()


async def test_rag_2_only_ten_pages_of_a_corpus_are_looked_through(
    fake: FakeVertex, caplog: pytest.LogCaptureFixture
) -> None:
    memory = rag(fake)
    await memory.add_session_to_memory(session("early tea"))
    files = fake.rag.corpora[CORPUS]
    for number in range(1000):
        files[f"x{number}"] = {"name": f"{CORPUS}/ragFiles/x{number}", "displayName": "other"}, ""
    late = f"{CORPUS}/ragFiles/late"
    files["late"] = {"name": late, "displayName": display_name(Owner("shop", "u1", "s-2"))}, '{"text":"late tea"}'
    with caplog.at_level(logging.WARNING, "hookwork"):
        assert await found(memory, "tea") == ["early tea"]
    assert len(fake.sent("rag.list")) == 1 + 11
    assert "1000 files" in caplog.text
    await memory.close()


async def test_rag_3_a_repeat_replaces_the_file(fake: FakeVertex) -> None:
    memory = rag(fake)
    await memory.add_session_to_memory(session("old tea", "more tea"))
    await memory.add_session_to_memory(session("other tea", name="s-2"))
    await memory.add_session_to_memory(session("new tea"))
    routes = [request.route for request in fake.requests]
    assert routes[-3:] == ["rag.upload", "rag.list", "rag.delete"], "the new one is there before the old one goes"
    assert sorted(await found(memory, "tea")) == ["new tea", "other tea"]
    await memory.add_session_to_memory(session(say("").replace(content=None)))
    assert await found(memory, "tea") == ["other tea"], "nothing left to remember"
    await memory.close()


async def test_rag_3_a_failed_upload_keeps_the_older_file(fake: FakeVertex) -> None:
    memory = rag(fake)
    await memory.add_session_to_memory(session("old tea"))
    fake.rag.indexing_error = "cannot be indexed"
    with pytest.raises(BackendError, match="cannot be indexed"):
        await memory.add_session_to_memory(session("new tea"))
    fake.fail("rag.upload", 403)
    with pytest.raises(BackendError):
        await memory.add_session_to_memory(session("new tea"))
    assert await found(memory, "tea") == ["old tea"]
    fake.fail("rag.upload", 429)
    fake.fail("rag.delete", 404)  # somebody else was faster
    with waits() as asked:
        await memory.add_session_to_memory(session("new tea"))
    assert asked == [1.0]
    assert await found(memory, "tea") == ["new tea"], "of two files of a session the newest counts"
    await memory.close()


async def test_mem_10_a_search_between_upload_and_deletion_sees_one_contribution(fake: FakeVertex) -> None:
    memory = rag(fake)
    await memory.add_session_to_memory(session("old tea"))
    fake.fail("rag.delete", Fault(delay=0.3))
    adding = asyncio.ensure_future(memory.add_session_to_memory(session("new tea")))
    async with asyncio.timeout(20):
        while not fake.sent("rag.delete"):
            await asyncio.sleep(0.005)
    assert len(fake.rag.corpora[CORPUS]) == 2
    assert await found(memory, "tea") == ["new tea"]
    await adding
    await memory.close()


async def test_rag_1_every_corpus_gets_the_file(fake: FakeVertex) -> None:
    corpora = [CORPUS, "projects/p/locations/us-central1/ragCorpora/d"]
    memory = rag(fake, corpora)
    await memory.add_session_to_memory(session("tea"))
    assert [len(fake.rag.corpora[corpus]) for corpus in corpora] == [1, 1]
    assert await found(memory, "tea") == ["tea"], "a line that two corpora hold counts once"
    assert len(fake.sent("rag.retrieve")[0].body["vertexRagStore"]["ragResources"]) == 2
    await memory.close()


async def test_mem_1_a_part_of_a_session_would_make_the_rest_forgotten(fake: FakeVertex) -> None:
    memory = rag(fake)
    with pytest.raises(ValidationError, match="num_recent_events"):
        await memory.add_session_to_memory(session("one", "two", start=1))
    assert fake.requests == []
    await memory.close()


async def test_cm_12_single_memories_are_refused(fake: FakeVertex) -> None:
    memory = rag(fake)
    with pytest.raises(UnsupportedOperationError):
        await memory.add_memory(**SCOPE, entries=[])
    with pytest.raises(UnsupportedOperationError):
        await memory.delete_memory(**SCOPE, memory_id="1")
    await memory.close()


async def test_vtx_14_a_corpus_that_is_not_there(fake: FakeVertex) -> None:
    memory = VertexAiRagMemoryService("c", "p", "eu", base_url=fake.url, token_source=lambda: "t")
    for work in (memory.add_session_to_memory(session("x")), memory.search_memory(**SCOPE, query="x")):
        with pytest.raises(BackendError, match="corpus") as failed:
            await work
        assert failed.value.status == 404
    await memory.close()


@pytest.mark.parametrize(
    ("corpora", "options"),
    [
        ([], {}),
        ("c", {}),
        ("c/d", {"project": "p", "location": "eu"}),
        ("projects/p/locations/evil.example/ragCorpora/c", {}),
        ([CORPUS, "projects/p/locations/eu/ragCorpora/c"], {}),
        (CORPUS, {"top_k": 0}),
        (CORPUS, {"distance_threshold": 0}),
        (CORPUS, {"distance_threshold": float("nan")}),
    ],
)
def test_rag_1_wrong_options_are_refused(corpora: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        VertexAiRagMemoryService(corpora, **options)
