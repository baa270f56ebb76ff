"""Live connections over a real WebSocket: models LIVE-1 … LIVE-13, LIVE-17, SDK-7, SDK-8."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.gemini.live_service import Line, LiveServer, live_server
from tests.gemini.making import api_model, vertex_model

from hookwork import Blob, Content, FunctionDeclaration, ModelRequest, ModelResponse, Part, text_content, user_content
from hookwork.errors import LiveConnectionClosed, ModelError, ValidationError
from hookwork.live import (
    CANCELLED_CALLS,
    GENERATION_COMPLETE,
    GO_AWAY,
    INTERACTION_STATUS,
    TURN_COMPLETE_REASON,
    ActivityEnd,
    ActivityStart,
    LiveConnection,
    LiveRunConfig,
    SessionResumption,
)
from hookwork.records.codec import load
from hookwork.records.content import FunctionCall, FunctionResponse
from hookwork.records.metadata import Transcription, UsageMetadata
from hookwork.records.request import GenerateContentConfig
from hookwork_gemini import GeminiModel
from hookwork_gemini.live.connection import ANSWER_NOW
from hookwork_testkit.suites.leftovers import no_tasks_left

ASKED = ModelRequest(contents=[user_content("hi")])
LIVE_2 = "gemini-2.0-flash-live-001"
LIVE_31 = "gemini-3.1-flash-live"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LiveServer]:
    async with live_server(monkeypatch) as running:
        yield running


def model_for(server: LiveServer, *, vertex: bool = False, name: str = LIVE_2) -> GeminiModel:
    return (vertex_model if vertex else api_model)(server, name)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def connected(
    server: LiveServer,
    *,
    request: ModelRequest = ASKED,
    config: LiveRunConfig | None = None,
    vertex: bool = False,
    name: str = LIVE_2,
) -> AsyncIterator[LiveConnection]:
    model = model_for(server, vertex=vertex, name=name)
    try:
        async with model.connect(request, config or LiveRunConfig()) as connection:
            yield connection
    finally:
        await model.close()


async def stay(line: Line) -> None:
    await line.hang_up()


async def setup_of(server: LiveServer, **options: Any) -> dict[str, Any]:
    """What a connection is set up with."""
    server.talks.append(stay)
    async with connected(server, **options):
        pass
    return server.setups[-1]


async def frames_of(server: LiveServer, send: Any, count: int, **options: Any) -> list[dict[str, Any]]:
    """The frames that some sends become."""
    got: list[dict[str, Any]] = []
    done = asyncio.Event()

    async def collect(line: Line) -> None:
        for _ in range(count):
            got.append(await line.get())
        done.set()
        await line.hang_up()

    server.talks.append(collect)
    async with connected(server, **options) as connection:
        await send(connection)
        await asyncio.wait_for(done.wait(), 10)
    return got


async def said_by(server: LiveServer, *messages: dict[str, Any], **options: Any) -> list[ModelResponse]:
    """The responses that some server messages become; a last message marks the end."""

    async def tell(line: Line) -> None:
        for message in messages:
            await line.send(**message)
        await line.send(sessionResumptionUpdate={"newHandle": "END", "resumable": True})
        await line.hang_up()

    server.talks.append(tell)
    got: list[ModelResponse] = []
    async with connected(server, **options) as connection, contextlib.aclosing(connection.receive()) as responses:
        async for response in responses:
            if response.session_resumption_handle == "END":
                return got
            got.append(response)
    raise AssertionError("the connection ended early")


# --- setup ------------------------------------------------------------------------------------------------------------


async def test_live_1_instruction_tools_and_live_settings_open_the_connection(server: LiveServer) -> None:
    request = ModelRequest(contents=[user_content("hi")])
    request.append_instruction("Be brief.")
    request.add_declarations(
        [FunctionDeclaration(name="f", parameters_json_schema={"type": "object", "properties": {"a": {"const": "x"}}})]
    )
    config = LiveRunConfig(
        response_modalities=("AUDIO",),
        speech_config={"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}},
        input_audio_transcription={},
        output_audio_transcription={},
        session_resumption=SessionResumption(),
    )
    setup = await setup_of(server, request=request, config=config)
    assert setup["model"] == f"models/{LIVE_2}"
    assert setup["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    (tool,) = setup["tools"]
    assert tool["functionDeclarations"][0]["parameters"]["properties"]["a"]["enum"] == ["x"]
    assert setup["generationConfig"]["responseModalities"] == ["AUDIO"]
    assert setup["generationConfig"]["speechConfig"] == config.speech_config
    assert (setup["inputAudioTranscription"], setup["outputAudioTranscription"]) == ({}, {})
    assert setup["sessionResumption"] == {}
    assert server.paths[-1].endswith("/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent")


async def test_live_1_vertex_ai_has_its_own_address_and_token(server: LiveServer) -> None:
    setup = await setup_of(server, vertex=True)
    assert setup["model"] == f"projects/p1/locations/europe-west4/publishers/google/models/{LIVE_2}"
    assert server.paths[-1].endswith("/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent")
    assert server.headers[-1]["authorization"] == "Bearer token-77"
    assert "hookwork/" in server.headers[-1]["x-goog-api-client"]  # GEM-4


async def test_live_2_everything_else_is_forwarded_and_live_values_win(server: LiveServer) -> None:
    request = ModelRequest(contents=[user_content("hi")])
    request.config = load(
        GenerateContentConfig,
        {
            "temperature": 0.5,
            "topP": 0.8,
            "maxOutputTokens": 9,
            "seed": 3,
            "thinkingConfig": {"thinkingBudget": 1},
            "mediaResolution": "MEDIA_RESOLUTION_LOW",
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
            "responseModalities": ["TEXT"],
            "speechConfig": {"languageCode": "de-DE"},
            "enable_affective_dialog": False,
            "httpOptions": {"headers": {"x-own": "1"}, "timeout": 1000},
        },
    )
    config = LiveRunConfig(
        response_modalities=("AUDIO",),
        realtime_input_config={"automaticActivityDetection": {"disabled": True}},
        enable_affective_dialog=True,
        proactivity={"proactiveAudio": True},
        context_window_compression={"slidingWindow": {}},
    )
    setup = await setup_of(server, request=request, config=config)
    generation = setup["generationConfig"]
    assert generation["temperature"] == 0.5
    assert generation["topP"] == 0.8
    assert (generation["maxOutputTokens"], generation["seed"]) == (9, 3)
    assert generation["thinkingConfig"] == {"thinkingBudget": 1}
    assert generation["mediaResolution"] == "MEDIA_RESOLUTION_LOW"
    assert generation["speechConfig"] == {"languageCode": "de-DE"}
    assert generation["responseModalities"] == ["AUDIO"]
    assert generation["enableAffectiveDialog"] is True
    assert setup["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    assert setup["realtimeInputConfig"] == {"automaticActivityDetection": {"disabled": True}}
    assert setup["proactivity"] == {"proactiveAudio": True}
    assert setup["contextWindowCompression"] == {"slidingWindow": {}}
    assert server.headers[-1]["x-own"] == "1"


async def test_live_2_a_setting_that_connections_lack_is_refused(server: LiveServer) -> None:
    """T-8: nothing is accepted and ignored."""
    request = ModelRequest(contents=[user_content("hi")])
    request.update_config(stop_sequences=("x",), candidate_count=2)
    with pytest.raises(ModelError, match="candidateCount, stopSequences") as caught:
        await setup_of(server, request=request)
    assert caught.value.kind == "invalid_request"
    assert server.paths == []


@pytest.mark.parametrize(
    ("vertex", "given", "sent"),
    [
        (False, SessionResumption(handle="h1"), {"handle": "h1"}),
        (True, SessionResumption(handle="h1"), {"handle": "h1", "transparent": True}),
        (True, SessionResumption(), {}),
        (True, SessionResumption(transparent=True), {"transparent": True}),
    ],
)
async def test_live_9_a_handle_resumes_transparently_on_vertex_ai_only(
    server: LiveServer, vertex: bool, given: SessionResumption, sent: dict[str, Any]
) -> None:
    """CASE-LIVE-1."""
    setup = await setup_of(server, vertex=vertex, config=LiveRunConfig(session_resumption=given))
    assert setup["sessionResumption"] == sent


async def test_live_9_the_callers_wish_stands_where_the_backend_cannot(server: LiveServer) -> None:
    with pytest.raises(ModelError, match="transparent") as caught:
        await setup_of(server, config=LiveRunConfig(session_resumption=SessionResumption(transparent=True)))
    assert caught.value.kind == "invalid_request"


@pytest.mark.parametrize(
    ("name", "contents", "handle", "announced"),
    [
        (LIVE_31, [user_content("hi")], None, True),
        (LIVE_31, [], None, False),
        (LIVE_31, [user_content("hi")], "h1", False),
        (LIVE_2, [user_content("hi")], None, False),
    ],
)
async def test_live_3_gemini_3_is_told_that_a_history_comes(
    server: LiveServer, name: str, contents: list[Content], handle: str | None, announced: bool
) -> None:
    resumption = SessionResumption(handle=handle) if handle else None
    setup = await setup_of(
        server,
        name=name,
        request=ModelRequest(contents=contents),
        config=LiveRunConfig(session_resumption=resumption),
    )
    assert ("historyConfig" in setup) is announced
    if announced:
        assert setup["historyConfig"] == {"initialHistoryInClientContent": True}


# --- sending ----------------------------------------------------------------------------------------------------------

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
    assert asked == {"realtimeInput": {"text": ANSWER_NOW}}


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
    (frame,) = await frames_of(server, lambda c: c.send_content(user_content("hello")), 1, name=name, vertex=vertex)
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
    (frame,) = await frames_of(server, lambda c: c.send_realtime(blob), 1, name=name, vertex=vertex)
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
        None,
    ]
    assert [response.partial for response in responses] == [True, True, True, True, None, True, None]
    assert responses[-1].grounding_metadata is not None


@pytest.mark.parametrize("vertex", [False, True])
async def test_live_7_messages_of_unknown_kinds_give_nothing(server: LiveServer, vertex: bool) -> None:
    """T-10: no empty events."""
    responses = await said_by(
        server,
        {"zork": {"a": 1}},
        {"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}},
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


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1000, 1001, 1007, 1008, 1011, 1012, 1013, 1014, 4000])
async def test_live_10_a_closed_line_says_its_code(server: LiveServer, code: int) -> None:
    """SDK-8."""

    async def end(line: Line) -> None:
        await line.say("a")
        await line.close(code, "secret reason")

    server.talks.append(end)
    async with connected(server) as connection:
        with pytest.raises(LiveConnectionClosed) as caught:
            async for _ in connection.receive():
                pass
        assert caught.value.close_code == code
        assert (caught.value.provider, caught.value.model) == ("gcp.gemini", LIVE_2)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is not None
        with pytest.raises(LiveConnectionClosed) as caught:
            await connection.send_content(user_content("too late"))
        assert caught.value.close_code == code


async def test_live_10_a_line_that_is_cut_has_the_code_1006(server: LiveServer) -> None:
    server.talks.append(Line.cut)
    async with connected(server) as connection:
        with pytest.raises(LiveConnectionClosed) as caught:
            async for _ in connection.receive():
                pass
    assert caught.value.close_code == 1006


async def test_live_10_what_cannot_be_read_ends_the_session(server: LiveServer) -> None:
    async def babble(line: Line) -> None:
        await line.send_text("{no json")
        await line.hang_up()

    server.talks.append(babble)
    async with connected(server) as connection:
        with pytest.raises(ModelError) as caught:
            async for _ in connection.receive():
                pass
    assert caught.value.kind == "invalid_response"
    assert "no json" not in str(caught.value)


async def test_live_10_an_error_message_ends_the_session(server: LiveServer) -> None:
    with pytest.raises(ModelError) as caught:
        await said_by(server, {"error": {"status": "RESOURCE_EXHAUSTED", "message": "secret"}})
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == ("rate_limit", "RESOURCE_EXHAUSTED", True)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [(1007, "invalid_request", False), (1008, "invalid_request", False), (1011, "connection", True)],
)
async def test_live_10_a_server_that_refuses_the_setup(
    server: LiveServer, code: int, kind: str, retryable: bool
) -> None:
    server.refuse_setup = (code, "models/x is not found for key secret")
    with pytest.raises(ModelError) as caught:
        await setup_of(server)
    assert (caught.value.kind, caught.value.retryable, caught.value.code) == (kind, retryable, str(code))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (429, "rate_limit"), (503, "unavailable")])
async def test_err_1_a_server_that_refuses_the_handshake(server: LiveServer, status: int, kind: str) -> None:
    server.refuse_handshake = status
    with pytest.raises(ModelError) as caught:
        await setup_of(server)
    assert (caught.value.kind, caught.value.status_code) == (kind, status)


async def test_live_13_closing_ends_a_receive_that_waits(server: LiveServer) -> None:
    server.talks.append(stay)
    async with no_tasks_left("a closed connection"), connected(server) as connection:
        waiting = asyncio.create_task(_count(connection))
        await asyncio.sleep(0)
        await connection.close()
        await connection.close()
        assert await asyncio.wait_for(waiting, 10) == 0


async def _count(connection: LiveConnection) -> int:
    return len([response async for response in connection.receive()])


async def test_live_13_an_error_or_a_cancellation_inside_closes_the_line(server: LiveServer) -> None:
    left = asyncio.Event()

    async def notice(line: Line) -> None:
        await line.hang_up()
        left.set()

    server.talks += [notice, notice]
    with pytest.raises(ZeroDivisionError):
        async with connected(server):
            raise ZeroDivisionError
    await asyncio.wait_for(left.wait(), 10)
    left.clear()
    inside = asyncio.Event()

    async def wait_inside() -> None:
        async with connected(server):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(wait_inside())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(left.wait(), 10)


async def test_live_13_leaving_receive_keeps_the_line(server: LiveServer) -> None:
    async def talk(line: Line) -> None:
        await line.say("a", "b")
        assert (await line.get())["clientContent"]
        await line.say("c")
        await line.hang_up()

    server.talks.append(talk)
    async with connected(server) as connection:
        async with contextlib.aclosing(connection.receive()) as responses:  # type: ignore[type-var]
            assert (await anext(responses)).text == "a"
        await connection.send_content(user_content("go on"))
        texts = []
        async for response in connection.receive():
            texts.append(response.text)
            if response.text == "c":
                break
    assert texts == ["b", "", "c"]
