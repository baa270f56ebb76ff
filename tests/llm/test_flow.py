"""The model-tool loop: scenes of core §7, the loop's ends, model events (core §4.1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork.context import CallbackContext, ToolContext
from hookwork.errors import IncompleteModelStream, LlmCallLimitError, ModelNotConfigured
from hookwork.invocation import RunConfig
from hookwork.model import Model, ModelRequest
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork.tool import Finished
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call, partial, stream, thought

SSE = RunConfig(streaming_mode="sse")


@tool
async def look(city: str) -> dict[str, Any]:
    """Look at a city."""
    return {"sky": "clear", "city": city}


def agent_of(model: Model | None, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


# --- scenes -----------------------------------------------------------------------------------------------------------


async def test_core_7_scene_tool_call(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([call("look", "c1", city="Rome"), "Clear."])
    async with runner_factory(agent_of(model, look)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +look", "a: -look", "a: Clear."]
    asked, answered, final = turn.events
    assert (asked.content.role, answered.content.role, final.content.role) == ("model", "user", "model")
    assert answered.function_responses[0].id == "c1"
    assert answered.function_responses[0].response == {"sky": "clear", "city": "Rome"}
    assert [event.is_final_response() for event in turn.events] == [False, False, True]
    assert {event.invocation_id for event in turn.events} == {turn.outcome.invocation_id}
    assert {event.path for event in turn.events} == {"a@1"}
    assert [event.node_info.status for event in turn.events] == [None, None, "completed"]  # the stamp, ACT-14
    assert turn.outcome.kind == "completed"
    assert turn.outcome.final_event.text == "Clear."
    assert_valid_prompt(model.prompts[-1])


async def test_core_7_scene_sse_text(runner_factory: Any, play: Any, stored: Any) -> None:
    model = ScriptedModel([stream("It is ", "5.")])
    async with runner_factory(agent_of(model), config=SSE) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert turn.scene == ["a:~It is ", "a:~5.", "a: It is 5."]
    assert len({event.id for event in turn.events}) == 1  # STR-2
    assert [event.partial for event in turn.events] == [True, True, None]
    assert [event.text for event in session.events] == ["hi", "It is 5."]
    assert [request.stream for request in model.requests] == [True]


async def test_mcb_5_nothing_is_streamed_without_being_asked_for(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([stream("It is ", "5.")])
    async with runner_factory(agent_of(model)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: It is 5."]
    assert [request.stream for request in model.requests] == [False]


async def test_core_7_scene_long_running_none(runner_factory: Any, play: Any, answer: Any) -> None:
    runs: list[str] = []

    @tool(long_running=True)
    async def ship(order: str) -> None:
        """Ship an order."""
        runs.append(order)

    model = ScriptedModel([call("ship", "c1", order="7"), "Shipped."])
    async with runner_factory(agent_of(model, ship)) as runner:
        paused = await play(runner)
        assert paused.scene == ["a: +ship"]
        assert paused.events[0].long_running_tool_ids == ("c1",)
        assert (paused.outcome.kind, paused.open_ids) == ("paused", ["c1"])
        assert model.calls == 1
        done = await play(runner, answer("c1", {"tracking": "T1"}, name="ship"))
    assert done.scene == ["a: Shipped."]
    assert done.outcome.kind == "completed"
    assert done.outcome.invocation_id == paused.outcome.invocation_id  # FN-34
    assert runs == ["7"]
    prompt = model.prompts[-1]
    assert_valid_prompt(prompt)
    assert [r.response for content in prompt for r in content.function_responses] == [{"tracking": "T1"}]


async def test_core_7_scene_long_running_fails(runner_factory: Any, play: Any) -> None:
    @tool(long_running=True)
    async def order(qty: int) -> None:
        """Order something."""
        raise ValueError("quantity must be positive")

    model = ScriptedModel([call("order", "c1", qty=0), "Sorry."])
    async with runner_factory(agent_of(model, order)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +order", "a: -order", "a: Sorry."]
    assert turn.events[1].function_responses[0].response == {"error": "ValueError: quantity must be positive"}
    assert (turn.outcome.kind, turn.open_ids) == ("completed", [])


async def test_fn_32_a_status_is_answered_at_once_and_stays_open(runner_factory: Any, play: Any, answer: Any) -> None:
    @tool(long_running=True)
    async def build() -> dict[str, Any]:
        """Build."""
        return {"status": "queued"}

    model = ScriptedModel([call("build", "c1"), "It is queued.", "It still waits.", "It is built."])
    async with runner_factory(agent_of(model, build)) as runner:
        first = await play(runner)
        assert first.scene == ["a: +build", "a: -build", "a: It is queued."]
        assert (first.outcome.kind, first.open_ids, model.calls) == ("paused", ["c1"], 2)
        again = await play(runner, answer("c1", {"status": "still waiting"}, name="build"))
        assert (again.scene, again.outcome.kind, again.open_ids) == (["a: It still waits."], "completed", [])
        last = await play(runner, answer("c1", {"status": "done"}, name="build"))  # FN-33: works repeatedly
        assert last.scene == ["a: It is built."]
    answers = [[r.response for c in prompt for r in c.function_responses] for prompt in model.prompts[1:]]
    assert answers == [[{"status": "queued"}], [{"status": "still waiting"}], [{"status": "done"}]]
    for prompt in model.prompts:
        assert_valid_prompt(prompt)


async def test_res_2_finished_answers_like_a_plain_tool(runner_factory: Any, play: Any, stored: Any) -> None:
    @tool(long_running=True)
    async def pay(sum: int) -> Any:
        """Pay."""
        return Finished({"paid": sum})

    model = ScriptedModel([call("pay", "c1", sum=3), "Paid."])
    async with runner_factory(agent_of(model, pay)) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert turn.scene == ["a: +pay", "a: -pay", "a: Paid."]
    assert turn.events[1].function_responses[0].response == {"paid": 3}
    assert turn.events[1].custom_metadata == {"hookwork_closed_calls": ["c1"]}
    assert (turn.outcome.kind, turn.open_ids, dict(session.open_calls)) == ("completed", [], {})


async def test_res_2_an_error_that_a_hook_answered_leaves_nothing_open(runner_factory: Any, play: Any) -> None:
    @tool(long_running=True)
    async def pay() -> None:
        """Pay."""
        raise RuntimeError("no money")

    def handled(ctx: ToolContext, tool: Any, args: Any, error: Exception) -> dict[str, Any]:
        return {"handled": str(error)}

    model = ScriptedModel([call("pay", "c1"), "Well."])
    async with runner_factory(agent_of(model, pay, on_tool_error=handled)) as runner:
        turn = await play(runner)
    assert turn.events[1].function_responses[0].response == {"handled": "no money"}
    assert (turn.outcome.kind, turn.open_ids) == ("completed", [])


async def test_res_2_a_call_that_before_tool_answered_leaves_nothing_open(runner_factory: Any, play: Any) -> None:
    @tool(long_running=True)
    async def pay() -> None:
        """Pay."""
        raise AssertionError("never run")

    model = ScriptedModel([call("pay", "c1"), "Well."])
    agent = agent_of(model, pay, before_tool=lambda ctx, tool, args: {"cached": True})
    async with runner_factory(agent) as runner:
        turn = await play(runner)
    assert (turn.scene, turn.outcome.kind, turn.open_ids) == (["a: +pay", "a: -pay", "a: Well."], "completed", [])


async def test_res_3_a_batch_half_answered_stops_the_loop(runner_factory: Any, play: Any, answer: Any) -> None:
    @tool(long_running=True)
    async def wait() -> None:
        """Wait."""

    model = ScriptedModel([[call("wait", "c1"), call("look", "c2", city="Rome")], "Both."])
    async with runner_factory(agent_of(model, wait, look)) as runner:
        paused = await play(runner)
        assert paused.scene == ["a: +wait +look", "a: -look"]
        assert (paused.outcome.kind, paused.open_ids, model.calls) == ("paused", ["c1"], 1)
        done = await play(runner, answer("c1", {"ok": True}, name="wait"))
    assert done.scene == ["a: Both."]
    assert_valid_prompt(model.prompts[-1])
    assert [r.name for c in model.prompts[-1] for r in c.function_responses] == ["wait", "look"]


# --- how the loop ends ------------------------------------------------------------------------------------------------


async def test_flow_2_a_thought_only_turn_calls_the_model_again(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([thought("hm"), thought("hm hm"), "Yes."])
    async with runner_factory(agent_of(model)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: (hm)", "a: (hm hm)", "a: Yes."]
    assert turn.outcome.usage.total.calls == 3


async def test_flow_2_the_third_thought_only_turn_in_a_row_ends_the_loop(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel(
        [thought("1"), thought("2"), call("look", city="Rome"), thought("1"), thought("2"), thought("3")]
    )
    async with runner_factory(agent_of(model, look)) as runner:
        turn = await play(runner)
    assert turn.scene[-1] == "a: (3) !EMPTY_RESPONSE"
    assert model.calls == 6
    assert turn.outcome.kind == "completed"
    assert turn.outcome.final_event.error_code == "EMPTY_RESPONSE"


class Endless(Model):
    """Yields nothing but partials."""

    name = "endless"

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        yield ModelResponse(content=Content(role="model", parts=[Part(text="half")]), partial=True)


async def test_flow_3_a_stream_without_its_final_response_raises(runner_factory: Any, play: Any, stored: Any) -> None:
    async with runner_factory(agent_of(Endless()), config=SSE) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert isinstance(turn.error, IncompleteModelStream)
    assert (turn.error.kind, turn.error.retryable, turn.error.model) == ("stream", True, "endless")
    assert turn.scene == ["a:~half"]
    assert [event.text for event in session.events] == ["hi"]  # nothing half-said is stored
    assert turn.outcome.kind == "failed"


@pytest.mark.parametrize(("limit", "made"), [(1, 1), (3, 3)])
async def test_flow_4_the_call_limit_is_a_typed_error(runner_factory: Any, play: Any, limit: int, made: int) -> None:
    model = ScriptedModel(lambda request: call("look", city="Rome"))
    async with runner_factory(agent_of(model, look)) as runner:
        turn = await play(runner, config=RunConfig(max_llm_calls=limit))
    assert isinstance(turn.error, LlmCallLimitError)
    assert model.calls == made
    assert (turn.outcome.kind, turn.outcome.error) == ("limit", turn.error)
    assert turn.scene == ["a: +look", "a: -look"] * made  # what was said stays


async def test_flow_4_zero_is_unlimited_and_the_default_is_500() -> None:
    assert RunConfig().max_llm_calls == 500


async def test_flow_4_zero_is_unlimited(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([*[call("look", city="Rome")] * 6, "done"])
    async with runner_factory(agent_of(model, look)) as runner:
        turn = await play(runner, config=RunConfig(max_llm_calls=0))
    assert (turn.error, model.calls) == (None, 7)


async def test_flow_10_no_model_raises_at_the_first_step_and_names_the_agent(runner_factory: Any, play: Any) -> None:
    async with runner_factory(agent_of(None)) as runner:  # not at construction
        turn = await play(runner)
    assert isinstance(turn.error, ModelNotConfigured)
    assert "'a'" in str(turn.error)


async def test_flow_12_an_error_code_without_content_is_an_event(runner_factory: Any, play: Any, stored: Any) -> None:
    model = ScriptedModel([ModelResponse(error_code="SAFETY", error_message="blocked")])
    async with runner_factory(agent_of(model)) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert turn.scene == ["a: !SAFETY"]
    assert turn.events[0].error_message == "blocked"
    assert turn.events[0].is_final_response()
    assert session.events[-1].error_code == "SAFETY"
    assert turn.outcome.kind == "completed"


@pytest.mark.parametrize(
    "said",
    [
        Content(role="model", parts=[]),
        Content(role="model", parts=[Part(text="")]),
        Content(role="model", parts=[Part(text=" \n")]),
        None,
    ],
    ids=["no part", "empty text", "blank text", "no content"],
)
async def test_flow_13_stop_with_nothing_said(runner_factory: Any, play: Any, said: Content | None) -> None:
    usage = UsageMetadata(prompt_token_count=10, candidates_token_count=0)
    empty = ModelResponse(content=said, finish_reason="STOP", usage_metadata=usage)
    model = ScriptedModel([empty, "next"])
    async with runner_factory(agent_of(model, output_key="out")) as runner:
        turn = await play(runner, state_delta={"out": "old"})
        event = turn.events[-1]
        assert (event.error_code, event.finish_reason, event.usage_metadata) == ("EMPTY_RESPONSE", "STOP", usage)
        assert turn.outcome.kind == "completed"
        await play(runner, "again")
    assert [content.text for content in model.prompts[1]] == ["hi", "again"]
    assert_valid_prompt(model.prompts[1])


async def test_flow_14_calls_of_a_response_with_an_error_code_are_not_run(runner_factory: Any, play: Any) -> None:
    cut = ModelResponse(
        content=Content(role="model", parts=[call("look", "c1", city="Rome")]),
        finish_reason="MAX_TOKENS",
        error_code="MAX_TOKENS",
    )
    model = ScriptedModel([cut, "next"])
    async with runner_factory(agent_of(model, look)) as runner:
        turn = await play(runner)
        assert turn.scene == ["a: +look !MAX_TOKENS"]
        assert turn.events[0].long_running_tool_ids == ()
        await play(runner, "again")
    prompt = model.prompts[1]
    assert_valid_prompt(prompt)
    assert [(r.response or {})["status"] for c in prompt for r in c.function_responses] == ["interrupted"]


async def test_tool_10_skip_summarization_ends_the_loop(runner_factory: Any, play: Any) -> None:
    @tool
    async def finish(ctx: ToolContext) -> dict[str, Any]:
        """Finish."""
        ctx.actions.skip_summarization = True
        return {"shown": "as it is"}

    model = ScriptedModel([call("finish", "c1")])
    async with runner_factory(agent_of(model, finish)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +finish", "a: -finish"]
    assert turn.events[1].is_final_response()
    assert turn.events[1].node_info.status == "completed"
    assert turn.outcome.kind == "completed"


@pytest.mark.parametrize("where", ["before_agent", "before_model", "after_model", "tool", "after_tool"])
async def test_agt_18_end_invocation_is_seen_everywhere(runner_factory: Any, play: Any, where: str) -> None:
    """No model call, batch or step is started after `end_invocation`."""
    ran: list[str] = []

    @tool
    async def act(ctx: ToolContext) -> dict[str, Any]:
        """Act."""
        ran.append("tool")
        if where == "tool":
            ctx.end_invocation("enough")
        return {}

    def end(ctx: CallbackContext, *rest: Any, **more: Any) -> None:
        ctx.end_invocation("enough")

    model = ScriptedModel([call("act", "c1"), "never"])
    hooks: dict[str, Any] = {} if where == "tool" else {where: end}
    async with runner_factory(agent_of(model, act, **hooks)) as runner:
        turn = await play(runner)
    assert (turn.outcome.kind, turn.outcome.reason) == ("ended", "enough")
    expected = {
        "before_agent": ([], 0),
        "before_model": (["a: +act"], 1),
        "after_model": (["a: +act"], 1),
        "tool": (["a: +act", "a: -act"], 1),
        "after_tool": (["a: +act", "a: -act"], 1),
    }
    assert (turn.scene, model.calls) == expected[where]
    assert ran == (["tool"] if where in ("tool", "after_tool") else [])


# --- events, state, contexts ------------------------------------------------------------------------------------------


async def test_inv_1_a_tool_sees_its_own_call_stored(runner_factory: Any, play: Any) -> None:
    seen: list[list[str | None]] = []

    @tool
    async def act(ctx: ToolContext) -> dict[str, Any]:
        """Act."""
        seen.append([c.name for event in ctx.session.events for c in event.function_calls])
        return {}

    model = ScriptedModel([call("act"), call("act"), "done"])
    async with runner_factory(agent_of(model, act)) as runner:
        await play(runner)
    assert seen == [["act"], ["act", "act"]]


async def test_flow_11_the_model_event_carries_state_and_artifacts_of_its_callbacks(
    runner_factory: Any, play: Any
) -> None:
    async def before(ctx: CallbackContext, request: ModelRequest) -> None:
        ctx.state["asked"] = ctx.state.get("asked", 0) + 1
        await ctx.artifacts.save("prompt.txt", Part(text=str(len(request.contents))))

    def after(ctx: CallbackContext, request: ModelRequest, response: ModelResponse) -> None:
        ctx.state["answered"] = True

    model = ScriptedModel([call("look", city="Rome"), "done"])
    async with runner_factory(agent_of(model, look, before_model=before, after_model=after)) as runner:
        turn = await play(runner)
    deltas = [(dict(e.actions.state_delta), dict(e.actions.artifact_delta)) for e in turn.events]
    assert deltas == [
        ({"asked": 1, "answered": True}, {"prompt.txt": 1}),
        ({}, {}),
        ({"asked": 2, "answered": True}, {"prompt.txt": 2}),
    ]


async def test_plug_31_a_response_that_says_nothing_still_carries_the_delta(runner_factory: Any, play: Any) -> None:
    def before(ctx: CallbackContext, request: ModelRequest) -> ModelResponse:
        ctx.state["note"] = 1
        return ModelResponse()

    async with runner_factory(agent_of(ScriptedModel(), before_model=before)) as runner:
        turn = await play(runner)
    assert [dict(event.actions.state_delta) for event in turn.events] == [{"note": 1}]


async def test_dlt_8_a_callback_context_is_closed_after_its_event(runner_factory: Any, play: Any) -> None:
    kept: list[CallbackContext] = []

    def before(ctx: CallbackContext, request: ModelRequest) -> None:
        kept.append(ctx)

    async with runner_factory(agent_of(ScriptedModel(["done"]), before_model=before)) as runner:
        await play(runner)
    with pytest.raises(RuntimeError, match="after its call had ended"):
        kept[0].state["late"] = 1


async def test_inv_4_a_run_leaves_the_agent_as_it_was(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([call("look", city="Rome"), "done"])
    agent = agent_of(model, look, instruction="Serve {who?}.", output_key="out")
    before = {name: getattr(agent, name) for name in ("instruction", "tools", "model", "include_contents", "name")}
    async with runner_factory(agent) as runner:
        await play(runner)
    assert {name: getattr(agent, name) for name in before} == before
    with pytest.raises(AttributeError):
        agent.instruction = "other"  # type: ignore[misc]


async def test_str_2_a_partial_call_is_never_executed(runner_factory: Any, play: Any) -> None:
    shown = Part(function_call=FunctionCall(name="look", args={"city": "R"}))
    model = ScriptedModel([[partial(shown), ModelResponse(content=Content(role="model", parts=[Part(text="no")]))]])
    async with runner_factory(agent_of(model, look), config=SSE) as runner:
        turn = await play(runner)
    assert turn.scene == ["a:~+look", "a: no"]
