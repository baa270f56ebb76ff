"""Workflows in workflows: how deep they may lie in each other, and that all of that depth works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.workflow.flows import answered

from hookwork_workflow import START, GraphError, NodeContext, SequentialAgent, Workflow, node, parallel
from hookwork_workflow.workflow import MAX_DEPTH


@node
async def ask(value: Any, ctx: NodeContext) -> str:
    return str(await ctx.request_input("k", "?"))


def as_node(flow: Workflow, level: int) -> Any:
    return flow


def as_agent(flow: Workflow, level: int) -> Any:
    return flow.as_agent()


def in_sequence(flow: Workflow, level: int) -> Any:
    return SequentialAgent(name=f"s{level}", sub_agents=[flow.as_agent()]) if level % 8 == 0 else flow


def nested(depth: int, form: Callable[[Workflow, int], Any]) -> Workflow:
    flow = Workflow("w0", START >> ask)
    for level in range(1, depth):
        flow = Workflow(f"w{level}", START >> form(flow, level))
    return flow


@pytest.mark.parametrize("form", [as_node, as_agent, in_sequence])
async def test_workflows_run_and_go_on_as_deep_as_they_may_lie(kit: Any, form: Callable[[Workflow, int], Any]) -> None:
    lab = kit.Lab(lambda: nested(MAX_DEPTH, form).as_agent())
    turn = await lab.run("hi")
    turn = await answered(lab, {turn.waits_for[0]: "deep"})
    assert turn.outcome.output == "deep"


@pytest.mark.parametrize("form", [as_node, as_agent, in_sequence])
def test_one_more_is_refused_when_the_graph_is_made(form: Callable[[Workflow, int], Any]) -> None:
    """Not by a RecursionError in the middle of a run."""
    with pytest.raises(GraphError, match="65 workflows lie in each other, and 64 may") as caught:
        nested(MAX_DEPTH + 1, form)
    assert caught.value.code == "too_deep"


def test_a_workflow_that_runs_for_each_item_counts_too() -> None:
    flow = nested(MAX_DEPTH, as_node)
    with pytest.raises(GraphError, match="may"):
        Workflow("outer", START >> parallel(flow, name="all"))


def test_workflows_beside_each_other_are_no_depth() -> None:
    chain = START
    for number in range(MAX_DEPTH * 2):
        chain = chain >> Workflow(f"w{number}", START >> node(ask.func, name=f"a{number}"))  # type: ignore[assignment]
    assert Workflow("row", chain).depth == 2
