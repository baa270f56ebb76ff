"""What goes to a Realtime service (models RT-1, RT-2, LIVE-3…5)."""

from __future__ import annotations

import asyncio

import pytest
from tests.openai.asking import answer, call, said, user
from tests.openai.realtime_service import (
    A_CALL,
    HangUp,
    Hear,
    RealtimeService,
    Stay,
    Step,
    begun,
    called,
    ended,
    failure,
    text,
)
from tests.openai.realtime_talks import SPEECH_OFF, collect, session_on

from hookwork import (
    Blob,
    Content,
    ModelResponse,
    Part,
    user_content,
)
from hookwork.errors import LiveConnectionClosed, ModelError, ValidationError
from hookwork.live import ActivityEnd, ActivityStart

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


async def test_rt_2_what_is_said_beside_a_call_that_stays_open_is_answered() -> None:
    """A long-running call may never be answered in this session."""
    script: list[Step] = [
        Hear("response.create"),
        begun(),
        called("f", "{}"),
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


async def test_rt_2_a_response_that_fails_before_it_begins_keeps_nothing_from_being_asked() -> None:
    script: list[Step] = [
        Hear("response.create"),
        failure("server_busy"),
        Hear("response.create"),
        begun(),
        text("here"),
        ended(),
        HangUp(1000),
    ]
    async with session_on(*script) as (connection, _):
        await connection.send_content(user_content("one"))
        found: list[ModelResponse] = []
        receiver = asyncio.create_task(collect(connection, found))
        while not found:
            await asyncio.sleep(0)
        await connection.send_content(user_content("anybody there?"))
        with pytest.raises(LiveConnectionClosed):
            await receiver
    assert [response.error_code or response.text for response in found[:2]] == ["server_busy", "here"]


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
