"""Carrying out the calls of a model event (core §4.4, tools-plugins §1)."""

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
from hookwork.errors import PluginError, ToolError
from hookwork.node import Pause
from hookwork.platform import run_bounded, run_sequentially, use_task_runner
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.records.content import Part
from hookwork.records.event import EventActions
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool, Toolset, pack_tool
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call


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


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, {"result": 0}),
        ("", {"result": ""}),
        ([], {"result": []}),
        (False, {"result": False}),
        ({}, {}),
        (None, None),
        ({"error": "as data"}, {"error": "as data"}),
    ],
)
@pytest.mark.parametrize("kind", ["function", "raw"])
async def test_fn_20_falsy_values_are_values(
    runner_factory: Any, play: Any, value: Any, expected: Any, kind: str
) -> None:
    made = tool(name="t")(lambda: value) if kind == "function" else Raw("t", lambda ctx, args: value)
    model = ScriptedModel([call("t", "c1"), "done"])
    async with runner_factory(agent_of(model, made)) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [expected]
    assert model.calls == 2
    assert_valid_prompt(model.prompts[-1])


async def test_tl_20_responses_keep_call_order_whatever_finishes_first(runner_factory: Any, play: Any) -> None:
    second_done = asyncio.Event()

    @tool
    async def slow() -> int:
        """Wait for the quick one."""
        await second_done.wait()
        return 1

    @tool
    async def quick() -> int:
        """Finish at once."""
        second_done.set()
        return 2

    model = ScriptedModel([[call("slow", "c1"), call("quick", "c2")], "done"])
    async with runner_factory(agent_of(model, slow, quick)) as runner:
        turn = await play(runner)
    event = turn.events[1]
    assert [(r.id, r.name, r.response) for r in event.function_responses] == [
        ("c1", "slow", {"result": 1}),
        ("c2", "quick", {"result": 2}),
    ]
    assert (event.author, event.content.role, event.branch) == ("a", "user", "")


async def test_tl_21_an_exception_never_leaves_the_batch(runner_factory: Any, play: Any) -> None:
    def typed(ctx: Any, args: Any) -> None:
        raise ToolError("say it like this")

    def untyped(ctx: Any, args: Any) -> None:
        raise KeyError("k")

    tools = [Raw("typed", typed), Raw("untyped", untyped), Raw("fine", lambda ctx, args: {"ok": 1})]
    model = ScriptedModel([[call("typed"), call("untyped"), call("fine")], "done"])
    async with runner_factory(agent_of(model, *tools)) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"error": "say it like this"}, {"error": "KeyError: 'k'"}, {"ok": 1}]
    assert turn.scene[-1] == "a: done"


async def test_tl_21_a_result_that_is_no_json_is_an_error(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([[call("t"), call("n")], "done"])
    tools = [Raw("t", lambda ctx, args: {"x": object()}), Raw("n", lambda ctx, args: {"x": float("nan")})]
    async with runner_factory(agent_of(model, *tools)) as runner:
        turn = await play(runner)
    assert [sorted(response) for response in responses_of(turn)] == [["error"], ["error"]]
    assert "'t'" in responses_of(turn)[0]["error"]


async def test_tl_21_a_pause_ends_only_its_own_call(runner_factory: Any, play: Any) -> None:
    def pauses(ctx: Any, args: Any) -> None:
        raise Pause

    tools = [Raw("pauses", pauses), Raw("fine", lambda ctx, args: {"ok": 1})]
    model = ScriptedModel([[call("pauses", "c1"), call("fine", "c2")]])
    seen: list[Any] = []

    @asynccontextmanager
    async def audit(tool: Any, stage: Any) -> AsyncIterator[None]:
        yield
        seen.append((tool.name, stage.outcome.value, stage.outcome.error))

    after = FunctionPlugin("after", around_tool=audit, after_tool=lambda ctx, tool: seen.append(tool.name))
    async with runner_factory(agent_of(model, *tools), plugins=[after]) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +pauses +fine", "a: -fine"]
    assert model.calls == 1
    assert ("pauses", None, None) in seen  # no response is no error (ARD-4)
    assert "pauses" not in seen  # it did not end, so no after_tool


async def test_tl_25_a_deferring_tool_stays_open(runner_factory: Any, play: Any) -> None:
    deferring = Raw("d", lambda ctx, args: None, defers_response=lambda: True)
    model = ScriptedModel([call("d", "c1"), "never"])
    async with runner_factory(agent_of(model, deferring)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +d"]


async def test_tool_8_state_of_a_deferred_call_rides_on_a_content_less_event(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    @tool(long_running=True)
    async def wait(ctx: ToolContext) -> None:
        """Wait."""
        ctx.state["asked"] = True

    model = ScriptedModel([call("wait", "c1")])
    async with runner_factory(agent_of(model, wait)) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert turn.scene == ["a: +wait", "a: δasked"]
    assert not turn.events[1].is_final_response()
    assert session.state["asked"] is True
    assert turn.open_ids == ["c1"]


async def test_tool_9_flags_of_a_call_without_a_response_are_not_lost(runner_factory: Any, play: Any) -> None:
    @tool(long_running=True)
    async def wait(ctx: ToolContext) -> None:
        """Wait."""
        ctx.actions.escalate = True

    model = ScriptedModel([call("wait", "c1")])
    async with runner_factory(agent_of(model, wait)) as runner:
        turn = await play(runner)
    assert [event.actions.escalate for event in turn.events] == [None, True]


async def test_tool_9_merged_actions(runner_factory: Any, play: Any) -> None:
    async def one(ctx: ToolContext, args: Any) -> dict[str, Any]:
        ctx.actions.escalate = True
        await ctx.artifacts.save("f.txt", Part(text="1"))
        return {}

    async def two(ctx: ToolContext, args: Any) -> dict[str, Any]:
        ctx.actions.skip_summarization = True
        await ctx.artifacts.save("f.txt", Part(text="2"))
        return {}

    model = ScriptedModel([[call("one"), call("two")]])
    async with runner_factory(agent_of(model, Raw("one", one), Raw("two", two))) as runner:
        turn = await play(runner)
        newest = await runner.artifacts.list_versions(app_name="a", user_id="u", session_id="s", filename="f.txt")
    actions = turn.events[1].actions
    assert (actions.escalate, actions.skip_summarization, actions.transfer_to_agent) == (True, True, None)
    assert dict(actions.artifact_delta) == {"f.txt": max(newest)}


async def test_tl_28_a_tool_may_show_its_result_when_it_ends_the_loop(runner_factory: Any, play: Any) -> None:
    def result(ctx: ToolContext, args: Any) -> str:
        ctx.actions.skip_summarization = True
        return "the answer"

    shows = Raw("shows", result, display_result_on_skip_summarization=lambda: True)
    model = ScriptedModel([call("shows")])
    async with runner_factory(agent_of(model, shows)) as runner:
        turn = await play(runner)
    assert turn.events[1].text == "the answer"
    assert turn.outcome.final_event.text == "the answer"


# --- lookup and arguments ---------------------------------------------------------------------------------------------


async def test_tl_19_unknown_names_are_answered_with_the_sorted_available_ones(runner_factory: Any, play: Any) -> None:
    class Search(Tool):
        """Model-side: it has nothing to run here."""

        name = "search_by_model"

        async def process_request(self, ctx: Any, request: Any) -> None:
            pack_tool(request, self)

    model = ScriptedModel(
        [[call("nope", "c1"), call("z", "c2"), call("", "c3"), call("search_by_model", "c4")], "done"]
    )
    seen: list[tuple[str, str]] = []

    def note(ctx: ToolContext, tool: Tool, args: Any, error: Exception) -> None:
        seen.append((type(error).__name__, tool.name))

    tools = [Raw("z", lambda ctx, args: {}), Raw("b", lambda ctx, args: {}), Search()]
    plugin = FunctionPlugin("p", on_tool_error=note, after_tool=lambda ctx, tool: seen.append(("after", tool.name)))
    async with runner_factory(agent_of(model, *tools), plugins=[plugin]) as runner:
        turn = await play(runner)
    first, fine, empty, not_here = responses_of(turn)
    assert fine == {}
    assert first["error"].endswith("the tools are: b, z")
    assert "'nope'" in first["error"]
    assert empty["error"].endswith("b, z")
    assert "'search_by_model'" in not_here["error"]
    assert sorted(seen) == [
        ("ToolNotFoundError", ""),
        ("ToolNotFoundError", "nope"),
        ("ToolNotFoundError", "search_by_model"),
        ("after", "z"),
    ]
    assert_valid_prompt(model.prompts[-1])


async def test_tl_18_hooks_and_tool_share_one_copy_of_the_arguments(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    def edit(ctx: ToolContext, tool: Tool, args: dict[str, Any]) -> None:
        args["nested"]["list"].append(2)

    given: list[Any] = []
    model = ScriptedModel([call("t", "c1", nested={"list": [1]}), "done"])
    agent = agent_of(model, Raw("t", lambda ctx, args: given.append(args)), before_tool=edit)
    async with runner_factory(agent) as runner:
        await play(runner)
        session = await stored(runner)
    assert given == [{"nested": {"list": [1, 2]}}]
    assert session.events[1].function_calls[0].args == {"nested": {"list": [1]}}


async def test_fn_13_arguments_that_do_not_fit_never_reach_the_body(runner_factory: Any, play: Any) -> None:
    @tool
    async def write(path: str) -> None:
        """Write."""
        raise AssertionError("never run")

    model = ScriptedModel([call("write", "c1"), "done"])
    async with runner_factory(agent_of(model, write)) as runner:
        turn = await play(runner)
    assert "/path" in responses_of(turn)[0]["error"]
    assert "'write'" in responses_of(turn)[0]["error"]


async def test_ctx_4_each_call_has_a_place_and_actions_of_its_own(runner_factory: Any, play: Any) -> None:
    seen: list[Any] = []

    def look(ctx: ToolContext, args: Any) -> dict[str, Any]:
        seen.append((ctx.path, ctx.function_call_id, ctx.idempotency_key.partition("/")[2], id(ctx.actions)))
        return {}

    model = ScriptedModel([[call("t", "c1"), call("t", "c2")], call("t", "c1"), "done"])
    async with runner_factory(agent_of(model, Raw("t", look))) as runner:
        await play(runner)
    assert [entry[:3] for entry in seen] == [
        ("a@1/t@1-1", "c1", "a@1/tool/1.1"),
        ("a@1/t@1-2", "c2", "a@1/tool/1.2"),
        ("a@1/t@2-1", "c1", "a@1/tool/2.1"),
    ]


async def test_dlt_8_a_write_after_the_call_raises(runner_factory: Any, play: Any, stored: Any) -> None:
    kept: list[ToolContext] = []
    model = ScriptedModel([call("t"), "done"])
    async with runner_factory(agent_of(model, Raw("t", lambda ctx, args: kept.append(ctx)))) as runner:
        await play(runner)
        with pytest.raises(RuntimeError, match="after its call had ended"):
            kept[0].state["late"] = 1
        assert "late" not in (await stored(runner)).state


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


# --- toolsets ---------------------------------------------------------------------------------------------------------


class Listing(Toolset):
    """Counts how often it is listed."""

    name = "listing"

    def __init__(self, *tools: Tool, error: Exception | None = None, optional: bool = False) -> None:
        self._tools = list(tools)
        self._error = error
        self.optional = optional
        self.listed: list[Any] = []

    async def tools(self, ctx: Any) -> list[Tool]:
        self.listed.append(ctx)
        if self._error is not None:
            raise self._error
        return self._tools


async def test_tl_03_a_toolset_is_listed_once_per_agent_call(runner_factory: Any, play: Any) -> None:
    listing = Listing(Raw("t", lambda ctx, args: {}))
    model = ScriptedModel([call("t"), call("t"), "done", "again"])
    async with runner_factory(agent_of(model, listing)) as runner:
        await play(runner)
        assert (len(listing.listed), model.calls) == (1, 3)
        await play(runner)
    assert len(listing.listed) == 2
    with pytest.raises(TypeError):
        listing.listed[0].state["x"] = 1  # TL-02: read-only
    assert model.requests[0].declared == ["t"]


async def test_tl_04_a_toolset_error_names_the_toolset_and_fails_the_run(runner_factory: Any, play: Any) -> None:
    cause = ConnectionError("refused")
    async with runner_factory(agent_of(ScriptedModel(), Listing(error=cause))) as runner:
        turn = await play(runner)
    assert "'listing'" in str(turn.error)
    assert "refused" in str(turn.error)
    assert turn.error.__cause__ is cause
    assert turn.outcome.kind == "failed"


async def test_tl_04_an_optional_toolset_contributes_nothing(
    runner_factory: Any, play: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel(["done"])
    listing = Listing(error=ConnectionError("refused"), optional=True)
    async with runner_factory(agent_of(model, listing, Raw("t", lambda ctx, args: {}))) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: done"]
    assert model.requests[0].declared == ["t"]
    assert "listing" in caplog.text


async def test_tl_07_an_error_in_a_toolsets_process_request_names_it(runner_factory: Any, play: Any) -> None:
    class Broken(Listing):
        async def process_request(self, ctx: Any, request: Any) -> None:
            raise OSError("disk")

    async with runner_factory(agent_of(ScriptedModel(), Broken())) as runner:
        turn = await play(runner)
    assert "'listing'" in str(turn.error)
    assert isinstance(turn.error.__cause__, OSError)


async def test_tl_12_two_tools_of_one_name_in_a_request_fail_the_run(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel()
    agent = agent_of(model, Raw("t", lambda ctx, args: {}), Listing(Raw("t", lambda ctx, args: {})))
    async with runner_factory(agent) as runner:
        turn = await play(runner)
    assert type(turn.error).__name__ == "DuplicateToolError"
    assert "'t'" in str(turn.error)


async def test_tl_06_state_written_while_a_request_is_built_is_stored(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    class Counts(Raw):
        async def process_request(self, ctx: ToolContext, request: Any) -> None:
            ctx.state["asked"] = ctx.state.get("asked", 0) + 1
            assert ctx.function_call_id.startswith("adk-")
            pack_tool(request, self)

    model = ScriptedModel([call("t"), "done"])
    async with runner_factory(agent_of(model, Counts("t", lambda ctx, args: {}))) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert [dict(event.actions.state_delta) for event in turn.events] == [{"asked": 1}, {}, {"asked": 2}]
    assert session.state["asked"] == 2


async def test_dlt_6_writes_of_a_request_that_is_never_sent_ride_on_an_event_of_their_own(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    class Ends(Raw):
        async def process_request(self, ctx: ToolContext, request: Any) -> None:
            ctx.state["noted"] = 1
            ctx.end_invocation("budget")

    model = ScriptedModel()
    async with runner_factory(agent_of(model, Ends("t", lambda ctx, args: {}))) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert turn.scene == ["a: δnoted"]
    assert (turn.outcome.kind, model.calls, session.state["noted"]) == ("ended", 0, 1)


async def test_req_2_a_tool_may_be_there_for_one_step_only(runner_factory: Any, play: Any) -> None:
    """Dynamic tools: what `process_request` packs is callable in that step and nowhere else."""

    class Once(Tool):
        name = "once"

        async def process_request(self, ctx: ToolContext, request: Any) -> None:
            if not ctx.state.get("used"):
                pack_tool(request, Raw("extra", self._extra))

        @staticmethod
        def _extra(ctx: ToolContext, args: Any) -> dict[str, Any]:
            ctx.state["used"] = True
            return {"extra": True}

    model = ScriptedModel([call("extra"), call("extra"), "done"])
    async with runner_factory(agent_of(model, Once())) as runner:
        turn = await play(runner)
    assert responses_of(turn, 1) == [{"extra": True}]
    assert "there is no tool 'extra'" in responses_of(turn, 3)[0]["error"]
    assert [request.declared for request in model.requests] == [["extra"], [], []]
