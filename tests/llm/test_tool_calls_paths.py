"""The ways through a tool call that are easily missed: wrappers, streams, gates, effects (tools-plugins §1 … §3)."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.errors import ConfirmationRejected, ConfirmationRequired
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.event import ToolConfirmation
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool, Toolset, pack_tool
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call


class Raw(Tool):
    """A tool of the plain contract: a name and a `run`."""

    def __init__(self, name: str, run: Any = lambda ctx, args: {"ok": True}, **fields: Any) -> None:
        self.name = name
        self._run = run
        for key, value in fields.items():
            setattr(self, key, value)

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.name)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        result = self._run(ctx, args)
        return await result if inspect.isawaitable(result) else result


def agent_of(model: ScriptedModel, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


def responses_of(turn: Any, position: int = 1) -> list[Any]:
    return [response.response for response in turn.events[position].function_responses]


# --- the gate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
async def test_hitl_02_a_provider_that_fails_fails_closed(runner_factory: Any, play: Any, is_async: bool) -> None:
    runs: list[int] = []

    def broken(x: int) -> bool:
        raise LookupError("no policy")

    async def broken_later(x: int) -> bool:
        raise LookupError("no policy")

    @tool(require_confirmation=broken_later if is_async else broken)
    async def pay(x: int) -> int:
        """Pays."""
        runs.append(x)
        return x

    model = ScriptedModel([call("pay", x=1), "done"])
    async with runner_factory(agent_of(model, pay)) as runner:
        turn = await play(runner)
    assert runs == []
    assert responses_of(turn) == [{"error": "LookupError: no policy"}]
    assert turn.open_ids == []


async def test_hitl_02_the_rejection_and_its_payload_go_to_the_model_and_to_after_tool(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    go = gated()
    seen: list[Any] = []

    def note(ctx: ToolContext, error: Any) -> None:
        decision = ctx.tool_confirmation
        seen.append((type(error), decision and (decision.confirmed, decision.payload)))

    async with runner_factory(
        agent_of(ScriptedModel([call("go", x=1), "sorry"]), go.tool), plugins=[FunctionPlugin("p", after_tool=note)]
    ) as runner:
        turn = await play(runner)
        turn = await play(runner, answer(turn.open_ids[0], {"confirmed": False, "payload": {"why": "too much"}}))
    assert go.runs == []
    response = responses_of(turn, 0)[0]
    assert (sorted(response), response["payload"]) == (["error", "payload"], {"why": "too much"})
    assert "rejected" in response["error"]
    assert seen == [(ConfirmationRequired, None), (ConfirmationRejected, (False, {"why": "too much"}))]


@pytest.mark.parametrize("confirmed", ["true", 1, None, "yes", [True], {}])
async def test_hitl_07_what_is_not_the_boolean_true_rejects(
    runner_factory: Any, play: Any, answer: Any, gated: Any, confirmed: Any
) -> None:
    go = gated()
    async with runner_factory(agent_of(ScriptedModel([call("go", x=1), "sorry"]), go.tool)) as runner:
        turn = await play(runner)
        turn = await play(runner, answer(turn.open_ids[0], {"confirmed": confirmed}))
    assert go.runs == []
    assert "rejected" in responses_of(turn, 0)[0]["error"]


async def test_hitl_01_a_payload_that_json_cannot_hold_is_the_calls_error(runner_factory: Any, play: Any) -> None:
    def asks(ctx: ToolContext, args: Any) -> dict[str, Any]:
        ctx.request_confirmation("sure?", payload={"x": object()})
        return {"ok": True}

    model = ScriptedModel([[call("asks"), call("fine")], "done"])
    async with runner_factory(agent_of(model, Raw("asks", asks), Raw("fine"))) as runner:
        turn = await play(runner)
    assert turn.error is None
    assert list(responses_of(turn)[0]) == ["error"]
    assert responses_of(turn)[1] == {"ok": True}
    assert turn.open_ids == []


async def test_hitl_17_an_approval_of_other_arguments_is_worth_nothing(
    runner_factory: Any, play: Any, answer: Any, gated: Any, stored: Any
) -> None:
    """The model asks for the same tool again with other arguments: the first approval does not cover it."""
    go = gated()
    model = ScriptedModel([call("go", "c1", x=1), call("go", "c2", x=1000), "done"])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        turn = await play(runner)
        turn = await play(runner, answer(turn.open_ids[0], {"confirmed": True}))
        assert go.runs == [(1, None)]
        [request] = turn.outcome.open_calls
        session = await stored(runner)
    asked = session.events[-1].function_calls[0].args["originalFunctionCall"]
    assert (asked["name"], asked["id"], dict(asked["args"])) == ("go", "c2", {"x": 1000})
    assert request.id == session.events[-1].function_calls[0].id


# --- hooks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["before_tool", "after_tool", "on_tool_error"])
@pytest.mark.parametrize("value", [1, "text", ["a"]])
async def test_plug_01_a_hook_that_gives_no_dict_is_named_to_the_model(
    runner_factory: Any, play: Any, hook: str, value: Any
) -> None:
    def fails(ctx: Any, args: Any) -> None:
        raise ValueError("v")

    model = ScriptedModel([call("t"), "done"])
    plugin = FunctionPlugin("mine", **{hook: lambda ctx: value})
    async with runner_factory(agent_of(model, Raw("t", fails)), plugins=[plugin]) as runner:
        turn = await play(runner)
    [response] = responses_of(turn)
    assert f"{hook} of 'mine' returned {type(value).__name__}" in response["error"]


@pytest.mark.parametrize("hook", ["before_tool", "after_tool", "on_tool_error"])
async def test_fn_21_a_hooks_value_that_json_cannot_hold_is_the_calls_error(
    runner_factory: Any, play: Any, hook: str
) -> None:
    def fails(ctx: Any, args: Any) -> None:
        raise ValueError("v")

    model = ScriptedModel([[call("t"), call("t")], "done"])
    plugin = FunctionPlugin("mine", **{hook: lambda ctx: {"x": object()}})
    async with runner_factory(agent_of(model, Raw("t", fails)), plugins=[plugin]) as runner:
        turn = await play(runner)
    assert turn.error is None
    assert [list(response) for response in responses_of(turn)] == [["error"], ["error"]]
    assert "not JSON" in responses_of(turn)[0]["error"]


async def test_tl_05_the_order_inside_a_step(runner_factory: Any, play: Any) -> None:
    order: list[str] = []

    class Notes(Raw):
        async def process_request(self, ctx: ToolContext, request: Any) -> None:
            order.append(f"{self.name}:{len(request.contents)}")
            pack_tool(request, self)

    class Set(Toolset):
        def __init__(self, name: str, *tools: Tool) -> None:
            self.name = name
            self._tools = list(tools)

        async def tools(self, ctx: Any) -> list[Tool]:
            return self._tools

        async def process_request(self, ctx: ToolContext, request: Any) -> None:
            order.append(self.name)

    model = ScriptedModel(["done"])
    agent = agent_of(model, Notes("one"), Set("first", Notes("two")), Notes("three"), Set("second", Notes("four")))
    plugin = FunctionPlugin("p", before_model=lambda ctx: order.append("before_model"))
    async with runner_factory(agent, plugins=[plugin]) as runner:
        await play(runner)
    assert order == ["one:1", "three:1", "two:1", "four:1", "first", "second", "before_model"]
    assert model.requests[0].declared == ["one", "three", "two", "four"]


# --- what the batch makes of its calls --------------------------------------------------------------------------------


async def test_tl_15_calls_run_only_after_their_event_was_stored_and_the_next_one_was_asked_for(
    runner_factory: Any, stored: Any
) -> None:
    order: list[str] = []

    async def look(ctx: ToolContext, args: Any) -> dict[str, Any]:
        session = await stored(runner)
        order.append(f"run with {len(session.events)} stored")
        return {}

    runner = runner_factory(agent_of(ScriptedModel([call("t"), "done"]), Raw("t", look)))
    async with runner, runner.run(user_id="u", session_id="s", message="hi") as run:
        async for event in run:
            await asyncio.sleep(0)
            order.append("call" if event.function_calls else "other")
    assert order == ["call", "run with 2 stored", "other", "other"]


async def test_flow_14_calls_of_an_event_with_an_error_code_do_not_run(runner_factory: Any, play: Any) -> None:
    from hookwork.records.metadata import ModelResponse

    runs: list[Any] = []
    content = Content(role="model", parts=[Part(function_call=FunctionCall(id="c1", name="t", args={}))])
    model = ScriptedModel([ModelResponse(content=content, error_code="MALFORMED", error_message="bad")])
    async with runner_factory(agent_of(model, Raw("t", lambda ctx, args: runs.append(1)))) as runner:
        turn = await play(runner)
    assert runs == []
    assert turn.events[0].error_code == "MALFORMED"


async def test_fn_31_only_long_running_calls_are_listed_on_the_model_event(runner_factory: Any, play: Any) -> None:
    later = Raw("later", lambda ctx, args: {"status": "pending"}, is_long_running=True)
    model = ScriptedModel([[call("now", "c1"), call("later", "c2"), call("unknown", "c3")], "done"])
    async with runner_factory(agent_of(model, Raw("now"), later)) as runner:
        turn = await play(runner)
    assert turn.events[0].long_running_tool_ids == ("c2",)
    assert turn.open_ids == ["c2"]


async def test_tl_28_only_a_text_of_a_tool_that_opted_in_is_shown(runner_factory: Any, play: Any) -> None:
    def skips(value: Any) -> Any:
        def run(ctx: ToolContext, args: Any) -> Any:
            ctx.actions.skip_summarization = True
            return value

        return run

    shown = {"display_result_on_skip_summarization": lambda: True}
    tools = [
        Raw("silent", skips("hidden")),
        Raw("object", skips({"a": 1}), **shown),
        Raw("refuses", skips("hidden too"), display_result_on_skip_summarization=lambda: False),
        Raw("text", skips("seen"), **shown),
        Raw("goes_on", lambda ctx, args: "not skipped", **shown),
    ]
    model = ScriptedModel([[call(one.name) for one in tools]])
    async with runner_factory(agent_of(model, *tools)) as runner:
        turn = await play(runner)
    assert turn.events[1].text == "seen"
    assert turn.events[1].actions.skip_summarization is True  # of the first calls, not of the last (TOOL-9)
    assert len(turn.events[1].content.parts) == 6
    assert model.calls == 1


async def test_tool_9_the_last_transfer_in_call_order_counts_and_flags_are_ored(runner_factory: Any, play: Any) -> None:
    def transfers(target: str) -> Any:
        async def run(ctx: ToolContext, args: Any) -> dict[str, Any]:
            await asyncio.sleep(0.01 if target == "c" else 0)
            ctx.actions.transfer_to_agent = target
            return {}

        return run

    targets = [LlmAgent(name=name, model=ScriptedModel([f"i am {name}"]), description=name) for name in "bcd"]
    tools = [Raw("one", transfers("b")), Raw("two", transfers("c")), Raw("three")]
    model = ScriptedModel([[call("one"), call("two"), call("three")]])
    async with runner_factory(agent_of(model, *tools, sub_agents=targets)) as runner:
        turn = await play(runner)
    assert turn.events[1].actions.transfer_to_agent == "c"
    assert turn.events[-1].text == "i am c"


async def test_tl_18_arguments_of_one_call_are_no_other_calls(runner_factory: Any, play: Any, stored: Any) -> None:
    def edit(ctx: ToolContext, args: Any) -> dict[str, Any]:
        args["list"].append(ctx.function_call_id)
        return {"list": list(args["list"])}

    shared = {"list": [0]}
    model = ScriptedModel([[call("t", "c1", **shared), call("t", "c2", **shared)], "done"])
    async with runner_factory(agent_of(model, Raw("t", edit))) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert responses_of(turn) == [{"list": [0, "c1"]}, {"list": [0, "c2"]}]
    assert [json.loads(json.dumps(dict(c.args), default=list)) for c in session.events[1].function_calls] == [
        {"list": [0]},
        {"list": [0]},
    ]


async def test_tl_17_each_call_sees_its_siblings_writes_and_its_own_actions(runner_factory: Any, play: Any) -> None:
    written = asyncio.Event()

    async def writes(ctx: ToolContext, args: Any) -> dict[str, Any]:
        ctx.state["k"] = "from one"
        written.set()
        return {}

    async def reads(ctx: ToolContext, args: Any) -> dict[str, Any]:
        await written.wait()
        return {"seen": ctx.state["k"], "delta": dict(ctx.actions.state_delta), "id": ctx.function_call_id}

    model = ScriptedModel([[call("reads", "c1"), call("writes", "c2")], "done"])
    async with runner_factory(agent_of(model, Raw("writes", writes), Raw("reads", reads))) as runner:
        turn = await play(runner)
    assert responses_of(turn)[0] == {"seen": "from one", "delta": {}, "id": "c1"}


async def test_plug_36_a_before_tool_value_for_an_unknown_name_is_the_response_without_after_tool(
    runner_factory: Any, play: Any
) -> None:
    after: list[str] = []
    plugin = FunctionPlugin(
        "p", before_tool=lambda ctx: {"from": "hook"}, after_tool=lambda tool: after.append(tool.name)
    )
    model = ScriptedModel([[call("nope"), call("t")], "done"])
    async with runner_factory(agent_of(model, Raw("t")), plugins=[plugin]) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"from": "hook"}, {"from": "hook"}]
    assert after == ["t"]


@pytest.mark.parametrize("hook", ["after_tool", "on_tool_error"])
async def test_res_2_an_error_that_a_hook_turned_into_an_answer_leaves_nothing_open(
    runner_factory: Any, play: Any, hook: str
) -> None:
    def fails(ctx: Any, args: Any) -> None:
        raise ValueError("v")

    model = ScriptedModel([call("later", "c1"), "done"])
    plugin = FunctionPlugin("p", **{hook: lambda ctx: {"status": "told"}})
    async with runner_factory(agent_of(model, Raw("later", fails, is_long_running=True)), plugins=[plugin]) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"status": "told"}]
    assert (turn.open_ids, turn.outcome.kind) == ([], "completed")


async def test_hitl_02_the_payload_of_an_approval_is_not_told_with_an_error(
    runner_factory: Any, play: Any, answer: Any
) -> None:
    @tool(require_confirmation=True)
    async def go() -> None:
        """Fails."""
        raise LookupError("lost")

    async with runner_factory(agent_of(ScriptedModel([call("go"), "sorry"]), go)) as runner:
        turn = await play(runner)
        turn = await play(runner, answer(turn.open_ids[0], {"confirmed": True, "payload": {"secret": 1}}))
    assert responses_of(turn, 0) == [{"error": "LookupError: lost"}]


async def test_hitl_05_a_request_for_an_id_that_was_not_called_is_dropped(runner_factory: Any, play: Any) -> None:
    def asks(ctx: ToolContext, args: Any) -> dict[str, Any]:
        ctx.actions.requested_tool_confirmations["nobody"] = ToolConfirmation(hint="for nobody")
        return {"ok": True}

    model = ScriptedModel([call("asks", "c1"), "done"])
    async with runner_factory(agent_of(model, Raw("asks", asks))) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +asks", "a: -asks", "a: done"]
    assert turn.open_ids == []


async def test_tl_23_responses_then_requests_and_a_transfer_waits_until_every_call_is_settled(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    def transfers(ctx: ToolContext, args: Any) -> dict[str, Any]:
        ctx.actions.transfer_to_agent = "b"
        return {}

    go = gated()
    other = LlmAgent(name="b", model=ScriptedModel(["i am b"]), description="b")
    agent = agent_of(
        ScriptedModel([[call("moves", "c1"), call("go", "c2")]]), Raw("moves", transfers), go.tool, sub_agents=[other]
    )
    async with runner_factory(agent) as runner:
        turn = await play(runner)
        assert turn.scene == ["a: +moves +go", "a: -moves -go", "a: +adk_request_confirmation"]
        turn = await play(runner, answer(turn.open_ids[0], {"confirmed": True}))
    assert turn.scene[-2:] == ["a: -go", "b: i am b"]
    assert len(go.runs) == 1


async def test_tool_9_the_last_transfer_counts_over_several_response_events(
    runner_factory: Any, play: Any, answer: Any
) -> None:
    """Approvals of two request events, answered in one message: two response events, each with a transfer."""

    async def twice(ctx: ToolContext, args: Any) -> dict[str, Any]:
        if ctx.tool_confirmation is None or ctx.tool_confirmation.payload == "again":
            ctx.request_confirmation("really?")
        else:
            ctx.actions.transfer_to_agent = "c"
        return {}

    @tool(require_confirmation=True)
    async def once(ctx: ToolContext) -> dict[str, Any]:
        """Moves."""
        ctx.actions.transfer_to_agent = "b"
        return {}

    others = [LlmAgent(name=name, model=ScriptedModel([f"i am {name}"]), description=name) for name in "bc"]
    model = ScriptedModel([[call("twice", "c1"), call("once", "c2")]])
    yes = {"confirmed": True}
    async with runner_factory(agent_of(model, Raw("twice", twice), once, sub_agents=others)) as runner:
        first = await play(runner)
        second = await play(runner, answer(first.open_ids[0], {**yes, "payload": "again"}))
        third = await play(runner, answer((first.open_ids[1], yes), (second.open_ids[-1], yes)))
    assert [event.actions.transfer_to_agent for event in third.events[:2]] == ["b", "c"]
    assert third.events[-1].text == "i am c"


async def test_core_res_2_only_long_running_calls_are_marked_as_closed(runner_factory: Any, play: Any) -> None:
    plugin = FunctionPlugin("p", before_tool=lambda ctx: {"from": "hook"})
    model = ScriptedModel([call("t", "c1"), call("later", "c2"), "done"])
    agent = agent_of(model, Raw("t"), Raw("later", is_long_running=True))
    async with runner_factory(agent, plugins=[plugin]) as runner:
        turn = await play(runner)
    assert [bool(event.custom_metadata) for event in turn.events] == [False, False, False, True, False]
    assert turn.open_ids == []


async def test_tl_18_after_tool_sees_the_arguments_as_the_tool_left_them(runner_factory: Any, play: Any) -> None:
    seen: list[Any] = []
    model = ScriptedModel([call("t", x=1), "done"])
    plugin = FunctionPlugin("p", after_tool=lambda args: seen.append(dict(args)))
    edits = Raw("t", lambda ctx, args: args.update(y=2))
    async with runner_factory(agent_of(model, edits), plugins=[plugin]) as runner:
        await play(runner)
    assert seen == [{"x": 1, "y": 2}]
