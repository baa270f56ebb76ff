"""The live contract: settings, requests, what a connection is given (core §3.6, §6; models §7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import Blob, Content, LiveRequest, LiveRunConfig, Model, ModelRequest, Part, SessionResumption
from hookwork.errors import ConfigurationError, LiveConnectionClosed, UnsupportedOperationError, ValidationError
from hookwork.live import (
    RESUMABLE_CLOSE_CODES,
    ActivityEnd,
    ActivityStart,
    check_realtime,
    live_request,
    with_mime_type,
    without_audio,
)
from hookwork.records.content import FunctionResponse, text_content, user_content
from hookwork.records.metadata import ModelResponse

AUDIO = Part(inline_data=Blob(data=b"\0\1", mime_type="audio/pcm;rate=16000"))


class _Written(Model):
    name = "written"

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        yield ModelResponse()


def test_live_1_a_model_without_connect_says_so() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"'written' does not support live"):
        _Written().connect(ModelRequest(), LiveRunConfig())


def test_cfg_1_the_live_config_holds_every_setting_and_freezes_it() -> None:
    config = LiveRunConfig(
        response_modalities=["AUDIO"],  # type: ignore[arg-type]
        speech_config={"languageCode": "de-DE"},
        input_audio_transcription={},
        output_audio_transcription={},
        realtime_input_config={"automaticActivityDetection": {"disabled": True}},
        enable_affective_dialog=True,
        proactivity={"proactiveAudio": True},
        session_resumption={"handle": "h1"},  # type: ignore[arg-type]
        context_window_compression={"slidingWindow": {}},
        save_live_blob=True,
        max_llm_calls=3,
        custom_metadata={"tenant": "t"},
    )
    assert config.response_modalities == ("AUDIO",)
    assert config.session_resumption == SessionResumption(handle="h1")
    assert config.speech_config is not None
    with pytest.raises(TypeError):
        config.speech_config["languageCode"] = "fr-FR"


def test_cfg_1_everything_is_optional() -> None:
    config = LiveRunConfig()
    assert {getattr(config, name) for name in config.__struct_fields__} == {None, False}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"response_modalities": "AUDIO"}, "write \\['AUDIO'\\]"),
        ({"speech_config": "de"}, "speech_config is an object"),
        ({"session_resumption": "h1"}, "session_resumption is a SessionResumption"),
        ({"session_resumption": {"handel": "h1"}}, "handel"),
        ({"max_llm_calls": "3"}, "whole number"),
    ],
)
def test_cfg_1_what_is_no_setting_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        LiveRunConfig(**fields)


def test_live_9_a_handle_is_put_into_the_settings_and_the_callers_own_stay() -> None:
    plain = LiveRunConfig(response_modalities=("TEXT",)).resuming("h1")
    assert (plain.response_modalities, plain.session_resumption) == (("TEXT",), SessionResumption(handle="h1"))
    given = LiveRunConfig(session_resumption=SessionResumption(handle="old", transparent=False)).resuming("h2")
    assert given.session_resumption == SessionResumption(handle="h2", transparent=False)


def test_live_1_a_request_takes_text_contents_parts_and_realtime_input() -> None:
    assert live_request("hi") == LiveRequest(content=user_content("hi"))
    assert live_request(text_content("hi")) == LiveRequest(content=user_content("hi"))
    assert live_request([Part(text="hi")]) == LiveRequest(content=user_content("hi"))
    assert live_request(ActivityStart()) == LiveRequest(realtime_input=ActivityStart())
    both = LiveRequest(content=user_content("look"), realtime_input=Blob(data=b"x"))
    assert live_request(both) is both


@pytest.mark.parametrize("value", ["", "  ", Content(role="user", parts=[]), [Part()], [], 7, None, {"text": "hi"}])
def test_live_4_a_content_that_says_nothing_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        live_request(value)


def test_live_1_an_empty_request_is_refused() -> None:
    with pytest.raises(ValidationError, match="this one is empty"):
        LiveRequest()


@pytest.mark.parametrize("item", ["hi", Part(text="hi"), None, Blob(), Blob(data=b"")])
def test_live_5_realtime_input_is_a_blob_with_data_or_an_activity_mark(item: Any) -> None:
    with pytest.raises(ValidationError, match="realtime"):
        check_realtime(item)


@pytest.mark.parametrize("item", [Blob(data=b"\0"), ActivityStart(), ActivityEnd()])
def test_live_5_what_is_realtime_input_passes(item: Any) -> None:
    assert check_realtime(item) is item


def test_live_5_a_blob_without_a_type_gets_one_on_a_copy() -> None:
    png, pcm = Blob(data=b"\x89PNG\r\n\x1a\n..."), Blob(data=b"\x89PNG")
    assert with_mime_type(png).mime_type == "image/png"
    assert with_mime_type(pcm).mime_type == "audio/pcm"
    assert (png.mime_type, pcm.mime_type) == (None, None)
    named = Blob(data=b"x", mime_type="audio/opus")
    assert with_mime_type(named) is named


def test_live_3_history_goes_without_audio_and_without_what_that_leaves_empty() -> None:
    image = Part(inline_data=Blob(data=b"i", mime_type="image/png"))
    answer = Content(role="user", parts=[Part(function_response=FunctionResponse(id="1", name="f", response={}))])
    mixed = Content(role="user", parts=[AUDIO, Part(text="and this"), image])
    history = [user_content("hi"), Content(role="model", parts=[AUDIO]), answer, mixed]
    assert without_audio(history) == [
        user_content("hi"),
        answer,
        Content(role="user", parts=[Part(text="and this"), image]),
    ]
    assert history[3] is mixed, "the history itself stays"


def test_live_10_the_close_codes_after_which_a_session_may_go_on() -> None:
    assert sorted(RESUMABLE_CLOSE_CODES) == [1000, 1001, 1006, 1008, 1011, 1012, 1013, 1014]
    error = LiveConnectionClosed("gone", provider="p")
    assert (error.close_code, error.code, error.kind, error.retryable) == (1006, "1006", "connection", True)
    assert LiveConnectionClosed("no", close_code=1007, retryable=False).retryable is False
