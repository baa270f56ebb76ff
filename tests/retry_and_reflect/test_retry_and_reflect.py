"""The retry-and-reflect plugin (tools-plugins SP-01 … SP-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hookwork import FunctionResponse, Part, Runner
from hookwork.errors import ConfigurationError, LimitExceeded
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_llm import LlmAgent, tool
from hookwork_retry_and_reflect import RESPONSE_TYPE, RetryAndReflect
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

RunnerFactory = Callable[..., Runner]


def get_weather(city: str) -> dict[str, Any]:
    """Current weather of a city."""
    if city == "Atlantis":
        raise ValueError("no such city")
    return {"temperature_c": 22}


async def results(
    runner_factory: RunnerFactory, plugin: RetryAndReflect, *cities: str, tools: Any = (get_weather,)
) -> list[dict[str, Any]]:
    """What the model read about calls for these cities, made one after another in one run."""
    model = ScriptedModel([*(call("get_weather", city=city) for city in cities), "Done."])
    async with runner_factory(LlmAgent(name="weather", model=model, tools=tools), plugins=[plugin]) as runner:
        assert await runner.ask("Weather?") == "Done."
    assert_valid_prompt(model.prompts[-1])
    return [dict(r.response or {}) for content in model.prompts[-1] for r in content.function_responses]


async def test_sp_01_a_failure_becomes_guidance(runner_factory: RunnerFactory) -> None:
    [result] = await results(runner_factory, RetryAndReflect(), "Atlantis")
    guidance = result.pop("reflection_guidance")
    assert result == {
        "response_type": "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN",
        "error_type": "ValueError",
        "error_details": "no such city",
        "retry_count": 1,
    }
    for piece in ("'get_weather'", "no such city", '{"city": "Atlantis"}', "attempt 1 of 3", "The name:"):
        assert piece in guidance


async def test_sp_01_above_the_limit_the_model_is_told_to_stop(runner_factory: RunnerFactory) -> None:
    told = await results(runner_factory, RetryAndReflect(max_retries=2), *["Atlantis"] * 4)
    assert [result["retry_count"] for result in told] == [1, 2, 2, 2]
    assert ["Do not call it again" in result["reflection_guidance"] for result in told] == [False, False, True, True]
    assert {result["response_type"] for result in told} == {RESPONSE_TYPE}


async def test_sp_01_above_the_limit_the_error_can_stand(runner_factory: RunnerFactory) -> None:
    plugin = RetryAndReflect(max_retries=1, error_if_exceeded=True)
    told = await results(runner_factory, plugin, "Atlantis", "Atlantis")
    assert told[0]["retry_count"] == 1
    assert told[1] == {"error": "ValueError: no such city"}


async def test_sp_01_no_retries_are_exceeded_at_once(runner_factory: RunnerFactory) -> None:
    [result] = await results(runner_factory, RetryAndReflect(max_retries=0), "Atlantis")
    assert (result["retry_count"], "Do not call it again" in result["reflection_guidance"]) == (0, True)


async def test_sp_02_success_sets_the_count_back(runner_factory: RunnerFactory) -> None:
    told = await results(runner_factory, RetryAndReflect(), "Atlantis", "Atlantis", "Oslo", "Atlantis")
    assert [result.get("retry_count") for result in told] == [1, 2, None, 1]
    assert told[2] == {"temperature_c": 22}


async def test_sp_02_parallel_failures_are_counted_each(runner_factory: RunnerFactory) -> None:
    gate = asyncio.Barrier(3)

    @tool
    async def get_weather(city: str) -> dict[str, Any]:
        """Current weather of a city."""
        await gate.wait()
        raise ValueError(city)

    model = ScriptedModel([[call("get_weather", city=str(n)) for n in range(3)], "Done."])
    agent = LlmAgent(name="weather", model=model, tools=[get_weather])
    async with runner_factory(agent, plugins=[RetryAndReflect()]) as runner:
        await runner.ask("Weather?")
    responses = model.prompts[-1][-1].function_responses
    assert sorted((r.response or {})["retry_count"] for r in responses) == [1, 2, 3]


@pytest.mark.parametrize(("scope", "counts"), [("invocation", [1, 1]), ("global", [1, 2])])
async def test_sp_03_counts_end_with_their_scope(runner_factory: RunnerFactory, scope: str, counts: list[int]) -> None:
    plugin = RetryAndReflect(scope=scope)
    told = [(await results(runner_factory, plugin, "Atlantis"))[0]["retry_count"] for _ in range(2)]
    assert told == counts
    assert len(plugin._failures) == (0 if scope == "invocation" else 1)


async def test_sp_04_a_tool_that_does_not_exist_is_covered(runner_factory: RunnerFactory) -> None:
    [result] = await results(runner_factory, RetryAndReflect(), "Oslo", tools=())
    assert (result["response_type"], result["error_type"]) == (RESPONSE_TYPE, "ToolNotFoundError")


async def test_sp_04_a_result_can_carry_the_error(runner_factory: RunnerFactory) -> None:
    class Strict(RetryAndReflect):
        def extract_error(self, result: dict[str, Any]) -> Any:
            return result.get("problem")

    @tool(name="get_weather")
    def soft(city: str) -> dict[str, Any]:
        """Current weather of a city."""
        return {"problem": "no such city"} if city == "Atlantis" else {"temperature_c": 22}

    told = await results(runner_factory, Strict(max_retries=1), "Atlantis", "Atlantis", "Oslo", tools=[soft])
    assert [result.get("retry_count") for result in told] == [1, 1, None]
    assert (told[0]["error_type"], told[0]["error_details"]) == ("ToolError", "no such city")
    assert told[2] == {"temperature_c": 22}


async def test_sp_01_a_rejected_approval_is_no_failure(runner_factory: RunnerFactory) -> None:
    @tool(require_confirmation=True)
    def pay() -> dict[str, Any]:
        """Pay."""
        return {}

    model = ScriptedModel([call("pay"), "As you like."])
    plugin = RetryAndReflect()
    async with runner_factory(LlmAgent(name="a", model=model, tools=[pay]), plugins=[plugin]) as runner:
        paused = await runner.run(user_id="u", session_id="s", message="Pay").wait()
        [asked] = paused.open_calls
        answer = Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": False}))
        await runner.run(user_id="u", session_id="s", message=[answer]).wait()
    [response] = model.prompts[-1][-1].function_responses
    assert list(response.response or {}) == ["error"]


async def test_a_used_up_budget_is_nothing_to_try_again(runner_factory: RunnerFactory) -> None:
    @tool(name="get_weather")
    def dear(city: str) -> dict[str, Any]:
        """Current weather of a city."""
        raise LimitExceeded("no money left")

    [result] = await results(runner_factory, RetryAndReflect(), "Oslo", tools=[dear])
    assert list(result) == ["error"]


@pytest.mark.parametrize("options", [{"max_retries": -1}, {"max_retries": True}, {"scope": "session"}], ids=str)
def test_wrong_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        RetryAndReflect(**options)


def test_ext_8_options_come_from_its_table() -> None:
    [plugin] = resolve_plugins(["retry_and_reflect"], Settings(tables={"retry_and_reflect": {"max_retries": 1}}))
    assert isinstance(plugin, RetryAndReflect)
    assert plugin.name == "RetryAndReflectPlugin"
