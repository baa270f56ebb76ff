"""What a model sees of the app, and what happens to what it says: the same agents with a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hookwork import FunctionResponse, Part, Runner
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call
from hookwork_weather.agent import app

ONE: dict[str, Any] = {"user_id": "u1", "session_id": "s1"}
TWO: dict[str, Any] = {"user_id": "u1", "session_id": "s2"}

RunnerFactory = Callable[..., Runner]


async def test_a_model_sees_the_tools_of_the_agent_that_has_the_conversation(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel([call("transfer_to_agent", agent_name="travel_advisor"), "Where to?"])
    async with runner_factory(app, model=model) as runner:
        assert await runner.ask("I am going on a trip", **ONE) == "Where to?"
    root, advisor = model.requests
    assert set(root.declared) == {"get_weather", "set_temperature_unit", "buy_report", "transfer_to_agent"}
    assert set(advisor.declared) == {"packing_list", "transfer_to_agent"}
    assert "travel_advisor: Says what to pack" in root.instruction
    for prompt in model.prompts:
        assert_valid_prompt(prompt)


async def test_the_tools_declare_no_context_and_what_is_required(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel(["hello"])
    async with runner_factory(app, model=model) as runner:
        await runner.ask("hi", **ONE)
    declared = model.requests[0].config.function_declarations()
    schemas = {one.name: dict(one.parameters_json_schema or {}) for one in declared}
    assert list(schemas["get_weather"]["properties"]) == ["city"]
    assert not schemas["get_weather"].get("required")
    assert schemas["buy_report"]["required"] == ["city"]
    assert schemas["set_temperature_unit"]["properties"]["unit"]["enum"] == ["celsius", "fahrenheit"]


async def test_ins_3_the_unit_stands_in_the_instruction_once_it_is_set(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel(["Hello.", call("set_temperature_unit", unit="fahrenheit"), "Done.", "Hello."])
    async with runner_factory(app, model=model) as runner:
        await runner.ask("hi", **ONE)
        await runner.ask("in Fahrenheit, please", **ONE)
        await runner.ask("hi", **TWO)
    assert ["if any: F" in request.instruction for request in model.requests] == [False, False, True, True]


async def test_the_unit_of_one_session_is_in_the_tool_results_of_the_next(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel(
        [call("set_temperature_unit", unit="fahrenheit"), "Done.", call("get_weather", city="Tokyo"), "72 °F."]
    )
    async with runner_factory(app, model=model) as runner:
        await runner.ask("Use Fahrenheit", **ONE)
        await runner.ask("Weather in Tokyo?", **TWO)
    assert _last_result(model) == {"city": "Tokyo", "temperature_f": 72, "sky": "clear"}


async def test_tl_21_the_model_reads_which_cities_are_known(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel([call("get_weather", city="Atlantis"), call("get_weather", city="Oslo"), "It is 3 °C."])
    async with runner_factory(app, model=model) as runner:
        assert await runner.ask("Weather in Atlantis?", **ONE) == "It is 3 °C."
    error = model.prompts[1][-1].function_responses[0].response or {}
    assert list(error) == ["error"]
    assert "Oslo" in error["error"]
    assert_valid_prompt(model.prompts[-1])


@pytest.mark.parametrize("confirmed", [True, False])
async def test_hitl_2_the_model_hears_of_the_decision(runner_factory: RunnerFactory, confirmed: bool) -> None:
    model = ScriptedModel([call("buy_report", city="Oslo"), "So be it."])
    async with runner_factory(app, model=model) as runner:
        paused = await runner.run(message="Buy the report on Oslo", **ONE).wait()
        [asked] = paused.open_calls
        assert (asked.kind, len(model.requests)) == ("confirmation", 1)
        decision = FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": confirmed})
        done = await runner.run(message=[Part(function_response=decision)], **ONE).wait()
    assert done.final_event is not None
    assert done.final_event.text == "So be it."
    result = _last_result(model)
    assert ("price_usd" in result, "error" in result) == (confirmed, not confirmed)
    assert_valid_prompt(model.prompts[-1])


def _last_result(model: ScriptedModel) -> dict[str, Any]:
    [response] = model.prompts[-1][-1].function_responses
    return dict(response.response or {})
