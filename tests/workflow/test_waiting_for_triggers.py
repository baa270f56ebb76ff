"""Nodes that wait for no person: for the next trigger, or for a child that does (workflow NODE-9, DYN-26)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.workflow.flows import answers, step

from hookwork import Event
from hookwork.errors import NothingToResume
from hookwork_workflow import START, Edge, GraphNode, NodeConfig, NodeContext, Workflow, WorkflowAgent, node, parallel


class Hungry(GraphNode[Any, Any]):
    """Gives what it is given the ``count``-th time, in whatever process; nothing before."""

    config = NodeConfig(wait_for_output=True)

    def __init__(self, ran: list[str], count: int) -> None:
        self.name = "hungry"
        self.ran = ran
        self.count = count

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        self.ran.append(ctx.path)
        if len(self.ran) >= self.count:
            yield Event(output=input)


def child_of(inner: Any) -> Any:
    @node
    async def parent(value: Any, ctx: NodeContext) -> Any:
        return await ctx.run_node(inner, value)

    return parent


def grandchild_of(inner: Any) -> Any:
    @node
    async def middle(value: Any, ctx: NodeContext) -> Any:
        return await ctx.run_node(inner, value)

    return child_of(middle)


def delegate_of(inner: Any) -> Any:
    @node
    async def parent(value: Any, ctx: NodeContext) -> Any:
        return await ctx.run_node(inner, value, use_as_output=True)

    return parent


def in_workflow(inner: Any) -> Any:
    return Workflow("parent", START >> inner)


def in_parallel(inner: Any) -> Any:
    @node
    async def listed(value: Any, ctx: NodeContext) -> Any:
        return await ctx.run_node(parallel(inner, name="all"), [value])

    return listed.replace(name="parent")


SHAPES = [child_of, grandchild_of, delegate_of, in_workflow, in_parallel]


@pytest.mark.parametrize("shape", SHAPES)
async def test_dyn_26_the_parent_of_a_child_without_output_waits_and_is_not_run_again_by_id(
    kit: Any, shape: Callable[[Any], Any]
) -> None:
    ran: list[str] = []

    def build() -> WorkflowAgent:
        return Workflow("wf", START >> shape(Hungry(ran, 9)) >> step("end", ran)).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert (turn.outcome.kind, turn.waits_for) == ("paused", [])
    assert len(ran) == 1
    turn = await lab.run(invocation_id=await lab.first_invocation())
    assert isinstance(turn.error, NothingToResume)
    assert "no question of it is open" in str(turn.error)
    assert len(ran) == 1


@pytest.mark.parametrize("shape", SHAPES)
async def test_dyn_26_a_later_trigger_runs_the_parent_again(kit: Any, shape: Callable[[Any], Any]) -> None:
    ran: list[str] = []

    def build() -> WorkflowAgent:
        flow = START >> (step("a"), step("b")) >> shape(Hungry(ran, 2)) >> step("end")
        return Workflow("wf", flow).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert turn.outcome.kind == "completed"
    assert [path.split("/")[1] for path in ran] == ["parent@1", "parent@2"]
    assert [event.path for event in turn.events if event.path.startswith("wf@1/end")] == ["wf@1/end@1"]


@pytest.mark.parametrize("shape", SHAPES)
async def test_dyn_26_a_crash_behind_any_event_leaves_it_waiting_all_the_same(
    kit: Any, shape: Callable[[Any], Any]
) -> None:
    """RPL-5: the second trigger reaches the parent as in the first run."""
    crash_after = 0
    while True:
        crash_after += 1
        ran: list[str] = []

        def build(ran: list[str] = ran) -> WorkflowAgent:
            flow = START >> (step("a"), step("b")) >> shape(Hungry(ran, 9)) >> step("end")
            return Workflow("wf", flow).as_agent()

        lab = kit.Lab(build)
        lab.store.crash_after = crash_after
        turn = await lab.run("hi")
        if turn.error is None:
            break
        lab.store.revive()
        turn = await lab.run(invocation_id=await lab.first_invocation())
        if turn.error is None:
            assert (turn.outcome.kind, turn.waits_for) == ("paused", [])
        else:
            assert isinstance(turn.error, NothingToResume)
        assert {path.split("/")[1] for path in ran} == {"parent@1", "parent@2"}
        again = await lab.run(invocation_id=await lab.first_invocation())
        assert isinstance(again.error, NothingToResume)
    assert crash_after > 4


async def test_dyn_26_a_message_runs_it_again_from_start(kit: Any) -> None:
    """No question is open, so there is nothing to hold a message for (ANS-7)."""
    ran: list[str] = []
    lab = kit.Lab(Workflow("wf", START >> child_of(Hungry(ran, 2)) >> step("end")).as_agent)
    assert (await lab.run("one")).outcome.kind == "paused"
    turn = await lab.run("two")
    assert turn.outcome.kind == "completed"
    assert len(ran) == 2


async def test_dyn_26_beside_a_question_the_answer_runs_the_parent_again(kit: Any) -> None:
    """Once it is answered the parent waits for its other child alone."""
    ran: list[str] = []
    bodies: list[int] = []

    @node
    async def asks(value: Any, ctx: NodeContext) -> Any:
        return await ctx.request_input("k", "?")

    def build() -> WorkflowAgent:
        @node
        async def parent(value: Any, ctx: NodeContext) -> Any:
            bodies.append(1)
            first = await ctx.run_node(asks)
            return [first, await ctx.run_node(Hungry(ran, 9), first)]

        return Workflow("wf", START >> parent >> step("end")).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert len(turn.waits_for) == 1
    turn = await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    assert (turn.outcome.kind, turn.waits_for) == ("paused", [])
    turn = await lab.run(invocation_id=await lab.first_invocation())
    assert isinstance(turn.error, NothingToResume)
    assert (len(ran), len(bodies)) == (1, 2)


async def test_node_9_a_node_in_a_loop_is_triggered_until_it_has_enough(kit: Any) -> None:
    """The trigger comes from the graph's own cycle, while the node waits."""
    ran: list[str] = []
    source = step("source")

    @node
    async def turns(value: Any, ctx: NodeContext) -> Event:
        return Event(output=value, routes=("again",) if int(ctx.run_id) < 3 else ("stop",))

    flow = Workflow("wf", START >> source >> turns, [Edge(turns, turns, "again")], turns >> child_of(Hungry(ran, 3)))
    turn = await kit.Lab(flow.as_agent).run("hi")
    assert turn.outcome.kind == "completed"
    assert len(ran) == 3
