"""A talk goes on with the graph in which it began, or says so, as an answer does (workflow RPL-8, WB-6, WB-20)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import START, GraphChanged, NodeContext, Workflow, node


@node
async def more(text: str) -> str:
    return f"{text} and more"


def talking(*steps: Any) -> LlmAgent:
    return LlmAgent(name="talk", mode="task", model=ScriptedModel([*steps]), instruction="Ask.")


@pytest.mark.parametrize("shape", ["node", "child", "inner"])
async def test_rpl_8_words_to_a_node_that_talks_are_refused_when_the_graph_has_changed(kit: Any, shape: str) -> None:
    """Nothing of them is stored; the old graph takes them, and so does one that allows it."""
    agent = talking("Which day?", "Which hour?", call("finish_task", result="Monday"))

    @node
    async def parent(text: str, ctx: NodeContext) -> Any:
        return await ctx.run_node(agent, text)

    shapes = {"node": lambda: agent, "child": lambda: parent, "inner": lambda: Workflow("in", START >> agent)}
    first = shapes[shape]()

    def old() -> Any:
        return Workflow("wf", START >> first).as_agent()

    lab = kit.Lab(old)
    assert (await lab.run("a trip")).outcome.kind == "paused"
    stored = len(await lab.events())

    lab.build = lambda: Workflow("wf", START >> first >> more).as_agent()
    turn = await lab.run("Monday")
    assert isinstance(turn.error, GraphChanged)
    assert len(await lab.events()) == stored

    lab.build = old
    assert (await lab.run("Monday")).outcome.kind == "paused"

    lab.build = lambda: Workflow("wf", START >> first >> more, allow_changed_graph=True).as_agent()
    turn = await lab.run("Ten")
    assert (turn.error, turn.outcome.output) == (None, "Monday and more")
