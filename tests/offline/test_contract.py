"""The offline model keeps the Model contract (models §1) and is found by its name (REG-1a)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from hookwork import platform
from hookwork.errors import ConfigurationError
from hookwork.model import ModelRequest
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part, user_content
from hookwork.records.metadata import ModelResponse
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration
from hookwork_offline import OfflineModel
from hookwork_offline.extension import create_model

WEATHER = FunctionDeclaration(
    name="get_weather",
    description="Current weather of a city.",
    parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CONFIG = GenerateContentConfig(tools=(ToolDeclaration(function_declarations=(WEATHER,)),))
QUESTION = "What is the weather in Paris?"
CALL = Content(role="model", parts=[Part(function_call=FunctionCall(name="get_weather", args={"city": "Paris"}))])
ANSWER = Content(
    role="user",
    parts=[
        Part(function_response=FunctionResponse(name="get_weather", response={"sky": "clear", "temperature_c": 22}))
    ],
)


def request(*contents: Content | str, config: GenerateContentConfig = CONFIG, model: str = "") -> ModelRequest:
    return ModelRequest(
        model=model, contents=[user_content(c) if isinstance(c, str) else c for c in contents], config=config
    )


async def collect(model: OfflineModel, asked: ModelRequest, *, stream: bool) -> list[ModelResponse]:
    return [response async for response in model.generate(asked, stream=stream)]


ROUNDS = [
    pytest.param((QUESTION,), id="call"),
    pytest.param((QUESTION, CALL, ANSWER), id="answer"),
    pytest.param(("What is the weather?",), id="question"),
    pytest.param(("Sing me a song",), id="nothing-fits"),
    pytest.param((), id="no-contents"),
]


@pytest.mark.parametrize("contents", ROUNDS)
async def test_mod_2_streamed_partials_then_one_whole_response_equal_to_the_unstreamed_one(
    contents: tuple[Any, ...],
) -> None:
    model = OfflineModel()
    streamed = await collect(model, request(*contents), stream=True)
    (whole,) = await collect(model, request(*contents), stream=False)
    *partials, last = streamed
    assert last == whole
    assert all(partial.partial for partial in partials)
    assert not whole.partial
    assert "".join(partial.text for partial in partials) == whole.text
    assert whole.content is not None
    assert bool(partials) is bool(whole.text)


async def test_mod_2_partials_are_word_sized() -> None:
    *partials, whole = await collect(OfflineModel(), request(QUESTION, CALL, ANSWER), stream=True)
    assert whole.text == "Sky is clear and temperature is 22 °C."
    assert [partial.text.split() for partial in partials] == [[word] for word in whole.text.split()]


async def test_agg_26_turn_complete_and_finish_reason_stand_on_the_whole_response_only() -> None:
    *partials, whole = await collect(OfflineModel(), request(QUESTION, CALL, ANSWER), stream=True)
    assert [(p.turn_complete, p.finish_reason, p.usage_metadata) for p in partials] == [(None, None, None)] * len(
        partials
    )
    assert (whole.turn_complete, whole.finish_reason) == (True, "STOP")


async def test_mod_4_nothing_more_comes_after_an_early_close() -> None:
    async with aclosing(OfflineModel().generate(request(QUESTION, CALL, ANSWER), stream=True)) as responses:  # type: ignore[type-var]
        first = await anext(responses)
        assert first.partial
    with pytest.raises(StopAsyncIteration):
        await anext(responses)


async def test_mod_5_concurrent_calls_of_one_instance_do_not_mix() -> None:
    model = OfflineModel()
    cities = ["Paris", "Rome", "Oslo", "Lima", "Cairo"]
    answers = await asyncio.gather(
        *(collect(model, request(f"What is the weather in {city}?"), stream=True) for city in cities)
    )
    called = [answer[-1].content.function_calls[0].args for answer in answers if answer[-1].content is not None]
    assert called == [{"city": city} for city in cities]


async def test_mod_6_the_request_is_not_changed() -> None:
    asked = request(QUESTION, CALL, ANSWER)
    contents, config = list(asked.contents), asked.config
    await collect(OfflineModel(), asked, stream=True)
    assert list(asked.contents) == contents
    assert asked.config is config


async def test_mod_7_work_starts_with_iteration() -> None:
    broken = request(QUESTION)
    broken.contents = None  # type: ignore[assignment]
    responses = OfflineModel().generate(broken)
    with pytest.raises(TypeError):
        await anext(aiter(responses))


async def test_mod_14_calls_carry_no_id_so_that_the_kernel_gives_one() -> None:
    (whole,) = await collect(OfflineModel(), request(QUESTION), stream=False)
    assert whole.content is not None
    assert [call.id for call in whole.content.function_calls] == [None]


async def test_mod_16_usage_counts_blank_separated_words() -> None:
    config = CONFIG.replace(system_instruction=user_content("You know the weather."))
    (whole,) = await collect(OfflineModel(), request(QUESTION, CALL, ANSWER, config=config), stream=False)
    usage = whole.usage_metadata
    assert usage is not None
    # 4 of the instruction, 6 of the question, the call (name, "city", "Paris"), the response (name, 2 keys, 2 values)
    assert usage.prompt_token_count == 4 + 6 + 3 + 5
    assert usage.candidates_token_count == len(whole.text.split()) == 8
    assert usage.total_token_count == 18 + 8


async def test_mod_17_what_is_not_counted_is_not_reported() -> None:
    (whole,) = await collect(OfflineModel(), request(QUESTION), stream=False)
    usage = whole.usage_metadata
    assert usage is not None
    assert (usage.thoughts_token_count, usage.cached_content_token_count) == (None, None)


async def test_the_name_of_the_request_says_who_answered() -> None:
    (named,) = await collect(OfflineModel(), request(QUESTION, model="offline"), stream=False)
    (own,) = await collect(OfflineModel("house"), request(QUESTION), stream=False)
    assert (named.model_version, own.model_version) == ("offline", "house")


async def test_delay_waits_through_the_platform_before_each_streamed_word() -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    with platform.use_sleep(note):
        responses = await collect(OfflineModel(delay=0.25), request(QUESTION, CALL, ANSWER), stream=True)
        await collect(OfflineModel(delay=0.25), request(QUESTION, CALL, ANSWER), stream=False)
    assert waits == [0.25] * (len(responses) - 1)


def test_cap_5_capabilities_are_honest() -> None:
    capabilities = OfflineModel().capabilities
    assert (capabilities.provider, capabilities.tools, capabilities.streaming) == ("offline", True, True)
    assert (capabilities.live, capabilities.output_schema, capabilities.pairs_calls_by_id) == (False, False, False)


def test_reg_1a_the_extension_takes_the_name_offline_only() -> None:
    made = create_model("offline", {})
    assert isinstance(made, OfflineModel)
    assert made.name == "offline"
    assert [create_model(name, {}) for name in ("offline-2", "Offline", "my/offline", "", "gpt-5.2")] == [None] * 5


def test_settings_set_the_delay() -> None:
    made = create_model("offline", {"delay": 0.5})
    assert isinstance(made, OfflineModel)
    assert made.delay == 0.5


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dealy": 1}, "dealy"),
        ({"delay": -1}, "-1"),
        ({"delay": "fast"}, "fast"),
        ({"delay": True}, "True"),
        ({"delay": float("nan")}, "nan"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        create_model("offline", settings)


@pytest.mark.parametrize(
    "tool_config",
    [
        {"functionCallingConfig": {"mode": "NONE"}},
        {"function_calling_config": {"mode": "none"}},
        {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_time"]}},
    ],
)
async def test_tool_config_can_forbid_calls(tool_config: dict[str, Any]) -> None:
    (whole,) = await collect(
        OfflineModel(), request(QUESTION, config=CONFIG.replace(tool_config=tool_config)), stream=False
    )
    assert whole.content is not None
    assert whole.content.function_calls == []
