"""What a Realtime service says, how sessions end, whole runs (models RT-3, RT-4, LIVE-6…13)."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Sequence
from typing import Any

import pytest
from tests.openai.asking import KEY, asked, declared
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
from tests.openai.realtime_talks import collect, heard, session_on

from hookwork import (
    Blob,
    LiveRunConfig,
    ModelResponse,
    Runner,
    user_content,
)
from hookwork.errors import LiveConnectionClosed, ModelError
from hookwork.live import GO_AWAY
from hookwork.platform import use_sleep
from hookwork_llm import LlmAgent, tool
from hookwork_openai import OpenAIModel

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


async def test_bey_8_the_id_of_the_session_is_the_services() -> None:
    created = {"type": "session.created", "session": {"id": "sess_7"}}
    async with session_on(Hear("session.update"), created, HangUp(1000)) as (connection, _):
        with pytest.raises(LiveConnectionClosed):
            await collect(connection, [])
        assert connection.session_id == "sess_7"


async def test_agg_29_an_item_that_is_told_twice_is_one_call_and_two_items_are_two() -> None:
    made = await heard(begun(), called("f", "{}"), called("f", "{}"), called("f", "{}", "call_2"))
    ids = [call.id for response in made if response.content for call in response.content.function_calls]
    assert ids == ["call_1", "call_2"]


async def test_rt_3_a_call_without_an_id_goes_by_its_items() -> None:
    """As `response.function_call_arguments.done` of a Responses stream: the call id, else the item id."""
    (made,) = await heard(called("f", "{}", "") | {"item_id": "item_9"})
    assert made.content is not None
    assert made.content.function_calls[0].id == "item_9"


async def test_oai_19_a_name_that_the_service_cannot_take_goes_there_and_back() -> None:
    """Names of MCP tools hold dots; the service takes letters, digits, - and _ (as in every other call)."""
    request = asked("hi", tools=declared("files.read"))
    async with session_on(Hear("session.update"), Stay(), request=request) as (_, service):
        while not service.heard or not service.heard[-1]:
            await asyncio.sleep(0)
        wire = service.session["tools"][0]["name"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wire)
    async with session_on(Hear("response.create"), called(wire, "{}"), HangUp(1000), request=request) as (line, _):
        await line.send_content(user_content("hi"))
        found: list[ModelResponse] = []
        with pytest.raises(LiveConnectionClosed):
            await collect(line, found)
    assert found[0].content is not None
    assert found[0].content.function_calls[0].name == "files.read"


async def test_rt_3_a_response_that_calls_is_a_complete_turn_too() -> None:
    """RT-3: `response.done` -> turn complete; AGG-26: for every adapter, whatever the whole holds."""
    _, end = await heard(begun(), called("f", "{}"), ended("completed", A_CALL, usage=usage()))
    assert (end.turn_complete, end.finish_reason, end.usage_metadata is not None) == (True, "STOP", True)


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
        found, runner = await live_run(service, "Weather in Paris?", until=2)
    assert found == ["weather", "", "It is clear."]
    stored = (await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")).events
    stamped = [bool(event.node_info and event.node_info.status) for event in stored if event.turn_complete]
    assert stamped == [False, True], "the first turn waits for the answer to its call, the second is the end (ACT-14)"
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
