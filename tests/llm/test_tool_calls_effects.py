"""Tool bodies here, carried out elsewhere, and what a remote effect brings (tools-plugins EFF-3 … EFF-10, TL-11)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.effects import ToolResult
from hookwork.errors import RemoteEffectError
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.records.event import EventActions, ToolConfirmation
from hookwork.records.request import FunctionDeclaration
from hookwork.runner import Runner
from hookwork.tool import Finished, Tool, ToolWrapper, pack_tool
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


class Stream(Tool):
    """A tool of the plain contract that streams and checks nothing."""

    name = "stream"

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name)

    async def run_stream(self, ctx: ToolContext, args: dict[str, Any]) -> AsyncIterator[str]:
        ctx.state["streamed"] = True
        yield "a"
        yield str(args.get("x", "b"))
        if args.get("fail"):
            raise ValueError("in the middle")


class Doubling(ToolWrapper):
    """A wrapper with a body of its own."""

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        result = await self.inner.run(ctx, args)  # type: ignore[attr-defined]
        return {"result": result["result"] * 2}


@tool(inline=True)
def double_me(x: int) -> int:
    """Gives it back."""
    return x


def agent_of(model: ScriptedModel, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


def responses_of(turn: Any, position: int = 1) -> list[Any]:
    return [response.response for response in turn.events[position].function_responses]


async def carried_out(runner: Runner, name: str, **args: Any) -> dict[str, Any]:
    order = {"kind": "tool", "key": "k", "app_name": "a", "user_id": "u", "session_id": "s", "invocation_id": "e"}
    return dict(await runner.carry_out({**order, "agent": "a", "tool": name, "args": args}))


# --- bodies, here and elsewhere ---------------------------------------------------------------------------------------


async def test_tl_11_a_wrappers_own_body_is_not_passed_by(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([[call("double_me", x=2), call("double_me", x="two")], "done"])
    async with runner_factory(agent_of(model, Doubling(double_me))) as runner:
        turn = await play(runner)
        elsewhere = await carried_out(runner, "double_me", x=2)
        wrong = await carried_out(runner, "double_me", x="two")
    first, second = responses_of(turn)
    assert first == elsewhere["result"] == {"result": 4}
    assert "/x" in second["error"]
    assert wrong["error"]["type"] == "ToolArgumentError"


async def test_fn_26_a_stream_is_one_text_here_and_elsewhere(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([[call("stream"), call("stream", fail=True)], "done"])
    async with runner_factory(agent_of(model, Stream())) as runner:
        turn = await play(runner)
        elsewhere = await carried_out(runner, "stream", x="z")
    assert responses_of(turn) == [{"result": "ab"}, {"error": "ValueError: in the middle"}]
    assert (elsewhere["result"], elsewhere["finished"], elsewhere["error"]) == ({"result": "az"}, False, None)
    assert elsewhere["actions"]["stateDelta"] == {"streamed": True}


async def test_fn_26_the_time_limit_of_a_streaming_tool_holds_in_the_flow(runner_factory: Any, play: Any) -> None:
    @tool(timeout=0.01)
    async def forever() -> AsyncIterator[str]:
        """Never ends."""
        yield "a"
        await asyncio.Event().wait()

    model = ScriptedModel([call("forever"), "done"])
    async with runner_factory(agent_of(model, forever)) as runner:
        turn = await asyncio.wait_for(play(runner), 5)
    assert responses_of(turn) == [{"error": "tool 'forever' did not finish within 0.01 s"}]


@pytest.mark.parametrize("wrapped", [False, True])
async def test_fn_10_arguments_of_a_streaming_tool_are_converted_once(
    runner_factory: Any, play: Any, wrapped: bool
) -> None:
    checked: list[Any] = []

    @tool
    async def say(x: int) -> AsyncIterator[str]:
        """Says."""
        yield str(x)

    inner = say.validate_args
    say.validate_args = lambda args: checked.append(args) or inner(args)  # type: ignore[method-assign, func-returns-value]
    model = ScriptedModel([call("say", x=1), "done"])
    async with runner_factory(agent_of(model, ToolWrapper(say) if wrapped else say)) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"result": "1"}]
    assert checked == [{"x": 1}]


async def test_eff_10_a_tool_that_only_the_model_can_use_is_not_carried_out(runner_factory: Any) -> None:
    class Search(Tool):
        name = "search"

        async def process_request(self, ctx: Any, request: Any) -> None:
            pack_tool(request, self)

    async with runner_factory(agent_of(ScriptedModel([]), Search())) as runner:
        with pytest.raises(Exception, match="no tool 'search' that can be run"):
            await carried_out(runner, "search")


async def test_res_2_finished_of_a_raw_tool_elsewhere(runner_factory: Any) -> None:
    later = Raw("later", lambda ctx, args: Finished(3), is_long_running=True)
    async with runner_factory(agent_of(ScriptedModel([]), later, Raw("none", lambda ctx, args: None))) as runner:
        done, none = await carried_out(runner, "later"), await carried_out(runner, "none")
    assert (done["result"], done["finished"]) == ({"result": 3}, True)
    assert (none["result"], none["finished"], none["error"]) == (None, False, None)


# --- what a remote effect brings --------------------------------------------------------------------------------------


def remote(result: ToolResult) -> FunctionPlugin:
    async def perform_tool(call: Any) -> ToolResult:
        return result

    return FunctionPlugin("remote", perform_tool=perform_tool)


async def test_eff_5_a_transfer_and_escalation_from_elsewhere_are_taken_over(runner_factory: Any, play: Any) -> None:
    other = LlmAgent(name="b", model=ScriptedModel(["i am b"]), description="b")
    agent = agent_of(ScriptedModel([call("t")]), Raw("t"), sub_agents=[other])
    brought = ToolResult(result={"ok": 1}, actions=EventActions(transfer_to_agent="b", escalate=True))
    async with runner_factory(agent, plugins=[remote(brought)]) as runner:
        turn = await play(runner)
    assert (turn.events[1].actions.transfer_to_agent, turn.events[1].actions.escalate) == ("b", True)
    assert turn.events[-1].text == "i am b"


async def test_eff_5_a_request_for_approval_from_elsewhere_is_made(runner_factory: Any, play: Any) -> None:
    asked = EventActions(requested_tool_confirmations={"c1": ToolConfirmation(hint="far away")})
    brought = ToolResult(result={"status": "asks"}, actions=asked)
    async with runner_factory(
        agent_of(ScriptedModel([call("t", "c1")]), Raw("t")), plugins=[remote(brought)]
    ) as runner:
        turn = await play(runner)
    [request] = turn.events[-1].function_calls
    assert (request.name, request.args["toolConfirmation"]["hint"]) == ("adk_request_confirmation", "far away")
    assert turn.open_ids == [request.id]


@pytest.mark.parametrize(("finished", "open_ids"), [(True, []), (False, ["c1"])])
async def test_eff_5_elsewhere_says_whether_a_long_running_tool_has_finished(
    runner_factory: Any, play: Any, finished: bool, open_ids: list[str]
) -> None:
    later = Raw("later", is_long_running=True)
    plugin = remote(ToolResult(result={"v": 1}, finished=finished))
    async with runner_factory(
        agent_of(ScriptedModel([call("later", "c1"), "done"]), later), plugins=[plugin]
    ) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"v": 1}]
    assert turn.open_ids == open_ids


async def test_eff_10_the_tool_sees_the_call_as_described_and_cannot_edit_the_description(runner_factory: Any) -> None:
    def look(ctx: ToolContext, args: Any) -> dict[str, Any]:
        args["list"].append(2)
        decision = ctx.tool_confirmation
        return {"id": ctx.function_call_id, "payload": decision.payload if decision else None, "args": args}

    order: dict[str, Any] = {
        "kind": "tool",
        "key": "k",
        "app_name": "a",
        "user_id": "u",
        "session_id": "s",
        "invocation_id": "e",
        "agent": "a",
        "tool": "look",
        "call_id": "c7",
        "confirmation": {"confirmed": True, "payload": {"v": 2}},
        "args": {"list": [1]},
    }
    async with runner_factory(agent_of(ScriptedModel([]), Raw("look", look))) as runner:
        result = await runner.carry_out(order)
    assert result["result"] == {"id": "c7", "payload": {"v": 2}, "args": {"list": [1, 2]}}
    assert order["args"] == {"list": [1]}


@pytest.mark.parametrize("retryable", [True, False])
async def test_eff_7_an_error_elsewhere_says_whether_it_may_be_tried_again(
    runner_factory: Any, retryable: bool
) -> None:
    def fails(ctx: ToolContext, args: Any) -> None:
        raise RemoteEffectError("busy", error_type="Busy", retryable=retryable)

    async with runner_factory(agent_of(ScriptedModel([]), Raw("t", fails))) as runner:
        result = await carried_out(runner, "t")
    assert result["error"] == {"type": "RemoteEffectError", "message": "busy", "retryable": retryable}
    assert result["result"] is None
