"""The scripted live model: what it plays, what it keeps, what it raises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookwork import Blob, Content, FunctionResponse, LiveRunConfig, ModelRequest, ModelResponse, Part, user_content
from hookwork.errors import LiveConnectionClosed, ModelError, ValidationError
from hookwork_testkit import Cut, Hear, ScriptedLiveModel, ScriptExhausted, call
from hookwork_testkit.live import audio, calls, handle, interrupted, said, spoke, turn_complete


async def played(model: ScriptedLiveModel, *contents: str, count: int) -> list[ModelResponse]:
    """The first responses of a connection that was sent some texts."""
    found: list[ModelResponse] = []
    async with model.connect(ModelRequest(), LiveRunConfig()) as connection:
        for content in contents:
            await connection.send_content(user_content(content))
        async for response in connection.receive():
            found.append(response)
            if len(found) == count:
                break
    return found


async def test_every_kind_of_step() -> None:
    async def later(connection: Any) -> list[Any]:
        return [f"{connection.texts[0]} again", turn_complete()]

    script = ["text", call("f", "c1"), audio(b"x"), said("a"), spoke("b", finished=True), handle("h"), interrupted(),
              Hear(1), lambda _: None, later]  # fmt: skip
    found = await played(ScriptedLiveModel(script), "hi", count=9)
    assert found[0] == ModelResponse(content=Content(role="model", parts=[Part(text="text")]), partial=True)
    assert found[1] == calls(call("f", "c1"))
    assert [bool(response.partial) for response in found] == [
        True,
        False,
        False,
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    assert (found[5].session_resumption_handle, found[6].interrupted, found[7].text) == ("h", True, "hi again")


async def test_what_is_sent_is_kept_in_order() -> None:
    model = ScriptedLiveModel([])
    sound = Blob(data=b"x", mime_type="audio/pcm")
    answer = Part(function_response=FunctionResponse(id="c1", name="f", response={"ok": True}))
    async with model.connect(ModelRequest(model="m", contents=[user_content("old")]), LiveRunConfig()) as line:
        await line.send_history([user_content("old"), Content(role="user", parts=[Part(inline_data=sound)])])
        await line.send_content(user_content("hi"))
        await line.send_realtime(sound)
        await line.send_content(Content(role="user", parts=[answer, Part(text="left out")]))
        assert model.open_connections == 1
    assert line.history == [user_content("old")]
    assert line.sent == [user_content("hi"), sound, Content(role="user", parts=[answer])]
    assert (line.texts, line.realtime) == (["hi", ""], [sound])
    assert [response.id for response in line.responses] == ["c1"]
    assert (line.request.model, line.request.contents) == ("m", (user_content("old"),))
    assert (line.closed, model.open_connections) == (True, 0)


async def test_a_cut_line_is_lost_for_both_sides() -> None:
    async with ScriptedLiveModel([Cut(1011)]).connect(ModelRequest(), LiveRunConfig()) as line:
        with pytest.raises(LiveConnectionClosed) as caught:
            await anext(line.receive())
        assert caught.value.close_code == 1011
        for sending in (line.send_content(user_content("hi")), line.send_history([user_content("hi")])):
            with pytest.raises(LiveConnectionClosed):
                await sending


async def test_a_line_that_is_cut_on_send_loses_what_was_sent() -> None:
    async with ScriptedLiveModel([Cut(1006, on_send=True)]).connect(ModelRequest(), LiveRunConfig()) as line:
        receiving = asyncio.ensure_future(anext(line.receive()))
        await asyncio.sleep(0)
        with pytest.raises(LiveConnectionClosed):
            await line.send_content(user_content("hi"))
        with pytest.raises(LiveConnectionClosed):
            await receiving
    assert line.contents == []


async def test_errors_in_a_script_and_in_the_place_of_one_are_raised() -> None:
    refused = ModelError("no", kind="auth")
    model = ScriptedLiveModel(refused, [KeyError("mine")])
    with pytest.raises(ModelError) as caught:
        await played(model, count=1)
    assert caught.value is refused
    with pytest.raises(KeyError):
        await played(model, count=1)
    with pytest.raises(ScriptExhausted, match="3 times"):
        await played(model, count=1)
    assert len(model.attempts) == 3


async def test_what_is_no_step_is_named() -> None:
    with pytest.raises(TypeError, match="a live script holds a int"):
        await played(ScriptedLiveModel([7]), count=1)


async def test_models_live_4_empty_contents_are_refused_as_by_a_real_connection() -> None:
    async with ScriptedLiveModel([]).connect(ModelRequest(), LiveRunConfig()) as line:
        with pytest.raises(ValidationError):
            await line.send_content(user_content(" "))
        with pytest.raises(ValidationError):
            await line.send_realtime("hi")  # type: ignore[arg-type]


async def test_closing_ends_receive() -> None:
    async with ScriptedLiveModel(["never read"] * 3).connect(ModelRequest(), LiveRunConfig()) as line:
        await line.close()
        assert [response async for response in line.receive()] == []


async def test_a_live_model_answers_typed_calls_too() -> None:
    model = ScriptedLiveModel(responses=["typed"])
    assert [response.text async for response in model.generate(ModelRequest())] == ["typed"]
