"""Fallback and router: settings, readiness, hostile handles, cancellation (models WRP-1 … WRP-3, ERR-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest
from tests.llm.test_model_wrappers import LiveModel, busy, collect, resuming, texts

from hookwork.errors import ConfigurationError, ModelError
from hookwork.live import LiveRunConfig
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.markers import hookimpl
from hookwork.records.metadata import ModelResponse
from hookwork.resolve import load_agent, resolve_model
from hookwork.settings import Settings
from hookwork_llm import FallbackModel, RouterModel
from hookwork_llm import extension as llm_extension
from hookwork_testkit import ScriptedModel

# --- settings, readiness, hostile handles -----------------------------------------------------------------------------


class Named:
    """An extension that takes some names, and keeps the settings it was asked with."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked: list[dict[str, Any]] = []

    @hookimpl
    def create_model(self, name: str, settings: dict[str, Any]) -> Model | None:
        if name not in self.names:
            return None
        self.asked.append(dict(settings))
        return ScriptedModel(["x"], name=name)


class Ready(ScriptedModel):
    """A model that can say whether it is ready."""

    def __init__(self, name: str, error: Exception | None = None) -> None:
        super().__init__(["here"], name=name)
        self.error = error

    async def check(self) -> None:
        if self.error is not None:
            raise self.error


def no_key(name: str) -> ModelError:
    return busy(name, kind="auth", retryable=False)


async def test_wrp_1_a_fallback_is_ready_when_a_call_would_find_an_answer() -> None:
    """`hookwork doctor` asks; a candidate without a key ends a call unless it is passed over."""
    with pytest.raises(ModelError) as caught:
        await FallbackModel([Ready("a", no_key("a")), Ready("b")]).check()
    assert caught.value.model == "a"
    await FallbackModel([Ready("a", no_key("a")), Ready("b")], on_auth=True).check()
    await FallbackModel([ScriptedModel(["x"], name="silent"), Ready("b")]).check()
    with pytest.raises(ModelError) as caught:
        await FallbackModel([Ready("a", no_key("a")), Ready("b", no_key("b"))], on_auth=True).check()
    assert caught.value.model == "b"


async def test_wrp_3_a_router_is_ready_when_all_it_may_choose_are() -> None:
    await RouterModel(lambda request: "a", [Ready("a"), Ready("b")]).check()
    with pytest.raises(ModelError):
        await RouterModel(lambda request: "a", [Ready("a"), Ready("b", no_key("b"))]).check()
    await FallbackModel([RouterModel(lambda request: "a", [Ready("a")])]).check()


@pytest.mark.parametrize(("table", "passes"), [({"fallback_on_auth": True}, True), ({}, False)])
def test_wrp_1_passing_over_a_missing_key_is_a_setting_for_names(table: dict[str, Any], passes: bool) -> None:
    with use_extensions([("llm", llm_extension), ("named", Named("a", "b"))]):
        model = resolve_model("fallback:a,b", Settings(tables={"llm": table}))
    assert isinstance(model, FallbackModel)
    assert model.on_auth is passes


@pytest.mark.parametrize(
    ("table", "text"),
    [({"fallback_on_oauth": True}, "did you mean 'fallback_on_auth'"), ({"fallback_on_auth": 1}, "true")],
)
def test_wrp_1_a_wrong_setting_is_named(table: dict[str, Any], text: str) -> None:
    with (
        use_extensions([("llm", llm_extension), ("named", Named("a"))]),
        pytest.raises(ConfigurationError, match=text),
    ):
        resolve_model("fallback:a", Settings(tables={"llm": table}))


@pytest.mark.parametrize("kind", [FallbackModel, lambda names: RouterModel(lambda request: "a", names)])
def test_wrp_1_names_are_resolved_under_the_settings_of_the_program(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base URL in [tool.hookwork.openai] counts for a candidate as it does for an agent's own model."""
    (tmp_path / "hookwork.toml").write_text('[named]\nbase_url = "http://here"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOOKWORK_CONFIG", raising=False)
    named = Named("a", "b")

    def build() -> None:
        with use_extensions([("named", named)]):
            kind(["a", "b"])

    Context().run(build)  # in a context of its own: tests see no settings file otherwise
    assert named.asked == [{"base_url": "http://here"}] * 2


def test_wrp_1_an_agent_that_is_loaded_builds_its_wrappers_under_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.py").write_text(
        "from hookwork_llm import FallbackModel, LlmAgent\n"
        "root_agent = LlmAgent(name='helper', model=FallbackModel(['a']))\n"
    )
    monkeypatch.chdir(tmp_path)
    named = Named("a")
    settings = Settings(tables={"named": {"region": "eu"}})
    with use_extensions([("named", named)]):
        load_agent(str(tmp_path / "agent.py"), settings)
    assert named.asked == [{"region": "eu"}]


async def test_wrp_3_a_handle_picks_among_the_models_that_are_here_and_names_no_other() -> None:
    """A handle comes back from a client: what stands in it must not have a model made."""
    asked = Named("secret")
    with use_extensions([("named", asked)]):
        model = RouterModel(lambda request: here, capabilities=ModelCapabilities(live=True))
        here = LiveModel("here")
        with pytest.raises(ConfigurationError, match="without a handle"):
            async with model.connect(ModelRequest(), resuming("secret\x1fhandle")):
                pass
        async with model.connect(ModelRequest(), resuming("here\x1fhandle")):
            pass
    assert asked.asked == []
    assert here.handles == ["handle"]


async def test_wrp_2_live_messages_say_whose_they_are_so_usage_counts_for_that_model() -> None:
    model = FallbackModel([LiveModel("first"), LiveModel("second")])
    async with model.connect(ModelRequest(), LiveRunConfig()) as line:
        received = [response async for response in line.receive()]
    spoken = [response for response in received if response.content is not None]
    assert spoken
    assert {response.model_version for response in spoken} == {"first"}


async def test_wrp_1_err_1_a_cancellation_that_nobody_asked_for_is_a_lost_connection() -> None:
    """CASE-TOOL-7, from a model whose adapter lets it through."""

    class Cancelled(Model):
        name = "cancelled"

        async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
            raise asyncio.CancelledError
            yield

    assert texts(await collect(FallbackModel([Cancelled(), ScriptedModel(["here"], name="b")]))) == ["here"]
    with pytest.raises(ModelError) as caught:
        await collect(FallbackModel([Cancelled()]))
    assert (caught.value.kind, caught.value.retryable, caught.value.model) == ("connection", True, "cancelled")


async def test_wrp_1_a_cancellation_that_was_asked_for_passes() -> None:
    waiting = asyncio.Event()

    class Slow(Model):
        name = "slow"

        async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
            waiting.set()
            await asyncio.Event().wait()
            yield ModelResponse()

    second = ScriptedModel(["never"], name="b")
    task = asyncio.create_task(collect(FallbackModel([Slow(), second])))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert second.calls == 0


async def test_wrp_1_a_cancellation_asked_for_before_the_call_began_passes_too() -> None:
    async def consume() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await collect(FallbackModel([Waiting(), ScriptedModel(["never"], name="b")]))

    class Waiting(Model):
        name = "waiting"

        async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
            await asyncio.sleep(0)
            yield ModelResponse()

    task = asyncio.create_task(consume())
    await asyncio.wait([task])
    assert task.cancelled()


def test_wrp_2_of_a_wide_and_a_narrow_kind_of_media_the_narrow_one_is_common() -> None:
    def taking(name: str, *media: str) -> ScriptedModel:
        return ScriptedModel(["x"], name=name, capabilities=ModelCapabilities(media=media))

    wide, narrow = taking("a", "image/", "text/"), taking("b", "image/png", "audio/", "text/plain", "text/")
    assert set(FallbackModel([wide, narrow]).capabilities.media) == {"image/png", "text/"}
