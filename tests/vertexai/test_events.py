"""Events on their way to Agent Engine and back (services §5.3, CS-41): the bodies, and what is read from them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vertexai.fake import FakeVertex
from tests.vertexai.shapes import SESSION_EVENT, accepted, doubles
from tests.vertexai.steps import ENGINE, KEY, sessions

from hookwork.errors import BackendError, ValidationError
from hookwork.records.content import Blob, Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import Event, EventActions, EventCompaction, ExcludedEvent, new_event
from hookwork.records.metadata import (
    GroundingChunk,
    GroundingChunkMaps,
    GroundingChunkRetrievedContext,
    GroundingChunkWeb,
    GroundingMetadata,
    GroundingSupport,
    PlaceAnswerSources,
    RagChunk,
    RagChunkPageSpan,
    RetrievalMetadata,
    ReviewSnippet,
    SearchEntryPoint,
    Segment,
    UsageMetadata,
)
from hookwork_testkit.suites.base import BASE_TIME, say, texts
from hookwork_testkit.suites.samples import every_event_field, every_part
from hookwork_vertexai.envelopes import enter, stored_event

SPEC_REQUEST: dict[str, Any] = {
    "author": "agent",
    "invocationId": "inv-1",
    "timestamp": "2025-01-01T00:00:00.123456Z",
    "content": {
        "role": "model",
        "parts": [
            {"text": "hi"},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
            {"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}},
        ],
    },
    "actions": {"stateDelta": {"k": 1, "app:n": "v"}, "artifactDelta": {"a.png": 2}},
    "eventMetadata": {
        "branch": "root.a",
        "turnComplete": True,
        "longRunningToolIds": ["c1"],
        "customMetadata": {"m": True},
    },
}


def spec_event() -> Event:
    """The event of the specification's example request."""
    parts = [
        Part(text="hi"),
        Part(inline_data=Blob(data=b"\x89PNG", mime_type="image/png")),
        Part(function_call=FunctionCall(id="c1", name="f", args={"x": 1})),
    ]
    return Event(
        id="evt-1",
        invocation_id="inv-1",
        author="agent",
        timestamp=BASE_TIME + 0.123456,
        content=Content(role="model", parts=parts),
        actions=EventActions(state_delta={"k": 1, "app:n": "v", "temp:t": 0}, artifact_delta={"a.png": 2}),
        branch="root.a",
        turn_complete=True,
        long_running_tool_ids=("c1",),
        custom_metadata={"m": True},
    )


def item_of(event: Event, name: str = "x/events/9001", **changes: Any) -> dict[str, Any]:
    """The item that the service lists for an event that we sent."""
    entered = enter(event)
    sent = accepted(SESSION_EVENT, json.loads(json.dumps(entered.request(entered.micros))))
    return {"name": name, "content": {}, "actions": {}, "eventMetadata": {}, **sent, **changes}


def read(item: dict[str, Any]) -> Event:
    """What we read from an item."""
    return stored_event(item).event


async def test_vtx_4_vtx_5_the_example_request_of_the_specification(fake: FakeVertex) -> None:
    service = sessions(fake)
    session = await service.create_session(**KEY)
    await service.append_event(session, spec_event())
    (sent,) = fake.sent("append")
    assert (sent.method, sent.path) == ("POST", f"/v1beta1/{ENGINE}/sessions/s-1:appendEvent")
    raw = sent.body.pop("rawEvent")
    assert sent.body == SPEC_REQUEST
    assert {key: raw[key] for key in ("id", "invocationId", "author", "timestamp")} == {
        "id": "evt-1",
        "invocationId": "inv-1",
        "author": "agent",
        "timestamp": 1735689600.123456,
    }
    assert raw["actions"] == SPEC_REQUEST["actions"]
    await service.close()


def test_vtx_4_the_example_item_of_the_specification() -> None:
    event = read(
        {
            "name": "projects/123456789012/locations/us-central1/reasoningEngines/42/sessions/7001/events/9001",
            "author": "agent",
            "invocationId": "inv-1",
            "timestamp": "2025-01-01T00:00:00.123456Z",
            "content": {},
            "actions": {"stateDelta": {"k": 1}},
            "eventMetadata": {},
        }
    )
    assert event == Event(
        id="9001",
        author="agent",
        invocation_id="inv-1",
        timestamp=BASE_TIME + 0.123456,
        actions=EventActions(state_delta={"k": 1}),
    )


def test_vtx_16_the_whole_event_is_raw_event() -> None:
    event = every_event_field()
    item = item_of(event)
    assert read(item) == event
    assert item["rawEvent"]["nodeInfo"]["path"] == "root@1/agent@1"
    assert item["rawEvent"]["timestamp"] == event.timestamp
    assert "hookworkText" not in item["rawEvent"]


def test_vtx_17_raw_event_wins_and_the_envelope_says_who_and_when() -> None:
    """TRAP-18: the id is the one that the event was streamed with."""
    item = item_of(spec_event(), content={"parts": [{"text": "named"}]})
    event = read({**item, "author": "other", "invocationId": "inv-2", "timestamp": "2026-01-01T00:00:00.000001Z"})
    assert (event.id, event.author, event.invocation_id) == ("evt-1", "other", "inv-2")
    assert event.timestamp == 1767225600.000001
    assert event.text == "hi"
    del item["rawEvent"]["id"]
    assert read(item).id == "9001"


def test_vtx_17_other_kits_spellings_of_raw_event() -> None:
    snake = {
        "id": "e",
        "invocation_id": "i",
        "author": "a",
        "timestamp": 1.5,
        "turn_complete": True,
        "strange": {"n": 1.0},
    }
    event = read(
        {
            "name": "x/events/1",
            "author": "a",
            "invocationId": "i",
            "timestamp": "2025-01-01T00:00:00Z",
            "rawEvent": snake,
        }
    )
    assert (event.turn_complete, event.timestamp) == (True, BASE_TIME)
    assert dict(event.extra or {}) == {"strange": {"n": 1}}


async def test_ses_6_an_older_event_keeps_its_time_under_a_later_envelope(fake: FakeVertex) -> None:
    service, other = sessions(fake), sessions(fake)
    session = await service.create_session(**KEY)
    await service.append_event(session, say("new", at=5))
    await service.append_event(session, say("old", at=1))
    first, second = fake.sent("append")
    assert "hookworkOrder" not in first.body["rawEvent"]
    assert second.body["timestamp"] == second.body["rawEvent"]["hookworkOrder"] == "2025-01-01T00:00:05.000001Z"
    assert second.body["rawEvent"]["timestamp"] == BASE_TIME + 1
    again = await other.get_session(**KEY)
    assert texts(again) == ["new", "old"]
    assert [event.timestamp for event in again.events] == [BASE_TIME + 5, BASE_TIME + 1]
    assert again.events[1].extra is None
    await service.close()
    await other.close()


def named_only(event: Event) -> Event:
    """An event as a reader of the named fields finds it."""
    item = item_of(event)
    del item["rawEvent"]
    return read(item)


def test_vtx_17_what_the_named_fields_hold() -> None:
    """The table of services §5.3."""
    event = every_event_field()
    found = named_only(event)
    kept = {
        *("timestamp", "author", "invocation_id", "error_code", "error_message", "content", "branch", "turn_complete"),
        *("interrupted", "long_running_tool_ids", "custom_metadata", "input_transcription", "output_transcription"),
        *("usage_metadata", "grounding_metadata", "partial"),
    }
    for name in kept:
        assert getattr(found, name) == getattr(event, name), name
    assert found.actions == EventActions(
        state_delta=event.actions.state_delta,
        artifact_delta={"a.png": 3},
        skip_summarization=True,
        transfer_to_agent="other",
        escalate=True,
    )
    lost = {"output", "node_info", "isolation_scope", "requested_input", "routes", "citation_metadata"}
    lost |= {"logprobs_result", "avg_logprobs", "finish_reason", "model_version", "session_resumption_handle"}
    for name in lost:
        assert getattr(found, name) == getattr(Event(), name), name
    assert set(Event.__struct_fields__) == kept | lost | {"actions", "id", "extra"}


def test_vtx_5_auth_requests_have_a_named_field() -> None:
    configs = {"c-1": {"authScheme": {"type": "oauth2"}}}
    event = say("x", at=1).replace(actions=EventActions(extra={"requestedAuthConfigs": configs}))
    assert item_of(event)["actions"] == {"requestedAuthConfigs": configs}
    assert named_only(event).actions.extra == {"requestedAuthConfigs": configs}


def test_vtx_17_usage_and_compaction_stand_where_google_adk_looks() -> None:
    compaction = EventCompaction(
        start_timestamp=BASE_TIME + 0.000001,
        end_timestamp=BASE_TIME + 4.999999,
        compacted_content=Content(role="model", parts=[Part(text="summary")]),
        excluded_events=(ExcludedEvent(invocation_id="inv-0", timestamp=BASE_TIME),),
    )
    event = say("x", at=1, custom_metadata={"m": 1}, usage_metadata=UsageMetadata(prompt_token_count=0)).replace(
        actions=EventActions(compaction=compaction)
    )
    item = item_of(event)
    custom = item["eventMetadata"]["customMetadata"]
    assert custom == {
        "m": 1,
        "_usage_metadata": {"prompt_token_count": 0},
        "_compaction": {
            "start_timestamp": BASE_TIME + 0.000001,
            "end_timestamp": BASE_TIME + 4.999999,
            "compacted_content": {"role": "model", "parts": [{"text": "summary"}]},
        },
    }
    found = named_only(event)
    assert found.custom_metadata == {"m": 1}
    assert found.usage_metadata == UsageMetadata(prompt_token_count=0)
    assert found.actions.compaction == compaction.replace(excluded_events=())
    assert read(item).actions.compaction == compaction


def test_vtx_17_parts_that_have_no_named_form_keep_their_place() -> None:
    content = Content(role="model", parts=every_part())
    parts = item_of(say("", at=1).replace(content=content))["content"]["parts"]
    assert parts[1] == {"text": "thinking", "thought": True, "thoughtSignature": "AP8="}
    assert parts[2] == {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
    assert [parts[3], *parts[6:8]] == [{}, {}, {}], "file data, code and its result"
    assert set(parts[4]["functionCall"]) == {"id", "name", "args"}
    assert parts[8] == {"text": "with metadata"}


def test_vtx_15_grounding_field_by_field() -> None:
    """TRAP-19: a snippet's title is read back."""
    snippet = ReviewSnippet(review="r-1", google_maps_uri="http://m", title="Cosy")
    rag = RagChunk(text="chunk", page_span=RagChunkPageSpan(first_page=1, last_page=2))
    grounding = GroundingMetadata(
        web_search_queries=("q",),
        retrieval_queries=("r",),
        google_maps_widget_context_token="token",
        search_entry_point=SearchEntryPoint(rendered_content="<b>", sdk_blob=b"\xff\xfe"),
        retrieval_metadata=RetrievalMetadata(google_search_dynamic_retrieval_score=0.5),
        grounding_chunks=(
            GroundingChunk(web=GroundingChunkWeb(uri="http://w", title="W")),
            GroundingChunk(
                retrieved_context=GroundingChunkRetrievedContext(
                    uri="gs://b", title="T", text="t", document_name="d", rag_chunk=rag
                )
            ),
            GroundingChunk(
                maps=GroundingChunkMaps(
                    uri="http://p",
                    title="P",
                    text="p",
                    place_id="id",
                    place_answer_sources=PlaceAnswerSources(review_snippets=(snippet,)),
                )
            ),
        ),
        grounding_supports=(
            GroundingSupport(
                grounding_chunk_indices=(0, 2),
                confidence_scores=(0.5, 0.25),
                segment=Segment(part_index=0, start_index=1, end_index=2, text="s"),
            ),
        ),
    )
    event = say("x", at=1, grounding_metadata=grounding)
    wire = item_of(event)["eventMetadata"]["groundingMetadata"]
    assert wire["groundingChunks"][2]["maps"]["placeAnswerSources"]["reviewSnippets"] == [
        {"reviewId": "r-1", "googleMapsUri": "http://m", "title": "Cosy"}
    ]
    assert wire["searchEntryPoint"] == {"renderedContent": "<b>", "sdkBlob": "//4="}
    assert named_only(event).grounding_metadata == grounding
    domain = GroundingMetadata(grounding_chunks=(GroundingChunk(web=GroundingChunkWeb(domain="w", uri="http://w")),))
    event = say("x", at=1, grounding_metadata=domain)
    assert read(item_of(event)).grounding_metadata == domain, "what has no named form is in rawEvent"


def test_vtx_18_calls_without_arguments() -> None:
    parts = [
        Part(function_call=FunctionCall(id="c", name="f")),
        Part(function_response=FunctionResponse(id="c", name="f")),
    ]
    event = say("", at=1).replace(content=Content(role="model", parts=parts))
    item = item_of(event)
    assert item["content"]["parts"] == [
        {"functionCall": {"id": "c", "name": "f", "args": {}}},
        {"functionResponse": {"id": "c", "name": "f", "response": {}}},
    ]
    assert read(item) == event


@pytest.mark.parametrize("version", [1 << 31, -(1 << 31) - 1])
async def test_vtx_18_a_version_beyond_32_bits_is_refused_before_the_request(fake: FakeVertex, version: int) -> None:
    service = sessions(fake)
    session = await service.create_session(**KEY)
    fake.requests.clear()
    with pytest.raises(ValidationError, match="32 bits"):
        await service.append_event(session, say("x").replace(actions=EventActions(artifact_delta={"a": version})))
    assert fake.requests == []
    await service.close()


async def test_vtx_18_empty_objects_of_the_server_are_unset(fake: FakeVertex) -> None:
    service, other = sessions(fake), sessions(fake)
    session = await service.create_session(**KEY)
    event = Event(id="e", invocation_id="i", author="a", timestamp=BASE_TIME)
    await service.append_event(session, event)
    assert set(fake.sent("append")[0].body) == {"author", "invocationId", "timestamp", "rawEvent"}
    (_, item) = fake.engine(ENGINE).sessions["s-1"].events[0]
    assert (item["content"], item["actions"], item["eventMetadata"]) == ({}, {}, {})
    del item["rawEvent"]
    (found,) = (await other.get_session(**KEY)).events
    assert found == event.replace(id=item["name"].rpartition("/")[2])
    await service.close()
    await other.close()


def test_evt_10_numbers_that_are_whole_come_back_so() -> None:
    event = say("x", at=1, delta={"i": 1, "f": 1.5, "b": 2**53, "n": [{"m": -3}], "t": True}, output=0)
    found = read(item_of(event))
    assert found == event
    values = found.actions.state_delta
    assert [type(values[key]) for key in ("i", "f", "b", "t")] == [int, float, int, bool]
    assert type(found.output) is int


async def test_evt_10_numbers_that_a_double_cannot_hold(fake: FakeVertex) -> None:
    """In an event they are kept as text beside it; in state the service would change them, so they are refused."""
    service, other = sessions(fake), sessions(fake)
    session = await service.create_session(**KEY)
    big = 2**53 + 1
    call = Content(role="model", parts=[Part(function_call=FunctionCall(id="c", name="f", args={"id": big}))])
    event = new_event("inv-1", author="agent", content=call)
    await service.append_event(session, event)
    assert list((await other.get_session(**KEY)).events) == [event]
    for state in ({"k": big}, {"user:k": [{"deep": -big}]}):
        with pytest.raises(ValidationError, match=re.escape("2**53")):
            await service.append_event(session, say("x", delta=state))
        with pytest.raises(ValidationError):
            await service.create_session(app_name="42", user_id="u1", state=state)
    await service.append_event(session, say("x", delta={"temp:k": big}))
    assert session.state["temp:k"] == big
    await service.close()
    await other.close()


def test_act_4_empty_maps_of_google_adk_are_none_and_ours_stay() -> None:
    actions = {"stateDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}}
    raw = {"id": "e", "invocationId": "i", "author": "a", "timestamp": BASE_TIME, "actions": actions}
    item = {"author": "a", "invocationId": "i", "timestamp": "2025-01-01T00:00:00Z", "rawEvent": raw}
    assert read(item).actions == EventActions()
    ours = say("x", at=1).replace(actions=EventActions(requested_tool_confirmations={}))
    assert read(item_of(ours)) == ours


@pytest.mark.parametrize(
    "item",
    [
        {"name": "n", "timestamp": "yesterday"},
        {"name": "n"},
        {"name": "n", "timestamp": "2025-01-01T00:00:00Z", "rawEvent": {"content": 5}},
        {"name": "n", "timestamp": "2025-01-01T00:00:00Z", "rawEvent": [1]},
        {"name": "n", "timestamp": "2025-01-01T00:00:00Z", "content": "text"},
        {"name": "n", "timestamp": "2025-01-01T00:00:00Z", "eventMetadata": 5},
    ],
)
def test_db_21_what_is_no_event_is_an_error_that_names_it(item: dict[str, Any]) -> None:
    with pytest.raises(BackendError, match=r"\bn\b"):
        stored_event(item)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, database=None)
@given(output=_json, args=st.dictionaries(st.text(min_size=1), _json, max_size=3), at=st.integers(0, 10**15))
def test_cod_3_whatever_json_holds_comes_back(output: Any, args: dict[str, Any], at: int) -> None:
    """The law: what the service lists for an event is that event, whatever JSON is in it."""
    parts = [Part(function_call=FunctionCall(id="c", name="f", args=args))]
    event = Event(
        id="e",
        invocation_id="i",
        author="a",
        timestamp=round(BASE_TIME + at / 1e6, 6),
        content=Content(role="model", parts=parts),
        output=output,
        custom_metadata=args or None,
    )
    assert read(item_of(event)) == enter(event).event


def test_fake_3_a_struct_has_only_doubles() -> None:
    """Whatever was sent; the order of keys is the service's own."""
    found = doubles({"b": [1, True], "a": {"n": 2}})
    assert (type(found["a"]["n"]), type(found["b"][0]), found["b"][1]) == (float, float, True)
    assert list(found) == ["a", "b"]


def test_named_fields_are_those_of_the_published_definitions() -> None:
    """The fake refuses any other name, so this is what every append in these tests has passed."""
    source = Path(__file__).with_name("shapes.py").read_text(encoding="utf-8")
    assert "partMetadata" not in source
    with pytest.raises(Exception, match="partMetadata"):
        accepted(SESSION_EVENT, {"content": {"parts": [{"text": "x", "partMetadata": {}}]}})
