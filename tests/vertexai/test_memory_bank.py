"""Memory Bank against the fake (services §6.3, CM-11)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.vertexai.fake import FakeVertex, Fault
from tests.vertexai.steps import ENGINE, KEY, SESSION, memory_bank, sessions, waits

from hookwork.errors import BackendError, HookworkError, SessionNotFoundError, ValidationError
from hookwork.records.content import Blob, Content, FunctionCall, Part
from hookwork.records.event import EventActions
from hookwork.records.session import EventLog, Session
from hookwork.services import MemoryEntry
from hookwork_testkit.suites.base import BASE_TIME, say
from hookwork_vertexai import VertexAiMemoryBankService
from hookwork_vertexai.facts import EVENT_BYTES

SCOPE = {"app_name": "42", "user_id": "u1"}


def elsewhere(*events: Any, state: dict[str, Any] | None = None) -> Session:
    """A session that another backend keeps."""
    return Session(
        app_name="42",
        user_id="u1",
        id="local_1",
        log=EventLog(list(events)),
        last_update_time=datetime(2025, 1, 1, tzinfo=UTC),
        revision="1",
        session_state=state or {},
    )


def entry(text: str, **fields: Any) -> MemoryEntry:
    return MemoryEntry(content=Content(role="user", parts=[Part(text=text)]), **fields)


async def test_vmb_2_vmb_5_a_session_of_the_same_engine_is_named(fake: FakeVertex) -> None:
    service, memory = sessions(fake), memory_bank(fake)
    session = await service.create_session(**KEY)
    await service.append_event(session, say("likes green tea", author="user"))
    await memory.add_session_to_memory(session)
    (sent,) = fake.sent("memory.generate")
    assert sent.path == f"/v1beta1/{ENGINE}/memories:generate"
    assert sent.body == {"vertexSessionSource": {"session": SESSION}, "scope": SCOPE}
    (found,) = await memory.search_memory(app_name="42", user_id="u1", query="tea")
    assert found.content == Content(role="user", parts=[Part(text="likes green tea")])
    await service.close()
    await memory.close()


async def test_vmb_5_other_sessions_send_their_events(fake: FakeVertex) -> None:
    service, memory = sessions(fake), memory_bank(fake)
    other_engine = await service.create_session(app_name="43", user_id="u1")
    call = Content(role="model", parts=[Part(function_call=FunctionCall(id="c", name="f", args={}))])
    mixed = Content(parts=[Part(text="thought", thought=True), Part(text="a"), Part(inline_data=Blob(data=b"\x00"))])
    local = elsewhere(say("hello", author="user"), say("").replace(content=call), say("").replace(content=mixed))
    await memory.add_session_to_memory(local)
    engine = VertexAiMemoryBankService("p", "us-central1", "42", base_url=fake.url, token_source=lambda: "t")
    await service.append_event(other_engine, say("from 43"))
    await engine.add_session_to_memory(other_engine)
    forced = memory_bank(fake, source="events")
    here = await service.create_session(**KEY)
    await service.append_event(here, say("from here"))
    await forced.add_session_to_memory(here)
    bodies = [request.body for request in fake.sent("memory.generate")]
    assert [body["directContentsSource"]["events"] for body in bodies] == [
        [
            {"content": {"role": "user", "parts": [{"text": "hello"}]}},
            {"content": {"role": "model", "parts": [{"text": "a"}, {"inlineData": {"data": "AA=="}}]}},
        ],
        [{"content": {"role": "model", "parts": [{"text": "from 43"}]}}],
        [{"content": {"role": "model", "parts": [{"text": "from here"}]}}],
    ]
    await memory.add_session_to_memory(elsewhere(say("").replace(content=call)))
    assert len(fake.sent("memory.generate")) == 3, "nothing to remember, nothing to ask for"
    for closed in (service, memory, engine, forced):
        await closed.close()


async def test_rew_2_what_a_rewind_hides_is_not_remembered(fake: FakeVertex) -> None:
    service, memory = sessions(fake), memory_bank(fake)
    session = await service.create_session(**KEY)
    await service.append_event(session, say("kept", invocation="inv-1"))
    await service.append_event(session, say("taken back", invocation="inv-2"))
    rewind = say("", author="user", invocation="inv-3").replace(
        content=None, actions=EventActions(rewind_before_invocation_id="inv-2")
    )
    await service.append_event(session, rewind)
    await memory.add_session_to_memory(session)
    (sent,) = fake.sent("memory.generate")
    assert "kept" in str(sent.body)
    assert "taken back" not in str(sent.body)
    await service.close()
    await memory.close()


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("2025-01-01T00:00:01.5+00:00", "2025-01-01T00:00:01.500000Z"),
        ("2025-01-01T01:00:01Z", "2025-01-01T01:00:01Z"),
        (BASE_TIME + 1, "2025-01-01T00:00:01Z"),
        (int(BASE_TIME), "2025-01-01T00:00:00Z"),
    ],
)
async def test_vmb_3_where_the_source_begins(fake: FakeVertex, value: Any, sent: str) -> None:
    """TRAP-22: the time has been through JSON and is text or a number there."""
    service, memory = sessions(fake), memory_bank(fake, start_time_key="since")
    session = await service.create_session(**KEY, state={"since": value})
    await memory.add_session_to_memory(session)
    assert fake.sent("memory.generate")[0].body["vertexSessionSource"]["startTime"] == sent
    local = elsewhere(say("early", at=0), say("late", at=7200), state={"since": value})
    await memory.add_session_to_memory(local)
    texts = str(fake.sent("memory.generate")[1].body)
    assert ("early" in texts, "late" in texts) == (value == int(BASE_TIME), True)
    await service.close()
    await memory.close()


@pytest.mark.parametrize("value", [None, "soon", True, "2025-01-01T00:00:00", [1], {"t": 1}, 1e300])
async def test_vmb_3_no_time_is_an_error(fake: FakeVertex, value: Any) -> None:
    memory = memory_bank(fake, start_time_key="since")
    for state in ({"since": value}, {}):
        with pytest.raises(ValidationError):
            await memory.add_session_to_memory(elsewhere(say("x"), state=state))
    moment = elsewhere(say("x", at=1), state={"since": datetime(2025, 1, 1, tzinfo=UTC)})
    await memory.add_session_to_memory(moment)
    assert len(fake.sent("memory.generate")) == 1
    await memory.close()


async def test_vmb_3_waiting_for_the_memories(fake: FakeVertex) -> None:
    fake.memory_polls = 2
    off, on = memory_bank(fake), memory_bank(fake, wait_for_completion=True)
    with waits() as asked:
        await off.add_session_to_memory(elsewhere(say("x")))
    assert (asked, fake.sent("poll")) == ([], [])
    with waits() as asked:
        await on.add_session_to_memory(elsewhere(say("x")))
    assert (asked, len(fake.sent("poll"))) == ([0.5, 0.75], 2)
    fake.fail("memory.generate", Fault(text='{"name": "a/operations/1", "done": true}'))
    await on.add_session_to_memory(elsewhere(say("x")))  # an empty result is success
    fake.operation_error = (13, "out of luck")
    with waits(), pytest.raises(BackendError, match="out of luck"):
        await on.add_session_to_memory(elsewhere(say("x")))
    fake.memory_polls = 0
    with pytest.raises(BackendError, match="out of luck"):
        await off.add_session_to_memory(elsewhere(say("x")))  # known already, without waiting
    await off.close()
    await on.close()


async def test_vmb_5_large_sessions_are_split_below_the_limit(fake: FakeVertex) -> None:
    memory = memory_bank(fake)
    events = [say(f"{n} " + "x" * 3_000_000, at=n) for n in range(5)]
    picture = Part(inline_data=Blob(data=b"\x00" * EVENT_BYTES, mime_type="image/png"))
    shown = Content(role="user", parts=[Part(text="look at this"), picture])
    await memory.add_session_to_memory(elsewhere(*events, say("").replace(content=shown)))
    sizes = [len(json.dumps(request.body).encode()) for request in fake.sent("memory.generate")]
    counts = [len(request.body["directContentsSource"]["events"]) for request in fake.sent("memory.generate")]
    assert counts == [2, 2, 2]
    assert max(sizes) < 8 * 1024 * 1024
    last = fake.sent("memory.generate")[-1].body["directContentsSource"]["events"][-1]
    assert last["content"]["parts"] == [{"text": "look at this"}], "a picture that fits into no request is left out"
    with pytest.raises(ValidationError, match="8 MB"):
        await memory.add_session_to_memory(elsewhere(say("x" * 8_000_000)))
    await memory.close()


async def test_vmb_1_vmb_4_what_search_sends_and_gives(fake: FakeVertex) -> None:
    memory = memory_bank(fake, top_k=7)
    metadata = {"s": "text", "n": 1, "f": 1.5, "b": True, "l": [1], "none": None}
    await memory.add_memory(**SCOPE, entries=[entry("likes green tea", id="m-1", custom_metadata=metadata)])
    await memory.add_memory(**SCOPE, entries=[entry("green is the colour of the house that stands there")])
    assert fake.sent("memory.create")[0].body == {
        "fact": "likes green tea",
        "scope": SCOPE,
        "metadata": {
            "s": {"stringValue": "text"},
            "n": {"doubleValue": 1.0},
            "f": {"doubleValue": 1.5},
            "b": {"boolValue": True},
            "l": {"stringValue": "[1]"},
        },
    }
    first, second = await memory.search_memory(**SCOPE, query="green tea")
    (sent,) = fake.sent("memory.retrieve")
    assert sent.path == f"/v1beta1/{ENGINE}/memories:retrieve"
    assert sent.body == {"scope": SCOPE, "similaritySearchParams": {"searchQuery": "green tea", "topK": 7}}
    assert (first.id, first.content) == ("m-1", Content(role="user", parts=[Part(text="likes green tea")]))
    assert first.custom_metadata == {"s": "text", "n": 1, "f": 1.5, "b": True, "l": "[1]"}
    assert first.timestamp is not None
    assert first.timestamp.tzinfo is UTC
    assert first.score == pytest.approx(2 / 3)
    assert second.score is not None
    assert second.score < first.score
    assert await memory.search_memory(**SCOPE, query="motorway") == []
    assert await memory.search_memory(**SCOPE, query="  ") == []
    assert len(fake.sent("memory.retrieve")) == 2, "nothing is asked for a blank query"
    assert await memory.search_memory(**SCOPE, query="car \ud83d") == [], "a model's query may hold anything"
    for bad in ("u\ud83d", "", None):
        with pytest.raises(ValidationError):
            await memory.search_memory(app_name="42", user_id=bad, query="tea")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        await memory.add_memory(**SCOPE, entries=[entry("x", custom_metadata={"k": "\ud83d"})])
    await memory.close()


async def test_vmb_1_without_a_number_the_service_chooses(fake: FakeVertex) -> None:
    memory = memory_bank(fake)
    await memory.add_memory(**SCOPE, entries=[entry(f"tea {n}") for n in range(5)])
    assert len(await memory.search_memory(**SCOPE, query="tea")) == 3
    assert fake.sent("memory.retrieve")[0].body["similaritySearchParams"] == {"searchQuery": "tea"}
    await memory.close()


async def test_vmb_2_the_scope_is_matched_exactly(fake: FakeVertex) -> None:
    """TRAP-23."""
    both, user_only = memory_bank(fake), memory_bank(fake, scope_keys=("user_id",))
    await both.add_memory(**SCOPE, entries=[entry("tea with app")])
    await user_only.add_memory(**SCOPE, entries=[entry("tea without")])
    assert fake.sent("memory.create")[1].body["scope"] == {"user_id": "u1"}
    for memory, text in ((both, "tea with app"), (user_only, "tea without")):
        (found,) = await memory.search_memory(**SCOPE, query="tea")
        assert found.content is not None
        assert found.content.text == text
    for wrong in ({"app_name": "42", "user_id": "u*"}, {"app_name": "42", "user_id": ""}):
        with pytest.raises(ValidationError):
            await both.search_memory(**wrong, query="tea")
    assert len(fake.sent("memory.retrieve")) == 2
    await both.close()
    await user_only.close()


@pytest.mark.parametrize(
    "options",
    [{"scope_keys": ("app_name",)}, {"scope_keys": "user"}, {"top_k": 0}, {"top_k": 101}, {"source": "all"}],
)
def test_vmb_2_wrong_options_are_refused(fake: FakeVertex, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        memory_bank(fake, **options)


async def test_vmb_6_errors(fake: FakeVertex) -> None:
    service, memory = sessions(fake), memory_bank(fake)
    session = await service.create_session(**KEY)
    await service.delete_session(**KEY)
    with pytest.raises(SessionNotFoundError):
        await memory.add_session_to_memory(session)
    for status, kind, retryable in (
        (403, BackendError, False),
        (500, BackendError, True),
        (400, ValidationError, None),
    ):
        fake.fail("memory.retrieve", status)
        with pytest.raises(kind) as failed:
            await memory.search_memory(**SCOPE, query="tea")
        assert getattr(failed.value, "retryable", None) == retryable
    fake.fail("memory.retrieve", 429, 503)
    with waits() as asked:
        assert await memory.search_memory(**SCOPE, query="tea") == []
    assert len(asked) == 2
    fake.fail("memory.generate", 429)
    with waits() as asked:
        await memory.add_session_to_memory(elsewhere(say("x")))
    assert asked == [1.0]
    await service.close()
    await memory.close()


async def test_mem_1_a_fact_of_one_id_is_kept_once(fake: FakeVertex) -> None:
    memory = memory_bank(fake)
    for id in ("m-1", "Entry 1/ü", "9"):
        await memory.add_memory(**SCOPE, entries=[entry(f"first {id}", id=id)])
        await memory.add_memory(**SCOPE, entries=[entry(f"second {id}", id=id)])
        (found,) = await memory.search_memory(**SCOPE, query="second")
        assert found.content is not None
        assert found.content.text == f"second {id}"
        await memory.delete_memory(**SCOPE, memory_id=id)
        assert await memory.search_memory(**SCOPE, query="second") == []
        await memory.delete_memory(**SCOPE, memory_id=id)
    with pytest.raises(ValidationError, match="text"):
        await memory.add_memory(**SCOPE, entries=[entry("fine"), MemoryEntry(id="m-2")])
    assert await memory.search_memory(**SCOPE, query="fine") == [], "all are looked at before the first is kept"
    await memory.close()


async def test_mem_2_another_scopes_memory_is_neither_changed_nor_deleted(fake: FakeVertex) -> None:
    memory = memory_bank(fake)
    other = {**SCOPE, "user_id": "u2"}
    await memory.add_memory(**other, entries=[entry("theirs", id="m-1")])
    with pytest.raises(ValidationError, match="somebody else"):
        await memory.add_memory(**SCOPE, entries=[entry("ours", id="m-1")])
    await memory.delete_memory(**SCOPE, memory_id="m-1")
    assert len(await memory.search_memory(**other, query="theirs")) == 1
    await memory.close()


async def test_bey_6_facts_that_the_service_merges_go_out_in_fives(fake: FakeVertex) -> None:
    memory = memory_bank(fake)
    await memory.add_memory(**SCOPE, entries=[entry(f"fact {n}") for n in range(7)], consolidate=True)
    sent = [request.body["directMemoriesSource"]["directMemories"] for request in fake.sent("memory.generate")]
    assert [len(facts) for facts in sent] == [5, 2]
    assert sent[0][0] == {"fact": "fact 0"}
    await memory.add_memory(**SCOPE, entries=[entry("fact 0")], consolidate=True)
    assert len(fake.memory_store(ENGINE).memories) == 7
    await memory.close()


async def test_bey_6_events_as_they_come(fake: FakeVertex) -> None:
    memory = memory_bank(fake)
    event = say("likes green tea", at=1.5, author="user", id="e-1")
    await memory.add_events_to_memory(**SCOPE, events=[event], session_id="s-1")
    await memory.add_events_to_memory(**SCOPE, events=[event], session_id="s-1")
    assert await memory.search_memory(**SCOPE, query="tea") == []
    await memory.add_events_to_memory(**SCOPE, events=[], session_id="s-1", flush=True)
    assert len(await memory.search_memory(**SCOPE, query="tea")) == 1
    first, _, last = [request.body for request in fake.sent("memory.ingest")]
    assert first == {
        "scope": SCOPE,
        "streamId": "s-1",
        "directContentsSource": {
            "events": [
                {
                    "content": {"role": "user", "parts": [{"text": "likes green tea"}]},
                    "eventId": "e-1",
                    "eventTime": "2025-01-01T00:00:01.500000Z",
                }
            ]
        },
    }
    assert last["forceFlush"] is True
    await memory.close()


async def test_bey_6_profiles_of_a_user(fake: FakeVertex) -> None:
    """By exactly this scope, one for each schema of the engine; the request is the vendor's client's."""
    memory = memory_bank(fake)
    assert await memory.retrieve_profiles(**SCOPE) == {}
    profile = {"drinks": ["green tea"], "age": 30}
    fake.memory_store(ENGINE).profiles[json.dumps(SCOPE, sort_keys=True)] = {"taste": profile}
    assert await memory.retrieve_profiles(**SCOPE) == {"taste": profile}
    assert await memory.retrieve_profiles(**{**SCOPE, "user_id": "somebody"}) == {}
    assert fake.sent("memory.profiles")[1].body == {"scope": SCOPE}
    fake.fail("memory.profiles", 403)
    with pytest.raises(BackendError):
        await memory.retrieve_profiles(**SCOPE)
    await memory.close()


async def test_mem_2_what_comes_back_is_checked(fake: FakeVertex) -> None:
    memory = memory_bank(fake)
    foreign = {"memory": {"name": "x/memories/1", "fact": "secret", "scope": {"user_id": "u2"}}, "distance": 0.1}
    profile = {"memory": {"name": "x/memories/2", "structuredContent": {}}}
    bare = {"memory": {"name": "x/memories/3", "fact": "plain"}}
    fake.fail("memory.retrieve", Fault(text=json.dumps({"retrievedMemories": [foreign, profile, bare, 5]})))
    (found,) = await memory.search_memory(**SCOPE, query="x")
    assert (found.id, found.score, found.timestamp) == ("3", None, None)
    fake.fail("memory.retrieve", Fault(text='{"retrievedMemories": [{"memory": {"fact": "x", "updateTime": "then"}}]}'))
    with pytest.raises(HookworkError):
        await memory.search_memory(**SCOPE, query="x")
    await memory.close()


async def test_mem_1_a_found_memory_can_be_changed(fake: FakeVertex) -> None:
    memory = memory_bank(fake)
    await memory.add_memory(**SCOPE, entries=[entry("likes green tea")])
    (found,) = await memory.search_memory(**SCOPE, query="tea")
    assert found.id.isdigit()
    await memory.add_memory(**SCOPE, entries=[found.replace(content=entry("likes black tea").content)])
    (changed,) = await memory.search_memory(**SCOPE, query="tea")
    assert (changed.id, changed.content) == (found.id, entry("likes black tea").content)
    await memory.delete_memory(**SCOPE, memory_id=found.id)
    assert await memory.search_memory(**SCOPE, query="tea") == []
    await memory.close()
