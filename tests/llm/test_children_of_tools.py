"""Agents that a tool starts with ``ctx.run_node`` (activations §4, S6)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Agent, Event, FunctionResponse, Part, Runner, ToolContext, text_content
from hookwork.errors import UnsupportedInContext
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call, make_context

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


def speaker(name: str, runs: list[str]) -> Agent:
    async def body(ctx: Any) -> Any:
        runs.append(f"{name}:{ctx.input}")
        yield Event(content=text_content(f"{name} heard {ctx.input}"), output=f"{name}-{ctx.input}")

    return Agent(name=name, body=body)


async def test_a_tool_runs_a_child_and_uses_its_output() -> None:
    runs: list[str] = []
    child = speaker("child", runs)

    @tool
    async def ask(ctx: ToolContext, what: str) -> str:
        """Asks."""
        return f"<{await ctx.run_node(child, what)}>"

    model = ScriptedModel([call("ask", id="c1", what="a"), call("ask", id="c1", what="b"), "done"])
    async with Runner(LlmAgent(name="ag", model=model, tools=[ask]), sessions="memory:") as runner:
        outcome = await runner.run(message="hi", **WHO).wait()
        session = await runner.sessions.get_session(app_name="ag", **WHO)
    assert outcome.kind == "completed"
    assert runs == ["child:a", "child:b"]
    children = [(e.path, e.output) for e in session.events if e.author == "child"]
    # a later call never meets an earlier one's children, even with the same call id
    assert children == [("ag@1/ask@1-1/child@1", "child-a"), ("ag@1/ask@2-1/child@1", "child-b")]
    answers = [p.function_response.response for c in model.prompts[-1] for p in c.parts if p.function_response]
    assert answers == [{"result": "<child-a>"}, {"result": "<child-b>"}]
    assert_valid_prompt(model.prompts[-1], ids=False)


async def test_two_children_of_one_name_are_numbered_and_a_given_id_is_kept() -> None:
    runs: list[str] = []
    child = speaker("child", runs)

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Asks."""
        return (
            f"{await ctx.run_node(child, 1)} {await ctx.run_node(child, 2)} {await ctx.run_node(child, 3, run_id='x')}"
        )

    model = ScriptedModel([call("ask"), "done"])
    async with Runner(LlmAgent(name="ag", model=model, tools=[ask]), sessions="memory:") as runner:
        await runner.run(message="hi", **WHO).wait()
        session = await runner.sessions.get_session(app_name="ag", **WHO)
    places = [e.path for e in session.events if e.author == "child"]
    assert places == [f"ag@1/ask@1-1/child@{n}" for n in ("1", "2", "x")]


async def test_s6_a_child_that_waits_pauses_the_call_and_goes_on_without_repeating_what_is_done() -> None:
    runs: list[str] = []
    acted: list[str] = []

    @tool(require_confirmation=True, inline=True)
    def act() -> str:
        """Acts."""
        acted.append("act")
        return "acted"

    child_model = ScriptedModel([call("act", id="a1"), "child done"])
    waits = LlmAgent(name="waits", model=child_model, tools=[act])
    first = speaker("first", runs)

    @tool
    async def both(ctx: ToolContext) -> str:
        """Runs both."""
        start = await ctx.run_node(first, "x")
        await ctx.run_node(waits)
        return f"{start} and done"

    @tool(inline=True)
    def side() -> str:
        """Runs beside."""
        acted.append("side")
        return "ok"

    model = ScriptedModel([[call("both", id="t1"), call("side", id="t2")], "all done"])
    async with Runner(LlmAgent(name="ag", model=model, tools=[both, side]), sessions="memory:") as runner:
        paused = await runner.run(message="hi", **WHO).wait()
        assert paused.kind == "paused"
        assert [c.path for c in paused.open_calls] == ["ag@1/both@1-1/waits@1"]
        asked = paused.open_calls[0]
        answer = FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
        done = await runner.run(message=[Part(function_response=answer)], **WHO).wait()
    assert done.kind == "completed"
    assert done.final_event is not None
    assert done.final_event.text == "all done"
    assert runs == ["first:x"]  # answered from its record the second time
    assert acted == ["side", "act"]
    assert len(model.requests) == 2  # no model call before both calls had a response (ACT-22)
    assert_valid_prompt(model.prompts[-1], ids=False)


async def test_run_node_without_a_run_says_where_it_can_be_used() -> None:
    with pytest.raises(UnsupportedInContext, match="running tool call"):
        await make_context("tool").run_node(speaker("child", []))
