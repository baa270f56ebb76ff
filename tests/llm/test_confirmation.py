"""Asking a person: gate, request, wire form (tools-plugins §3, core §3.4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork.confirmation import original_call
from hookwork.context import ToolContext
from hookwork.plugins.plugin import FunctionPlugin, Plugin
from hookwork.records.content import FunctionCall
from hookwork.tool import Finished, Tool, pack_tool
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

REQUEST = "adk_request_confirmation"


def agent_of(model: ScriptedModel, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


def responses(turn: Any) -> dict[str, Any]:
    return {r.id: r.response for event in turn.events for r in event.function_responses}


# --- the request ------------------------------------------------------------------------------------------------------


async def test_core_7_scene_confirm(runner_factory: Any, play: Any, answer: Any, gated: Any) -> None:
    go = gated()
    model = ScriptedModel([call("go", "c1", x=1), "Done."])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        paused = await play(runner)
        assert paused.scene == ["a: +go", "a: -go", f"a: +{REQUEST}"]
        assert (paused.outcome.kind, go.runs, model.calls) == ("paused", [], 1)
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
        assert done.scene == ["a: -go", "a: Done."]
        assert responses(done) == {"c1": {"done": 1}}
    assert go.runs == [(1, None)]
    assert done.outcome.invocation_id == paused.outcome.invocation_id
    prompt = model.prompts[-1]
    assert_valid_prompt(prompt)
    assert [r.response for c in prompt for r in c.function_responses] == [{"done": 1}]
    assert not any(c.name == REQUEST for content in prompt for c in content.function_calls)  # HITL-13


async def test_hitl_5_and_6_the_wire_form(runner_factory: Any, play: Any, gated: Any) -> None:
    go, other = gated(), gated("other")
    signed = call("go", "c1", x=1).replace(thought_signature=b"\x01\xff")
    model = ScriptedModel([[signed, call("other", "c2", x=2)]])
    async with runner_factory(agent_of(model, go.tool, other.tool)) as runner:
        turn = await play(runner)
    _, placeholder, request = turn.events
    asked = placeholder.actions.requested_tool_confirmations
    assert list(asked) == ["c1", "c2"]
    assert asked["c1"].confirmed is False
    assert "'go'" in asked["c1"].hint
    assert placeholder.actions.skip_summarization
    assert [list(r.response) for r in placeholder.function_responses] == [["error"], ["error"]]
    first, second = request.content.parts
    assert first.function_call.name == REQUEST
    assert first.function_call.id.startswith("adk-")
    assert first.function_call.args == {
        "originalFunctionCall": {"id": "c1", "name": "go", "args": {"x": 1}},
        "toolConfirmation": {"hint": asked["c1"].hint, "confirmed": False, "payload": None},
    }
    assert (first.thought_signature, second.thought_signature) == (b"\x01\xff", None)
    assert second.function_call.args["originalFunctionCall"]["id"] == "c2"
    assert request.long_running_tool_ids == (first.function_call.id, second.function_call.id)
    assert (request.author, request.content.role) == ("a", "model")
    assert original_call(first.function_call) == FunctionCall(id="c1", name="go", args={"x": 1})
    with pytest.raises(ValueError, match="'r9'"):
        original_call(FunctionCall(id="r9", name=REQUEST, args={}))


async def test_hitl_5_ungated_siblings_run_and_are_stored_first(runner_factory: Any, play: Any, gated: Any) -> None:
    go = gated()

    @tool
    async def look() -> dict[str, Any]:
        """Look."""
        return {"sky": "clear"}

    model = ScriptedModel([[call("go", "c1"), call("look", "c2")]])
    async with runner_factory(agent_of(model, go.tool, look)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +go +look", "a: -go -look", f"a: +{REQUEST}"]
    assert responses(turn)["c2"] == {"sky": "clear"}
    assert turn.outcome.open_calls[0].kind == "confirmation"


async def test_hitl_1_a_body_may_ask_by_itself(runner_factory: Any, play: Any, answer: Any) -> None:
    seen: list[Any] = []

    @tool
    async def pay(ctx: ToolContext, sum: int) -> dict[str, Any]:
        """Pay."""
        seen.append(ctx.tool_confirmation)
        if sum > 100 and ctx.tool_confirmation is None:
            ctx.request_confirmation("That is a lot.", {"sum": sum})
            return {"status": "asked"}
        return {"paid": sum}

    model = ScriptedModel([call("pay", "c1", sum=50), call("pay", "c2", sum=500), "Paid."])
    async with runner_factory(agent_of(model, pay)) as runner:
        paused = await play(runner)
        assert paused.scene == ["a: +pay", "a: -pay", "a: +pay", "a: -pay", f"a: +{REQUEST}"]
        waiting = paused.outcome.open_calls[0]
        assert (waiting.message, waiting.payload) == ("That is a lot.", {"sum": 500})
        done = await play(runner, answer(waiting.id, {"confirmed": True}))
        assert responses(done) == {"c2": {"paid": 500}}
    assert [one if one is None else one.confirmed for one in seen] == [None, None, True]


async def test_hitl_1_a_long_running_body_that_asks_is_answered_by_a_placeholder(
    runner_factory: Any, play: Any, answer: Any
) -> None:
    @tool(long_running=True)
    async def ship(ctx: ToolContext) -> Any:
        """Ship."""
        if ctx.tool_confirmation is None:
            ctx.request_confirmation("Ship it?")
            return None
        return Finished({"shipped": True})

    model = ScriptedModel([call("ship", "c1"), "Shipped."])
    async with runner_factory(agent_of(model, ship)) as runner:
        paused = await play(runner)
        assert paused.scene == ["a: +ship", "a: -ship", f"a: +{REQUEST}"]
        assert [one.kind for one in paused.outcome.open_calls] == ["confirmation"]
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert done.scene == ["a: -ship", "a: Shipped."]
    assert (done.outcome.kind, done.open_ids) == ("completed", [])


@pytest.mark.parametrize("is_async", [False, True])
async def test_hitl_2_a_provider_decides_from_converted_arguments(
    runner_factory: Any, play: Any, is_async: bool
) -> None:
    asked: list[Any] = []

    async def needs_async(x: int, ctx: ToolContext) -> bool:
        asked.append((x, ctx.function_call_id))
        return x > 10

    def needs(x: int, ctx: ToolContext) -> bool:
        asked.append((x, ctx.function_call_id))
        return x > 10

    @tool(require_confirmation=needs_async if is_async else needs)
    async def go(x: int) -> dict[str, Any]:
        """Go."""
        return {"x": x}

    model = ScriptedModel([[call("go", "c1", x=5.0), call("go", "c2", x=50)]])
    async with runner_factory(agent_of(model, go)) as runner:
        turn = await play(runner)
    assert asked == [(5, "c1"), (50, "c2")]
    assert responses(turn)["c1"] == {"x": 5}
    assert "approval" in responses(turn)["c2"]["error"]


class RawGated(Tool):
    """Gated, without any function tool behind it."""

    name = "raw"

    def __init__(self) -> None:
        self.runs = 0

    async def needs_confirmation(self, ctx: Any, args: Any, converted: Any) -> bool:
        return True

    async def run(self, ctx: Any, args: Any) -> Any:
        self.runs += 1
        return {"ran": True}


async def test_hitl_3_every_kind_of_tool_is_gated_in_the_flow(runner_factory: Any, play: Any, answer: Any) -> None:
    streamed: list[str] = []

    @tool(require_confirmation=True)
    async def stream_it() -> AsyncIterator[str]:
        """Stream."""
        streamed.append("ran")
        yield "chunk"

    raw = RawGated()
    model = ScriptedModel([[call("raw", "c1"), call("stream_it", "c2")], "Done."])
    async with runner_factory(agent_of(model, raw, stream_it)) as runner:
        paused = await play(runner)
        assert (raw.runs, streamed, len(paused.open_ids)) == (0, [], 2)
        yes = {"confirmed": True}
        done = await play(runner, answer(*[(i, yes) for i in paused.open_ids]))
    assert responses(done) == {"c1": {"ran": True}, "c2": {"result": "chunk"}}


async def test_hitl_3_a_gated_call_does_not_go_through_on_tool_error(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    log: list[Any] = []
    plugin = FunctionPlugin(
        "p",
        on_tool_error=lambda ctx, error: {"recovered": True},
        before_tool=lambda ctx, tool: log.append(("before", ctx.tool_confirmation)),
        after_tool=lambda ctx, result, error: log.append((type(error).__name__, result)),
    )
    go = gated()
    model = ScriptedModel([call("go", "c1"), "Done."])
    async with runner_factory(agent_of(model, go.tool), plugins=[plugin]) as runner:
        paused = await play(runner)
        assert log == [("before", None), ("ConfirmationRequired", None)]
        log.clear()
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": False, "payload": {"why": "no"}}))
    (_, decision), after = log
    assert (decision.confirmed, decision.payload) == (False, {"why": "no"})
    assert after == ("ConfirmationRejected", None)
    assert responses(done)["c1"]["payload"] == {"why": "no"}
    assert go.runs == []


async def test_hitl_3_arguments_are_validated_before_anybody_is_asked(runner_factory: Any, play: Any) -> None:
    @tool(require_confirmation=True)
    async def go(x: int) -> None:
        """Go."""

    model = ScriptedModel([call("go", "c1", x="no"), "Sorry."])
    async with runner_factory(agent_of(model, go)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +go", "a: -go", "a: Sorry."]
    assert "/x" in responses(turn)["c1"]["error"]


async def test_hitl_4_a_before_tool_value_answers_without_confirmation(
    runner_factory: Any, play: Any, gated: Any
) -> None:
    go = gated()
    model = ScriptedModel([call("go", "c1"), "Done."])
    async with runner_factory(agent_of(model, go.tool, before_tool=lambda ctx, tool, args: {})) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +go", "a: -go", "a: Done."]
    assert (responses(turn), go.runs) == ({"c1": {}}, [])


async def test_hitl_1_a_policy_plugin_may_ask_in_before_tool(runner_factory: Any, play: Any, answer: Any) -> None:
    class Policy(Plugin):
        async def before_tool(self, ctx: ToolContext, tool: Tool, args: dict[str, Any]) -> dict[str, Any] | None:
            if ctx.tool_confirmation is not None:
                return None
            ctx.request_confirmation(f"Policy: may {tool.name} run?")
            return {"status": "waits for approval"}

    runs: list[int] = []

    @tool
    async def free(x: int) -> dict[str, Any]:
        """Free."""
        runs.append(x)
        return {"x": x}

    model = ScriptedModel([call("free", "c1", x=1), "Done.", call("free", "c2", x=2), "No."])
    async with runner_factory(agent_of(model, free), plugins=[Policy()]) as runner:
        paused = await play(runner)
        assert (paused.outcome.open_calls[0].message, runs) == ("Policy: may free run?", [])
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
        assert (responses(done), runs) == ({"c1": {"x": 1}}, [1])
        paused = await play(runner, "again")
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": False}))
    assert "rejected" in responses(done)["c2"]["error"]
    assert runs == [1]


async def test_tl_10_a_tool_that_packs_itself_is_gated_too(runner_factory: Any, play: Any) -> None:
    class Packs(RawGated):
        async def process_request(self, ctx: Any, request: Any) -> None:
            pack_tool(request, self)

    packs = Packs()
    async with runner_factory(agent_of(ScriptedModel([call("raw", "c1")]), packs)) as runner:
        turn = await play(runner)
    assert (turn.outcome.kind, packs.runs) == ("paused", 0)
