"""Retry and timeout of a workflow that is the root of its runs (workflow WF-2, §7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.workflow.flows import answered, handoff, outputs, run_flow, step

from hookwork.errors import GraphError
from hookwork_workflow import START, NodeTimeout, Retry, Workflow, WorkflowAgent, node

AGAIN = Retry(max_attempts=3, initial_delay=0)


def flaky(ran: list[str], fails: int) -> Any:
    """A node that fails in its first runs."""

    @node(name="flaky")
    async def body(value: str) -> str:
        ran.append("flaky")
        if ran.count("flaky") <= fails:
            raise OSError("down")
        return f"flaky({value})"

    return body


async def test_wf_2_rty_3_a_root_that_is_tried_again_keeps_what_was_done(kit: Any) -> None:
    """RTY-3, DYN-21: as a sub-workflow's, its second attempt begins with the nodes that are not done."""
    ran: list[str] = []
    turn = await run_flow(kit, Workflow("wf", START >> step("a", ran) >> flaky(ran, 1) >> step("b", ran), retry=AGAIN))
    assert ran == ["a", "flaky", "flaky", "b"]
    assert turn.outcome.kind == "completed"
    assert turn.outcome.output == "b(flaky(a(hi)))"
    failed = [event.path for event in turn.events if event.error_code == "OSError"]
    assert failed == ["wf@1/flaky@1", "wf@1"]


async def test_wf_2_a_root_fails_once_its_attempts_are_used_up(kit: Any) -> None:
    ran: list[str] = []
    with pytest.raises(OSError, match="down"):
        await run_flow(kit, Workflow("wf", START >> flaky(ran, 9), retry=AGAIN))
    assert ran == ["flaky"] * 3


@pytest.mark.parametrize("kind", ["workflow", "agent"])
async def test_wf_2_tmo_1_the_timeout_of_a_root_holds(kit: Any, kind: str) -> None:
    @node
    async def never(value: str) -> None:
        await asyncio.Event().wait()

    edges = START >> never
    flow: Any = (
        Workflow("wf", edges, timeout=0.01).as_agent()
        if kind == "workflow"
        else WorkflowAgent(name="wf", edges=edges, timeout=0.01)
    )
    turn = await kit.Lab(lambda: flow).run("hi")
    assert isinstance(turn.error, NodeTimeout)
    assert (turn.error.node, turn.error.seconds) == ("wf", 0.01)


async def test_wf_2_a_root_with_a_limit_pauses_and_goes_on_in_another_process(kit: Any) -> None:
    ran: list[str] = []
    flow = Workflow(
        "wf", START >> step("a", ran) >> handoff("ask", "q") >> flaky(ran, 1) >> step("b", ran), retry=AGAIN, timeout=60
    )
    lab = kit.Lab(flow.as_agent)
    assert (await lab.run("hi")).waits_for == ["q"]
    turn = await answered(lab, {"q": "yes"})
    assert turn.outcome.output == "b(flaky(yes))"
    assert ran == ["a", "flaky", "flaky", "b"]


async def test_wf_2_a_root_that_failed_goes_on_by_its_invocation(kit: Any) -> None:
    """RPL-7, RPL-9: with all attempts anew, and without what was done."""
    ran: list[str] = []
    lab = kit.Lab(Workflow("wf", START >> step("a", ran) >> flaky(ran, 3), retry=AGAIN).as_agent)
    assert isinstance((await lab.run("hi")).error, OSError)
    turn = await lab.run(invocation_id=await lab.first_invocation())
    assert turn.error is None
    assert outputs(turn.events) == {"wf@1/flaky@1": "flaky(a(hi))"}
    assert ran == ["a", *["flaky"] * 4]


@pytest.mark.parametrize("limit", [0, -1])
def test_sch_10_a_graph_may_start_one_activation_at_least(limit: int) -> None:
    with pytest.raises(GraphError, match=f"max_activations is a whole number from 1, not {limit}"):
        Workflow("wf", START >> step("a"), max_activations=limit)
