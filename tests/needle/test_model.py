"""The packaged model on a scripted engine: what it is told, what is made of its answers (models LOC-3)."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from hookwork.errors import ConfigurationError, ModelError
from hookwork.model import Model, ModelRequest
from hookwork.platform import use_clock
from hookwork.records.content import Blob, Content, FunctionCall, FunctionResponse, Part, text_content, user_content
from hookwork.records.metadata import ModelResponse
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration
from hookwork.runner import Runner
from hookwork_llm import LlmAgent, tool
from hookwork_modelkit.errors import refusal
from hookwork_needle import NeedleModel, extension, library
from hookwork_needle.model import Process
from hookwork_testkit.suites import ModelSuite

WEATHER = FunctionDeclaration(
    name="get_weather",
    description="Current weather of a city.\nDegrees are Celsius.",
    parameters={"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]},
)


class FakeLibrary:
    """Answers the last message by ``script``, in the engine's form (parts ECO-LLM-1)."""

    def __init__(self, script: Callable[[str], list[tuple[str, dict[str, Any]]]]) -> None:
        self.script = script
        self.heard: list[tuple[str, list[dict[str, Any]], list[str]]] = []

    def converse(self, system: str, tools: list[dict[str, Any]], messages: Sequence[str]) -> dict[str, Any]:
        self.heard.append((system, tools, list(messages)))
        calls = [{"name": name, "arguments": args} for name, args in self.script(messages[-1])]
        return {"type": "call", "success": True, "function_calls": calls, "suppressed_calls": [], "confidence": 0.9}


def weather(message: str) -> list[tuple[str, dict[str, Any]]]:
    if message.startswith("[") or "weather" not in message.lower():
        return []
    return [("get_weather", {"city": city}) for city in ("Paris", "Rome") if city in message]


def needle(script: Any = weather, **options: Any) -> tuple[NeedleModel, FakeLibrary]:
    library = FakeLibrary(script)
    return NeedleModel(process=Process(lambda: library), **options), library  # type: ignore[arg-type,return-value]


class TestNeedleModel(ModelSuite):
    def make_model(self) -> Model:
        return needle()[0]

    def make_failing_model(self) -> Model:
        def load() -> Any:
            raise refusal("needle", "needle", "the engine is not installed")

        return _Eager(process=Process(load))


class _Eager(NeedleModel):
    """Asks its engine whether there are tools or not, so that every request fails where it cannot be loaded."""

    async def _parts(self, request: ModelRequest) -> list[Part]:
        request = ModelRequest(contents=request.contents, config=request.config)
        request.add_declarations([WEATHER])
        return await super()._parts(request)


def asked(*contents: Content | str, **config: Any) -> ModelRequest:
    request = ModelRequest(
        contents=[user_content(one) if isinstance(one, str) else one for one in contents],
        config=GenerateContentConfig(**config),
    )
    request.add_declarations([WEATHER])
    return request


def called(*cities: str) -> Content:
    calls = [FunctionCall(id=city, name="get_weather", args={"city": city}) for city in cities]
    return Content(role="model", parts=[Part(function_call=call) for call in calls])


def answered(**responses: Any) -> Content:
    results = [FunctionResponse(id=city, name="get_weather", response=value) for city, value in responses.items()]
    return Content(role="user", parts=[Part(function_response=result) for result in results])


async def collect(model: Model, request: ModelRequest, *, stream: bool = False) -> list[ModelResponse]:
    async with aclosing(model.generate(request, stream=stream)) as responses:  # type: ignore[type-var]
        return [response async for response in responses]


async def parts(model: Model, request: ModelRequest) -> tuple[Part, ...]:
    (response,) = await collect(model, request)
    assert response.content is not None
    return tuple(response.content.parts)


async def test_loc_3_calls_are_the_engines_and_several_at_once() -> None:
    model, library = needle()
    with use_clock(lambda: datetime.datetime(2026, 11, 30, 14, 0, tzinfo=datetime.UTC)):
        found = await parts(model, asked("Weather in Paris and Rome?"))
    assert found == (
        Part(function_call=FunctionCall(name="get_weather", args={"city": "Paris"})),
        Part(function_call=FunctionCall(name="get_weather", args={"city": "Rome"})),
    )
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    assert library.heard == [
        (
            "date: 2026-11-30 Mon 14:00",
            [{"name": "get_weather", "description": WEATHER.description, "parameters": schema}],
            ["Weather in Paris and Rome?"],
        )
    ]


async def test_eco_llm_1b_prose_is_put_together_from_the_results() -> None:
    model, library = needle()
    request = asked(
        "Weather in Paris and Rome?",
        called("Paris", "Rome"),
        answered(Paris={"sky": "clear", "hours": [1, 2], "rain": False}, Rome={"error": "no such city"}),
    )
    assert await parts(model, request) == (
        Part(text="get_weather: sky clear, hours 1; 2, rain no\nget_weather failed: no such city"),
    )
    assert library.heard[0][2] == [
        "Weather in Paris and Rome?",
        '[{"sky": "clear", "hours": [1, 2], "rain": false}, {"error": "no such city"}]',
    ]


async def test_eco_llm_1b_without_a_fitting_tool_it_says_what_it_can_do() -> None:
    model, _ = needle()
    text = "None of my tools fits this. What I can do: Current weather of a city (get_weather)."
    assert await parts(model, asked("Who wrote Hamlet?")) == (Part(text=text),)


async def test_without_tools_the_engine_is_not_even_loaded() -> None:
    model = NeedleModel(process=Process(lambda: pytest.fail("loaded")))
    nothing = Part(text="I answer by calling tools, and this agent has none that I may call.")
    assert await parts(model, ModelRequest(contents=[user_content("hi")])) == (nothing,)
    none = asked("Weather in Paris?", tool_config={"functionCallingConfig": {"mode": "NONE"}})
    assert await parts(model, none) == (nothing,)


async def test_eco_llm_1a_earlier_turns_are_played_again_and_bounded() -> None:
    model, library = needle(history=1)
    request = asked(
        "Weather in Paris?",
        called("Paris"),
        answered(Paris={"sky": "clear"}),
        text_content("get_weather: sky clear"),
        "And the weather in Rome?",
        called("Rome"),
        answered(Rome={"sky": "grey"}),
        text_content("get_weather: sky grey"),
        "Again: weather in Paris?",
    )
    assert await parts(model, request) == (
        Part(function_call=FunctionCall(name="get_weather", args={"city": "Paris"})),
    )
    assert library.heard[0][2] == ["And the weather in Rome?", '[{"sky": "grey"}]', "Again: weather in Paris?"]


async def test_a_tool_that_answered_is_not_asked_the_same_again() -> None:
    model, _ = needle(lambda message: [("get_weather", {"city": "Paris"})])
    request = asked("Weather in Paris?", called("Paris"), answered(Paris={"sky": "clear"}))
    assert await parts(model, request) == (Part(text="get_weather: sky clear"),)


async def test_a_result_may_lead_to_another_call() -> None:
    model, _ = needle(lambda message: [("get_weather", {"city": "Rome"})])
    request = asked("Weather in Paris?", called("Paris"), answered(Paris={"sky": "clear"}))
    assert await parts(model, request) == (Part(function_call=FunctionCall(name="get_weather", args={"city": "Rome"})),)


async def test_a_long_result_reaches_the_answer_whole_and_the_engine_cut() -> None:
    model, library = needle()
    request = asked("Weather in Paris?", called("Paris"), answered(Paris={"result": "x" * 1000}))
    assert await parts(model, request) == (Part(text=f"get_weather: {'x' * 1000}"),)
    assert len(library.heard[0][2][1]) < 400


async def test_only_allowed_and_declared_functions_are_offered_and_called() -> None:
    model, library = needle(lambda message: [("get_weather", {}), ("made_up", {})])
    allowed = asked("hi", tool_config={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["other"]}})
    allowed.add_declarations([FunctionDeclaration(name="other")])
    assert [part.text is not None for part in await parts(model, allowed)] == [True]
    assert [described["name"] for described in library.heard[0][1]] == ["other"]
    assert library.heard[0][1][0]["parameters"] == {"type": "object"}


async def test_mod_2_streamed_is_one_partial_and_the_same_whole() -> None:
    model, _ = needle()
    (whole,) = await collect(model, asked("Weather in Paris?"))
    partial, last = await collect(model, asked("Weather in Paris?"), stream=True)
    assert (partial.partial, partial.content) == (True, whole.content)
    assert last == whole
    assert whole.usage_metadata is None


@pytest.mark.parametrize(
    ("request_of", "text"),
    [
        (lambda: asked(Content(role="user", parts=[Part(inline_data=Blob(data=b"x"))])), "reads text only"),
        (lambda: asked(" "), "asks nothing"),
        (
            lambda: ModelRequest(
                contents=[user_content("hi")], config=GenerateContentConfig(tools=(ToolDeclaration(url_context={}),))
            ),
            "carries out itself",
        ),
    ],
)
async def test_what_it_lacks_is_refused(request_of: Any, text: str) -> None:
    with pytest.raises(ModelError) as caught:
        await collect(needle()[0], request_of())
    assert (caught.value.kind, caught.value.provider) == ("invalid_request", "needle")
    assert text in str(caught.value)


async def test_an_agent_runs_its_tool_and_answers() -> None:
    @tool
    def get_weather(city: str) -> dict[str, Any]:
        """Current weather of a city."""
        return {"city": city, "temperature_c": 22}

    async with Runner(LlmAgent(name="root", model=needle()[0], tools=[get_weather]), sessions="memory:") as runner:
        assert await runner.ask("What is the weather in Rome?") == "get_weather: city Rome, temperature_c 22"


async def test_the_thread_ends_with_the_last_model() -> None:
    library = FakeLibrary(weather)
    process = Process(lambda: library)  # type: ignore[arg-type,return-value]
    first, second = NeedleModel(process=process), NeedleModel(process=process)
    for model in (first, second, first):
        await collect(model, asked("Weather in Paris?"))
    await first.close()
    await first.close()
    assert process._thread is not None
    await second.close()
    assert process._thread is None
    assert await parts(first, asked("Weather in Paris?"))  # usable again
    await first.close()


def test_reg_only_its_own_names_are_taken() -> None:
    assert isinstance(extension.create_model("needle", {"history": 0}), NeedleModel)
    assert extension.create_model("needles", {}) is None
    assert "needle" not in sys.modules


@pytest.mark.parametrize(
    ("settings", "text"), [({"histroy": 1}, "did you mean 'history'?"), ({"history": -1}, "whole number from 0")]
)
def test_wrong_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        extension.create_model("needle", settings)
    assert text in str(caught.value)


async def test_loc_3_the_doctor_is_told_that_the_engine_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "DISTRIBUTION", "no-such-distribution-here")
    with pytest.raises(ModelError, match="pip install") as caught:
        await NeedleModel().check()
    assert caught.value.code == "no_engine"
