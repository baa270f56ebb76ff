"""What a live connection is opened with, and refused with: models LIVE-1, LIVE-2, LIVE-3, LIVE-9."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gemini.live_making import LIVE_2, LIVE_31, setup_of
from tests.gemini.live_service import LiveServer

from hookwork import Content, FunctionDeclaration, ModelRequest, user_content
from hookwork.errors import ModelError
from hookwork.live import (
    LiveRunConfig,
    SessionResumption,
)
from hookwork.records.codec import load
from hookwork.records.request import GenerateContentConfig


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
