"""Realtime sessions over a real WebSocket (models §8b RT-1…4, LIVE-1…10 as they bear)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from tests.openai.asking import KEY, a_call, answer, asked, call, declared, said, user
from tests.openai.realtime_service import (
    A_CALL,
    HangUp,
    Hear,
    RealtimeService,
    Stay,
    Step,
    audio,
    begun,
    called,
    ended,
    failure,
    text,
    transcript,
    usage,
)

from hookwork import (
    Blob,
    Content,
    FunctionDeclaration,
    LiveRunConfig,
    ModelRequest,
    ModelResponse,
    Part,
    Runner,
    ToolDeclaration,
    user_content,
)
from hookwork.errors import LiveConnectionClosed, ModelError, ValidationError
from hookwork.live import GO_AWAY, ActivityEnd, ActivityStart, LiveConnection
from hookwork.platform import use_sleep
from hookwork_llm import LlmAgent, tool
from hookwork_openai import OpenAIModel
from hookwork_openai.realtime.session import session_settings

SPEECH_OFF = {"automaticActivityDetection": {"disabled": True}}


def settings(live: dict[str, Any] | None = None, /, options: dict[str, Any] | None = None, **config: Any) -> Any:
    return session_settings(
        a_call("gpt-realtime-2", **(options or {})), asked("hi", **config), LiveRunConfig(**(live or {}))
    )


def refused(live: dict[str, Any] | None = None, /, **config: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        settings(live, **config)
    assert caught.value.kind == "invalid_request"
    return caught.value


@asynccontextmanager
async def session_on(
    *script: Step, live: dict[str, Any] | None = None, request: ModelRequest | None = None
) -> AsyncIterator[tuple[LiveConnection, RealtimeService]]:
    async with RealtimeService(script).running() as service:
        model = OpenAIModel("gpt-realtime-2", base_url=service.base_url, api_key=KEY)
        async with model.connect(request or asked("hi"), LiveRunConfig(**(live or {}))) as connection:
            yield connection, service
        await model.close()


async def heard(*script: Step, live: dict[str, Any] | None = None) -> list[ModelResponse]:
    """All responses of a session in which the service plays a script and the client says one text."""
    async with session_on(Hear("response.create"), *script, HangUp(1000), live=live) as (connection, _):
        await connection.send_content(user_content("hi"))
        found: list[ModelResponse] = []
        with pytest.raises(LiveConnectionClosed):
            await collect(connection, found)
        return found


async def collect(connection: LiveConnection, found: list[ModelResponse]) -> None:
    async with aclosing(connection.receive()) as responses:  # type: ignore[type-var]
        async for response in responses:
            found.append(response)


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


# --- RT-2: what is sent ----------------------------------------------------------------------------------------------

LOUD = Part(inline_data=Blob(data=b"x", mime_type="audio/pcm"))


async def told(*contents: Content) -> RealtimeService:
    async with session_on(Stay()) as (connection, service):
        await connection.send_history(contents)
    return service


async def test_rt_2_history() -> None:
    image = Part(inline_data=Blob(data=b"x", mime_type="image/png"))
    service = await told(
        user(Part(text="q"), LOUD),
        user(LOUD),
        said("look", call("f", {"n": 1}, "c1")),
        user(answer("f", {"r": 2}, "c1")),
        said("so"),
        user(Part(text="and"), image),
    )
    picture = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,eA=="}
    assert [frame["item"] for frame in service.frames("conversation.item.create")] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "look"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"n":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": '{"r":2}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and"}, picture]},
    ]
    assert service.types[-1] == "response.create"


async def test_rt_2_items_fit_the_published_types() -> None:
    from openai.types.realtime import ConversationItemParam
    from pydantic import TypeAdapter

    service = await told(user(Part(text="q")), said("a", call("f", {}, "c")), user(answer("f", {}, "c")), said("b"))
    check = TypeAdapter(ConversationItemParam)
    items = [frame["item"] for frame in service.frames("conversation.item.create")]
    assert len(items) == 5
    for item in items:
        check.validate_python(item)


async def test_rt_2_a_history_that_ends_with_the_model_asks_for_nothing() -> None:
    """LIVE-3."""
    assert (await told(user_content("q"), said("a"))).types == ["conversation.item.create"] * 2
    assert (await told(user(LOUD))).types == [], "nothing left, nothing sent"


async def test_rt_2_a_text_is_an_item_and_asks_for_a_response() -> None:
    async with session_on(Hear("response.create"), Stay()) as (connection, service):
        await connection.send_content(user_content("hi"))
        with pytest.raises(ValidationError):
            await connection.send_content(Content(role="user", parts=[Part(text=" ")]))
    assert service.types == ["conversation.item.create", "response.create"]


async def test_rt_2_sound() -> None:
    async with session_on(Stay()) as (connection, service):
        for mime in ("audio/pcm", "audio/pcm;rate=24000", None):
            await connection.send_realtime(Blob(data=b"\x00\x01", mime_type=mime))
        with pytest.raises(ValidationError):
            await connection.send_realtime("text")  # type: ignore[arg-type]
    assert service.heard[-1][1:] == [{"type": "input_audio_buffer.append", "audio": "AAE="}] * 3


@pytest.mark.parametrize(
    ("mime", "named"),
    [("audio/pcm;rate=16000", "16000 Hz"), ("audio/mpeg", "audio/mpeg"), ("audio/pcmu", "audio/pcmu")],
)
async def test_rt_1_sound_at_another_rate_or_in_another_format_is_refused(mime: str, named: str) -> None:
    async with session_on(Stay()) as (connection, _):
        with pytest.raises(ModelError, match=named) as caught:
            await connection.send_realtime(Blob(data=b"x", mime_type=mime))
    assert caught.value.code == "unsupported_audio"


async def test_rt_2_images_are_items_and_ask_for_nothing() -> None:
    async with session_on(Stay()) as (connection, service):
        await connection.send_realtime(Blob(data=b"\x89PNG\r\n\x1a\n"))
    assert service.types == ["conversation.item.create"]
    assert service.heard[-1][1]["item"]["content"][0]["image_url"].startswith("data:image/png;base64,")


async def test_rt_2_the_end_of_activity_commits_where_the_service_does_not_listen_for_it() -> None:
    async with session_on(Hear("response.create"), Stay(), live={"realtime_input_config": SPEECH_OFF}) as (
        line,
        service,
    ):
        for item in (ActivityStart(), Blob(data=b"x", mime_type="audio/pcm"), ActivityEnd()):
            await line.send_realtime(item)
    assert service.types == ["input_audio_buffer.append", "input_audio_buffer.commit", "response.create"]
    async with session_on(Stay()) as (line, service):
        for item in (ActivityStart(), ActivityEnd()):
            await line.send_realtime(item)
    assert service.types == [], "else the service marks activity itself"


async def test_rt_2_answers_to_calls() -> None:
    """LIVE-4. Two calls: the model is asked once, when it has both answers and has ended its own response."""
    script: list[Step] = [
        begun(),
        called("f", "{}", "c1"),
        called("g", "{}", "c2"),
        Hear("conversation.item.create"),
        Hear("conversation.item.create"),
        ended("completed", A_CALL),
        Hear("response.create"),
        text("done"),
        HangUp(1000),
    ]
    async with session_on(*script) as (connection, service):
        found: list[ModelResponse] = []
        receiver = asyncio.create_task(collect(connection, found))
        while len(found) < 2:
            await asyncio.sleep(0)
        await connection.send_content(user(answer("f", {"r": 1}, "c1"), Part(text="left out")))
        assert "response.create" not in service.types
        await connection.send_content(user(answer("g", {"r": 2}, "c2")))
        with pytest.raises(LiveConnectionClosed):
            await receiver
    assert service.types == ["conversation.item.create"] * 2 + ["response.create"]
    items = [frame["item"] for frame in service.frames("conversation.item.create")]
    assert [(item["call_id"], item["output"]) for item in items] == [("c1", '{"r":1}'), ("c2", '{"r":2}')]
    assert found[-1].text == "done"


async def test_rt_2_an_answer_must_name_its_call() -> None:
    async with session_on(Stay()) as (connection, _):
        with pytest.raises(ModelError, match="'f' names no call"):
            await connection.send_content(user(answer("f", {})))


async def test_rt_2_what_is_said_while_the_model_speaks_is_answered_afterwards() -> None:
    script: list[Step] = [
        Hear("response.create"),
        begun(),
        text("a"),
        Hear("conversation.item.create"),
        ended(),
        Hear("response.create"),
        HangUp(1000),
    ]
    async with session_on(*script) as (connection, service):
        await connection.send_content(user_content("one"))
        found: list[ModelResponse] = []
        receiver = asyncio.create_task(collect(connection, found))
        while not found:
            await asyncio.sleep(0)
        await connection.send_content(user_content("two"))
        with pytest.raises(LiveConnectionClosed):
            await receiver
    assert service.types == ["conversation.item.create", "response.create"] * 2


async def test_rt_2_a_response_the_service_began_by_itself_is_waited_for() -> None:
    """Turn detection and a text at the same time: the service refuses a second response, we ask again."""
    busy = failure("conversation_already_has_active_response")
    script: list[Step] = [
        Hear("response.create"),
        busy,
        text("a"),
        ended(),
        Hear("response.create"),
        text("b"),
        HangUp(1000),
    ]
    async with session_on(*script) as (connection, _):
        await connection.send_content(user_content("one"))
        found: list[ModelResponse] = []
        with pytest.raises(LiveConnectionClosed):
            await collect(connection, found)
    assert [response.text for response in found if response.content] == ["a", "b"]
    assert not any(response.error_code for response in found)


async def test_activity_of_the_user_stops_the_model_where_the_client_marks_it() -> None:
    script: list[Step] = [Hear("response.create"), begun(), text("a"), Hear("response.cancel"),
              ended("cancelled", details={"reason": "client_cancelled"}), HangUp(1000)]  # fmt: skip
    async with session_on(*script, live={"realtime_input_config": SPEECH_OFF}) as (connection, _):
        await connection.send_content(user_content("one"))
        found: list[ModelResponse] = []
        receiver = asyncio.create_task(collect(connection, found))
        while not found:
            await asyncio.sleep(0)
        await connection.send_realtime(ActivityStart())
        with pytest.raises(LiveConnectionClosed):
            await receiver
    assert (found[-1].interrupted, found[-1].turn_complete) == (True, True)


# --- RT-3: what is heard ---------------------------------------------------------------------------------------------


async def test_rt_3_text() -> None:
    one, two, end = await heard(begun(), text("It is "), text(""), text("five."), ended(usage=usage()))
    assert [(item.text, item.partial, item.model_version) for item in (one, two)] == [
        ("It is ", True, "gpt-realtime-2"),
        ("five.", True, "gpt-realtime-2"),
    ]
    assert (end.turn_complete, end.finish_reason, end.partial) == (True, "STOP", None)


async def test_rt_3_sound_and_its_transcript() -> None:
    sound, spoken, _ = await heard(begun(), audio("AAE="), transcript("five"), ended())
    assert sound.content is not None
    assert sound.content.parts[0].inline_data == Blob(data=b"\x00\x01", mime_type="audio/pcm;rate=24000")
    assert sound.partial is None
    assert spoken.output_transcription is not None
    assert (spoken.output_transcription.text, spoken.output_transcription.finished, spoken.partial) == (
        "five",
        None,
        True,
    )


async def test_rt_3_what_the_user_said() -> None:
    name = "conversation.item.input_audio_transcription"
    place = {"item_id": "i", "content_index": 0}
    piece, full = await heard(
        {"type": f"{name}.delta", **place, "delta": "what ti"},
        {"type": f"{name}.completed", **place, "transcript": "what time", "usage": {}},
        {"type": f"{name}.failed", **place, "error": {"code": "audio_unintelligible"}},
    )
    assert piece.input_transcription is not None
    assert full.input_transcription is not None
    assert (piece.input_transcription.text, piece.partial) == ("what ti", True)
    assert (full.input_transcription.text, full.input_transcription.finished, full.partial) == ("what time", True, None)


async def test_rt_3_a_call() -> None:
    (made,) = await heard(called("f", '{"n": 1}', "call_7"))
    assert made.content is not None
    (found,) = made.content.function_calls
    assert (found.id, found.name, found.args, made.partial) == ("call_7", "f", {"n": 1}, None)


async def test_rt_3_the_name_of_a_call_may_have_come_with_its_item() -> None:
    bare = called("f", "{}")
    del bare["name"]
    (made,) = await heard({"type": "response.output_item.added", "item": A_CALL}, bare)
    assert made.content is not None
    assert made.content.function_calls[0].name == "f"


async def test_rt_3_a_response_that_calls_does_not_end_the_turn() -> None:
    """The model goes on once it has the answers."""
    _, end = await heard(begun(), called("f", "{}"), ended("completed", A_CALL, usage=usage()))
    assert (end.turn_complete, end.usage_metadata is not None) == (None, True)


async def test_rt_3_the_user_speaks_over_the_model() -> None:
    started = {"type": "input_audio_buffer.speech_started", "item_id": "i", "audio_start_ms": 1}
    cancelled = ended("cancelled", details={"type": "cancelled", "reason": "turn_detected"})
    _, cut, end = await heard(begun(), text("I was"), started, cancelled, started)
    assert (cut.interrupted, cut.turn_complete) == (True, None)
    assert (end.interrupted, end.turn_complete) == (None, True), "said once; speech in a pause interrupts nothing"


async def test_rt_3_usage() -> None:
    (end,) = await heard(ended(usage=usage(10, 4, 6)))
    found = end.usage_metadata
    assert found is not None
    assert (found.prompt_token_count, found.cached_content_token_count) == (10, 4)
    assert (found.candidates_token_count, found.thoughts_token_count, found.total_token_count) == (6, None, 16)
    details = [(entry.modality, entry.token_count) for entry in found.prompt_tokens_details or ()]
    assert details == [("TEXT", 7), ("AUDIO", 3)]
    assert (await heard(ended()))[0].usage_metadata is None, "MOD-17"


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "MAX_TOKENS"), ("content_filter", "SAFETY"), ("else", "OTHER")]
)
async def test_rt_3_incomplete_responses(reason: str, finish: str) -> None:
    (end,) = await heard(ended("incomplete", details={"reason": reason}))
    assert (end.finish_reason, end.turn_complete, end.error_code) == (finish, True, None)


async def test_rt_3_failed_responses_and_errors_are_results() -> None:
    details = {
        "type": "failed",
        "error": {"type": "server_error", "code": "rate_limit_exceeded", "message": "Slow down."},
    }
    failed, wrong, after = await heard(
        ended("failed", details=details), failure("invalid_value", "No such item."), text("a")
    )
    assert (failed.error_code, failed.turn_complete) == ("rate_limit_exceeded", True)
    assert "Slow down." in (failed.error_message or "")
    assert (wrong.error_code, "No such item." in (wrong.error_message or "")) == ("invalid_value", True)
    assert after.text == "a", "the session goes on"


async def test_rt_3_fatal_errors_are_raised() -> None:
    with pytest.raises(ModelError) as caught:
        await heard(failure("insufficient_quota"))
    assert (caught.value.code, caught.value.retryable) == ("insufficient_quota", False)
    with pytest.raises(ModelError) as caught:
        await heard(called("f", "{broken"))
    assert caught.value.code == "bad_call_arguments"


async def test_err_1_a_frame_that_is_no_json() -> None:
    with pytest.raises(ModelError) as caught:
        await heard("{broken")
    assert (caught.value.kind, caught.value.code) == ("invalid_response", "bad_frame")


async def test_rt_3_unknown_and_quiet_events_give_nothing() -> None:
    import typing

    from openai.types.realtime import RealtimeServerEvent

    union = typing.get_args(typing.get_args(RealtimeServerEvent)[0])
    kinds = {typing.get_args(event.model_fields["type"].annotation)[0] for event in union}
    loud = {"error", "response.done", "response.function_call_arguments.done", "input_audio_buffer.speech_started"}
    assert len(kinds) > 40
    assert await heard(*({"type": kind} for kind in sorted(kinds - loud)), {"type": "brand.new"}, {"no": "type"}) == []


async def test_rt_3_an_expired_session_says_that_it_goes() -> None:
    (told,) = await heard(failure("session_expired"))
    assert (told.custom_metadata, told.partial) == ({GO_AWAY: 0}, True)


# --- RT-4: ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "code"), [(HangUp(1001), 1001), (HangUp(1011), 1011), (HangUp(None), 1006)])
async def test_rt_4_a_lost_line_says_its_close_code(step: HangUp, code: int) -> None:
    async with session_on(Hear("session.update"), step) as (connection, _):
        with pytest.raises(LiveConnectionClosed) as caught:
            await collect(connection, [])
        assert (caught.value.close_code, caught.value.retryable, caught.value.provider) == (code, True, "openai")
        with pytest.raises(LiveConnectionClosed):
            await connection.send_content(user_content("hi"))


async def test_our_own_close_is_no_error() -> None:
    async with session_on(Stay()) as (connection, _):
        found: list[ModelResponse] = []
        receiver = asyncio.create_task(collect(connection, found))
        await asyncio.sleep(0)
        await connection.close()
        await connection.close()
        await receiver
    assert found == []


async def test_live_13_nothing_outlives_a_session_that_is_cancelled() -> None:
    before = asyncio.all_tasks()
    async with RealtimeService([Stay()]).running() as service:
        model = OpenAIModel("gpt-realtime-2", base_url=service.base_url, api_key=KEY)
        inside = asyncio.Event()

        async def hold() -> None:
            async with model.connect(asked(), LiveRunConfig()) as connection:
                inside.set()
                await collect(connection, [])

        task = asyncio.create_task(hold())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await model.close()
    assert asyncio.all_tasks() == before
    assert service.closed == [1000]


def test_rt_4_capabilities() -> None:
    found = OpenAIModel("gpt-realtime-2", api_key=KEY).capabilities
    assert (found.live, found.max_parallel_live_tools) == (True, None)


# --- whole runs ------------------------------------------------------------------------------------------------------


@tool
def weather(city: str) -> dict[str, Any]:
    """Current weather of a city."""
    return {"city": city, "sky": "clear"}


async def live_run(service: RealtimeService, *messages: str, until: int = 1) -> tuple[list[str], Runner]:
    """The texts of the final events of a live run that is closed after some ends of turn."""
    model = OpenAIModel("gpt-realtime-2", base_url=service.base_url, api_key=KEY)
    runner = Runner.in_memory(LlmAgent(name="voice", model=model, tools=[weather], instruction="Be brief."))
    run = runner.run_live(user_id="u", session_id="s", config=LiveRunConfig(response_modalities=("TEXT",)))
    for message in messages:
        await run.send(message)
    found: list[str] = []
    async for event in run:
        if not event.partial and event.content is not None:
            found.append(
                event.text or ", ".join(p.function_call.name or "" for p in event.content.parts if p.function_call)
            )
        if event.turn_complete:
            until -= 1
            if until == 0:
                await run.close()
    await model.close()
    return found, runner


async def test_a_conversation_with_a_tool() -> None:
    call_item = {**A_CALL, "name": "weather"}
    script: Sequence[Step] = [
        Hear("response.create"),
        begun(),
        called("weather", '{"city": "Paris"}'),
        ended("completed", call_item, usage=usage(7, 0, 3)),
        Hear("response.create"),
        begun(),
        text("It is "),
        text("clear."),
        ended(usage=usage(10, 0, 5)),
        Stay(),
    ]
    async with RealtimeService(script).running() as service:
        found, _ = await live_run(service, "Weather in Paris?")
    assert found == ["weather", "", "It is clear."]
    outputs = [
        f["item"] for f in service.frames("conversation.item.create") if f["item"]["type"] == "function_call_output"
    ]
    assert outputs == [
        {"type": "function_call_output", "call_id": "call_1", "output": '{"city":"Paris","sky":"clear"}'}
    ]
    assert service.session["tools"][0]["name"] == "weather"
    assert "Be brief." in service.session["instructions"]


async def test_rt_4_a_lost_line_is_replaced_and_told_the_conversation() -> None:
    """LIVE-10: without a handle the history is told again."""
    first: Sequence[Step] = [Hear("response.create"), begun(), text("One."), ended(), HangUp(1011)]
    second: Sequence[Step] = [
        Hear("conversation.item.create"),
        Hear("conversation.item.create"),
        begun(),
        text("Two."),
        ended(),
        Stay(),
    ]

    async def at_once(seconds: float) -> None:
        return None

    async with RealtimeService(first, second).running() as service:
        with use_sleep(at_once):
            found, _ = await live_run(service, "hi", until=2)
    assert found == ["One.", "Two."]
    told = [frame["item"]["content"][0]["text"] for frame in service.frames("conversation.item.create")]
    assert told == ["hi", "One."]
    assert base64.b64decode("AAE=") == b"\x00\x01"
