"""What a run's usage counts (models USE-1 … USE-3, MOD-17)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import App, Content, ModelResponse, Plugin, RunConfig, Runner, Settings, UsageMetadata, text_content
from hookwork.errors import ModelError
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call, partial

SPENT = UsageMetadata(prompt_token_count=10, candidates_token_count=5, total_token_count=15)


def runner_of(model: ScriptedModel, *plugins: Plugin, **agent: Any) -> Runner:
    root = LlmAgent(name="root", model=model, **agent)
    return Runner.in_memory(App(name="app", root=root, plugins=list(plugins)), settings=Settings())


@pytest.mark.parametrize("mode", ["none", "sse"])
async def test_use_1_a_call_counts_once_from_its_whole_response_streamed_or_not(mode: Any) -> None:
    """CASE-USAGE-1: partials add nothing, whatever they carry."""
    shown = partial("It is ").replace(usage_metadata=SPENT)
    whole = ModelResponse(content=text_content("It is 5."), usage_metadata=SPENT)
    model = ScriptedModel([[shown, shown, whole] if mode == "sse" else whole], name="m")
    async with runner_of(model) as runner:
        outcome = await runner.run(user_id="u", message="hi", config=RunConfig(streaming_mode=mode)).wait()
    total = outcome.usage.total
    assert (total.calls, total.prompt_token_count, total.candidates_token_count, total.total_token_count) == (
        1,
        10,
        5,
        15,
    )


async def test_use_1_a_failed_call_adds_nothing_and_what_a_hook_gave_counts_what_it_carries() -> None:
    class Cached(Plugin):
        name = "cached"

        def before_model(self, ctx: Any, request: Any) -> ModelResponse | None:
            return ModelResponse(content=text_content("kept"), usage_metadata=SPENT)

    class Saved(Plugin):
        name = "saved"

        def on_model_error(self, ctx: Any, request: Any, error: Exception) -> ModelResponse | None:
            return ModelResponse(content=text_content("sorry"))

    async with runner_of(ScriptedModel(["never"], name="m"), Cached()) as runner:
        outcome = await runner.run(user_id="u", message="hi").wait()
    assert outcome.usage.total.prompt_token_count == 10
    failing = ScriptedModel([ModelError("busy", kind="unavailable", retryable=True)], name="m")
    async with runner_of(failing, Saved()) as runner:
        outcome = await runner.run(user_id="u", message="hi").wait()
    assert outcome.usage.total.prompt_token_count is None, "not reported is not zero (MOD-17)"
    assert outcome.usage.total.candidates_token_count is None


async def test_use_3_usage_is_readable_while_the_run_goes_on_and_final_in_after_run() -> None:
    seen: list[int | None] = []

    class Reader(Plugin):
        name = "reader"

        def after_run(self, ctx: Any, outcome: Any) -> None:
            seen.append(outcome.usage.total.prompt_token_count)

    @tool
    def look() -> str:
        """Look."""
        return "ok"

    first = ModelResponse(content=Content(role="model", parts=[call("look")]), usage_metadata=SPENT)
    last = ModelResponse(content=text_content("done"), usage_metadata=SPENT)
    during: list[int | None] = []
    async with (
        runner_of(ScriptedModel([first, last], name="m"), Reader(), tools=[look]) as runner,
        runner.run(user_id="u", session_id="s", message="hi") as run,
    ):
        async for _ in run:
            during.append(run.usage.total.prompt_token_count)
    assert during == [10, 10, 20]
    assert seen == [20]
    assert run.usage.by_model["m"].calls == 2


async def test_use_3_a_further_run_counts_its_own_calls_only() -> None:
    model = ScriptedModel([ModelResponse(content=text_content(text), usage_metadata=SPENT) for text in "ab"], name="m")
    async with runner_of(model) as runner:
        counts = []
        for _ in range(2):
            outcome = await runner.run(user_id="u", session_id="s", message="hi").wait()
            counts.append(outcome.usage.total.prompt_token_count)
    assert counts == [10, 10]
