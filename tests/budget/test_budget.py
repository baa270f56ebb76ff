"""The budget plugin (tools-plugins SP-43, core B-24)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from hookwork import FunctionPlugin, ModelResponse, Runner, RunOutcome, UsageMetadata, text_content
from hookwork.errors import ConfigurationError, LimitExceeded
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_budget import Budget
from hookwork_budget.prices import Prices, total_tokens
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call

RunnerFactory = Callable[..., Runner]


class Scene:
    """An agent that looks ten things up, one model call each, 100 tokens each."""

    def __init__(self, *script: Any, **usage: Any) -> None:
        self.looked: list[str] = []
        steps: Any = script or [*(call("look", at=str(n)) for n in range(10)), "Done."]
        self.model = ScriptedModel(steps, usage=UsageMetadata(**(usage or {"total_token_count": 100})))
        self.agent = LlmAgent(name="seeker", model=self.model, tools=[self.look])

    def look(self, at: str) -> dict[str, Any]:
        """Look something up."""
        self.looked.append(at)
        return {"seen": at}

    @property
    def warned(self) -> list[bool]:
        """For each request, whether it asked the model to conclude."""
        return ["nearly used up" in request.instruction for request in self.model.requests]

    async def run(self, runner_factory: RunnerFactory, *plugins: Any) -> RunOutcome:
        async with runner_factory(self.agent, plugins=plugins) as runner:
            run = runner.run(user_id="u", session_id="s", message="Look")
            with suppress(LimitExceeded):
                await run.wait()
        assert run.outcome is not None
        return run.outcome


async def test_b_24_tokens_soft_text_at_80_percent_then_the_limit(runner_factory: RunnerFactory) -> None:
    scene = Scene()
    outcome = await scene.run(runner_factory, Budget(tokens=500))
    assert outcome.kind == "limit"
    assert "tokens: 500 of 500 used" in outcome.reason
    assert scene.warned == [False, False, False, False, True]
    assert "tokens: 400 of 500 used" in scene.model.requests[-1].instruction


async def test_b_24_a_model_that_concludes_is_not_cut_off(runner_factory: RunnerFactory) -> None:
    def obedient(request: Any) -> Any:
        return "In short: done." if "Conclude now" in request.instruction else call("look", at="x")

    scene = Scene(*[obedient] * 9)
    outcome = await scene.run(runner_factory, Budget(tokens=500))
    assert (outcome.kind, outcome.final_event and outcome.final_event.text) == ("completed", "In short: done.")


async def test_b_24_time_is_the_kits_own(runner_factory: RunnerFactory, fixed_time: Any) -> None:
    def slow(_: Any) -> Any:
        fixed_time.advance(10)
        return call("look", at="x")

    scene = Scene(*[slow] * 9)
    outcome = await scene.run(runner_factory, Budget(seconds=25))
    assert (outcome.kind, scene.model.calls, scene.warned) == ("limit", 3, [False, False, True])
    assert "seconds: 30 of 25 used" in outcome.reason


async def test_b_24_cost_goes_by_the_users_prices(runner_factory: RunnerFactory) -> None:
    scene = Scene(prompt_token_count=1_000_000, candidates_token_count=500_000)
    budget = Budget(cost=8, prices={"other*": {"input": 99, "output": 99}, "script*": {"input": 1, "output": 2}})
    outcome = await scene.run(runner_factory, budget)
    assert (outcome.kind, scene.model.calls) == ("limit", 4)  # 2 each
    assert "cost: 8 of 8 used" in outcome.reason


async def test_b_24_model_calls(runner_factory: RunnerFactory) -> None:
    scene = Scene()
    outcome = await scene.run(runner_factory, Budget(model_calls=3))
    assert (outcome.kind, scene.model.calls, scene.warned) == ("limit", 3, [False, False, True])


async def test_b_24_a_tool_call_too_many_is_refused_and_ends_the_run(runner_factory: RunnerFactory) -> None:
    batch = [call("look", at="a"), call("look", at="b"), call("look", at="c")]
    scene = Scene(batch, "never asked")
    responses: list[Any] = []
    watch = FunctionPlugin("watch", on_event=lambda event: responses.extend(event.function_responses))
    outcome = await scene.run(runner_factory, Budget(tool_calls=2), watch)
    assert (outcome.kind, scene.looked, scene.model.calls) == ("limit", ["a", "b"], 1)
    assert [list(response.response) for response in responses] == [["seen"], ["seen"], ["error"]]
    assert "tool calls: 2 of 2 used" in responses[2].response["error"]


async def test_b_24_exactly_as_many_tool_calls_as_allowed_are_fine(runner_factory: RunnerFactory) -> None:
    scene = Scene(call("look", at="a"), call("look", at="b"), "Done.")
    outcome = await scene.run(runner_factory, Budget(tool_calls=2))
    assert (outcome.kind, scene.warned) == ("completed", [False, False, True])


async def test_b_24_transfers_are_no_tool_calls(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel([call("transfer_to_agent", agent_name="helper"), "Hello."])
    helper = LlmAgent(name="helper", model=model)
    root = LlmAgent(name="root", model=model, sub_agents=[helper])
    async with runner_factory(root, plugins=[Budget(tool_calls=0.5)]) as runner:
        assert await runner.ask("Hi") == "Hello."


async def test_b_24_answers_of_earlier_plugins_cost_nothing(runner_factory: RunnerFactory) -> None:
    answer = ModelResponse(content=text_content("cached"))
    cache = FunctionPlugin("cache", before_model=lambda: answer)
    budget = Budget(model_calls=1, tokens=1)
    async with runner_factory(Scene().agent, plugins=[cache, budget]) as runner:
        for _ in range(3):
            assert await runner.ask("Hi") == "cached"


async def test_b_24_usage_counts_though_another_plugin_replaces_the_answer(runner_factory: RunnerFactory) -> None:
    def replace(response: ModelResponse) -> ModelResponse:
        return ModelResponse(content=response.content)

    scene = Scene()
    outcome = await scene.run(runner_factory, FunctionPlugin("first", after_model=replace), Budget(tokens=300))
    assert (outcome.kind, scene.model.calls) == ("limit", 3)


async def test_b_24_each_run_has_its_own_budget(runner_factory: RunnerFactory) -> None:
    budget = Budget(tokens=150)
    async with runner_factory(Scene(*["Hello."] * 3).agent, plugins=[budget]) as runner:
        for _ in range(3):
            assert await runner.ask("Hi") == "Hello."
    assert budget._meters == {}


async def test_b_24_agents_of_a_run_share_it(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel(
        [call("transfer_to_agent", agent_name="helper"), "never asked"], usage=UsageMetadata(total_token_count=100)
    )
    root = LlmAgent(name="root", model=model, sub_agents=[LlmAgent(name="helper", model=model)])
    async with runner_factory(root, plugins=[Budget(tokens=100)]) as runner:
        with pytest.raises(LimitExceeded):
            await runner.ask("Hi")
    assert model.calls == 1


async def test_a_model_without_a_price_is_an_error(runner_factory: RunnerFactory) -> None:
    budget = Budget(cost=1, prices={"gemini-*": {"input": 1, "output": 1}})
    async with runner_factory(Scene("Hello.").agent, plugins=[budget]) as runner:
        with pytest.raises(ConfigurationError, match="model 'scripted' has no price"):
            await runner.ask("Hi")


@pytest.mark.parametrize(
    ("usage", "cost", "count"),
    [
        ({"prompt_token_count": 10, "candidates_token_count": 5}, 10 * 1 + 5 * 3, 15),
        ({"prompt_token_count": 10, "cached_content_token_count": 4}, 6 * 1 + 4 * 0.5, 10),
        ({"candidates_token_count": 5, "thoughts_token_count": 2, "total_token_count": 9}, 7 * 3, 9),
        ({"prompt_token_count": 1, "tool_use_prompt_token_count": 2}, 3 * 1, 3),
        ({"total_token_count": 10}, 10 * 3, 10),
        ({}, 0, 0),
    ],
    ids=str,
)
def test_b_24_what_a_call_costs(usage: dict[str, Any], cost: float, count: int) -> None:
    price = Prices({"m": {"input": 1, "output": 3, "cached_input": 0.5}}).of(None, "m")
    assert price is not None
    assert price.cost(UsageMetadata(**usage)) * 1_000_000 == pytest.approx(cost)
    assert total_tokens(UsageMetadata(**usage)) == count


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "limits nothing"),
        ({"tokens": 0}, "tokens must be a number above 0"),
        ({"seconds": True}, "seconds must be"),
        ({"tokens": 1, "soft": 0}, "soft must be"),
        ({"tokens": 1, "soft": 80}, "soft is a share"),
        ({"cost": 1}, "needs prices"),
        ({"cost": 1, "prices": {"m": {"input": 1}}}, "prices of 'm'"),
        ({"cost": 1, "prices": {"m": {"input": 1, "output": -1}}}, "output is a number from 0"),
        ({"cost": 1, "prices": {"m": {"input": 1, "output": 1, "x": 1}}}, "prices of 'm'"),
    ],
    ids=str,
)
def test_wrong_options_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Budget(**options)


def test_ext_8_two_budgets_with_a_table_each() -> None:
    settings = Settings(tables={"fast": {"seconds": 5}, "cheap": {"tokens": 100}})
    assert [plugin.name for plugin in resolve_plugins(["budget:fast", "budget:cheap"], settings)] == ["fast", "cheap"]
