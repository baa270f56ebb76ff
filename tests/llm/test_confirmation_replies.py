"""The answer to a request for approval, and what runs then (tools-plugins §3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.errors import InvalidResumeResponse, NothingToResume
from hookwork.records.content import Part
from hookwork.tool import Tool, Toolset
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

REQUEST = "adk_request_confirmation"


def agent_of(model: ScriptedModel, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


def responses(turn: Any) -> dict[str, Any]:
    return {r.id: r.response for event in turn.events for r in event.function_responses}


# --- the reply --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "runs"),
    [
        ({"confirmed": True}, 1),
        ({"confirmed": True, "unknown": 1}, 1),
        ({"response": json.dumps({"confirmed": True})}, 1),
        ({"confirmed": False}, 0),
        ({"confirmed": "true"}, 0),
        ({"confirmed": 1}, 0),
        ({}, 0),
        (None, 0),
        ({"response": json.dumps({"confirmed": False})}, 0),
    ],
)
async def test_hitl_7_only_the_boolean_true_confirms(
    runner_factory: Any, play: Any, answer: Any, reply: Any, runs: int, gated: Any
) -> None:
    go = gated()
    model = ScriptedModel([call("go", "c1"), "Done."])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        paused = await play(runner)
        done = await play(runner, answer(paused.open_ids[0], reply))
    assert len(go.runs) == runs
    assert done.scene == ["a: -go", "a: Done."]
    if not runs:
        assert "rejected" in responses(done)["c1"]["error"]


@pytest.mark.parametrize("reply", [{"response": "{not json"}, {"response": "[1]"}, {"response": 7}])
async def test_hitl_7_what_cannot_be_read_leaves_the_request_open(
    runner_factory: Any, play: Any, answer: Any, stored: Any, reply: Any, gated: Any
) -> None:
    go = gated()
    model = ScriptedModel([call("go", "c1"), "Done."])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        paused = await play(runner)
        before = (await stored(runner)).length
        failed = await play(runner, answer(paused.open_ids[0], reply))
        session = await stored(runner)
        assert isinstance(failed.error, InvalidResumeResponse)
        assert (session.length, list(session.open_calls)) == (before, paused.open_ids)
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert done.scene == ["a: -go", "a: Done."]
    assert len(go.runs) == 1


async def test_hitl_12_a_repeated_approval_never_runs_the_tool_again(
    runner_factory: Any, play: Any, answer: Any, stored: Any, gated: Any
) -> None:
    go = gated()
    model = ScriptedModel([call("go", "c1"), "Done.", "Beside."])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        paused = await play(runner)
        yes = answer(paused.open_ids[0], {"confirmed": True})
        await play(runner, yes)
        before = (await stored(runner)).length
        again = await play(runner, yes)
        assert isinstance(again.error, NothingToResume)
        assert again.error.repeated == (paused.open_ids[0],)
        assert (await stored(runner)).length == before
        beside = await play(runner, yes.replace(parts=[*yes.parts, Part(text="and more")]))
        assert beside.scene == ["a: Beside."]
    assert len(go.runs) == 1
    assert [c.text for c in model.prompts[-1]][-1] == "and more"


async def test_hitl_14_text_instead_of_a_reply_runs_nothing(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    go = gated()
    model = ScriptedModel([call("go", "c1"), "It waits.", "Done."])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        paused = await play(runner)
        text = await play(runner, "what now?")
        assert (text.scene, text.outcome.kind, go.runs) == (["a: It waits."], "completed", [])
        shown = [dict(r.response or {})["status"] for c in model.prompts[-1] for r in c.function_responses]
        assert shown == ["pending"]
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert done.scene == ["a: -go", "a: Done."]
    for prompt in model.prompts:
        assert_valid_prompt(prompt)


async def test_hitl_8_approvals_run_in_request_order_each_with_its_own_payload(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    go = gated()
    model = ScriptedModel([[call("go", "c1", x=1), call("go", "c2", x=2)], "Done."])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        first, second = (await play(runner)).open_ids
        replies = [(second, {"confirmed": True, "payload": 2}), (first, {"confirmed": True, "payload": 1})]
        done = await play(runner, answer(*replies))
    assert go.runs == [(1, 1), (2, 2)]
    assert done.scene == ["a: -go -go", "a: Done."]
    assert [r.id for r in done.events[0].function_responses] == ["c1", "c2"]


async def test_hitl_8_one_response_event_for_each_request_event(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    """Two turns of one agent call asked; both are answered at once."""
    go = gated()
    model = ScriptedModel([[call("go", "c1", x=1), call("go", "c2", x=2)], call("go", "c3", x=3), "Done."])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        first, second = (await play(runner)).open_ids
        middle = await play(runner, answer(first, {"confirmed": True}))
        assert middle.scene == ["a: -go", "a: +go", "a: -go", f"a: +{REQUEST}"]
        assert middle.open_ids[0] == second
        third = middle.open_ids[1]
        done = await play(runner, answer((third, {"confirmed": True}), (second, {"confirmed": False})))
    assert done.scene == ["a: -go", "a: -go", "a: Done."]
    assert [event.function_responses[0].id for event in done.events[:2]] == ["c2", "c3"]
    assert [x for x, _ in go.runs] == [1, 3]
    assert_valid_prompt(model.prompts[-1])


async def test_hitl_8_the_same_call_id_in_two_turns(runner_factory: Any, play: Any, answer: Any, gated: Any) -> None:
    """Servers that number calls per response: both approvals go to their own call."""
    go = gated()
    model = ScriptedModel([[call("go", "call_0", x=1), call("go", "call_1", x=2)], call("go", "call_0", x=3), "Done."])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        first, second = (await play(runner)).open_ids
        middle = await play(runner, answer(second, {"confirmed": True}))
        assert [x for x, _ in go.runs] == [2]
        assert middle.open_ids[0] == first
        await play(runner, answer((middle.open_ids[1], {"confirmed": True}), (first, {"confirmed": True})))
    assert [x for x, _ in go.runs] == [2, 1, 3]
    assert_valid_prompt(model.prompts[-1])


async def test_mcb_6_an_id_that_waits_is_not_given_to_another_call(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    """Servers that number calls per response: the approved call's answer must not be taken for the newer call's."""
    go, plain = gated(), tool(name="plain")(lambda: "plain")
    model = ScriptedModel([call("go", "call_0", x=1), call("plain", "call_0"), "Noted.", "Done.", "never"])
    async with runner_factory(agent_of(model, go.tool, plain)) as runner:
        paused = await play(runner)
        between = await play(runner, "meanwhile")
        assert (between.events[0].function_calls[0].id or "").startswith("adk-")
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
        assert responses(done) == {"call_0": {"done": 1}}
        again = await play(runner, None, invocation_id=paused.outcome.invocation_id)
    assert isinstance(again.error, NothingToResume)
    assert go.runs == [(1, None)]
    assert_valid_prompt(model.prompts[-1])
    shown = {r.name: r.response for c in model.prompts[-1] for r in c.function_responses}
    assert shown == {"go": {"done": 1}, "plain": {"result": "plain"}}


async def test_hitl_15_a_resumed_call_may_ask_again(runner_factory: Any, play: Any, answer: Any) -> None:
    seen: list[Any] = []

    @tool
    async def pay(ctx: ToolContext) -> dict[str, Any]:
        """Pay, after two approvals."""
        decision = ctx.tool_confirmation
        seen.append(decision.payload if decision else None)
        if decision is None or decision.payload != "second":
            ctx.request_confirmation("first" if decision is None else "second")
            return {"status": "asked"}
        return {"paid": True}

    model = ScriptedModel([call("pay", "c1"), "Paid."])
    async with runner_factory(agent_of(model, pay)) as runner:
        one = await play(runner)
        two = await play(runner, answer(one.open_ids[0], {"confirmed": True, "payload": "first"}))
        assert two.scene == ["a: -pay", f"a: +{REQUEST}"]
        assert (two.outcome.kind, two.outcome.open_calls[0].message, model.calls) == ("paused", "second", 1)
        three = await play(runner, answer(two.open_ids[0], {"confirmed": True, "payload": "second"}))
    assert three.scene == ["a: -pay", "a: Paid."]
    assert responses(three) == {"c1": {"paid": True}}
    assert seen == [None, "first", "second"]
    assert_valid_prompt(model.prompts[-1])


async def test_hitl_15_flags_of_a_resumed_call_are_honoured(runner_factory: Any, play: Any, answer: Any) -> None:
    @tool(require_confirmation=True)
    async def finish(ctx: ToolContext) -> dict[str, Any]:
        """Finish."""
        ctx.actions.skip_summarization = True
        return {"finished": True}

    model = ScriptedModel([call("finish", "c1"), "never"])
    async with runner_factory(agent_of(model, finish)) as runner:
        paused = await play(runner)
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert (done.scene, done.outcome.kind, model.calls) == (["a: -finish"], "completed", 1)


async def test_hitl_17_edits_of_before_tool_are_made_again(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    edits: list[Any] = []

    def add(ctx: ToolContext, tool: Tool, args: dict[str, Any]) -> None:
        args["x"] += 10
        edits.append(args["x"])

    go = gated()
    model = ScriptedModel([call("go", "c1", x=1), "Done."])
    async with runner_factory(agent_of(model, go.tool, before_tool=add)) as runner:
        paused = await play(runner)
        assert paused.outcome.open_calls[0].args["originalFunctionCall"]["args"] == {"x": 1}
        await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert edits == [11, 11]
    assert go.runs == [(11, None)]


async def test_hitl_6_the_approval_may_come_to_another_process(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    """Nothing but the stored events is needed: another runner, another agent object, the same store."""
    sessions = InMemorySessionService()
    first = gated()
    async with runner_factory(
        agent_of(ScriptedModel([call("go", "c1", x=1)]), first.tool), sessions=sessions
    ) as runner:
        paused = await play(runner)
    second = gated()
    async with runner_factory(agent_of(ScriptedModel(["Done."]), second.tool), sessions=sessions) as runner:
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert done.scene == ["a: -go", "a: Done."]
    assert (first.runs, second.runs) == ([], [(1, None)])


async def test_hitl_8_tools_of_a_toolset_are_known_on_resume_and_the_request_is_built_once(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    go = gated()
    built: list[str] = []

    class Set(Toolset):
        name = "set"

        async def tools(self, ctx: Any) -> list[Tool]:
            return [go.tool]

    def instruction(ctx: Any) -> str:
        built.append("instruction")
        return "x"

    model = ScriptedModel([call("go", "c1"), "Done."])
    async with runner_factory(agent_of(model, Set(), instruction_provider=instruction)) as runner:
        paused = await play(runner)
        built.clear()
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert done.scene == ["a: -go", "a: Done."]
    assert built == ["instruction"]
