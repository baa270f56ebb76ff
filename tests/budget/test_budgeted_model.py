"""``budgeted:NAME``: a model that spends no more than it may, at MOD-16 counts (models Beyond, WRP-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from hookwork import Model, ModelCapabilities, ModelRequest, ModelResponse, UsageMetadata, user_content
from hookwork.errors import ConfigurationError, LimitExceeded, ModelError
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.markers import hookimpl
from hookwork.resolve import resolve_model
from hookwork.settings import Settings
from hookwork_budget import BudgetedModel
from hookwork_budget import extension as budgeted_extension
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, stream
from hookwork_testkit.suites import ModelSuite

#: 100 prompt (60 of them cached), 30 answer, 20 thinking: 150 tokens by MOD-16.
USAGE = UsageMetadata(
    prompt_token_count=100, cached_content_token_count=60, candidates_token_count=30, thoughts_token_count=20
)


async def ask(model: Model, *, stream: bool = False) -> list[ModelResponse]:
    request = ModelRequest(model=model.name, contents=[user_content("hi")])
    async with aclosing(model.generate(request, stream=stream)) as responses:  # type: ignore[type-var]
        return [response async for response in responses]


def scripted(answer: Any = "ok", usage: UsageMetadata | None = USAGE) -> ScriptedModel:
    return ScriptedModel(lambda request: answer, name="a", usage=usage)


class TestBudgetedModelIsAModel(ModelSuite):
    """The Model contract holds for a wrapper as for what it wraps."""

    def make_model(self) -> Model:
        return BudgetedModel(ScriptedModel(lambda request: "hello", name="a"), model_calls=10_000)


@pytest.mark.parametrize("streamed", [False, True])
async def test_mod_16_tokens_count_reasoning_once_and_cached_ones_within_the_prompt(streamed: bool) -> None:
    model = BudgetedModel(scripted(stream("o", "k")), tokens=300)
    await ask(model, stream=streamed)
    await ask(model, stream=streamed)
    with pytest.raises(LimitExceeded, match="tokens: 300 of 300 used"):
        await ask(model, stream=streamed)


async def test_a_call_that_reports_nothing_or_fails_counts_as_a_call() -> None:
    inner = ScriptedModel([ModelError("busy"), "ok", "never"], name="a")
    model = BudgetedModel(inner, model_calls=2, tokens=1000)
    with pytest.raises(ModelError):
        await ask(model)
    await ask(model)
    with pytest.raises(LimitExceeded, match="model calls: 2 of 2 used"):
        await ask(model)
    assert len(inner.requests) == 2


async def test_a_cost_by_the_users_own_prices() -> None:
    prices = {"a": {"input": 10, "cached_input": 1, "output": 100}}
    model = BudgetedModel(scripted(), cost=0.01, prices=prices)
    await ask(model)  # 40 * 10 + 60 * 1 + 50 * 100 for a million: 0.00546
    await ask(model)
    with pytest.raises(LimitExceeded, match="cost"):
        await ask(model)
    with pytest.raises(ConfigurationError, match="has no price"):
        await ask(BudgetedModel(scripted(), cost=1, prices={"b": {"input": 1, "output": 1}}))


async def test_after_a_while_the_budget_is_whole_again(fixed_time: Any) -> None:
    model = BudgetedModel(scripted(), model_calls=1, per=60)
    await ask(model)
    fixed_time.advance(59)
    with pytest.raises(LimitExceeded, match="wait until it is whole again"):
        await ask(model)
    fixed_time.advance(1)
    assert (await ask(model))[-1].text == "ok"


async def test_mod_5_of_calls_at_the_same_moment_no_more_begin_than_may() -> None:
    model = BudgetedModel(scripted(), model_calls=10)
    results = await asyncio.gather(*(ask(model) for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(result, list) for result in results) == 10
    assert sum(isinstance(result, LimitExceeded) for result in results) == 40


async def test_the_outcome_of_a_run_is_limit(runner_factory: Any) -> None:
    agent = LlmAgent(name="helper", model=BudgetedModel(scripted(), tokens=100))
    async with runner_factory(agent) as runner:
        await runner.ask("hi", session_id="s")
        run: Any = runner.run(user_id="user-1", session_id="s", message="more")
        with pytest.raises(LimitExceeded):
            await run.wait()
    assert run.outcome.kind == "limit"


async def test_wrp_3_capabilities_check_connect_and_close_are_the_models_own() -> None:
    did: list[str] = []

    class Inner(ScriptedModel):
        async def check(self) -> None:
            did.append("check")

        async def close(self) -> None:
            did.append("close")

        @asynccontextmanager
        async def connect(self, request: ModelRequest, config: Any) -> AsyncIterator[Any]:  # type: ignore[override]
            did.append(f"connect {request.model}")
            yield "line"

    capabilities = ModelCapabilities(provider="p", live=True)
    model = BudgetedModel(Inner(name="a", capabilities=capabilities), model_calls=1)
    assert model.capabilities == capabilities
    await model.check()
    async with model.connect(ModelRequest(model=model.name), None) as line:  # type: ignore[arg-type]
        assert line == "line"
    with pytest.raises(LimitExceeded):
        await ask(model)
    await model.close()
    assert did == ["check", "connect a", "close"]


class Provider:
    """An extension whose model is called x."""

    @hookimpl
    def create_model(self, name: str, settings: dict[str, Any]) -> Model | None:
        return ScriptedModel(lambda request: name, name=name) if name == "x" else None


async def test_it_is_selected_by_name() -> None:
    with use_extensions([("budgeted", budgeted_extension), Provider()]):
        model = resolve_model("budgeted:x", Settings(tables={"budgeted": {"model_calls": 1}}))
        assert isinstance(model, BudgetedModel)
        assert (await ask(model))[0].text == "x"
        with pytest.raises(LimitExceeded):
            await ask(model)
        with pytest.raises(ConfigurationError, match="names no model"):
            resolve_model("budgeted:", Settings(tables={"budgeted": {"model_calls": 1}}))
        for table, said in (
            ({}, "limits nothing"),
            ({"token": 1}, "unknown key 'token'"),
            ({"tokens": -1}, "tokens must be a number above 0"),
            ({"cost": 1}, "a cost needs prices"),
        ):
            with pytest.raises(ConfigurationError, match=said):
                resolve_model("budgeted:x", Settings(tables={"budgeted": table}))
