"""Calls at the same time, in threads, and through around and effect hooks (core TOOL-1, tools-plugins §7)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.effects import ToolResult
from hookwork.errors import PluginError
from hookwork.platform import run_bounded, run_sequentially, use_task_runner
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.records.event import EventActions
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call


class Raw(Tool):
    """A tool of the plain contract: a name and a `run`."""

    def __init__(self, name: str, run: Any, **fields: Any) -> None:
        self.name = name
        self._run = run
        for key, value in fields.items():
            setattr(self, key, value)

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.name)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        result = self._run(ctx, args)
        return await result if asyncio.iscoroutine(result) else result


def agent_of(model: ScriptedModel, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


def responses_of(turn: Any, position: int = 1) -> list[Any]:
    return [response.response for response in turn.events[position].function_responses]


# --- concurrency ------------------------------------------------------------------------------------------------------


async def test_tl_16_calls_start_in_order_each_in_a_task_of_its_own(runner_factory: Any, play: Any) -> None:
    started: list[str] = []
    tasks: list[Any] = []
    colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")

    async def body(ctx: ToolContext, args: Any) -> dict[str, Any]:
        started.append(ctx.function_call_id)
        tasks.append(asyncio.current_task())
        before = colour.get()
        colour.set(ctx.function_call_id)
        return {"before": before}

    model = ScriptedModel([[call("t", "c1"), call("t", "c2"), call("t", "c3")], call("t", "c4"), "done"])
    colour.set("caller")
    async with runner_factory(agent_of(model, Raw("t", body))) as runner:
        turn = await play(runner)
    assert started == ["c1", "c2", "c3", "c4"]
    assert len(set(tasks)) == 4
    assert asyncio.current_task() not in tasks  # a lone call too
    assert responses_of(turn) == [{"before": "caller"}] * 3
    assert colour.get() == "caller"


@pytest.mark.parametrize("task_runner", [run_sequentially, run_bounded(2)], ids=["sequentially", "two at once"])
async def test_tl_16_the_task_runner_decides_about_fan_out(runner_factory: Any, play: Any, task_runner: Any) -> None:
    running = 0
    most = 0

    async def body(ctx: ToolContext, args: Any) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return {"id": ctx.function_call_id}

    model = ScriptedModel([[call("t", f"c{i}") for i in range(5)], "done"])
    with use_task_runner(task_runner):
        async with runner_factory(agent_of(model, Raw("t", body))) as runner:
            turn = await play(runner)
    assert responses_of(turn) == [{"id": f"c{i}"} for i in range(5)]
    assert most == (1 if task_runner is run_sequentially else 2)


async def test_fn_22_blocking_tools_run_in_threads_of_the_runner(runner_factory: Any, play: Any) -> None:
    names: list[str] = []
    together = threading.Barrier(3, timeout=5)

    @tool
    def block() -> dict[str, Any]:
        """Block until three are here: they only meet when they run at once."""
        names.append(threading.current_thread().name)
        together.wait()
        return {}

    model = ScriptedModel([[call("block"), call("block"), call("block")], "done"])
    async with runner_factory(agent_of(model, block)) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{}, {}, {}]
    assert all(name.startswith("hookwork-a") for name in names)


async def test_fn_22_cancelling_does_not_wait_for_a_thread(runner_factory: Any, stored: Any) -> None:
    inside = asyncio.Event()
    go_on = threading.Event()
    loop = asyncio.get_running_loop()
    late: list[str] = []

    @tool
    def block(ctx: ToolContext) -> dict[str, Any]:
        """Block."""
        loop.call_soon_threadsafe(inside.set)
        go_on.wait(5)
        try:
            ctx.state["late"] = 1
        except RuntimeError as error:
            late.append(type(error).__name__)
        return {"late": True}

    model = ScriptedModel([call("block", "c1")])
    async with runner_factory(agent_of(model, block)) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        consumer = asyncio.create_task(run.wait())
        await inside.wait()
        began = time.monotonic()
        await run.stop()
        assert time.monotonic() - began < 1
        await consumer
        go_on.set()
        await loop.run_in_executor(None, lambda: runner._thread_pool().shutdown(wait=True))
        session = await stored(runner)
    assert late == ["ContextClosedError"]
    assert "late" not in session.state
    assert [event.author for event in session.events] == ["user", "a"]


# --- around and effect hooks ------------------------------------------------------------------------------------------


async def test_ard_13_a_raise_on_entering_is_the_calls_error_without_on_tool_error(
    runner_factory: Any, play: Any
) -> None:
    asked: list[str] = []

    @asynccontextmanager
    async def fails(tool: Any) -> AsyncIterator[None]:
        raise PermissionError("closed")
        yield

    plugin = FunctionPlugin("p", around_tool=fails, on_tool_error=lambda ctx, error: asked.append("asked"))
    model = ScriptedModel([call("t"), "done"])
    async with runner_factory(agent_of(model, Raw("t", lambda ctx, args: {})), plugins=[plugin]) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"error": "PermissionError: closed"}]
    assert asked == []


async def test_ard_15_context_variables_hold_for_the_stage_only(runner_factory: Any, play: Any) -> None:
    colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")

    @asynccontextmanager
    async def paint(ctx: ToolContext) -> AsyncIterator[None]:
        before = colour.get()
        colour.set(f"{before}+{ctx.function_call_id}")
        yield

    model = ScriptedModel([[call("t", "c1"), call("t", "c2")], "done"])
    tools = [Raw("t", lambda ctx, args: {"colour": colour.get()})]
    async with runner_factory(agent_of(model, *tools), plugins=[FunctionPlugin("p", around_tool=paint)]) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"colour": "none+c1"}, {"colour": "none+c2"}]
    assert colour.get() == "none"


async def test_eff_6_calls_enter_the_effect_in_model_order_and_overlap(runner_factory: Any, play: Any) -> None:
    """A remote effect never calls default(): it must not keep the next call waiting until it is done."""
    entered: list[str] = []
    all_in = asyncio.Event()

    async def perform_tool(call: Any) -> ToolResult:
        entered.append(call.call_id)
        if len(entered) == 2:
            all_in.set()
        await asyncio.wait_for(all_in.wait(), 5)
        return ToolResult(result={"id": call.call_id})

    async def slow_for_the_first(ctx: ToolContext, tool: Any, args: Any) -> dict[str, Any] | None:
        if ctx.function_call_id == "c1":
            for _ in range(5):
                await asyncio.sleep(0)
        return {"cached": True} if ctx.function_call_id == "c2" else None

    model = ScriptedModel([[call("t", "c1"), call("t", "c2"), call("t", "c3")], "done"])
    plugin = FunctionPlugin("remote", perform_tool=perform_tool)
    agent = agent_of(model, Raw("t", lambda ctx, args: {}), before_tool=slow_for_the_first)
    async with runner_factory(agent, plugins=[plugin]) as runner:
        turn = await play(runner)
    assert entered == ["c1", "c3"]
    assert responses_of(turn) == [{"id": "c1"}, {"cached": True}, {"id": "c3"}]


async def test_eff_5_actions_of_a_remote_effect_are_applied(runner_factory: Any, play: Any, stored: Any) -> None:
    told: list[Any] = []

    async def perform_tool(call: Any) -> ToolResult:
        told.append(call.to_json())
        actions = EventActions(state_delta={"from": "afar"}, artifact_delta={"f.txt": 4}, skip_summarization=True)
        return ToolResult(result={"ok": 1}, actions=actions)

    model = ScriptedModel([call("t", "c1", x=1)])
    plugin = FunctionPlugin("remote", perform_tool=perform_tool)
    async with runner_factory(agent_of(model, Raw("t", lambda ctx, args: {})), plugins=[plugin]) as runner:
        turn = await play(runner)
        session = await stored(runner)
    actions = turn.events[1].actions
    assert (dict(actions.state_delta), dict(actions.artifact_delta)) == ({"from": "afar"}, {"f.txt": 4})
    assert actions.skip_summarization
    assert session.state["from"] == "afar"
    assert (told[0]["kind"], told[0]["tool"], told[0]["call_id"], told[0]["args"]) == ("tool", "t", "c1", {"x": 1})
    assert told[0]["key"] == f"{turn.outcome.invocation_id}/a@1/tool/1.1"


async def test_eff_7_an_error_from_elsewhere_goes_to_on_tool_error(runner_factory: Any, play: Any) -> None:
    async def perform_tool(call: Any) -> ToolResult:
        return ToolResult(error={"type": "ValueError", "message": "bad value", "retryable": True})

    seen: list[Any] = []
    plugin = FunctionPlugin(
        "remote",
        perform_tool=perform_tool,
        on_tool_error=lambda ctx, error: seen.append((error.error_type, error.retryable)),
    )
    model = ScriptedModel([call("t", "c1"), "done"])
    async with runner_factory(agent_of(model, Raw("t", lambda ctx, args: {})), plugins=[plugin]) as runner:
        turn = await play(runner)
    assert seen == [("ValueError", True)]
    assert "bad value" in responses_of(turn)[0]["error"]


async def test_eff_1_a_result_of_another_kind_is_named(runner_factory: Any, play: Any) -> None:
    async def perform_tool(call: Any) -> Any:
        return {"result": 1}

    errors: list[Exception] = []
    plugin = FunctionPlugin("wrong", perform_tool=perform_tool, on_tool_error=lambda ctx, error: errors.append(error))
    model = ScriptedModel([call("t", "c1"), "done"])
    async with runner_factory(agent_of(model, Raw("t", lambda ctx, args: {})), plugins=[plugin]) as runner:
        await play(runner)
    assert isinstance(errors[0], PluginError)
    assert "'wrong'" in str(errors[0])
