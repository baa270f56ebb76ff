"""Carrying out the calls of a model event (core §4.4, tools-plugins §1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.errors import ToolError
from hookwork.node import Pause
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.records.content import Part
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool, pack_tool
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


@asynccontextmanager
async def _raises_on_leaving(ctx: Any, tool: Any) -> AsyncIterator[None]:
    yield
    raise KeyError("a bug")


def _raises(*values: Any) -> Any:
    raise KeyError("a bug")


@pytest.mark.parametrize(
    ("hook", "function"),
    [
        ("before_tool", lambda ctx, tool, args: _raises()),
        ("after_tool", lambda ctx, tool, args, result, error: _raises()),
        ("after_tool", lambda ctx, tool, args, result, error: "text"),
        ("around_tool", _raises_on_leaving),
    ],
)
async def test_tl_21_a_fault_of_a_plugin_is_logged_with_its_name_and_traceback(
    runner_factory: Any, play: Any, caplog: pytest.LogCaptureFixture, hook: str, function: Any
) -> None:
    model = ScriptedModel([call("z"), "done"])
    plugin = FunctionPlugin("faulty", **{hook: function})
    async with runner_factory(agent_of(model, Raw("z", lambda ctx, args: {"ok": 1})), plugins=[plugin]) as runner:
        turn = await play(runner)
    assert "error" in responses_of(turn)[0]
    records = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage().partition(" raised")[0] for record in records] == [f"{hook} of tool 'z'"]
    error = records[0].exc_info[1]  # type: ignore[index]
    assert "'faulty'" in "".join([str(error), *getattr(error, "__notes__", [])])


async def test_tl_21_an_error_that_a_hook_tells_the_model_on_purpose_is_not_logged(
    runner_factory: Any, play: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(ctx: ToolContext, tool: Tool, args: Any) -> None:
        raise ToolError("not on Sundays")

    model = ScriptedModel([call("z"), "done"])
    plugin = FunctionPlugin("p", before_tool=refuse)
    async with runner_factory(agent_of(model, Raw("z", lambda ctx, args: {"ok": 1})), plugins=[plugin]) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"error": "not on Sundays"}]
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]


async def test_cod_8_a_result_that_no_store_could_hold_fails_the_call_and_not_the_run(
    runner_factory: Any, play: Any
) -> None:
    model = ScriptedModel([call("z"), "done"])
    async with runner_factory(agent_of(model, Raw("z", lambda ctx, args: {"n": 10**5000}))) as runner:
        turn = await play(runner)
    assert "an integer of more than 4,300 digits" in responses_of(turn)[0]["error"]
    assert turn.outcome.kind == "completed"


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
