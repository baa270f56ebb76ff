"""Tools as nodes: input, output, the chain of hooks, gate and effect (workflow §1.4, NODE-5; tools-plugins TL-27)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwork import Blob, FunctionPlugin, ToolContext, WithMedia
from hookwork.effects import ToolResult
from hookwork.errors import ToolError
from hookwork.tool import Finished
from hookwork_llm import tool
from hookwork_policy import Policy
from hookwork_workflow import (
    START,
    InputValidationError,
    OutputValidationError,
    Retry,
    ToolNode,
    Workflow,
    node,
)
from hookwork_workflow.gates import REJECTED

ran: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@tool
def look(city: str, days: int = 1) -> dict[str, Any]:
    """Looks at the sky."""
    ran.append((city, days))
    return {"city": city, "days": days}


@tool
def word(city: str) -> str:
    """One word."""
    return city.upper()


@tool(require_confirmation=True)
def send(text: str) -> str:
    """Sends."""
    ran.append(text)
    return f"sent {text}"


@tool
def broken(ctx: ToolContext) -> str:
    """Fails."""
    ran.append("broken")
    raise ToolError("no luck")


def watching(*hooks: str, **values: Any) -> tuple[FunctionPlugin, list[tuple[Any, ...]]]:
    """A plugin that writes down its tool hooks, each giving the value that is set for it."""
    seen: list[tuple[Any, ...]] = []

    def of(hook: str) -> Any:
        async def noted(ctx: Any, tool: Any, args: Any, *rest: Any) -> Any:
            seen.append((hook, tool.name, dict(args), *rest))
            return values.get(hook)

        return {
            "before_tool": lambda ctx, tool, args: noted(ctx, tool, args),
            "after_tool": lambda ctx, tool, args, result, error: noted(ctx, tool, args, result, error),
            "on_tool_error": lambda ctx, tool, args, error: noted(ctx, tool, args, error),
        }[hook]

    return FunctionPlugin("watch", **{hook: of(hook) for hook in hooks}), seen


async def test_node_a_tools_name_and_description_are_the_nodes() -> None:
    made = node(look)
    assert isinstance(made, ToolNode)
    assert (made.name, made.description, made.kind) == ("look", "Looks at the sky.", "tool")
    assert node(look, name="watch").name == "watch"
    assert ToolNode(look, name="stare", description="d").description == "d"


@pytest.mark.parametrize("input", [{"city": "Oslo", "days": 2}, '{"city": "Oslo", "days": 2}'])
async def test_node_the_input_is_the_arguments(input: Any) -> None:
    """§1.4: text that holds a JSON object is decoded."""
    assert (await node(look).test(input)).output == {"city": "Oslo", "days": 2}
    assert ran == [("Oslo", 2)]


@pytest.mark.parametrize(
    ("input", "says"),
    [
        ("Oslo", "arguments as a JSON object"),
        ([1], "as an object, got a list"),
        ({"town": "Oslo"}, "city"),
        (None, "city"),
    ],
)
async def test_node_1_arguments_that_do_not_fit_are_not_tried_again(input: Any, says: str) -> None:
    with pytest.raises(InputValidationError, match='input validation failed for node "look"') as caught:
        await node(look, retry=Retry(initial_delay=0)).test(input)
    assert says in str(caught.value)
    assert ran == []


async def test_node_a_tools_result_is_the_output_and_a_text_is_said() -> None:
    trial = await node(word).test({"city": "Oslo"})
    assert trial.output == "OSLO"
    assert [event.text for event in trial.events] == ["OSLO"]


async def test_node_5_the_output_schema_of_a_tool_node() -> None:
    assert (await ToolNode(word, output_schema=str).test({"city": "x"})).output == "X"
    with pytest.raises(OutputValidationError, match='node "word"'):
        await ToolNode(word, output_schema=int).test({"city": "x"})


async def test_node_state_and_files_of_a_tool_ride_on_its_event() -> None:
    @tool
    async def remember(ctx: ToolContext, city: str) -> str:
        """Remembers."""
        ctx.state["city"] = city
        return "ok"

    trial = await node(remember).test({"city": "Oslo"})
    assert trial.state == {"city": "Oslo"}
    [event] = trial.events
    assert event.actions.state_delta == {"city": "Oslo"}


async def test_node_an_error_of_the_tool_fails_the_node_and_may_be_tried_again() -> None:
    """TL-27."""
    with pytest.raises(ToolError, match="no luck"):
        await node(broken).test({})
    assert ran == ["broken"]
    with pytest.raises(ToolError, match="no luck"):
        await node(broken, retry=Retry(max_attempts=3, initial_delay=0)).test({})
    assert ran == ["broken"] * 4


# --- TL-27: the chain ------------------------------------------------------------------------------------------------


async def test_tl_27_the_hooks_of_a_models_call_run() -> None:
    plugin, seen = watching("before_tool", "after_tool")
    await node(look).test({"city": "Oslo"}, plugins=[plugin])
    assert [entry[:3] for entry in seen] == [
        ("before_tool", "look", {"city": "Oslo"}),
        ("after_tool", "look", {"city": "Oslo"}),
    ]
    assert seen[1][3:] == ({"city": "Oslo", "days": 1}, None)


async def test_tl_27_before_tool_answers_in_the_tools_place() -> None:
    plugin, _ = watching("before_tool", before_tool={"city": "cached"})
    assert (await node(look).test({"city": "Oslo"}, plugins=[plugin])).output == {"city": "cached"}
    assert ran == []


async def test_tl_27_before_tool_may_mend_the_arguments() -> None:
    async def before_tool(ctx: Any, tool: Any, args: dict[str, Any]) -> None:
        args["city"] = "Rome"

    plugin = FunctionPlugin("mend", before_tool=before_tool)
    assert (await node(look).test({}, plugins=[plugin])).output == {"city": "Rome", "days": 1}


async def test_tl_27_after_tool_replaces_result_and_error() -> None:
    plugin, _ = watching("after_tool", after_tool={"result": "fine"})
    assert (await node(broken).test({}, plugins=[plugin])).output == "fine"
    assert (await node(look).test({"city": "x"}, plugins=[plugin])).output == "fine"


async def test_tl_27_on_tool_error_answers_an_error() -> None:
    plugin, seen = watching("on_tool_error", on_tool_error={"sky": "unknown"})
    assert (await node(broken).test({}, plugins=[plugin])).output == {"sky": "unknown"}
    assert [str(entry[3]) for entry in seen] == ["no luck"]


async def test_tl_27_around_tool_sees_how_it_ended() -> None:
    outcomes = []

    @asynccontextmanager
    async def around_tool(ctx: Any, tool: Any, args: Any, stage: Any) -> Any:
        try:
            yield
        finally:
            outcomes.append((tool.name, stage.outcome.value, type(stage.outcome.error)))

    plugin = FunctionPlugin("audit", around_tool=around_tool)
    await node(look).test({"city": "Oslo"}, plugins=[plugin])
    with pytest.raises(ToolError):
        await node(broken).test({}, plugins=[plugin])
    assert outcomes == [("look", {"city": "Oslo", "days": 1}, type(None)), ("broken", None, ToolError)]


async def test_tl_27_perform_tool_carries_it_out() -> None:
    calls = []

    async def perform_tool(call: Any) -> ToolResult:
        calls.append((call.tool, dict(call.args), call.path))
        if call.tool == "word":
            return ToolResult(result={"result": "elsewhere"})
        done: ToolResult = await call.default()
        return done

    plugin = FunctionPlugin("engine", perform_tool=perform_tool)
    assert (await node(word).test({"city": "x"}, plugins=[plugin])).output == "elsewhere"
    assert (await node(look).test({"city": "x"}, plugins=[plugin])).output == {"city": "x", "days": 1}
    assert [call[:2] for call in calls] == [("word", {"city": "x"}), ("look", {"city": "x"})]
    assert ran == [("x", 1)]


async def test_tl_27_eff_8_a_tool_node_is_no_node_effect() -> None:
    """EFF-8: tool nodes use perform_tool."""

    async def perform_node(call: Any) -> Any:
        raise AssertionError(f"asked for {call.node}")

    plugin = FunctionPlugin("engine", perform_node=perform_node)
    flow = Workflow("flow", START >> node(look))
    with pytest.raises(AssertionError, match="asked for input_of_flow"):  # a leaf function: it is one
        await flow.test({"city": "x"}, plugins=[plugin])

    async def leaf_only(call: Any) -> Any:
        assert call.node == "input_of_look"
        return await call.default()

    trial = await node(look).test({"city": "x"}, plugins=[FunctionPlugin("engine", perform_node=leaf_only)])
    assert trial.output == {"city": "x", "days": 1}


async def test_tl_27_the_gate_waits_for_a_person() -> None:
    """WB-3: the id names the activation."""
    trial = await node(send).test({"text": "hi"})
    [question] = trial.interrupts
    assert question.kind == "confirmation"
    assert question.id.startswith("wf_tool_confirmation:")
    assert question.id.endswith(":trial@1/send@1")
    assert question.args["originalFunctionCall"]["name"] == "send"
    assert question.args["originalFunctionCall"]["args"] == {"text": "hi"}
    assert (trial.output, ran) == (None, [])


async def test_tl_27_approved_it_runs_once() -> None:
    assert (await node(send).test({"text": "hi"}, answers={"send": True})).output == "sent hi"
    assert ran == ["hi"]


@pytest.mark.parametrize("answer", [False, {"confirmed": "yes"}, {}])
async def test_tl_27_rejected_it_never_runs(answer: Any) -> None:
    trial = await node(send).test({"text": "hi"}, answers={"send": answer})
    assert trial.output == {"error": REJECTED} == {"error": "This tool call is rejected."}
    assert trial.routes == ("rejected",)
    assert ran == []


async def test_tl_27_the_payload_of_a_rejection_is_handed_on() -> None:
    trial = await node(send).test({"text": "hi"}, answers={"send": {"confirmed": False, "payload": "too long"}})
    assert trial.output == {"error": REJECTED, "payload": "too long"}


async def test_tl_27_a_policy_is_not_passed_by() -> None:
    """The reason for the line: deny, and ask first, hold in a graph too."""
    deny = Policy([{"effect": "deny", "tool": "look", "reason": "no looking"}])
    trial = await node(look).test({"city": "Oslo"}, plugins=[deny])
    assert trial.output == {"error": "no looking"}
    assert ran == []
    ask = Policy([{"effect": "ask", "tool": "look", "reason": "May it look?"}])
    trial = await node(look).test({"city": "Oslo"}, plugins=[ask])
    [question] = trial.interrupts
    assert (question.message, ran) == ("May it look?", [])
    trial = await node(look).test({"city": "Oslo"}, plugins=[ask], answers={"look": True})
    assert trial.output == {"city": "Oslo", "days": 1}


# --- long-running tools ----------------------------------------------------------------------------------------------


async def test_ask_3_a_long_running_tool_makes_the_node_wait_for_its_result() -> None:
    @tool(long_running=True)
    def order(item: str) -> dict[str, Any] | None:
        """Orders."""
        ran.append(item)
        return {"status": "pending"} if item == "slow" else None

    for item in ("slow", "silent"):
        trial = await node(order).test({"item": item})
        [waits] = trial.interrupts
        assert (waits.name, waits.args, trial.output) == ("order", {"item": item}, None)
    ran.clear()
    trial = await node(order).test({"item": "slow"}, answers={"order": {"parcel": 7}})
    assert (trial.output, trial.interrupts) == ({"parcel": 7}, ())
    assert ran == ["slow"]


async def test_ask_3_finished_and_failed_calls_wait_for_nothing() -> None:
    """CASE-HITL-1."""

    @tool(long_running=True)
    def order(item: str) -> Any:
        """Orders."""
        if item == "none":
            raise ToolError("sold out")
        return Finished({"parcel": 1})

    assert (await node(order).test({"item": "x"})).output == {"parcel": 1}
    with pytest.raises(ToolError, match="sold out"):
        await node(order).test({"item": "none"})


async def test_node_media_beside_a_result_are_shown_and_no_output() -> None:
    @tool
    def draw(what: str) -> WithMedia:
        """Draws."""
        return WithMedia(f"a {what}", Blob(data=b"png", mime_type="image/png"))

    trial = await node(draw).test({"what": "cat"})
    assert trial.output == "a cat"
    [event] = trial.events
    assert event.content is not None
    assert [part.text for part in event.content.parts] == ["a cat", None]
    shown = event.content.parts[1].inline_data
    assert shown is not None
    assert (shown.data, shown.mime_type) == (b"png", "image/png")
