"""The model call: hooks in order, call ids, errors, effects, the span (core §4.3, tools-plugins §7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.errors import LlmCallLimitError, ModelError, PluginError
from hookwork.invocation import RunConfig
from hookwork.model import Model, ModelRequest
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.records.content import Content, FunctionCall, Part, PartialArg, text_content
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork_llm import LlmAgent, tool
from hookwork_llm.model_stage import CallIds
from hookwork_testkit import ScriptedModel, block, call, partial, stream

SSE = RunConfig(streaming_mode="sse")


@tool
async def f(x: int = 0) -> dict[str, Any]:
    """Do f."""
    return {"x": x}


def response(text: str, **fields: Any) -> ModelResponse:
    return ModelResponse(content=text_content(text), **fields)


# --- call ids ---------------------------------------------------------------------------------------------------------


def ids_of(item: ModelResponse) -> list[str | None]:
    return [] if item.content is None else [c.id for c in item.content.function_calls]


def turn_of(*parts: Part, partial: bool = False) -> ModelResponse:
    return ModelResponse(content=Content(role="model", parts=list(parts)), partial=partial)


def test_mcb_6_missing_ids_are_made_and_given_ones_stay() -> None:
    first, second = ids_of(CallIds().apply(turn_of(call("f"), call("g", "g1"))))
    assert (first or "").startswith("adk-")
    assert second == "g1"


def test_mcb_6_a_second_use_of_an_id_within_a_response_gets_a_new_one() -> None:
    first, second, third = ids_of(CallIds().apply(turn_of(call("w", "w"), call("w", "w"), call("w", "w"))))
    assert first == "w"
    assert len({first, second, third}) == 3


def test_mcb_6_calls_shown_one_by_one_keep_their_ids_in_the_final_response() -> None:
    ids = CallIds()
    shown = [
        ids_of(ids.apply(turn_of(part, partial=True)))[0]
        for part in (call("f"), call("g"), call("w", "w"), call("w", "w"))
    ]
    final = ids.apply(turn_of(call("f"), call("g"), call("w", "w"), call("w", "w")))
    assert ids_of(final) == shown
    assert len(set(shown)) == 4


def fragment(name: str | None, call_id: str | None, text: str, more: bool) -> Part:
    argument = PartialArg(json_path="$.a", string_value=text)
    return Part(function_call=FunctionCall(name=name, id=call_id, partial_args=(argument,), will_continue=more))


def test_agg_23_fragments_of_interleaved_calls_keep_the_id_of_their_call() -> None:
    ids = CallIds()
    pieces = [
        fragment("f", "i1", "a", True),
        fragment("g", "i2", "b", True),
        fragment(None, "i1", "c", False),
        fragment(None, "i2", "d", False),
    ]
    assert [ids_of(ids.apply(turn_of(piece, partial=True)))[0] for piece in pieces] == ["i1", "i2", "i1", "i2"]
    assert ids_of(ids.apply(turn_of(call("f", "i1"), call("g", "i2")))) == ["i1", "i2"]


def test_mcb_6_fragments_without_ids_belong_to_the_open_call() -> None:
    ids = CallIds()
    pieces = [fragment("f", None, "a", True), fragment(None, None, "b", False), fragment("f", None, "c", True)]
    first, same, other = (ids_of(ids.apply(turn_of(piece, partial=True)))[0] for piece in pieces)
    assert first == same
    assert first != other
    assert ids_of(ids.apply(turn_of(call("f"), call("f")))) == [first, other]


NAMES = st.sampled_from(["f", "g", "w"])
CALLS = st.lists(st.tuples(NAMES, st.one_of(st.none(), NAMES)), max_size=6)


@given(CALLS, st.lists(st.booleans(), min_size=6, max_size=6))
def test_mcb_6_ids_are_unique_and_the_same_in_partials_and_final(
    calls: list[tuple[str, str | None]], alone: list[bool]
) -> None:
    """Law: however the calls are cut into partials, the final has the ids that were shown, each once."""
    parts = [call(name, own) for name, own in calls]
    chunks: list[list[Part]] = []
    for part, new in zip(parts, alone, strict=False):
        if new or not chunks:
            chunks.append([])
        chunks[-1].append(part)
    ids = CallIds()
    shown = [i for chunk in chunks for i in ids_of(ids.apply(turn_of(*chunk, partial=True)))]
    final = ids_of(ids.apply(turn_of(*parts)))
    assert final == shown
    assert len(set(final)) == len(final)
    assert all(final)


async def test_str_2_ids_on_partials_equal_those_of_the_stored_event(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([stream(call("f", x=1), call("f", x=2)), "done"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[f]), config=SSE) as runner:
        turn = await play(runner)
    assert turn.scene == ["a:~+f", "a:~+f", "a: +f +f", "a: -f -f", "a: done"]
    shown = [event.function_calls[0].id for event in turn.events[:2]]
    assert [c.id for c in turn.events[2].function_calls] == shown
    assert [r.id for r in turn.events[3].function_responses] == shown
    assert [r.response for r in turn.events[3].function_responses] == [{"x": 1}, {"x": 2}]


# --- hooks ------------------------------------------------------------------------------------------------------------


def noting(log: list[str], name: str) -> FunctionPlugin:
    @asynccontextmanager
    async def around_model(stage: Any) -> AsyncIterator[None]:
        log.append(f"{name} in")
        yield
        log.append(f"{name} out {stage.outcome.value.text}")

    def before_model(ctx: Any, request: Any) -> None:
        log.append(f"{name} before")

    def after_model(ctx: Any, request: Any, response: Any) -> None:
        log.append(f"{name} after {response.text}")

    return FunctionPlugin(name, around_model=around_model, before_model=before_model, after_model=after_model)


async def test_mcb_1_order_of_the_stage(runner_factory: Any, play: Any) -> None:
    log: list[str] = []

    def model_says(request: Any) -> str:
        log.append("model")
        return "yes"

    agent = LlmAgent(
        name="a",
        model=ScriptedModel([model_says]),
        before_model=lambda ctx, request: log.append("agent before"),
        after_model=lambda ctx, request, response: log.append("agent after"),
    )
    async with runner_factory(agent, plugins=[noting(log, "p"), noting(log, "q")]) as runner:
        await play(runner)
    assert log == [
        "p in", "q in", "p before", "q before", "agent before", "model",
        "p after yes", "q after yes", "agent after", "q out yes", "p out yes",
    ]  # fmt: skip


async def test_mcb_1_each_sees_what_the_one_before_changed(runner_factory: Any, play: Any) -> None:
    def warmer(ctx: Any, request: ModelRequest) -> None:
        request.update_config(temperature=(request.config.temperature or 0.0) + 0.25)

    model = ScriptedModel(["done"])
    agent = LlmAgent(name="a", model=model, before_model=[warmer, warmer])
    async with runner_factory(agent, plugins=[FunctionPlugin("p", before_model=warmer)]) as runner:
        await play(runner)
    assert model.requests[0].config.temperature == 0.75
    assert agent.generate_content_config is None  # MOD-11


async def test_mcb_2_a_before_model_answer_runs_its_calls(runner_factory: Any, play: Any) -> None:
    answers = iter([turn_of(call("f", x=3)), response("from the cache")])
    agent = LlmAgent(name="a", model=ScriptedModel(), tools=[f], before_model=lambda ctx, request: next(answers))
    async with runner_factory(agent) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +f", "a: -f", "a: from the cache"]
    assert turn.outcome.usage.total.calls == 0
    assert (turn.events[0].function_calls[0].id or "").startswith("adk-")


async def test_mcb_3_a_recovered_error_goes_on_into_after_model(runner_factory: Any, play: Any) -> None:
    seen: list[Any] = []

    def recover(ctx: Any, request: Any, error: Exception) -> ModelResponse:
        seen.append(error)
        return response("sorry")

    def after(ctx: Any, request: Any, response: ModelResponse) -> None:
        seen.append(response.text)

    failure = ModelError("503", kind="unavailable", retryable=True)
    model = ScriptedModel([[partial("It "), failure]])
    agent = LlmAgent(name="a", model=model, on_model_error=recover, after_model=after)
    async with runner_factory(agent, config=SSE) as runner:
        turn = await play(runner)
    assert turn.scene == ["a:~It ", "a: sorry"]
    assert seen == ["It ", failure, "sorry"]


async def test_mcb_3_without_a_value_the_original_error_leaves(runner_factory: Any, play: Any, stored: Any) -> None:
    failure = ModelError("503", kind="unavailable", retryable=True)
    told: list[str] = []
    plugin = FunctionPlugin(
        "p",
        on_model_error=lambda ctx, request, error: told.append("model"),
        on_agent_error=lambda ctx, agent, error: told.append("agent"),
        on_run_error=lambda ctx, error: told.append("run"),
        after_model=lambda ctx, request, response: told.append("after"),
    )
    model = ScriptedModel([failure])
    async with runner_factory(LlmAgent(name="a", model=model), plugins=[plugin]) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert turn.error is failure
    assert told == ["model", "agent", "run"]  # PLUG-38: no after_model
    assert [event.author for event in session.events] == ["user"]
    assert (turn.outcome.kind, turn.outcome.error) == ("failed", failure)


async def test_mcb_3_a_raise_replaces_the_error(runner_factory: Any, play: Any) -> None:
    class Other(Exception):
        pass

    def replace(ctx: Any, request: Any, error: Exception) -> None:
        raise Other from error

    agent = LlmAgent(name="a", model=ScriptedModel([ModelError("503")]), on_model_error=replace)
    async with runner_factory(agent) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, Other)


@pytest.mark.parametrize("hooked", [False, True])
async def test_mcb_3_a_stray_cancellation_is_a_connection_error(runner_factory: Any, play: Any, hooked: bool) -> None:
    hooks: dict[str, Any] = {"after_model": lambda ctx, request, response: None} if hooked else {}
    agent = LlmAgent(name="a", model=ScriptedModel([asyncio.CancelledError()]), **hooks)
    async with runner_factory(agent) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, ModelError)
    assert (turn.error.kind, turn.error.retryable, turn.error.model) == ("connection", True, "scripted")
    assert isinstance(turn.error.__cause__, asyncio.CancelledError)


async def test_mcb_3_an_older_cancel_request_of_the_consumer_does_not_count(runner_factory: Any, play: Any) -> None:
    """The consumer's task was asked to cancel before and went on: only a risen count is a cancellation of the run."""
    agent = LlmAgent(name="a", model=ScriptedModel([asyncio.CancelledError()]))

    async def consumer() -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass  # and no uncancel()
        async with runner_factory(agent) as runner:
            return await play(runner)

    turn = await asyncio.create_task(consumer())
    assert isinstance(turn.error, ModelError)


@pytest.mark.parametrize("hooked", [False, True])
async def test_mcb_3_a_cancellation_asked_for_before_the_model_is_called_is_ours(
    runner_factory: Any, hooked: bool
) -> None:
    """It arrives where the task waits next, which is inside the model."""
    hooks: dict[str, Any] = {"after_model": lambda ctx, request, response: None} if hooked else {}
    agent = LlmAgent(name="a", model=ScriptedModel([block()]), **hooks)

    async def consumer() -> None:
        async with runner_factory(agent) as runner:
            run = runner.run(user_id="u", session_id="s", message="hi")
            task = asyncio.current_task()
            assert task is not None
            async with run:
                task.cancel()
                async for _ in run:
                    pass

    task = asyncio.create_task(consumer())
    await asyncio.wait([task])
    assert task.cancelled()


async def test_mcb_4_after_model_sees_partials_and_unset_fields_are_inherited(runner_factory: Any, play: Any) -> None:
    def shout(ctx: Any, request: Any, response: ModelResponse) -> ModelResponse:
        return ModelResponse(content=text_content(response.text.upper()))

    usage = UsageMetadata(prompt_token_count=7)
    whole = response("hi there", turn_complete=True, usage_metadata=usage)
    model = ScriptedModel([[partial("hi "), partial("there"), whole]])
    async with runner_factory(LlmAgent(name="a", model=model, after_model=shout), config=SSE) as runner:
        turn = await play(runner)
    assert turn.scene == ["a:~HI ", "a:~THERE", "a: HI THERE"]
    assert (turn.events[-1].turn_complete, turn.events[-1].usage_metadata) == (True, usage)


@pytest.mark.parametrize("hook", ["before_model", "after_model", "on_model_error"])
async def test_a_value_of_another_kind_is_refused_by_name(runner_factory: Any, play: Any, hook: str) -> None:
    step = ModelError("no") if hook == "on_model_error" else "text"
    plugin = FunctionPlugin("wrong", **{hook: lambda ctx, request: "text"})
    async with runner_factory(LlmAgent(name="a", model=ScriptedModel([step])), plugins=[plugin]) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, PluginError)
    assert "'wrong'" in str(turn.error)
    assert hook in str(turn.error)


async def test_ard_3_around_model_sees_a_cached_answer_and_who_gave_it(runner_factory: Any, play: Any) -> None:
    seen: list[Any] = []

    @asynccontextmanager
    async def audit(stage: Any) -> AsyncIterator[None]:
        yield
        seen.append((stage.outcome.value.text, stage.outcome.error, stage.outcome.source))

    plugins = [
        FunctionPlugin("cache", before_model=lambda ctx, request: response("cached")),
        FunctionPlugin("audit", around_model=audit),
    ]
    async with runner_factory(LlmAgent(name="a", model=ScriptedModel()), plugins=plugins) as runner:
        await play(runner)
    assert seen == [("cached", None, "cache")]


async def test_a_hooks_content_without_a_role_is_a_model_turn(runner_factory: Any, play: Any) -> None:
    answers = iter(
        [ModelResponse(content=Content(parts=[call("f")])), ModelResponse(content=Content(parts=[Part(text="ok")]))]
    )
    model = ScriptedModel(["next"])

    def before(ctx: Any, request: Any) -> ModelResponse | None:
        return next(answers, None)

    async with runner_factory(LlmAgent(name="a", model=model, tools=[f], before_model=before)) as runner:
        turn = await play(runner)
        assert [event.content.role for event in turn.events] == ["model", "user", "model"]
        await play(runner, "and now?")
    assert [content.text for content in model.prompts[0]][-2:] == ["ok", "and now?"]


# --- effects ----------------------------------------------------------------------------------------------------------


async def test_eff_2_what_the_model_effect_is_told(runner_factory: Any, play: Any) -> None:
    calls: list[Any] = []

    async def perform_model(call: Any) -> Any:
        calls.append(call)
        return await call.default()

    model = ScriptedModel([turn_of(call("f")), "done"])
    agent = LlmAgent(name="a", model=model, tools=[f])
    async with runner_factory(agent, plugins=[FunctionPlugin("p", perform_model=perform_model)]) as runner:
        turn = await play(runner, state_delta={"n": 1}, ephemeral={"token": "secret"})
    invocation = turn.outcome.invocation_id
    assert [one.key for one in calls] == [f"{invocation}/a@1/model/1", f"{invocation}/a@1/model/2"]
    first = calls[0].to_json()
    assert (first["kind"], first["model"], first["stream"], first["agent"]) == ("model", "scripted", False, "a")
    assert first["request"]["contents"] == [{"parts": [{"text": "hi"}], "role": "user"}]
    assert first["state"] == {"n": 1}
    assert "secret" not in repr(first)


async def test_eff_4_ids_are_fixed_inside_the_effect_and_partials_pass(runner_factory: Any, play: Any) -> None:
    inside: list[Any] = []

    async def perform_model(call: Any) -> Any:
        result = await call.default()
        inside.append([c.id for c in result.content.function_calls])
        return result

    model = ScriptedModel([stream("Let me ", call("f")), "done"])
    agent = LlmAgent(name="a", model=model, tools=[f])
    async with runner_factory(agent, plugins=[FunctionPlugin("p", perform_model=perform_model)], config=SSE) as runner:
        turn = await play(runner)
    assert turn.scene == ["a:~Let me ", "a:~+f", "a: Let me  +f", "a: -f", "a: done"]
    assert inside[0] == [turn.events[1].function_calls[0].id] == [turn.events[2].function_calls[0].id]


async def test_eff_4_a_replayed_effect_may_give_no_partials(runner_factory: Any, play: Any) -> None:
    async def perform_model(call: Any) -> Any:
        return response("recorded")

    plugins = [FunctionPlugin("replay", perform_model=perform_model)]
    async with runner_factory(LlmAgent(name="a", model=ScriptedModel()), plugins=plugins, config=SSE) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: recorded"]


async def test_flow_13_a_retry_inside_the_effect_counts_against_the_limit(runner_factory: Any, play: Any) -> None:
    async def perform_model(call: Any) -> Any:
        while True:
            result = await call.default()
            if result.text:
                return result

    model = ScriptedModel([Content(role="model", parts=[]), Content(role="model", parts=[]), "at last"])
    plugins = [
        FunctionPlugin("again", perform_model=perform_model),
        FunctionPlugin("recover", on_model_error=lambda ctx, request, error: response("hidden")),
    ]
    async with runner_factory(LlmAgent(name="a", model=model), plugins=plugins) as runner:
        turn = await play(runner, config=RunConfig(max_llm_calls=3))
        assert turn.scene == ["a: at last"]
        model.add(Content(role="model", parts=[]), Content(role="model", parts=[]))
        turn = await play(runner, config=RunConfig(max_llm_calls=2))
    assert isinstance(turn.error, LlmCallLimitError)  # a budget is no model error: on_model_error is not asked
    assert turn.outcome.kind == "limit"


async def test_eff_3_an_error_of_the_effect_goes_to_on_model_error(runner_factory: Any, play: Any) -> None:
    async def perform_model(call: Any) -> Any:
        raise ConnectionError("worker gone")

    plugins = [FunctionPlugin("remote", perform_model=perform_model)]
    agent = LlmAgent(
        name="a", model=ScriptedModel(), on_model_error=lambda ctx, request, error: response(f"recovered: {error}")
    )
    async with runner_factory(agent, plugins=plugins) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: recovered: worker gone"]


@pytest.mark.parametrize("result", [None, "text"])
async def test_eff_1_another_result_is_refused(runner_factory: Any, play: Any, result: Any) -> None:
    async def perform_model(call: Any) -> Any:
        return result

    plugins = [FunctionPlugin("wrong", perform_model=perform_model)]
    async with runner_factory(LlmAgent(name="a", model=ScriptedModel()), plugins=plugins) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, PluginError)
    assert "'wrong'" in str(turn.error)


async def test_eff_7_closing_the_run_cancels_the_effect(runner_factory: Any) -> None:
    ended: list[str] = []

    async def perform_model(call: Any) -> Any:
        try:
            call.emit(response("piece", partial=True))
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    plugins = [FunctionPlugin("slow", perform_model=perform_model)]
    async with runner_factory(LlmAgent(name="a", model=ScriptedModel()), plugins=plugins, config=SSE) as runner:
        async with runner.run(user_id="u", session_id="s", message="hi") as run:
            async for event in run:
                assert event.text == "piece"
                break
        assert ended == ["cancelled"]


# --- usage ------------------------------------------------------------------------------------------------------------


class Counting(Model):
    name = "counting"

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        usage = UsageMetadata(prompt_token_count=10, candidates_token_count=5, total_token_count=15)
        if stream:
            yield response("part", partial=True, usage_metadata=usage)
        yield response("part", usage_metadata=usage, model_version="counting-001")


@pytest.mark.parametrize("config", [RunConfig(), SSE], ids=["plain", "streaming"])
async def test_hnd_7_partials_add_nothing_to_the_usage(runner_factory: Any, play: Any, config: RunConfig) -> None:
    async with runner_factory(LlmAgent(name="a", model=Counting()), config=config) as runner:
        turn = await play(runner)
    total = turn.outcome.usage.total
    assert (total.calls, total.prompt_token_count, total.candidates_token_count) == (1, 10, 5)
    assert (total.cached_content_token_count, total.thoughts_token_count) == (None, None)
    assert list(turn.outcome.usage.by_agent) == ["a"]
    assert list(turn.outcome.usage.by_model) == ["counting-001"]
