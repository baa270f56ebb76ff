"""``cached:NAME``: a model that answers repeated requests from memory (models Beyond, WRP-3, SP-40)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from hookwork import Model, ModelCapabilities, ModelRequest, ModelResponse, UsageMetadata, user_content
from hookwork.errors import ConfigurationError, ModelError, UnknownModelError
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.markers import hookimpl
from hookwork.resolve import resolve_model
from hookwork.settings import Settings
from hookwork_cache import CachedModel
from hookwork_cache import extension as cached_extension
from hookwork_llm import FallbackModel, LlmAgent
from hookwork_testkit import ScriptedModel, call, stream
from hookwork_testkit.suites import ModelSuite

USAGE = UsageMetadata(prompt_token_count=7, candidates_token_count=3)


async def ask(model: Model, text: str = "hi", *, stream: bool = False) -> list[ModelResponse]:
    request = ModelRequest(model=model.name, contents=[user_content(text)])
    async with aclosing(model.generate(request, stream=stream)) as responses:  # type: ignore[type-var]
        return [response async for response in responses]


class TestCachedModelIsAModel(ModelSuite):
    """The Model contract holds for a wrapper as for what it wraps."""

    def make_model(self) -> Model:
        return CachedModel(ScriptedModel(lambda request: "hello", name="a"), include_tools=True)


async def test_the_same_question_is_asked_once_and_a_hit_costs_nothing() -> None:
    inner = ScriptedModel(["one", "two"], name="a", usage=USAGE)
    model = CachedModel(inner)
    (first,), (second,), (other,) = await ask(model), await ask(model), await ask(model, "ho")
    assert (first.text, second.text, other.text) == ("one", "one", "two")
    assert (first.usage_metadata, second.usage_metadata) == (USAGE, None)
    assert second.custom_metadata == {"hookwork_cache": "hit"}
    assert first.model_version == second.model_version == "a"
    assert (model.hits, model.misses, len(inner.requests)) == (1, 2, 2)
    assert inner.requests[0].model == "a", "the model is called by its own name (T-12)"


async def test_a_streamed_answer_is_kept_and_comes_back_in_one_piece() -> None:
    model = CachedModel(ScriptedModel([stream("It ", "is.")], name="a"))
    first, second = await ask(model, stream=True), await ask(model, stream=True)
    assert [response.text for response in first] == ["It ", "is.", "It is."]
    assert [(response.text, bool(response.partial)) for response in second] == [("It is.", False)]


async def test_calls_and_errors_are_not_kept() -> None:
    error = ModelError("busy", kind="unavailable", retryable=True)
    model = CachedModel(ScriptedModel([error, call("f"), "done"], name="a"))
    with pytest.raises(ModelError):
        await ask(model)
    await ask(model)
    assert (await ask(model))[-1].text == "done"
    keeping = CachedModel(ScriptedModel([call("f", id="c1")], name="a"), include_tools=True)
    await ask(keeping)
    (again,) = await ask(keeping)
    assert again.content is not None
    assert [(one.name, one.id) for one in again.content.function_calls] == [("f", None)]


async def test_a_stream_that_was_left_early_is_not_kept() -> None:
    inner = ScriptedModel([stream("half ", "a word"), "whole"], name="a")
    model = CachedModel(inner)
    async with aclosing(model.generate(ModelRequest(contents=[user_content("hi")]), stream=True)) as responses:  # type: ignore[type-var]
        async for response in responses:
            assert response.partial
            break
    assert (await ask(model))[-1].text == "whole"


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

    capabilities = ModelCapabilities(provider="p", live=True, reasoning=True)
    model = CachedModel(Inner(name="a", capabilities=capabilities))
    assert model.capabilities == capabilities
    await model.check()
    async with model.connect(ModelRequest(model=model.name), None) as line:  # type: ignore[arg-type]
        assert line == "line"
    await model.close()
    await CachedModel(ScriptedModel(name="b")).check()
    assert did == ["check", "connect a", "close"]


class Provider:
    """An extension whose models answer with their names."""

    @hookimpl
    def create_model(self, name: str, settings: dict[str, Any]) -> Model | None:
        return ScriptedModel(lambda request: name, name=name) if name in ("x", "y") else None


async def test_it_is_selected_by_name_and_goes_together_with_others() -> None:
    settings = Settings(tables={"cached": {"ttl": 60, "include_tools": True}})
    with use_extensions([("cached", cached_extension), Provider()]):
        model = resolve_model("cached:x", settings)
        assert isinstance(model, CachedModel)
        assert (model.name, model.model.name) == ("cached:x", "x")
        assert [(await ask(model))[0].text for _ in range(2)] == ["x", "x"]
        assert model.hits == 1
        nested = FallbackModel(["cached:x", "y"])
        assert nested.name == "fallback:cached:x,y"
        with pytest.raises(UnknownModelError, match="'z'"):
            resolve_model("cached:z", settings)
        with pytest.raises(ConfigurationError, match="names no model"):
            resolve_model("cached:", settings)
        with pytest.raises(ConfigurationError, match="did you mean 'ttl'"):
            resolve_model("cached:x", Settings(tables={"cached": {"tll": 60}}))
        with pytest.raises(ConfigurationError, match="ttl must be a number above 0"):
            resolve_model("cached:x", Settings(tables={"cached": {"ttl": 0}}))


async def test_in_a_run_usage_counts_for_the_model_that_answered(runner_factory: Any) -> None:
    agent = LlmAgent(name="helper", model=CachedModel(ScriptedModel(["hello"], name="a", usage=USAGE)))
    async with runner_factory(agent) as runner:
        run: Any = runner.run(user_id="u", session_id="s1", message="hi")
        await run.wait()
        again: Any = runner.run(user_id="u", session_id="s2", message="hi")
        await again.wait()
    assert set(run.usage.by_model) == {"a"}
    assert run.usage.total.prompt_token_count == 7
    assert again.usage.total.prompt_token_count is None
