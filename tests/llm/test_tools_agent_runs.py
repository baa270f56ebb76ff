"""Agents as tools: plugins, usage, limits, waiting and ending (tools-plugins BT-04; core FLOW-4; models USE-2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hookwork import Agent, Event, Plugin, RunConfig, Runner
from hookwork.context import InvocationContext, ToolContext
from hookwork.errors import LlmCallLimitError
from hookwork.records.metadata import UsageMetadata
from hookwork.tool import Tool, Toolset
from hookwork_llm import AgentTool, LlmAgent, tool
from hookwork_testkit import ScriptedModel, call


def caller(child: Any, *script: Any, **fields: Any) -> Any:
    """A root that calls the tool ``helper`` once, then says what it was scripted to."""
    model = ScriptedModel([call("helper", "c1", **fields.pop("args", {"request": "do it"})), *script])
    return LlmAgent(name="root", model=model, tools=[child], **fields)


def helper(*script: Any, **fields: Any) -> Any:
    return LlmAgent(name="helper", model=ScriptedModel(list(script)), **fields)


def response_of(turn: Any) -> Any:
    return turn.events[1].function_responses[0].response


# --- plugins ----------------------------------------------------------------------------------------------------------


class Recorder(Plugin):
    name = "recorder"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.closed = 0

    async def before_run(self, ctx: InvocationContext) -> None:
        self.seen.append(f"run {ctx.agent_name}")

    async def on_event(self, ctx: InvocationContext, event: Event) -> None:
        self.seen.append(f"event {event.author}")

    async def after_run(self, ctx: InvocationContext, outcome: Any) -> None:
        self.seen.append(f"after {ctx.agent_name} {outcome.kind}")

    @asynccontextmanager
    async def around_model(self, ctx: Any, request: Any, stage: Any) -> AsyncIterator[None]:
        self.seen.append(f"model of {ctx.agent_name}")
        yield

    async def perform_model(self, call: Any) -> Any:
        self.seen.append(f"effect of {call.agent}")
        return await call.default()

    async def close(self) -> None:
        self.closed += 1


async def test_bt_04_the_parents_plugins_see_the_child(runner_factory: Any, play: Any) -> None:
    recorder = Recorder()
    async with runner_factory(caller(AgentTool(helper("x")), "ok"), plugins=[recorder]) as runner:
        await play(runner)
        assert recorder.closed == 0
    asked = ["model of {}", "effect of {}", "event {}"]
    of = {name: [line.format(name) for line in asked] for name in ("root", "helper")}
    assert recorder.seen == [
        "run root", *of["root"], "run helper", *of["helper"], "after helper completed",
        "event root", *of["root"], "after root completed",
    ]  # fmt: skip
    assert recorder.closed == 1


async def test_bt_04_plugins_may_be_left_out(runner_factory: Any, play: Any) -> None:
    recorder = Recorder()
    child = AgentTool(helper("x"), include_plugins=False)
    async with runner_factory(caller(child, "ok"), plugins=[recorder]) as runner:
        await play(runner)
    assert not [line for line in recorder.seen if "helper" in line]


async def test_tt_2_a_policy_of_the_parent_blocks_a_tool_of_the_child(runner_factory: Any, play: Any) -> None:
    ran: list[int] = []

    @tool
    def danger() -> int:
        """Danger."""
        ran.append(1)
        return 1

    class Deny(Plugin):
        async def before_tool(self, ctx: ToolContext, tool: Tool) -> dict[str, Any] | None:
            return {"error": "denied"} if tool.name == "danger" else None

    child = helper(call("danger", "d1"), "was denied", tools=[danger])
    async with runner_factory(caller(AgentTool(child), "ok"), plugins=[Deny()]) as runner:
        turn = await play(runner)
    assert ran == []
    assert response_of(turn) == {"result": "was denied"}


# --- usage and limits -------------------------------------------------------------------------------------------------


async def test_case_usage_1_the_childs_share_counts_under_its_name(runner_factory: Any) -> None:
    used = UsageMetadata(prompt_token_count=7, candidates_token_count=3)
    child = LlmAgent(name="helper", model=ScriptedModel(["x"], name="small", usage=used))
    own = UsageMetadata(prompt_token_count=10, candidates_token_count=5)
    steps = ScriptedModel([call("helper", "c1", request="q"), "done"], name="big")
    root = LlmAgent(name="root", model=steps, tools=[AgentTool(child)])

    class Own(Plugin):
        async def after_model(self, ctx: Any, request: Any, response: Any) -> Any:
            return response.replace(usage_metadata=own) if response.content.text == "done" else None

    async with runner_factory(root, plugins=[Own()]) as runner, runner.run(user_id="u", message="hi") as run:
        outcome = await run.wait()
    assert (outcome.usage.total.prompt_token_count, outcome.usage.total.candidates_token_count) == (17, 8)
    helper_count = outcome.usage.by_agent["helper"]
    assert (helper_count.calls, helper_count.prompt_token_count, helper_count.candidates_token_count) == (1, 7, 3)
    assert outcome.usage.by_agent["root"].calls == 2
    assert outcome.usage.by_model["small"].prompt_token_count == 7


async def test_use_2_the_share_of_a_whole_tree_is_the_tools(runner_factory: Any) -> None:
    used = UsageMetadata(prompt_token_count=1)
    inner = LlmAgent(name="inner", model=ScriptedModel(["x"], usage=used))
    child = LlmAgent(
        name="helper",
        model=ScriptedModel([call("inner", "i1", request="q"), "y"], usage=used),
        tools=[AgentTool(inner)],
    )
    async with runner_factory(caller(AgentTool(child), "ok")) as runner, runner.run(user_id="u", message="hi") as run:
        outcome = await run.wait()
    counts = {name: count.calls for name, count in outcome.usage.by_agent.items()}
    assert counts == {"root": 2, "helper": 3}
    assert outcome.usage.total.prompt_token_count == 3


async def test_flow_4_the_child_counts_against_the_parents_limit(runner_factory: Any, play: Any) -> None:
    child = helper(call("nothing", "n1"), call("nothing", "n2"), "never")
    root = caller(AgentTool(child), "never")
    async with runner_factory(root) as runner:
        turn = await play(runner, config=RunConfig(max_llm_calls=2))
    assert (root.model.calls, child.model.calls) == (1, 1)
    assert turn.outcome.kind == "limit"
    assert isinstance(turn.error, LlmCallLimitError)


# --- waiting and ending -----------------------------------------------------------------------------------------------


async def test_bt_04_a_child_that_waits_is_an_error_with_the_remedy(runner_factory: Any, play: Any, gated: Any) -> None:
    danger = gated("danger")
    child = helper(call("danger", "d1", x=1), tools=[danger.tool])
    async with runner_factory(caller(AgentTool(child), "ok")) as runner:
        turn = await play(runner)
    assert "sub-agent" in response_of(turn)["error"]
    assert "'helper'" in response_of(turn)["error"]
    assert danger.runs == []
    assert turn.outcome.kind == "completed"


async def test_bt_04_a_long_running_call_of_the_child_is_an_error(runner_factory: Any, play: Any) -> None:
    @tool(long_running=True)
    def ticket() -> None:
        """Open a ticket."""

    child = helper(call("ticket", "t1"), tools=[ticket])
    async with runner_factory(caller(AgentTool(child), "ok")) as runner:
        turn = await play(runner)
    assert "'ticket' (t1)" in response_of(turn)["error"]
    assert turn.outcome.open_calls == ()


async def test_bt_04_ends_with_the_parent(runner_factory: Any) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def body(_: InvocationContext) -> AsyncIterator[Event]:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        yield Event()

    outcomes: list[str] = []

    class Watch(Plugin):
        async def after_run(self, ctx: InvocationContext, outcome: Any) -> None:
            outcomes.append(f"{ctx.agent_name} {outcome.kind}")

    async with runner_factory(caller(AgentTool(Agent(name="helper", body=body))), plugins=[Watch()]) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        waiting = asyncio.ensure_future(run.wait())
        await started.wait()
        await run.stop()
        outcome = await waiting
    assert ended.is_set()
    assert outcome.kind == "closed"
    assert outcomes == ["helper closed", "root closed"]


async def test_bt_04_the_call_has_the_same_child_ids_when_it_is_made_again(runner_factory: Any) -> None:
    keys: list[str] = []

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        raise RuntimeError("down")

    class Again(Plugin):
        async def perform_tool(self, call: Any) -> Any:
            if call.data["tool"] == "helper":
                await call.default()
            return await call.default()

    child = LlmAgent(name="helper", tools=[pay], model=ScriptedModel([call("pay", "p1"), "x", call("pay", "p1"), "x"]))
    async with runner_factory(caller(AgentTool(child), "ok"), plugins=[Again()]) as runner:
        await runner.ask("hi")
    assert len(keys) == 2
    assert keys[0] == keys[1]


class Shelf(Toolset):
    name = "shelf"

    def __init__(self) -> None:
        self.closed = 0

    async def tools(self, ctx: Any) -> list[Tool]:
        return []

    async def close(self) -> None:
        self.closed += 1


async def test_mcp_10_the_childs_toolsets_are_closed_with_the_runner(runner_factory: Any, play: Any) -> None:
    shelf = Shelf()
    async with runner_factory(caller(AgentTool(helper("x", tools=[shelf])), "ok")) as runner:
        await play(runner)
        assert shelf.closed == 0
    assert shelf.closed == 1


async def test_inv_4_one_tool_serves_many_runners_at_once(play: Any) -> None:
    child = LlmAgent(name="helper", model=ScriptedModel(lambda request: f"heard {request.contents[-1].text}"))
    shared = AgentTool(child)

    async def one(number: int) -> Any:
        model = ScriptedModel([call("helper", "c1", request=f"n{number}"), "ok"])
        async with Runner(LlmAgent(name="root", model=model, tools=[shared])) as runner:
            return response_of(await play(runner))

    results = await asyncio.gather(*(one(number) for number in range(8)))
    assert results == [{"result": f"heard n{number}"} for number in range(8)]
