"""Models made of other models: fallback and router (models WRP-1 … WRP-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from hookwork.errors import (
    ConfigurationError,
    LiveConnectionClosed,
    ModelError,
    UnknownModelError,
    UnsupportedOperationError,
)
from hookwork.live import LiveConnection, LiveRunConfig, RealtimeInput, SessionResumption
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.markers import hookimpl
from hookwork.records.content import Content, Part, text_content
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork.resolve import resolve_model
from hookwork.runner import Runner
from hookwork_llm import FallbackModel, LlmAgent, RouterModel
from hookwork_llm import extension as llm_extension
from hookwork_testkit import ScriptedModel, partial
from hookwork_testkit.suites import ModelSuite


def busy(name: str = "first", **more: Any) -> ModelError:
    return ModelError(f"{name} is busy", **{"model": name, "kind": "rate_limit", "retryable": True, **more})


async def collect(model: Model, request: ModelRequest | None = None, *, stream: bool = False) -> list[ModelResponse]:
    async with aclosing(model.generate(request or ModelRequest(), stream=stream)) as responses:  # type: ignore[type-var]
        return [response async for response in responses]


def texts(responses: Sequence[ModelResponse]) -> list[str]:
    return [response.content.text for response in responses if response.content is not None]


class TestFallbackIsAModel(ModelSuite):
    """The Model contract holds for a wrapper as for what it wraps."""

    def make_model(self) -> Model:
        return FallbackModel([ScriptedModel(lambda request: "hello", name="a"), ScriptedModel(["never"], name="b")])


class TestRouterIsAModel(ModelSuite):
    def make_model(self) -> Model:
        answering = ScriptedModel(lambda request: "hello", name="a")
        return RouterModel(lambda request: answering, [answering])


# --- fallback ---------------------------------------------------------------------------------------------------------


async def test_wrp_1_moves_on_past_retryable_errors_in_order() -> None:
    first, second = ScriptedModel([busy("first")], name="first"), ScriptedModel([busy("second")], name="second")
    third = ScriptedModel(["here"], name="third")
    assert texts(await collect(FallbackModel([first, second, third]))) == ["here"]
    assert [first.calls, second.calls, third.calls] == [1, 1, 1]


async def test_wrp_1_the_first_that_answers_is_the_only_one_asked() -> None:
    first, second = ScriptedModel(["mine"], name="first"), ScriptedModel(["never"], name="second")
    assert texts(await collect(FallbackModel([first, second]))) == ["mine"]
    assert second.calls == 0


@pytest.mark.parametrize("kind", ["invalid_request", "invalid_response", "auth"])
async def test_wrp_1_other_errors_are_raised_at_once(kind: str) -> None:
    second = ScriptedModel(["never"], name="second")
    with pytest.raises(ModelError) as caught:
        await collect(FallbackModel([ScriptedModel([busy(kind=kind, retryable=False)], name="first"), second]))
    assert caught.value.kind == kind
    assert second.calls == 0


async def test_wrp_1_auth_moves_on_when_asked_for() -> None:
    first = ScriptedModel([busy(kind="auth", retryable=False)], name="first")
    model = FallbackModel([first, ScriptedModel(["here"], name="second")], on_auth=True)
    assert texts(await collect(model)) == ["here"]


async def test_wrp_1_after_the_first_response_nothing_is_switched() -> None:
    first = ScriptedModel([[partial("half"), busy(kind="stream")]], name="first")
    second = ScriptedModel(["never"], name="second")
    async with aclosing(FallbackModel([first, second]).generate(ModelRequest(), stream=True)) as responses:  # type: ignore[type-var]
        assert texts([await anext(responses)]) == ["half"]
        with pytest.raises(ModelError, match="busy"):
            await anext(responses)
    assert second.calls == 0


async def test_wrp_1_when_all_fail_the_last_error_has_the_others_as_notes() -> None:
    models = [ScriptedModel([busy(name)], name=name) for name in ("first", "second", "third")]
    with pytest.raises(ModelError) as caught:
        await collect(FallbackModel(models))
    assert caught.value.model == "third"
    notes = getattr(caught.value, "__notes__", [])
    assert [("first" in note, "second" in note) for note in notes] == [(True, False), (False, True)]


async def test_wrp_1_agg_31_a_model_without_any_response_is_passed_over() -> None:
    class Silent(Model):
        name = "silent"

        async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
            return
            yield

    assert texts(await collect(FallbackModel([Silent(), ScriptedModel(["here"], name="b")]))) == ["here"]
    with pytest.raises(ModelError) as caught:
        await collect(FallbackModel([Silent()]))
    assert (caught.value.kind, caught.value.model) == ("stream", "silent")


async def test_wrp_1_mod_6_each_candidate_gets_the_same_untouched_request_under_its_own_name() -> None:
    first, second = ScriptedModel([busy()], name="first"), ScriptedModel(["here"], name="second")
    contents = [text_content("hi", role="user")]
    request = ModelRequest(model="fallback:first,second", contents=contents)
    await collect(FallbackModel([first, second]), request)
    assert [made.requests[0].model for made in (first, second)] == ["first", "second"]
    assert [made.requests[0].contents for made in (first, second)] == [tuple(contents), tuple(contents)]
    assert request.model == "fallback:first,second"


async def test_wrp_2_the_response_says_who_answered_and_usage_counts_for_it() -> None:
    usage = UsageMetadata(prompt_token_count=3, candidates_token_count=2)
    second = ScriptedModel(["here"], name="second", usage=usage)
    model = FallbackModel([ScriptedModel([busy()], name="first"), second])
    async with Runner(LlmAgent(name="root", model=model), sessions="memory:") as runner:
        outcome = await runner.run(user_id="u", message="hi").wait()
    final = outcome.final_event
    assert final is not None
    assert final.model_version == "second"
    assert dict(final.custom_metadata or {}) == {"hookwork_model": "second"}
    assert {name: count.prompt_token_count for name, count in outcome.usage.by_model.items()} == {"second": 3}


async def test_wrp_2_a_version_the_service_gave_is_kept_and_the_innermost_name_counts() -> None:
    said = ModelResponse(content=text_content("x"), model_version="second-2026")
    inner = FallbackModel([ScriptedModel([said], name="second")], name="inner")
    (response,) = await collect(FallbackModel([inner], name="outer"))
    assert response.model_version == "second-2026"
    assert dict(response.custom_metadata or {}) == {"hookwork_model": "second"}


def test_wrp_2_capabilities_are_the_intersection() -> None:
    able = ModelCapabilities(
        provider="p1",
        output_schema=True,
        output_schema_with_tools=True,
        builtin_tools=frozenset({"google_search", "url_context"}),
        media=("image/", "audio/"),
        max_parallel_live_tools=4,
    )
    plain = ModelCapabilities(
        provider="p2",
        output_schema=True,
        tools=False,
        builtin_tools=frozenset({"url_context"}),
        media=("image/",),
        alternating_roles=True,
        max_parallel_live_tools=2,
    )
    models = [ScriptedModel(name="a", capabilities=able), ScriptedModel(name="b", capabilities=plain)]
    assert FallbackModel(models).capabilities == ModelCapabilities(
        provider="p1",
        output_schema=True,
        tools=False,
        builtin_tools=frozenset({"url_context"}),
        media=("image/",),
        alternating_roles=True,
        max_parallel_live_tools=2,
    )


async def test_mod_5_one_wrapper_serves_many_calls_at_once() -> None:
    def first(request: Any) -> Any:
        number = int(request.contents[-1].text)
        return busy() if number % 2 else f"first {number}"

    model = FallbackModel(
        [ScriptedModel(first, name="first"), ScriptedModel(lambda r: f"second {r.contents[-1].text}", name="second")]
    )

    async def ask(number: int) -> str:
        return texts(await collect(model, ModelRequest(contents=[text_content(str(number), role="user")])))[-1]

    answers = await asyncio.gather(*(ask(number) for number in range(50)))
    assert answers == [f"{'second' if n % 2 else 'first'} {n}" for n in range(50)]


async def test_mod_4_leaving_early_closes_the_candidate() -> None:
    inner = ScriptedModel([[partial("a"), partial("b"), "c"]], name="a")
    async with aclosing(FallbackModel([inner]).generate(ModelRequest(), stream=True)) as responses:  # type: ignore[type-var]
        await anext(responses)
    assert inner.cut_short == 1


async def test_wrp_close_reaches_every_candidate_even_past_an_error() -> None:
    class Stubborn(ScriptedModel):
        async def close(self) -> None:
            await super().close()
            raise RuntimeError("cannot close")

    first, second = Stubborn(name="first"), ScriptedModel(name="second")
    with pytest.raises(RuntimeError, match="cannot close"):
        await FallbackModel([first, second]).close()
    assert (first.closed, second.closed) == (True, True)


@pytest.mark.parametrize(
    ("candidates", "text"),
    [([], "no candidate"), ("gpt-5", "write ['gpt-5']"), (["twice", "twice"], "twice more than once")],
)
def test_wrp_bad_candidates_are_refused_when_built(candidates: Any, text: str) -> None:
    if candidates and not isinstance(candidates, str):
        candidates = [ScriptedModel(name=name) for name in candidates]
    with pytest.raises(ConfigurationError) as caught:
        FallbackModel(candidates)
    assert text in str(caught.value)


# --- by name ----------------------------------------------------------------------------------------------------------


class Scripted:
    """An extension that takes the names ``s-…``."""

    def __init__(self) -> None:
        self.made: list[ScriptedModel] = []

    @hookimpl
    def create_model(self, name: str) -> Model | None:
        if not name.startswith("s-"):
            return None
        step: Any = busy(name) if name.endswith("busy") else f"from {name}"
        self.made.append(ScriptedModel([step], name=name))
        return self.made[-1]


async def test_wrp_1_reg_1_fallback_by_name_and_the_runner_closes_it() -> None:
    provider = Scripted()
    with use_extensions([provider, llm_extension]):
        async with Runner(LlmAgent(name="root", model="fallback:s-busy, s-two"), sessions=_sessions()) as runner:
            assert await runner.ask("hi") == "from s-two"
    assert [model.closed for model in provider.made] == [True, True]


def test_wrp_1_reg_9_an_unknown_candidate_is_named() -> None:
    with use_extensions([Scripted(), llm_extension]), pytest.raises(UnknownModelError, match="'nobody'"):
        resolve_model("fallback:s-one,nobody")


def test_wrp_1_a_name_without_candidates_is_refused() -> None:
    with use_extensions([llm_extension]), pytest.raises(ConfigurationError, match="no candidate"):
        resolve_model("fallback: ,")


def _sessions() -> Any:
    from hookwork_inmemory import InMemorySessionService

    return InMemorySessionService()


# --- router -----------------------------------------------------------------------------------------------------------


async def test_wrp_3_the_router_asks_for_every_call_and_takes_models_and_names() -> None:
    small, big = ScriptedModel(["small", "small"], name="small"), ScriptedModel(["big"], name="big")

    async def choose(request: ModelRequest) -> Model | str:
        return "big" if len(request.contents) > 1 else small

    model = RouterModel(choose, [small, big])
    one, two = [text_content("a", role="user")], [text_content("a", role="user"), text_content("b", role="user")]
    asked = [await collect(model, ModelRequest(contents=contents)) for contents in (one, two, one)]
    assert [texts(responses) for responses in asked] == [["small"], ["big"], ["small"]]
    assert asked[1][0].custom_metadata == {"hookwork_model": "big"}


async def test_wrp_3_a_new_name_is_resolved_once_and_closed() -> None:
    provider = Scripted()
    model = RouterModel(lambda request: "s-late")
    with use_extensions([provider]):
        assert texts(await collect(model)) == ["from s-late"]
        with pytest.raises(AssertionError):  # the same object again: its script is used up
            await collect(model)
    await model.close()
    assert [made.closed for made in provider.made] == [True]


async def test_wrp_3_a_choice_that_is_no_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="gave int"):
        await collect(RouterModel(lambda request: 3))  # type: ignore[arg-type,return-value]


async def test_wrp_3_wrappers_compose() -> None:
    first, second = ScriptedModel([busy()], name="first"), ScriptedModel(["here"], name="second")
    fallback = FallbackModel([first, second], name="safe")
    assert texts(await collect(RouterModel(lambda request: "safe", [fallback]))) == ["here"]


# --- live -------------------------------------------------------------------------------------------------------------


class Line(LiveConnection):
    def __init__(self, model: LiveModel) -> None:
        self.model = model

    async def send_history(self, contents: Sequence[Content]) -> None:
        self.model.sent.append(("history", list(contents)))

    async def send_content(self, content: Content) -> None:
        self.model.sent.append(("content", content))

    async def send_realtime(self, item: RealtimeInput) -> None:
        self.model.sent.append(("realtime", item))

    async def receive(self) -> AsyncGenerator[ModelResponse, None]:
        yield ModelResponse(content=Content(role="model", parts=[Part(text="hi")]), partial=True)
        yield ModelResponse(session_resumption_handle=f"{self.model.name}-handle")

    async def close(self) -> None:
        self.model.sent.append(("close", None))


class LiveModel(ScriptedModel):
    def __init__(self, name: str, error: ModelError | None = None) -> None:
        super().__init__(name=name, capabilities=ModelCapabilities(live=True))
        self.error = error
        self.handles: list[str | None] = []
        self.sent: list[Any] = []
        self.left = 0

    @asynccontextmanager
    async def connect(self, request: ModelRequest, config: LiveRunConfig) -> Any:
        self.handles.append(config.session_resumption.handle if config.session_resumption else None)
        if self.error is not None:
            raise self.error
        try:
            yield Line(self)
        finally:
            self.left += 1


def resuming(handle: str) -> LiveRunConfig:
    return LiveRunConfig(session_resumption=SessionResumption(handle=handle))


async def test_wrp_2_live_the_first_that_connects_and_its_handle_pins_it() -> None:
    first, second = LiveModel("first", busy()), LiveModel("second")
    model = FallbackModel([first, second])
    assert model.capabilities.live
    async with model.connect(ModelRequest(), LiveRunConfig()) as line:
        await line.send_content(text_content("hello", role="user"))
        received = [response async for response in line.receive()]
        await line.close()
    handle = received[1].session_resumption_handle
    assert handle
    assert second.sent == [("content", text_content("hello", role="user")), ("close", None)]
    first.error = None
    async with model.connect(ModelRequest(), resuming(handle)):
        pass
    assert (first.handles, second.handles) == ([None], [None, "second-handle"])
    assert second.left == 2


async def test_wrp_2_live_errors_after_connecting_are_not_a_failed_connect() -> None:
    first, second = LiveModel("first"), LiveModel("second")
    with pytest.raises(LiveConnectionClosed):
        async with FallbackModel([first, second]).connect(ModelRequest(), LiveRunConfig()):
            raise LiveConnectionClosed("gone", close_code=1006)
    assert (first.left, second.handles) == (1, [])


async def test_wrp_2_live_a_handle_of_a_stranger_is_refused() -> None:
    handle = "elsewhere\x1fh"
    with pytest.raises(ConfigurationError, match="'elsewhere'"):
        async with FallbackModel([LiveModel("first")]).connect(ModelRequest(), resuming(handle)):
            pass


async def test_wrp_2_live_needs_a_candidate_that_offers_it() -> None:
    model = FallbackModel([ScriptedModel(name="plain")])
    assert not model.capabilities.live
    with pytest.raises(UnsupportedOperationError, match="supports live"):
        async with model.connect(ModelRequest(), LiveRunConfig()):
            pass


async def test_wrp_3_the_router_connects_the_chosen_model_and_keeps_pins() -> None:
    first, second = LiveModel("first"), LiveModel("second")
    model = RouterModel(lambda request: "second", [first, second])
    async with model.connect(ModelRequest(), LiveRunConfig()) as line:
        received = [response async for response in line.receive()]
        await line.send_history([])
        await line.send_realtime(Part(text="x"))  # type: ignore[arg-type]
    assert [kind for kind, _ in second.sent] == ["history", "realtime"]
    pinned = received[1].session_resumption_handle
    rerouted = RouterModel(lambda request: "first", [first, second])
    async with rerouted.connect(ModelRequest(), resuming(pinned or "")):
        pass
    assert (first.handles, second.handles) == ([], [None, "second-handle"])
