"""The scripted model keeps the Model contract (models MOD-1..7) and remembers what it was asked."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing
from typing import Any

import pytest

from hookwork.errors import ModelError
from hookwork.model import ModelCapabilities, ModelRequest
from hookwork.platform import use_sleep
from hookwork.records.content import Content, FunctionCall, Part, text_content
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork.records.request import FunctionDeclaration
from hookwork_testkit import ScriptedModel, ScriptExhausted, block, call, delay, partial, stream, text, thought


async def ask(scripted: ScriptedModel, *, streamed: bool = False, **request: Any) -> list[ModelResponse]:
    return [response async for response in scripted.generate(ModelRequest(**request), stream=streamed)]


@pytest.mark.parametrize(
    ("step", "parts"),
    [
        ("hello", [Part(text="hello")]),
        (text("hello"), [Part(text="hello")]),
        (Content(role="model", parts=[Part(text="hello")]), [Part(text="hello")]),
        (ModelResponse(content=text_content("hello")), [Part(text="hello")]),
        ([call("f", x=1), call("g")], [call("f", x=1), call("g")]),
        (stream("hel", "lo"), [Part(text="hello")]),
        (lambda request: "hello", [Part(text="hello")]),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_mod_2_every_step_ends_in_one_whole_response(step: Any, parts: list[Part], streamed: bool) -> None:
    responses = await ask(ScriptedModel([step]), streamed=streamed)
    wholes = [response for response in responses if not response.partial]
    assert len(wholes) == 1
    assert responses[-1] is wholes[0]
    assert wholes[0].content is not None
    assert list(wholes[0].content.parts) == parts
    assert wholes[0].content.role == "model"


async def test_mod_2_the_whole_response_is_the_same_streamed_and_not() -> None:
    step: list[Any] = [partial("Let me "), partial(thought("hm")), partial("look."), call("f", "c1", x=1)]
    streamed, whole = await ask(ScriptedModel([step]), streamed=True), await ask(ScriptedModel([step]))
    assert [r.text for r in streamed if r.partial] == ["Let me ", "", "look."]
    assert streamed[-1] == whole[0]
    assert list(whole[0].content.parts) == [  # type: ignore[union-attr]
        Part(text="Let me "),
        Part(text="hm", thought=True),
        Part(text="look."),
        Part(function_call=FunctionCall(id="c1", name="f", args={"x": 1})),
    ]


async def test_neighbouring_texts_of_one_kind_are_joined() -> None:
    [whole] = await ask(ScriptedModel([stream(thought("h"), thought("m"), "a", "b")]))
    assert whole.content is not None
    assert list(whole.content.parts) == [Part(text="hm", thought=True), Part(text="ab")]


async def test_an_explicit_whole_response_is_played_as_it_is() -> None:
    final = ModelResponse(error_code="SAFETY", finish_reason="SAFETY")
    assert (await ask(ScriptedModel([[partial("x"), final]]), streamed=True))[-1] is final


async def test_errors_are_raised_from_the_iteration_and_the_script_goes_on() -> None:
    model = ScriptedModel([ModelError("busy", kind="rate_limit"), "fine"])
    iterator = model.generate(ModelRequest())  # MOD-7: nothing happens before iteration
    assert model.requests == []
    with pytest.raises(ModelError, match="busy"):
        await anext(aiter(iterator))
    assert (await ask(model))[0].text == "fine"
    assert model.calls == 2


async def test_an_error_inside_a_list_breaks_the_stream_there() -> None:
    responses = ScriptedModel([[partial("a"), ModelError("gone"), partial("b")]]).generate(ModelRequest(), stream=True)
    assert (await anext(responses)).text == "a"
    with pytest.raises(ModelError, match="gone"):
        await anext(responses)


async def test_an_exception_class_is_raised_too() -> None:
    with pytest.raises(ConnectionError):
        await ask(ScriptedModel([ConnectionError]))


async def test_functions_get_the_recorded_request_and_may_be_async() -> None:
    async def later(request: Any) -> Any:
        return f"{len(request.contents)} contents"

    model = ScriptedModel([later, lambda request: later])
    assert (await ask(model, contents=[text_content("a")]))[0].text == "1 contents"
    assert (await ask(model))[0].text == "0 contents"


async def test_a_script_may_be_endless_or_one_function() -> None:
    endless, function = ScriptedModel(itertools.repeat("ok")), ScriptedModel(lambda request: request.model or "none")
    assert [(await ask(endless))[0].text for _ in range(3)] == ["ok", "ok", "ok"]
    assert [(await ask(function, model=name))[0].text for name in ("a", "")] == ["a", "none"]


async def test_a_used_up_script_is_an_assertion_error_that_says_so() -> None:
    model = ScriptedModel(["one"])
    await ask(model)
    with pytest.raises(ScriptExhausted, match=r"called 2 times, but its script has 1 step") as caught:
        await ask(model, contents=[text_content("why again")])
    assert isinstance(caught.value, AssertionError)
    assert "why again" in str(caught.value)
    model.add("two")
    assert (await ask(model))[0].text == "two"


async def test_what_is_no_step_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a script holds a int"):
        await ask(ScriptedModel([3]))  # type: ignore[list-item]


async def test_requests_are_snapshots() -> None:
    model = ScriptedModel(["ok"])
    contents = [text_content("question", "user")]
    request = ModelRequest(model="m", contents=contents, tools={"b": None, "a": None})  # type: ignore[dict-item]
    request.add_declarations([FunctionDeclaration(name="a"), FunctionDeclaration(name="b")])
    request.append_instruction("Be brief.")
    async for _ in model.generate(request, stream=True):
        pass
    contents.append(text_content("later"))
    request.append_instruction("Changed.")
    request.tools.clear()
    [recorded] = model.requests
    assert model.prompts == [[text_content("question", "user")]]
    assert (recorded.model, recorded.tools, recorded.stream) == ("m", ("a", "b"), True)
    assert (recorded.instruction, recorded.declared) == ("Be brief.", ["a", "b"])


async def test_a_block_waits_until_released() -> None:
    model = ScriptedModel([block("go on"), [partial("a"), *block("b")]])
    waiting = asyncio.ensure_future(ask(model))
    await model.wait_blocked()
    assert not waiting.done()
    model.release()
    assert (await waiting)[0].text == "go on"
    model.release()  # in advance
    assert [r.text for r in await ask(model, streamed=True)] == ["a", "ab"]


async def test_a_cancelled_wait_takes_no_permit() -> None:
    model = ScriptedModel([block(), block("second")])
    waiting = asyncio.ensure_future(ask(model))
    await model.wait_blocked()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    model.release()
    assert (await ask(model))[0].text == "second"
    assert model.cut_short == 1


async def test_mod_4_closing_early_is_counted() -> None:
    model = ScriptedModel([stream("a", "b")])
    async with aclosing(model.generate(ModelRequest(), stream=True)) as responses:  # type: ignore[type-var]
        await anext(responses)
    assert model.cut_short == 1


async def test_plat_a_delay_goes_through_the_platform() -> None:
    slept: list[float] = []

    async def note(seconds: float) -> None:
        slept.append(seconds)

    with use_sleep(note):
        assert (await ask(ScriptedModel([delay(60, "ok")])))[0].text == "ok"
    assert slept == [60]


async def test_usage_and_capabilities_can_be_set() -> None:
    usage = UsageMetadata(prompt_token_count=3, candidates_token_count=2)
    capabilities = ModelCapabilities(provider="x", output_schema=True)
    model = ScriptedModel(["ok"], name="m", usage=usage, capabilities=capabilities)
    assert (await ask(model))[0].usage_metadata == usage
    assert (model.name, model.capabilities.output_schema) == ("m", True)


async def test_mod_1_close_is_idempotent() -> None:
    model = ScriptedModel()
    await model.close()
    await model.close()
    assert model.closed
