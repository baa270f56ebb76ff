"""What goes over a live connection, in both directions: models LIVE-3 … LIVE-8, LIVE-17."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.gemini.live_making import LIVE_2, LIVE_31, connected, frames_of, said_by, stay
from tests.gemini.live_service import LiveServer

from hookwork import Blob, Content, ModelRequest, ModelResponse, Part, text_content, user_content
from hookwork.errors import ModelError, ValidationError
from hookwork.live import (
    CANCELLED_CALLS,
    GENERATION_COMPLETE,
    GO_AWAY,
    INTERACTION_STATUS,
    TURN_COMPLETE_REASON,
    VOICE_ACTIVITY,
    ActivityEnd,
    ActivityStart,
    LiveConnection,
)
from hookwork.records.codec import load
from hookwork.records.content import FunctionCall, FunctionResponse
from hookwork.records.metadata import Transcription, UsageMetadata
from hookwork_gemini.live.connection import ANSWER_NOW

# --- sending ----------------------------------------------------------------------------------------------------------

#: A conversation that has no history yet.
NEW = ModelRequest()
AUDIO = Part(inline_data=Blob(data=b"\x00\x01", mime_type="audio/pcm"))
HISTORY = [user_content([Part(text="a"), AUDIO]), text_content("b"), user_content([AUDIO])]


async def test_live_3_history_goes_without_sound_and_asks_only_as_its_end_says(server: LiveServer) -> None:
    (frame,) = await frames_of(server, lambda c: c.send_history(HISTORY), 1)
    content = frame["clientContent"]
    assert content["turns"] == [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"text": "b"}]},
    ]
    assert not content.get("turnComplete")
    (frame,) = await frames_of(server, lambda c: c.send_history(HISTORY[:1]), 1)
    assert frame["clientContent"]["turnComplete"] is True


async def test_live_3_nothing_left_is_nothing_sent(server: LiveServer) -> None:
    async def send(connection: LiveConnection) -> None:
        await connection.send_history([user_content([AUDIO])])
        await connection.send_content(user_content("first"))

    (frame,) = await frames_of(server, send, 1)
    assert frame["clientContent"]["turns"] == [{"role": "user", "parts": [{"text": "first"}]}]


async def test_live_3_gemini_3_is_asked_to_answer_after_its_history(server: LiveServer) -> None:
    told, asked = await frames_of(server, lambda c: c.send_history([user_content("hi")]), 2, name=LIVE_31)
    assert told["clientContent"]["turns"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert told["clientContent"]["turnComplete"] is True
    assert asked == {"realtimeInput": {"text": ANSWER_NOW}}


async def test_live_3_a_history_of_gemini_3_is_completed_and_not_answered_when_the_model_had_the_last_word(
    server: LiveServer,
) -> None:
    """The service waits for a completed turn before it listens (HistoryConfig in the API's reference)."""

    async def send(connection: LiveConnection) -> None:
        await connection.send_history(HISTORY[:2])
        await connection.send_realtime(ActivityStart())

    told, then = await frames_of(server, send, 2, name=LIVE_31)
    assert [turn["role"] for turn in told["clientContent"]["turns"]] == ["user", "model"]
    assert told["clientContent"]["turnComplete"] is True
    assert then == {"realtimeInput": {"activityStart": {}}}


def test_live_3_what_an_announced_history_means_is_what_the_sdk_says() -> None:
    """`send_history` rests on these words; another SDK may say otherwise."""
    from google.genai import types

    said = types.HistoryConfig.model_fields["initial_history_in_client_content"].description
    words = " ".join((said or "").split())
    assert "process `client_content` messages until `turn_complete` is `true`" in words
    assert "This initial history will not trigger a model call and may end with model content." in words
    assert "can start the realtime conversation via `realtime_input`" in words


async def test_live_3_a_history_that_was_announced_and_did_not_come_is_ended(server: LiveServer) -> None:
    async def send(connection: LiveConnection) -> None:
        await connection.send_history([user_content([AUDIO])])
        await connection.send_content(user_content("hello"))
        await connection.send_content(user_content("again"))

    ended, hello, again = await frames_of(server, send, 3, name=LIVE_31)
    assert ended == {"clientContent": {"turnComplete": True}}
    assert [hello, again] == [{"realtimeInput": {"text": "hello"}}, {"realtimeInput": {"text": "again"}}]


@pytest.mark.parametrize("vertex", [False, True])
async def test_live_4_answers_to_calls_go_as_one_tool_response(server: LiveServer, vertex: bool) -> None:
    answers = [
        Part(function_response=FunctionResponse(id="c1", name="f", response={"r": 1})),
        Part(text="dropped"),
        Part(function_response=FunctionResponse(id="adk-2" if vertex else "c2", name="g", response={"r": None})),
    ]
    (frame,) = await frames_of(server, lambda c: c.send_content(user_content(answers)), 1, vertex=vertex)
    second = {"name": "g", "response": {"r": None}} if vertex else {"id": "c2", "name": "g", "response": {"r": None}}
    assert frame == {
        "toolResponse": {"functionResponses": [{"id": "c1", "name": "f", "response": {"r": 1}}, second]}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "vertex", "realtime"), [(LIVE_31, False, True), (LIVE_31, True, False), (LIVE_2, False, False)]
)
async def test_live_4_a_text_is_client_content_or_realtime_text(
    server: LiveServer, name: str, vertex: bool, realtime: bool
) -> None:
    (frame,) = await frames_of(
        server, lambda c: c.send_content(user_content("hello")), 1, name=name, vertex=vertex, request=NEW
    )
    if realtime:
        assert frame == {"realtimeInput": {"text": "hello"}}
    else:
        assert frame["clientContent"]["turns"] == [{"role": "user", "parts": [{"text": "hello"}]}]
        assert frame["clientContent"]["turnComplete"] is True


async def test_live_4_an_empty_content_is_refused(server: LiveServer) -> None:
    server.talks.append(stay)
    async with connected(server) as connection:
        with pytest.raises(ValidationError):
            await connection.send_content(Content(role="user", parts=[Part(text=" ")]))


PNG = b"\x89PNG\r\n\x1a\n rest"


@pytest.mark.parametrize(
    ("blob", "name", "vertex", "kind", "mime"),
    [
        (Blob(data=b"\xfb\xff", mime_type="audio/pcm;rate=16000"), LIVE_2, False, "media", "audio/pcm;rate=16000"),
        (Blob(data=b"\xfb\xff"), LIVE_2, True, "media", "audio/pcm"),
        (Blob(data=PNG), LIVE_2, False, "media", "image/png"),
        (Blob(data=PNG), LIVE_31, False, "video", "image/png"),
        (Blob(data=b"\xfb\xff"), LIVE_31, False, "audio", "audio/pcm"),
        (Blob(data=b"\xfb\xff"), LIVE_31, True, "media", "audio/pcm"),
    ],
)
async def test_live_5_realtime_blobs(
    server: LiveServer, blob: Blob, name: str, vertex: bool, kind: str, mime: str
) -> None:
    (frame,) = await frames_of(server, lambda c: c.send_realtime(blob), 1, name=name, vertex=vertex, request=NEW)
    sent = frame["realtimeInput"]
    if kind == "media":
        (found,) = sent["mediaChunks"]
    else:
        found = sent[kind]
    assert found["mimeType"] == mime
    assert base64.urlsafe_b64decode(found["data"].replace("+", "-").replace("/", "_")) == blob.data


async def test_live_5_marks_of_activity_and_nothing_else(server: LiveServer) -> None:
    async def send(connection: LiveConnection) -> None:
        with pytest.raises(ValidationError):
            await connection.send_realtime("hello")  # type: ignore[arg-type]
        await connection.send_realtime(ActivityStart())
        await connection.send_realtime(ActivityEnd())

    frames = await frames_of(server, send, 2)
    assert frames == [{"realtimeInput": {"activityStart": {}}}, {"realtimeInput": {"activityEnd": {}}}]


# --- receiving --------------------------------------------------------------------------------------------------------


async def test_live_6_a_handle_comes_alone_and_only_when_it_can_be_used(server: LiveServer) -> None:
    responses = await said_by(
        server,
        {"sessionResumptionUpdate": {"newHandle": "h0", "resumable": False}},
        {"sessionResumptionUpdate": {}},
        {"sessionResumptionUpdate": {"newHandle": "h1", "resumable": True}},
    )
    assert responses == [ModelResponse(session_resumption_handle="h1")]


async def test_live_6_texts_are_fragments_and_sound_is_whole(server: LiveServer) -> None:
    """LIVE-8."""
    sound = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "+/8="}}
    responses = await said_by(
        server,
        {"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "It"}]}}},
        {"serverContent": {"modelTurn": {"parts": [{"text": " is"}, sound]}, "turnComplete": True}},
        {"serverContent": {"interrupted": True}},
    )
    spoken = Part(inline_data=Blob(data=b"\xfb\xff", mime_type="audio/pcm;rate=24000"))
    assert responses == [
        ModelResponse(
            content=Content(role="model", parts=[Part(text="hm", thought=True), Part(text="It")]), partial=True
        ),
        ModelResponse(content=text_content(" is"), partial=True),
        ModelResponse(content=Content(role="model", parts=[spoken]), turn_complete=True),
        ModelResponse(interrupted=True),
    ]


@pytest.mark.parametrize("vertex", [False, True])
async def test_live_6_speech_as_text_comes_in_fragments(server: LiveServer, vertex: bool) -> None:
    responses = await said_by(
        server,
        {"serverContent": {"inputTranscription": {"text": "hel"}}},
        {"serverContent": {"inputTranscription": {"text": "lo", "finished": True}}},
        {"serverContent": {"outputTranscription": {"text": "yes"}, "turnComplete": True}},
        {"serverContent": {"outputTranscription": {"finished": True}}},
        vertex=vertex,
    )
    assert responses == [
        ModelResponse(input_transcription=Transcription(text="hel"), partial=True),
        ModelResponse(input_transcription=Transcription(text="lo"), partial=True),
        ModelResponse(output_transcription=Transcription(text="yes"), partial=True),
        ModelResponse(turn_complete=True),
    ]


async def test_live_6_calls_of_a_message_are_one_content(server: LiveServer) -> None:
    calls = [{"id": "c1", "name": "f", "args": {"a": 1}}, {"id": "c2", "name": "g", "args": {}}]
    responses = await said_by(server, {"toolCall": {"functionCalls": calls}})
    assert responses == [
        ModelResponse(
            content=Content(
                role="model",
                parts=[
                    Part(function_call=FunctionCall(id="c1", name="f", args={"a": 1})),
                    Part(function_call=FunctionCall(id="c2", name="g", args={})),
                ],
            )
        )
    ]


async def test_live_7_usage_has_the_names_of_every_other_call(server: LiveServer) -> None:
    """MOD-16."""
    usage = {
        "promptTokenCount": 7,
        "responseTokenCount": 3,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 12,
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 3}],
    }
    (response,) = await said_by(server, {"serverContent": {"turnComplete": True}, "usageMetadata": usage})
    assert response.turn_complete
    assert response.usage_metadata == load(
        UsageMetadata,
        {
            "promptTokenCount": 7,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 2,
            "totalTokenCount": 12,
            "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 3}],
        },
    )


async def test_live_7_what_else_a_server_says_is_labelled(server: LiveServer) -> None:
    responses = await said_by(
        server,
        {"goAway": {"timeLeft": "9.5s"}},
        {"goAway": {}},
        {"toolCallCancellation": {"ids": ["c1"]}},
        {"serverContent": {"generationComplete": True}},
        {"serverContent": {"turnComplete": True, "turnCompleteReason": "NEED_MORE_INPUT"}},
        {"serverContent": {"interactionStatus": "IN_PROGRESS"}},
        {"voiceActivity": {"type": "ACTIVITY_START", "audioOffset": "1.5s"}},
        {"voiceActivityDetectionSignal": {"vadSignalType": "VAD_SIGNAL_TYPE_EOS"}},
        {"serverContent": {"groundingMetadata": {"webSearchQueries": ["q"]}}},
    )
    labels = [response.custom_metadata for response in responses]
    assert labels == [
        {GO_AWAY: 9.5},
        {GO_AWAY: 0},
        {CANCELLED_CALLS: ["c1"]},
        {GENERATION_COMPLETE: True},
        {TURN_COMPLETE_REASON: "NEED_MORE_INPUT"},
        {INTERACTION_STATUS: "IN_PROGRESS"},
        {VOICE_ACTIVITY: {"voiceActivityType": "ACTIVITY_START", "audioOffset": "1.5s"}},
        {VOICE_ACTIVITY: {"vadSignalType": "VAD_SIGNAL_TYPE_EOS"}},
        None,
    ]
    assert [response.partial for response in responses] == [True, True, True, True, None, True, True, True, None]
    assert responses[-1].grounding_metadata is not None


@pytest.mark.parametrize("vertex", [False, True])
async def test_live_7_messages_of_unknown_kinds_give_nothing(server: LiveServer, vertex: bool) -> None:
    """T-10: no empty events."""
    responses = await said_by(
        server,
        {"zork": {"a": 1}},
        {"voiceActivity": {}},
        {"serverContent": {"modelTurn": {"parts": [{"text": ""}]}}},
        {"serverContent": {"waitingForInput": True}},
        {"serverContent": {"modelTurn": {"parts": [{"text": "still here"}]}}},
        vertex=vertex,
    )
    assert [response.text for response in responses] == ["still here"]


async def test_live_17_the_connection_goes_on_after_a_turn(server: LiveServer) -> None:
    turn = [{"serverContent": {"modelTurn": {"parts": [{"text": "a"}]}}}, {"serverContent": {"turnComplete": True}}]
    responses = await said_by(server, *turn, *turn, *turn)
    assert [response.text for response in responses] == ["a", "", "a", "", "a", ""]


@pytest.mark.parametrize(
    "message",
    [
        {"toolCall": {"functionCalls": [{"id": "c", "name": "f", "args": {"x": float("nan")}}]}},
        {"toolCall": {"functionCalls": [{"id": "c", "name": "f", "args": [1]}]}},
        {"toolCall": {"functionCalls": {"a": 1}}},
        {"serverContent": {"modelTurn": {"parts": [{"text": 5}]}}},
        {"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm", "data": "***"}}]}}},
        {"usageMetadata": {"promptTokenCount": 7.5}},
    ],
)
async def test_err_1_a_live_message_that_cannot_be_read_is_a_model_error(server: LiveServer, message: Any) -> None:
    with pytest.raises(ModelError) as caught:
        await said_by(server, message)
    assert (caught.value.kind, caught.value.retryable) == ("invalid_response", False)
    assert (caught.value.provider, caught.value.after_first_chunk) == ("gcp.gemini", True)


async def test_bey_8_the_id_of_the_session_is_that_of_the_setup(server: LiveServer) -> None:
    """SDK-7: `s.session_id`."""
    server.session_id = "live-7"
    server.talks.append(stay)
    async with connected(server) as connection:
        assert connection.session_id == "live-7"
    server.session_id = ""
    server.talks.append(stay)
    async with connected(server) as connection:
        assert connection.session_id == ""
