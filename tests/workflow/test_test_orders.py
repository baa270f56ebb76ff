"""Concurrent nodes in an order that a test decides, all orders, and the replay of finished runs (workflow WB-26)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.workflow.flows import step

from hookwork.errors import GraphError
from hookwork_workflow import START, Join, NodeContext, RequestInput, Retry, Workflow, node, parallel
from hookwork_workflow.replay_check import check_replay


def writer(name: str) -> Any:
    """A node that adds its name to a list in the state, reading first and writing after a turn of the loop."""

    async def body(value: str, ctx: NodeContext) -> None:
        before = list(ctx.state.get("names", []))
        await asyncio.sleep(0)
        ctx.state["names"] = [*before, name]

    return node(name=name)(body)


FLOW = Workflow("wf", START >> (writer("a"), writer("b"), writer("c")) >> Join("all"))


@pytest.mark.parametrize("order", [["c", "a", "b"], ["b", "c"], ["wf@1/c@1", "b@1"], []])
async def test_wb_26_an_order_is_a_list_of_names(order: list[str]) -> None:
    """Names, segments or paths; whoever is not named comes last, by path."""
    trial = await FLOW.test("x", order=order)
    named = [entry.rpartition("/")[2].partition("@")[0] for entry in order]
    expected = [*named, *(name for name in "abc" if name not in named)]
    assert trial.state["names"] == expected
    assert [segment.partition("@")[0] for segment in trial.order] == [*expected, "all"]


async def test_wb_26_a_seed_decides() -> None:
    """The same one, the same order; different ones come to different orders."""
    found = [(await FLOW.test("x", order=seed)).order for seed in range(12)]
    assert found == [(await FLOW.test("x", order=seed)).order for seed in range(12)]
    assert len(set(found)) > 1


async def test_wb_26_all_orders_are_enumerated() -> None:
    """Three at once: six, each once."""
    trials = await FLOW.test_orders("x")
    assert sorted(trial.state["names"] for trial in trials) == sorted(
        [list(names) for names in ("abc", "acb", "bac", "bca", "cab", "cba")]
    )
    assert len({trial.order for trial in trials}) == 6


async def test_wb_26_two_branches_of_two_nodes_have_six_orders() -> None:
    """What comes behind a node is one of those that can come next."""
    left, right = step("l1") >> step("l2"), step("r1") >> step("r2")
    trials = await Workflow("wf", START >> (left, right) >> Join("both")).test_orders("x")
    seen = {tuple(segment for segment in trial.order if segment != "both@1") for trial in trials}
    assert len(trials) == len(seen) == 6
    assert all(
        order.index("l1@1") < order.index("l2@1") and order.index("r1@1") < order.index("r2@1") for order in seen
    )
    assert {repr(trial.output) for trial in trials} == {repr({"l2": "l2(l1(x))", "r2": "r2(r1(x))"})}


async def test_wb_26_a_race_is_found() -> None:
    """The newest write wins (DLT-5): the outcome depends on the order, and the enumeration shows it."""

    @node
    async def first(value: str, ctx: NodeContext) -> None:
        ctx.state["who"] = "first"

    @node
    def second(value: str, ctx: NodeContext) -> None:
        ctx.state["who"] = "second"

    trials = await Workflow("wf", START >> (first, second)).test_orders("x")
    assert {trial.state["who"] for trial in trials} == {"first", "second"}


async def test_wb_26_pairs_of_a_streaming_join_come_in_every_order() -> None:
    seen: list[list[str]] = []

    async def body(pair: list[Any], ctx: NodeContext) -> None:
        ctx.state["pairs"] = [*ctx.state.get("pairs", []), pair[0]]

    flow = Workflow("wf", START >> (step("a"), step("b")) >> Join("each", as_completed=True) >> node(name="show")(body))
    for trial in await flow.test_orders("x"):
        seen.append(trial.state["pairs"])
    assert {tuple(pairs) for pairs in seen} == {("a", "b"), ("b", "a")}


async def test_wb_26_bodies_that_wait_for_each_other_go_on() -> None:
    """Whoever waits for another node lets the next one begin."""
    ready = asyncio.Event()

    @node
    async def waits(value: str) -> str:
        await ready.wait()
        return "waited"

    @node
    async def sets(value: str) -> str:
        ready.set()
        return "set"

    trial = await Workflow("wf", START >> (waits, sets) >> Join("both")).test("x", order=["waits", "sets"])
    assert trial.output == {"waits": "waited", "sets": "set"}


async def test_wb_26_children_items_and_answers() -> None:
    """Children are among those that are chosen; delays take no time; answers go on in the same order mode."""

    @node
    async def child(value: int) -> int:
        return value

    @node
    async def starts(value: str, ctx: NodeContext) -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.run_node(child, n, run_id=f"c{n}")) for n in (1, 2)]
        return [task.result() for task in tasks]

    @node
    async def ask(value: list[int]) -> RequestInput:
        return RequestInput(interrupt_id="q", message="?")

    tries: list[int] = []

    @node(retry=Retry(max_attempts=2))
    async def flaky(value: Any) -> Any:
        tries.append(1)
        if len(tries) % 2:
            raise OSError
        return [1, 2]

    flow = Workflow("wf", START >> starts >> ask >> flaky >> parallel(step("item")))
    trials = await flow.test_orders("x", answers={"q": "go"})
    assert len(trials) == 4  # two children, two items
    assert {repr(trial.output) for trial in trials} == {"['item(1)', 'item(2)']"}


async def test_wb_26_too_many_orders_are_refused() -> None:
    flow = Workflow("wf", START >> tuple(step(f"n{i}") for i in range(5)) >> Join("all"))
    with pytest.raises(GraphError, match="more than 20 orders") as caught:
        await flow.test_orders("x", limit=20)
    assert caught.value.code == "too_many_orders"


async def test_wb_26_what_the_chooser_raises_is_raised() -> None:
    def choose(paths: Any) -> int:
        raise LookupError(paths[0])

    with pytest.raises(LookupError):
        await FLOW.test("x", order=choose)
    with pytest.raises(GraphError, match="order"):
        await FLOW.test("x", order="abc")


async def test_wb_26_the_error_of_a_node_is_the_tests() -> None:
    @node
    async def fail(value: str) -> None:
        raise OSError("no")

    for order in (["fail"], ["a", "fail"]):
        with pytest.raises(OSError, match="no"):
            await Workflow("wf", START >> (fail, step("a"))).test("x", order=order)


async def test_wb_26_a_finished_run_is_replayed_and_compared(kit: Any) -> None:
    """With the graph it was run with nothing differs; with another one the difference is told."""
    from hookwork import Runner

    flow = Workflow("wf", START >> (step("a"), step("b")) >> Join("both") >> step("end"))
    lab = kit.Lab(flow.as_agent)
    turn = await lab.run("hi")
    session = await lab.session()

    def check(graph: Any) -> None:
        check_replay(runner, session, turn.outcome.invocation_id, graph, "wf@1", "hi")

    async with Runner(flow.as_agent(), sessions="memory:") as runner:
        check(flow.graph)
        more = Workflow("wf", START >> (step("a"), step("b")) >> Join("both") >> step("end") >> step("more"))
        with pytest.raises(AssertionError, match="wf@1/more@1 would run again"):
            check(more.graph)
        with pytest.raises(AssertionError, match="nothing leads to wf@1/b@1"):
            check(Workflow("wf", START >> step("a") >> Join("both") >> step("end")).graph)
