"""Predicates and toolset wrappers (tools-plugins TL-08 … TL-11, TT-24)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.context import ReadonlyContext, ToolContext
from hookwork.errors import HookworkError
from hookwork.model import ModelCapabilities, ModelRequest
from hookwork.records.request import FunctionDeclaration, ToolDeclaration
from hookwork.tool import Tool, Toolset, pack_tool
from hookwork_llm import (
    FunctionTool,
    GoogleSearchTool,
    LlmAgent,
    StreamingTool,
    allowed_tools,
    filter_toolset,
    prefix_toolset,
    tool,
    with_confirmation,
)
from hookwork_testkit import ScriptedModel, call, make_context


class Box(Toolset):
    """A toolset of given tools with every capability."""

    name = "box"

    def __init__(self, *tools: Tool) -> None:
        self.listed = list(tools)
        self.closed = 0

    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        return self.listed

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        request.append_instruction("About the box.")

    async def close(self) -> None:
        self.closed += 1


class SelfPacking(Tool):
    """A tool that puts itself into the request, with an instruction of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ran = 0

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description="Packs itself.")

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        pack_tool(request, self)
        request.append_instruction("About the tool.")

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> str:
        self.ran += 1
        return f"ran as {ctx.tool_name}"


def made(name: str) -> FunctionTool:
    @tool(name=name)
    def body(x: int = 0) -> dict[str, int]:
        """Double it."""
        return {"x": 2 * x}

    return body


def agent_of(model: ScriptedModel, *tools: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools)


async def names_of(toolset: Toolset, ctx: Any) -> list[str]:
    return [tool.name for tool in await toolset.tools(ctx)]


def declared(model: ScriptedModel) -> list[Any]:
    return [declaration.name for declaration in model.requests[0].config.function_declarations()]


# --- filter -----------------------------------------------------------------------------------------------------------


async def test_tl_08_names_are_exact_and_order_stays() -> None:
    box = Box(made("b"), made("a"), made("A"), made("ab"))
    assert await names_of(filter_toolset(box, allowed_tools(["a", "b"])), make_context()) == ["b", "a"]


@pytest.mark.parametrize("names", ["abc", None, [1]])
def test_tl_08_one_text_is_no_list_of_names(names: Any) -> None:
    with pytest.raises(TypeError):
        allowed_tools(names)


async def test_tl_09_the_predicate_is_asked_at_each_listing_with_its_context() -> None:
    async def by_user(ctx: ReadonlyContext, tool: Tool) -> bool:
        return ctx.user_id == "admin" or tool.name == "read"

    filtered = filter_toolset(Box(made("read"), made("write")), by_user)
    assert filtered.name == "box"
    assert await names_of(filtered, make_context(user_id="guest")) == ["read"]
    assert await names_of(filtered, make_context(user_id="admin")) == ["read", "write"]


async def test_tl_09_errors_of_the_predicate_fail_the_run(runner_factory: Any, play: Any) -> None:
    def broken(ctx: ReadonlyContext, tool: Tool) -> bool:
        raise ValueError("no idea")

    async with runner_factory(agent_of(ScriptedModel([]), filter_toolset(Box(made("t")), broken))) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, HookworkError)
    assert "'box'" in str(turn.error)
    assert "no idea" in str(turn.error)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda: filter_toolset(None, allowed_tools([])),  # type: ignore[arg-type]
        lambda: filter_toolset(Box(), None),  # type: ignore[arg-type]
        lambda: prefix_toolset(None, "p_"),  # type: ignore[arg-type]
        lambda: prefix_toolset(Box(), ""),
        lambda: with_confirmation(None, True),  # type: ignore[arg-type]
        lambda: with_confirmation(Box(), True, "yes"),  # type: ignore[arg-type]
    ],
)
def test_tl_09_missing_things_are_type_errors_at_construction(wrap: Any) -> None:
    with pytest.raises(TypeError):
        wrap()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda box: filter_toolset(box, allowed_tools(["t"])),
        lambda box: prefix_toolset(box, "p_"),
        lambda box: with_confirmation(box, True),
    ],
)
async def test_tl_11_every_capability_of_the_toolset_is_forwarded(runner_factory: Any, play: Any, wrap: Any) -> None:
    box = Box(made("t"))
    model: Any = ScriptedModel(["ok"])
    box.optional = True
    wrapped = wrap(box)
    assert (wrapped.name, wrapped.optional) == ("box", True)
    async with runner_factory(agent_of(model, wrapped)) as runner:
        await play(runner)
    assert "About the box." in model.requests[0].config.system_instruction.text
    assert box.closed == 1


# --- confirmation -----------------------------------------------------------------------------------------------------


async def test_tl_10_runnable_tools_are_gated_and_others_untouched() -> None:
    search, plain = GoogleSearchTool(), made("t")
    first, second = await with_confirmation(Box(search, plain), True).tools(make_context())
    assert first is search
    assert second is not plain
    assert second.name == "t"


async def test_tl_10_a_call_waits_for_approval_and_then_runs_once(runner_factory: Any, play: Any, answer: Any) -> None:
    packing = SelfPacking("t")
    model: Any = ScriptedModel([call("t", "c1"), "done"])
    async with runner_factory(agent_of(model, with_confirmation(Box(packing), True))) as runner:
        turn = await play(runner)
        assert turn.outcome.kind == "paused"
        assert packing.ran == 0, "a tool that packs itself must not go around the gate"
        resumed = await play(runner, answer(turn.open_ids[0], {"confirmed": True}))
    assert resumed.outcome.kind == "completed"
    assert packing.ran == 1
    assert "About the tool." in model.requests[0].config.system_instruction.text


@pytest.mark.parametrize(
    ("require", "provided", "gated"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_tl_10_the_provider_overrides_the_flag(
    runner_factory: Any, play: Any, require: bool, provided: bool | None, gated: bool, is_async: bool
) -> None:
    asked: list[Any] = []

    def decide(name: str, args: dict[str, Any]) -> bool:
        asked.append((name, args))
        return bool(provided)

    async def decide_later(name: str, args: dict[str, Any]) -> bool:
        return decide(name, args)

    provider = None if provided is None else decide_later if is_async else decide
    model: Any = ScriptedModel([call("t", "c1", x=3), "done"])
    async with runner_factory(agent_of(model, with_confirmation(Box(made("t")), require, provider))) as runner:
        turn = await play(runner)
    assert turn.outcome.kind == ("paused" if gated else "completed")
    assert asked == ([] if provider is None else [("t", {"x": 3})])


async def test_tl_10_a_tool_that_asks_by_itself_goes_on_asking(runner_factory: Any, play: Any, gated: Any) -> None:
    own = gated("t")
    toolset = with_confirmation(Box(own.tool), False, lambda name, args: False)
    async with runner_factory(agent_of(ScriptedModel([call("t", "c1")]), toolset)) as runner:
        turn = await play(runner)
    assert turn.outcome.kind == "paused"
    assert own.runs == []


async def test_tt_24_a_streaming_tool_is_gated_too(runner_factory: Any, play: Any) -> None:
    ran: list[int] = []

    async def count() -> Any:
        """Count."""
        ran.append(1)
        yield "1"

    toolset = with_confirmation(Box(StreamingTool(count)), True)
    async with runner_factory(agent_of(ScriptedModel([call("count", "c1")]), toolset)) as runner:
        turn = await play(runner)
    assert turn.outcome.kind == "paused"
    assert ran == []


# --- prefix -----------------------------------------------------------------------------------------------------------


async def test_beyond_two_toolsets_of_equal_names_by_prefix(runner_factory: Any, play: Any) -> None:
    model: Any = ScriptedModel([[call("one_t", "c1", x=2), call("two_t", "c2")], "done"])
    toolsets = [prefix_toolset(Box(made("t")), "one_"), prefix_toolset(Box(SelfPacking("t")), "two_")]
    async with runner_factory(agent_of(model, *toolsets)) as runner:
        turn = await play(runner)
    assert declared(model) == ["one_t", "two_t"]
    assert [response.response for response in turn.events[1].function_responses] == [
        {"x": 4},
        {"result": "ran as two_t"},
    ]
    assert "About the tool." in model.requests[0].config.system_instruction.text


async def test_beyond_prefix_keeps_what_a_request_has_already(runner_factory: Any, play: Any) -> None:
    capabilities = ModelCapabilities(builtin_tools=frozenset({"google_search"}), builtin_with_functions=True)
    model: Any = ScriptedModel(["ok"], capabilities=capabilities)
    toolset = prefix_toolset(Box(GoogleSearchTool(), SelfPacking("t")), "p_")
    async with runner_factory(agent_of(model, made("first"), toolset)) as runner:
        await play(runner)
    tools = list(model.requests[0].config.tools)
    assert [declaration.name for declaration in tools[0].function_declarations or ()] == ["first", "p_t"]
    assert tools[1:] == [ToolDeclaration(google_search={})]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda box: with_confirmation(prefix_toolset(box, "p_"), True),
        lambda box: prefix_toolset(with_confirmation(box, True), "p_"),
        lambda box: filter_toolset(with_confirmation(prefix_toolset(box, "p_"), True), allowed_tools(["p_t"])),
    ],
)
async def test_tl_11_wrappers_can_be_stacked_and_the_gate_holds(runner_factory: Any, play: Any, wrap: Any) -> None:
    packing = SelfPacking("t")
    model: Any = ScriptedModel([call("p_t", "c1")])
    async with runner_factory(agent_of(model, wrap(Box(packing, made("other"))))) as runner:
        turn = await play(runner)
    assert "p_t" in declared(model)
    assert turn.outcome.kind == "paused"
    assert packing.ran == 0
