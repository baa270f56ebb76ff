"""Plugins line by line, where the table of hooks does not say it (tools-plugins §7; ARD-1, ARD-16, EFF-11)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.kernel.watching import settle

from hookwork import (
    Content,
    Event,
    EventActions,
    FunctionPlugin,
    FunctionResponse,
    InvocationContext,
    ModelRequest,
    ModelResponse,
    Part,
    Plugin,
    RunConfig,
    ToolContext,
    Toolset,
    text_content,
)
from hookwork.invocation import Invocation
from hookwork.platform import use_clock, use_uuids
from hookwork.tool import Tool
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import AgentTool, LlmAgent, PreloadMemoryTool, tool
from hookwork_testkit import ScriptedModel, block, call, partial
from hookwork_testkit.pytest_plugin import CountedIds
from hookwork_workflow import SequentialAgent

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


@tool(inline=True)
def look() -> dict[str, Any]:
    """Looks."""
    return {"sky": "clear"}


@tool(long_running=True, inline=True)
def wait() -> None:
    """Waits."""


def agent_of(*steps: Any, name: str = "a", **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel(list(steps)), **fields)


def partial_call(function: Any, *values: Any) -> Any:
    """A callback that calls a function with these values and has no opinion."""

    def callback(ctx: Any) -> None:
        function(*values)

    return callback


async def session_of(runner: Any) -> Any:
    return await runner.sessions.get_session(app_name=runner.app_name, **WHO)


# --- the manager ------------------------------------------------------------------------------------------------------


async def test_plug_4_the_hooks_are_frozen_with_the_runner(runner_factory: Any) -> None:
    called: list[str] = []
    early = FunctionPlugin("early", before_agent=lambda ctx: called.append("early"))
    late = FunctionPlugin("late", before_agent=lambda ctx: called.append("late"))
    given = [early]
    async with runner_factory(agent_of("one"), plugins=given) as runner:
        given.append(late)
        early.after_agent = lambda ctx: called.append("changed")  # type: ignore[attr-defined]
        await runner.run(message="hi", **WHO).wait()
        assert not hasattr(runner, "register")
    assert called == ["early"]


async def test_plug_4_two_runners_of_one_agent_have_hooks_of_their_own_and_without_a_runner_there_are_none(
    runner_factory: Any,
) -> None:
    called: list[str] = []
    agent = agent_of("one", "two", "three")
    for name in ("first", "second"):
        plugin = FunctionPlugin(name, before_agent=partial_call(called.append, name))
        async with runner_factory(agent, plugins=[plugin]) as runner:
            await runner.run(message="hi", **WHO).wait()
    assert called == ["first", "second"]
    session = await InMemorySessionService().create_session(app_name="a", **WHO)
    inv = Invocation(app_name="a", user_id="u", session=session, invocation_id="e-1")
    ctx = InvocationContext(inv, agent, path="a@1")
    assert [event.text async for event in agent.run(ctx)] == ["three"]
    assert called == ["first", "second"]


async def test_plug_14_on_event_is_not_asked_about_events_that_no_agent_made(runner_factory: Any) -> None:
    """User messages, rewinds, seals and absorbed foreign events pass it by; what agents make comes to it."""
    seen: list[str] = []
    started = asyncio.Event()

    @tool(long_running=True)
    async def ship(ctx: ToolContext) -> None:
        """Ships, for ever."""
        started.set()
        await asyncio.Event().wait()

    @tool
    async def bridge(ctx: ToolContext) -> dict[str, Any]:
        """Notes something beside the run."""
        other = await sessions.get_session(app_name="a", **WHO)
        note = Event(author="bridge", invocation_id="e-b", actions=EventActions(state_delta={"note": 1}))
        await sessions.append_event(other, note)
        return {}

    def on_event(event: Event) -> None:
        what = [*(call.name for call in event.function_calls), *(r.name for r in event.function_responses)]
        seen.append(f"{event.author} {event.text or what}")

    sessions = InMemorySessionService()
    agent = agent_of(call("bridge"), "done", call("ship"), tools=[ship, bridge])
    plugins = [FunctionPlugin("watch", on_event=on_event)]
    async with runner_factory(agent, plugins=plugins, sessions=sessions) as runner:
        first = await runner.run(message="hi", **WHO).wait()
        run = runner.run(message="ship it", **WHO)
        consuming = asyncio.create_task(run.wait())
        await started.wait()
        await run.stop()
        await consuming
        await runner.rewind(before_invocation_id=first.invocation_id, **WHO)
        events = (await session_of(runner)).events
    assert seen == ["a ['bridge']", "a ['bridge']", "a done", "a ['ship']"]
    stored = [event.author for event in events]
    assert stored.count("user") == 3  # two messages and the rewind
    assert "bridge" in stored
    assert events[-2].function_responses[0].name == "ship"  # the seal


async def test_plug_14_tt_1_a_veto_of_on_event_keeps_the_tools_of_that_event_from_running(runner_factory: Any) -> None:
    ran: list[str] = []

    @tool(inline=True)
    def act() -> dict[str, Any]:
        """Acts."""
        ran.append("act")
        return {}

    def veto(event: Event) -> None:
        if event.function_calls:
            raise PermissionError("not this one")

    agent = agent_of(call("act"), "x", tools=[act])
    async with runner_factory(agent, plugins=[FunctionPlugin("v", on_event=veto)]) as runner:
        with pytest.raises(PermissionError):
            await runner.run(message="hi", **WHO).wait()
        assert [event.author for event in (await session_of(runner)).events] == ["user"]
    assert ran == []


@pytest.mark.parametrize("kind", ["llm", "composed"])
async def test_plug_15_case_plug_1_the_content_of_before_run_is_the_answer(runner_factory: Any, kind: str) -> None:
    told: list[str] = []
    inner = agent_of("never")
    root = inner if kind == "llm" else SequentialAgent(name="seq", sub_agents=[inner])
    plugins = [
        FunctionPlugin("guard", before_run=lambda ctx: text_content("closed today", role="model")),
        FunctionPlugin("watch", after_run=lambda ctx, outcome: told.append(outcome.kind)),
    ]
    async with runner_factory(root, plugins=plugins) as runner:
        events = [event async for event in runner.run(message="hi", **WHO)]
        stored = (await session_of(runner)).events
    assert [(event.author, event.text) for event in stored] == [("user", "hi"), (root.name, "closed today")]
    assert events == list(stored)[1:]
    assert told == ["completed"]


async def test_plug_16_a_replaced_message_decides_where_the_run_goes_on(runner_factory: Any) -> None:
    """A plain "yes" is made the answer to the call that waits."""
    agent = agent_of(call("wait", "c1"), "thanks", tools=[wait])

    async def understand(ctx: InvocationContext, message: Content) -> Content | None:
        waiting = list(ctx.session.open_calls.values())
        if not waiting or message.text != "yes":
            return None
        answer = FunctionResponse(id=waiting[0].id, name=waiting[0].name, response={"agreed": True})
        return Content(role="user", parts=[Part(function_response=answer)])

    plugin = FunctionPlugin("u", on_user_message=understand)
    async with runner_factory(agent, plugins=[plugin]) as runner:
        first = await runner.run(message="order", **WHO).wait()
        second = await runner.run(message="yes", **WHO).wait()
        stored = (await session_of(runner)).events
    assert second.invocation_id == first.invocation_id
    assert [event.text for event in stored] == ["order", "", "", "thanks"]
    assert agent.model.prompts[-1][-1].function_responses[0].response == {"agreed": True}  # type: ignore[union-attr]


async def test_plug_21_what_agent_hooks_write_leaves_on_an_event_even_without_a_value(runner_factory: Any) -> None:
    async def before(ctx: Any) -> None:
        await ctx.artifacts.save("notes.txt", Part(text="x"))

    def after(ctx: Any) -> None:
        ctx.state["seen"] = True

    plugin = FunctionPlugin("p", before_agent=before, after_agent=after)
    async with runner_factory(agent_of("answer"), plugins=[plugin]) as runner:
        outcome = await runner.run(message="hi", **WHO).wait()
        events = (await session_of(runner)).events
    shown = [(e.text, dict(e.actions.state_delta), dict(e.actions.artifact_delta)) for e in events[1:]]
    assert shown == [("", {}, {"notes.txt": 1}), ("answer", {}, {}), ("", {"seen": True}, {})]
    assert outcome.final_event.text == "answer"


async def test_plug_21_tt_13_after_an_error_of_before_agent_the_body_never_runs(runner_factory: Any) -> None:
    agent = agent_of("never")

    def refuse(ctx: Any) -> None:
        raise PermissionError("no")

    async with runner_factory(agent, plugins=[FunctionPlugin("p", before_agent=refuse)]) as runner:
        run = runner.run(message="hi", **WHO)
        events = aiter(run)
        with pytest.raises(PermissionError):
            await anext(events)
        with pytest.raises(StopAsyncIteration):
            await anext(events)  # a consumer that keeps iterating gets nothing more
    assert agent.model.calls == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("answered", ["before"]),
        ("refused", ["before"]),
        ("cancelled", ["before"]),
        ("failed", ["before", "error"]),
        ("recovered", ["before", "error", "after"]),
        ("plain", ["before", "after"]),
    ],
)
async def test_plug_39_before_and_after_model_without_each_other(
    runner_factory: Any, case: str, expected: list[str]
) -> None:
    log: list[str] = []

    def before(ctx: Any, request: Any) -> ModelResponse | None:
        log.append("before")
        if case == "refused":
            raise PermissionError("no")
        return ModelResponse(content=text_content("cached", role="model")) if case == "answered" else None

    def on_error(ctx: Any, request: Any, error: Exception) -> ModelResponse | None:
        log.append("error")
        return ModelResponse(content=text_content("sorry", role="model")) if case == "recovered" else None

    plugin = FunctionPlugin(
        "p", before_model=before, on_model_error=on_error, after_model=lambda ctx, response: log.append("after")
    )
    steps: dict[str, Any] = {
        "failed": RuntimeError("down"), "recovered": RuntimeError("down"), "cancelled": block("late"),
    }  # fmt: skip
    model = ScriptedModel([steps.get(case, "answer")])
    async with runner_factory(LlmAgent(name="a", model=model), plugins=[plugin]) as runner:
        task = asyncio.create_task(runner.run(message="hi", **WHO).wait())
        if case == "cancelled":
            await model.wait_blocked()
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() == (case == "cancelled")
        failed = None if task.cancelled() else task.exception()
        assert type(failed).__name__ == {"refused": "PermissionError", "failed": "RuntimeError"}.get(case, "NoneType")
    assert log == expected


async def test_plug_50_tools_start_after_on_event_storing_and_the_consumers_next_step(runner_factory: Any) -> None:
    log: list[str] = []
    sessions = InMemorySessionService()

    @tool
    async def act(ctx: ToolContext) -> dict[str, Any]:
        """Acts."""
        stored = await sessions.get_session(app_name="a", **WHO)
        log.append(f"tool, stored {[c.name for event in stored.events for c in event.function_calls]}")
        return {}

    plugin = FunctionPlugin("p", on_event=lambda event: log.append("on_event"))
    agent = agent_of(call("act"), "x", tools=[act])
    async with runner_factory(agent, plugins=[plugin], sessions=sessions) as runner:
        async for event in runner.run(message="hi", **WHO):
            if event.function_calls:
                await settle()
                log.append("consumer")
    assert log == ["on_event", "consumer", "tool, stored ['act']", "on_event", "on_event"]


async def test_plug_51_bt_4_every_agent_of_a_run_meets_the_runners_plugins(runner_factory: Any) -> None:
    seen: list[str] = []
    plugin = FunctionPlugin("p", before_agent=lambda ctx, agent: seen.append(agent.name))
    asked = agent_of("one", name="asked", mode="single_turn", description="Is asked.")
    tasked = agent_of(call("finish_task", result="x"), name="tasked", mode="task", description="Has a task.")
    apart = agent_of("two", name="apart", description="Runs apart.")
    chained = SequentialAgent(name="seq", sub_agents=[agent_of("s1", name="s1"), agent_of("s2", name="s2")])
    root = agent_of(
        [call("asked", request="?"), call("apart", request="?")],
        call("tasked", request="?"),
        call("transfer_to_agent", agent_name="seq"),
        name="root",
        sub_agents=[asked, tasked, chained],
        tools=[AgentTool(apart)],
    )
    async with runner_factory(root, plugins=[plugin]) as runner:
        await runner.run(message="hi", **WHO).wait()
    assert seen[0] == "root"
    assert sorted(seen[1:3]) == ["apart", "asked"]
    assert seen[3:] == ["tasked", "seq", "s1", "s2"]


HERE: ContextVar[str] = ContextVar("here", default="nowhere")


async def test_plug_52_a_bare_break_leaves_after_run_to_the_finaliser_and_async_with_does_not(
    runner_factory: Any,
) -> None:
    told: list[tuple[str, str]] = []

    def after_run(outcome: Any) -> None:
        told.append((outcome.kind, HERE.get()))

    agent = agent_of("one", "two")
    async with runner_factory(agent, plugins=[FunctionPlugin("p", after_run=after_run)]) as runner:

        async def breaks() -> None:
            HERE.set("in the consumer's task")
            async for _ in runner.run(message="hi", **WHO):
                break

        await asyncio.create_task(breaks())
        gc.collect()
        await settle()
        assert [kind for kind, _ in told] == ["closed"]
        told.clear()
        async with runner.run(user_id="u", session_id="t", message="hi") as run:
            async for _ in run:
                break
        assert [kind for kind, _ in told] == ["closed"]  # at the end of the block, at the latest


# --- around hooks -----------------------------------------------------------------------------------------------------


async def test_ard_1_around_run_encloses_the_message_and_is_left_before_after_run(runner_factory: Any) -> None:
    log: list[str] = []

    class Around(Plugin):
        name = "around"

        @asynccontextmanager
        async def around_run(self, ctx: InvocationContext, stage: Any) -> AsyncIterator[None]:
            log.append(f"entered with {len(ctx.session.events)} events, outcome {stage.outcome}")
            yield
            log.append(f"left {stage.outcome.value.kind} by {stage.outcome.source}")

        def on_user_message(self) -> None:
            log.append("on_user_message")

        def after_run(self, outcome: Any) -> None:
            log.append(f"after_run {outcome.kind}")

    async with runner_factory(agent_of("x"), plugins=[Around()]) as runner:
        await runner.run(message="hi", **WHO).wait()
    assert log == [
        "entered with 0 events, outcome None",
        "on_user_message",
        "left completed by default",
        "after_run completed",
    ]


async def test_ard_16_one_manager_for_each_stage_so_parallel_calls_overlap_and_partials_pass(
    runner_factory: Any,
) -> None:
    entered: list[str] = []
    inside = {"tool": 0, "most": 0}
    both = asyncio.Barrier(2)

    @tool
    async def meet(n: int) -> dict[str, int]:
        """Meets the other call."""
        await both.wait()
        return {"n": n}

    class Around(Plugin):
        name = "around"

        @asynccontextmanager
        async def around_model(self, ctx: Any, request: ModelRequest, stage: Any) -> AsyncIterator[None]:
            entered.append("model")
            yield
            entered.append("model left")

        @asynccontextmanager
        async def around_tool(self, ctx: Any, tool: Tool, args: Any, stage: Any) -> AsyncIterator[None]:
            entered.append(f"tool {args['n']}")
            inside["tool"] += 1
            inside["most"] = max(inside["most"], inside["tool"])
            yield
            inside["tool"] -= 1

    calls = [call("meet", "c1", n=1), call("meet", "c2", n=2)]
    agent = agent_of(calls, [partial("a"), partial("b"), partial("c")], tools=[meet])
    async with runner_factory(agent, plugins=[Around()]) as runner:
        config = RunConfig(streaming_mode="sse")
        partials = [event async for event in runner.run(message="hi", config=config, **WHO) if event.partial]
    assert len(partials) == 3
    assert entered == ["model", "model left", "tool 1", "tool 2", "model", "model left"]
    assert inside == {"tool": 0, "most": 2}


# --- effects ----------------------------------------------------------------------------------------------------------


class Shelf(Toolset):
    """Lists one tool, and notes that it was asked."""

    name = "shelf"

    def __init__(self) -> None:
        self.asked = 0

    async def tools(self, ctx: Any) -> list[Any]:
        self.asked += 1
        return [look]


async def test_eff_11_what_is_done_again_in_a_replay_is_no_effect(runner_factory: Any) -> None:
    """Hooks, stages, toolset listing, memory search, artifact loads and opening the session ask nobody; model calls,
    tool bodies and writes do. Clock and ids are those that the plugin put in place around the run."""
    effects: list[str] = []
    shelf = Shelf()

    class Engine(Plugin):
        name = "engine"

        @asynccontextmanager
        async def around_run(self, ctx: Any, stage: Any) -> AsyncIterator[None]:
            with use_clock(lambda: datetime(2031, 1, 1, tzinfo=UTC)), use_uuids(CountedIds()):
                yield

        async def perform_model(self, call: Any) -> Any:
            effects.append("model")
            return await call.default()

        async def perform_tool(self, call: Any) -> Any:
            effects.append(f"tool {call.data['tool']}")
            return await call.default()

        async def perform_write(self, call: Any) -> Any:
            effects.append(f"write {call.data['op']}")
            return await call.default()

    async def before(ctx: Any) -> None:
        await ctx.artifacts.list()
        await ctx.search_memory("anything")

    agent = agent_of(call("look", "c1"), "x", toolsets=[shelf], tools=[PreloadMemoryTool()], before_agent=[before])
    async with runner_factory(agent, plugins=[Engine()]) as runner:
        events = [event async for event in runner.run(message="hi", **WHO)]
    assert effects == [
        "write append_event", "model", "write append_event", "tool look", "write append_event", "model",
        "write append_event",
    ]  # fmt: skip
    assert shelf.asked == 1
    assert {event.time.year for event in events} == {2031}
    assert all(event.id.startswith("00000000-") for event in events)
