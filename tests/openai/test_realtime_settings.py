"""Settings of Realtime sessions, and opening them (models RT-1, LIVE-1, LIVE-2)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.openai.asking import KEY, a_call, asked, declared
from tests.openai.realtime_service import (
    RealtimeService,
    Stay,
    failure,
)
from tests.openai.realtime_talks import SPEECH_OFF, heard, session_on

from hookwork import (
    Content,
    FunctionDeclaration,
    LiveRunConfig,
    Part,
    ToolDeclaration,
)
from hookwork.errors import ModelError
from hookwork_openai import OpenAIModel
from hookwork_openai.realtime.session import session_settings


def settings(live: dict[str, Any] | None = None, /, options: dict[str, Any] | None = None, **config: Any) -> Any:
    return session_settings(
        a_call("gpt-realtime-2", **(options or {})), asked("hi", **config), LiveRunConfig(**(live or {}))
    )


def refused(live: dict[str, Any] | None = None, /, **config: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        settings(live, **config)
    assert caught.value.kind == "invalid_request"
    return caught.value


# --- RT-1: settings --------------------------------------------------------------------------------------------------


def test_rt_1_settings_of_a_session() -> None:
    functions = (ToolDeclaration(function_declarations=(FunctionDeclaration(name="f", description="does"),)),)
    found = settings(
        {"response_modalities": ["AUDIO"], "input_audio_transcription": {"languageCodes": ["de-DE"]}},
        options={"voice": "marin"},
        system_instruction=Content(parts=[Part(text="be brief")]),
        tools=functions,
        tool_config={"functionCallingConfig": {"mode": "ANY"}},
        max_output_tokens=100,
        thinking_config={"thinkingLevel": "LOW"},
    )
    pcm = {"type": "audio/pcm", "rate": 24000}
    assert found == {
        "type": "realtime",
        "instructions": "be brief",
        "output_modalities": ["audio"],
        "tools": [
            {"type": "function", "name": "f", "description": "does", "parameters": {"type": "object", "properties": {}}}
        ],
        "tool_choice": "required",
        "max_output_tokens": 100,
        "reasoning": {"effort": "low"},
        "audio": {
            "input": {"format": pcm, "transcription": {"model": "gpt-transcribe", "language": "de"}},
            "output": {"format": pcm, "voice": "marin"},
        },
    }


def test_rt_1_what_is_not_said_is_left_to_the_service() -> None:
    pcm = {"format": {"type": "audio/pcm", "rate": 24000}}
    assert settings() == {"type": "realtime", "audio": {"input": pcm, "output": pcm}}


def test_rt_1_settings_fit_the_published_types() -> None:
    from openai.types.realtime import RealtimeSessionCreateRequestParam
    from pydantic import TypeAdapter

    live = {"response_modalities": ["TEXT"], "input_audio_transcription": {}, "realtime_input_config": {}}
    found = settings(live, tools=declared("f"), max_output_tokens=5)
    assert TypeAdapter(RealtimeSessionCreateRequestParam).validate_python(found)["type"] == "realtime"


def test_rt_1_one_modality() -> None:
    assert settings({"response_modalities": ["TEXT"]})["output_modalities"] == ["text"]
    assert settings(response_modalities=("AUDIO",))["output_modalities"] == ["audio"]
    assert refused({"response_modalities": ["TEXT", "AUDIO"]}).code == "unsupported_modalities"


def test_live_2_values_of_the_run_win() -> None:
    def voice(name: str) -> dict[str, Any]:
        return {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": name}}}

    found = settings({"speech_config": voice("cedar"), "response_modalities": ["TEXT"]},
                     speech_config=voice("ash"), response_modalities=("AUDIO",))  # fmt: skip
    assert (found["audio"]["output"]["voice"], found["output_modalities"]) == ("cedar", ["text"])
    assert settings(speech_config=voice("ash"))["audio"]["output"]["voice"] == "ash"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (SPEECH_OFF, None),
        ({}, {"type": "server_vad"}),
        (
            {"automatic_activity_detection": {"prefix_padding_ms": 20, "silence_duration_ms": 100}},
            {"type": "server_vad", "prefix_padding_ms": 20, "silence_duration_ms": 100},
        ),
        ({"activityHandling": "NO_INTERRUPTION"}, {"type": "server_vad", "interrupt_response": False}),
    ],
)
def test_rt_1_turn_detection(wanted: dict[str, Any], found: Any) -> None:
    assert settings({"realtime_input_config": wanted})["audio"]["input"]["turn_detection"] == found


@pytest.mark.parametrize("name", ["audio/pcmu", "audio/pcma"])
def test_rt_1_other_formats(name: str) -> None:
    found = settings(options={"input_audio_format": name, "output_audio_format": name})["audio"]
    assert (found["input"]["format"], found["output"]["format"]) == ({"type": name}, {"type": name})


@pytest.mark.parametrize(
    ("live", "config", "code"),
    [
        ({}, {"temperature": 0.5}, "unsupported_temperature"),
        ({}, {"top_k": 3}, "unsupported_top_k"),
        ({}, {"response_mime_type": "application/json"}, "unsupported_schema"),
        ({"proactivity": {"proactiveAudio": True}}, {}, "unsupported_proactivity"),
        ({"enable_affective_dialog": True}, {}, "unsupported_enable_affective_dialog"),
        ({"context_window_compression": {"triggerTokens": 1}}, {}, "unsupported_context_window_compression"),
        ({"session_resumption": {"handle": "h"}}, {}, "unsupported_resumption"),
    ],
)
def test_live_2_what_the_service_lacks_is_refused(live: dict[str, Any], config: dict[str, Any], code: str) -> None:
    """RT-4: no session can be resumed by a handle."""
    assert refused(live, **config).code == code
    call = a_call("gpt-realtime-2", unsupported="warn")
    assert session_settings(call, asked("hi", **config), LiveRunConfig(**live))["type"] == "realtime"


async def test_rt_1_opening_a_session() -> None:
    async with session_on(Stay(), request=asked("hi", http_options={"headers": {"X-A": "1"}})) as (_, service):
        pass
    request = service.requests[0]
    assert request.path == "/v1/realtime?model=gpt-realtime-2"
    assert (request.headers["Authorization"], request.headers["X-A"]) == (f"Bearer {KEY}", "1")
    assert service.session["type"] == "realtime"
    assert service.closed == [1000], "LIVE-13: closed when it is left"


async def test_mod_7_nothing_is_done_before_the_session_is_entered() -> None:
    request = asked("hi", top_k=1)
    manager = OpenAIModel("gpt-realtime-2", api_key=KEY).connect(request, LiveRunConfig())
    with pytest.raises(ModelError, match="top_k"):
        await manager.__aenter__()


@pytest.mark.parametrize(
    ("status", "kind", "retryable"), [(401, "auth", False), (404, "invalid_request", False), (503, "unavailable", True)]
)
async def test_err_1_a_refused_handshake(status: int, kind: str, retryable: bool) -> None:
    async with RealtimeService(refuse=status).running() as service:
        model = OpenAIModel("gpt-realtime-2", base_url=service.base_url, api_key=KEY)
        with pytest.raises(ModelError) as caught:
            await model.connect(asked(), LiveRunConfig()).__aenter__()
        await model.close()
    error = caught.value
    assert (error.kind, error.retryable, error.status_code) == (kind, retryable, status)
    assert error.__cause__ is not None
    assert KEY not in str(error)


async def test_err_1_nobody_listens() -> None:
    async with RealtimeService().running() as service:
        gone = service.base_url
    model = OpenAIModel("gpt-realtime-2", base_url=gone, api_key=KEY)
    with pytest.raises(ModelError) as caught:
        await model.connect(asked(), LiveRunConfig()).__aenter__()
    assert (caught.value.kind, caught.value.retryable) == ("connection", True)
    await model.close()


async def test_rt_1_refused_settings_end_the_session() -> None:
    with pytest.raises(ModelError) as caught:
        await heard(failure("invalid_value", event_id="hookwork_session_update"))
    assert (caught.value.kind, caught.value.code) == ("invalid_request", "invalid_value")
