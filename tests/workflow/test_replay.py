"""Replay of graphs: crashes behind every event, changed graphs, linear cost (workflow §5.3)."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.workflow.flows import answered, answers, handoff, is_marker, outputs, step

from hookwork import Event
from hookwork.errors import NothingToResume
from hookwork_workflow import (
    START,
    Edge,
    GraphNode,
    Join,
    NodeContext,
    ReplayDivergence,
    RequestInput,
    Workflow,
    WorkflowAgent,
    node,
    parallel,
    routed,
)


def big_graph(ran: list[str]) -> WorkflowAgent:
    """Thirty nodes: a line, a fan-out with a join, a loop, a sub-workflow, children, items, two questions."""

    @node
    async def ask(value: Any) -> AsyncIterator[Any]:
        ran.append("ask")
        yield RequestInput(interrupt_id="q1", message="?")

    @node
    async def approve(value: Any, ctx: NodeContext) -> str:
        ran.append("approve")
        return f"{value}:{await ctx.request_input('k')}"

    @node
    async def loop(value: Any, ctx: NodeContext) -> Any:
        ran.append(f"loop{ctx.run_id}")
        return routed("again" if int(ctx.run_id) < 3 else "on", f"loop{ctx.run_id}")

    @node
    async def parent(value: Any, ctx: NodeContext) -> list[Any]:
        ran.append("parent")
        return [await ctx.run_node(step(name, ran), value) for name in ("c1", "c2")]

    line = [step(f"n{number}", ran) for number in range(10)]
    edges: Any = START >> line[0]
    for before, after in itertools.pairwise(line):
        edges = [*edges, Edge(before, after)]
    branches = tuple(step(f"b{number}", ran) for number in range(6))
    silent = step("silent", ran, lambda value: None)
    inner = Workflow("inner", START >> (step("i1", ran), step("i2", ran)) >> Join("ij") >> step("i3", ran))
    items = parallel(step("item", ran, lambda value: value + 1), name="items")
    listing = step("listing", ran, lambda value: [1, 2, 3])
    return Workflow(
        "wf",
        edges,
        line[-1] >> (*branches, silent) >> Join("j1") >> step("m1", ran) >> ask >> loop,
        loop.on({"again": loop, "on": parent}),
        parent >> inner >> listing >> items >> approve >> step("m2", ran) >> step("end", ran),
    ).as_agent()


async def drive(lab: Any, crash: type[BaseException], crash_after: int | None, ran: list[str]) -> tuple[str, int]:
    """Run to the end and answer what is asked; crash behind one stored event on the way.

    Gives the last node's output and how many bodies had begun when it crashed.
    """
    lab.store.crash_after = crash_after
    message: Any = "hi"
    invocation_id: str | None = None
    begun = 0
    for _ in range(10):
        turn = await lab.run(message, invocation_id=invocation_id)
        if isinstance(turn.error, crash):
            lab.store.revive()
            begun = len(ran)
            message, invocation_id = None, await lab.first_invocation()
            continue
        if turn.error is not None and not isinstance(turn.error, NothingToResume):
            raise turn.error
        waiting = list((await lab.session()).open_calls)
        if not waiting:
            break
        message, invocation_id = answers({call: {"result": "yes"} for call in waiting}), None
    return str(outputs(await lab.events())["wf@1/end@1"]), begun


def ends(events: Any) -> Counter[str]:
    """How often each node gave an output or a marker; the rounds of the loop one by one."""
    found: Counter[str] = Counter()
    for event in events:
        if event.author != "user" and (event.output is not None or is_marker(event)):
            name, _, run = event.path.rpartition("/")[2].partition("@")
            found[f"loop{run}" if name == "loop" else name] += 1
    return found


async def test_rpl_9_a_crash_behind_every_stored_event_on_sqlite_comes_to_the_same_end(
    kit: Any, tmp_path: Path
) -> None:
    """Issue 8: each node completes exactly once, and none that has an end runs again (RPL-4, RPL-10)."""
    whole = kit.Lab(lambda: big_graph([]), url=f"sqlite:///{tmp_path / 'whole.db'}")
    expected, _ = await drive(whole, kit.Crash, None, [])
    stored = ends(await whole.events())
    total = whole.store.stored
    assert total >= 40
    asking = {"ask", "approve"}
    for crash_after in range(1, total + 1):
        ran: list[str] = []
        lab = kit.Lab(lambda ran=ran: big_graph(ran), url=f"sqlite:///{tmp_path / f'{crash_after}.db'}")
        found, begun = await drive(lab, kit.Crash, crash_after, ran)
        assert found == expected
        events = await lab.events()
        assert ends(events) == stored
        before = ends(events[:crash_after])
        later = Counter(name for name in ran[begun:] if name not in asking)
        assert later == Counter({name: n for name in later | stored if name in set(ran) - asking
                                 and (n := stored[name] - before[name]) > 0})  # fmt: skip
        with pytest.raises(NothingToResume):
            raise (await lab.run(invocation_id=await lab.first_invocation())).error


async def test_rpl_1_the_input_is_that_of_the_first_message(kit: Any) -> None:
    """Answers and held messages are no input; only this invocation counts."""
    seen: list[Any] = []

    @node
    async def first(value: str, ctx: NodeContext) -> str:
        seen.append(value)
        return str(await ctx.request_input("k"))

    lab = kit.Lab(Workflow("wf", START >> first).as_agent)
    turn = await lab.run("the first")
    await lab.run("in between")
    await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    turn = await lab.run("the second")
    await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    assert seen == ["the first", "the first", "the second", "the second"]


async def test_rpl_2_what_was_said_last_counts(kit: Any) -> None:
    """A failure behind an output undoes it; a rewound run is gone (WB-8)."""
    broken = [True]

    @node
    async def shaky(value: str, ctx: NodeContext) -> AsyncIterator[Any]:
        yield Event(output="first" if broken[0] else "second")
        if broken[0]:
            raise OSError("after the output")

    lab = kit.Lab(Workflow("wf", START >> shaky >> step("end")).as_agent)
    assert isinstance((await lab.run("hi")).error, OSError)
    broken[0] = False
    assert (await lab.run(invocation_id=await lab.first_invocation())).outcome.output == "end(second)"


async def test_rpl_3_and_4_completed_nodes_are_passed_in_silence(kit: Any) -> None:
    ran: list[str] = []

    @node
    async def ask(value: Any) -> AsyncIterator[Any]:
        yield RequestInput(interrupt_id="q")

    silent = step("silent", ran, lambda value: None)
    lab = kit.Lab(Workflow("wf", START >> step("a", ran) >> silent >> ask >> step("b", ran)).as_agent)
    await lab.run("hi")
    turn = await lab.run(answers({"q": {"result": "yes"}}))
    assert ran == ["a", "silent", "b"]
    assert {event.path for event in turn.events} == {"wf@1/b@1"}


async def test_rpl_5_what_is_recorded_and_never_comes_up_is_a_divergence(kit: Any) -> None:
    broken = [True]

    @node
    async def last(value: Any) -> str:
        if broken[0]:
            raise OSError("no")
        return "ok"

    def build() -> WorkflowAgent:
        middle = START >> step("a") >> step("gone") if broken[0] else START >> step("a")
        return Workflow("wf", middle >> last).as_agent()

    lab = kit.Lab(build)
    assert isinstance((await lab.run("hi")).error, OSError)
    broken[0] = False
    error = (await lab.run(invocation_id=await lab.first_invocation())).error
    assert isinstance(error, ReplayDivergence)
    assert (error.node, error.path) == ("gone", "wf@1/gone@1")


async def test_rpl_6_branch_of_a_resumed_activation_is_the_recorded_one(kit: Any) -> None:
    @node
    async def ask(value: Any, ctx: NodeContext) -> str:
        return str(await ctx.request_input("k"))

    lab = kit.Lab(Workflow("wf", START >> (step("a"), ask) >> step("z", give=lambda v: None)).as_agent)
    turn = await lab.run("hi")
    turn = await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    assert {event.path: event.branch for event in turn.events} == {"wf@1/ask@1": "ask@1", "wf@1/z@2": "ask@1"}


async def test_rpl_7_a_resume_starts_with_the_first_attempt(kit: Any) -> None:
    from hookwork_workflow import Retry

    attempts: list[int] = []
    broken = [True]

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def flaky(value: str, ctx: NodeContext) -> str:
        attempts.append(ctx.attempt)
        if broken[0]:
            raise OSError("no")
        return "ok"

    lab = kit.Lab(Workflow("wf", START >> flaky).as_agent)
    assert isinstance((await lab.run("hi")).error, OSError)
    broken[0] = False
    await lab.run(invocation_id=await lab.first_invocation())
    assert attempts == [1, 2, 1]


async def test_rpl_10_bodies_before_the_resume_point_do_not_run_again(kit: Any) -> None:
    """The key of an effect is the same in each rerun."""
    keys: list[str] = []
    ran: list[str] = []

    @node
    async def review(value: Any, ctx: NodeContext) -> str:
        keys.append(ctx.idempotency_key)
        return str(await ctx.request_input("k"))

    lab = kit.Lab(Workflow("wf", START >> step("a", ran) >> review).as_agent)
    turn = await lab.run("hi")
    await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    assert ran == ["a"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_per_3_a_successor_sees_the_same_value_live_and_replayed(kit: Any) -> None:
    from dataclasses import dataclass

    @dataclass
    class Point:
        x: int
        tags: tuple[str, ...] = ()

    seen: list[Any] = []

    @node
    async def make(value: str) -> Any:
        return Point(1, ("a", "b"))

    @node
    async def use(value: Any, ctx: NodeContext) -> str:
        seen.append(value)
        return str(await ctx.request_input("k"))

    lab = kit.Lab(Workflow("wf", START >> make >> use).as_agent)
    turn = await lab.run("hi")
    await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    assert seen == [{"x": 1, "tags": ["a", "b"]}] * 2
    assert type(seen[0]) is type(seen[1])


# --- cost -------------------------------------------------------------------------------------------------------------


async def calls_of(work: Callable[[], Awaitable[Any]]) -> int:
    """How many Python functions ``work`` calls."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        if event == "call":
            count += 1

    sys.setprofile(profile)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return count


def line(length: int) -> Workflow:
    nodes = [step(f"n{number}", give=lambda value: value) for number in range(length)]
    edges = [Edge(START, nodes[0]), *(Edge(a, b) for a, b in itertools.pairwise(nodes))]
    return Workflow("wf", edges, max_activations=2 * length + 10)


def fan(width: int) -> Workflow:
    nodes = tuple(step(f"n{number}", give=lambda value: value) for number in range(width))
    return Workflow("wf", START >> nodes >> Join("j"), max_activations=2 * width + 10)


@pytest.mark.parametrize("shape", [line, fan])
async def test_a_run_is_linear_in_its_nodes(kit: Any, shape: Callable[[int], Workflow]) -> None:
    costs = []
    for size in (250, 1000):
        agent = shape(size).as_agent()
        lab = kit.Lab(lambda agent=agent: agent)
        costs.append(await calls_of(lambda lab=lab: lab.run("hi")))
    assert costs[1] < 4.4 * costs[0]


async def test_a_line_of_ten_thousand_nodes(kit: Any) -> None:
    agent = line(10_000).as_agent()
    turn = await kit.Lab(lambda: agent).run("hi")
    assert turn.outcome.output == "hi"
    assert len(turn.events) == 10_000


async def test_a_resume_is_linear_in_what_was_recorded(kit: Any) -> None:
    """A thousand nodes done, one that asked: the second run does each step once, reads no event twice."""
    costs = []
    for size in (250, 1000):

        @node
        async def ask(value: Any) -> AsyncIterator[Any]:
            yield RequestInput(interrupt_id="q")

        nodes = [step(f"n{number}", give=lambda value: value) for number in range(size)]
        edges = [Edge(START, nodes[0]), *(Edge(a, b) for a, b in itertools.pairwise(nodes))]
        flow = Workflow("wf", edges, [Edge(nodes[-1], ask)], max_activations=2 * size)
        agent = flow.as_agent()
        lab = kit.Lab(lambda agent=agent: agent)
        await lab.run("hi")
        message = answers({"q": {"result": "yes"}})
        costs.append(await calls_of(lambda lab=lab, message=message: lab.run(message)))
        assert list((await lab.session()).open_calls) == []
    assert costs[1] < 4.4 * costs[0]


async def test_wb_8_a_rewound_run_is_gone(kit: Any) -> None:
    """RPL-1: only live events count; what was rewound neither waits nor is replayed."""
    from hookwork import Runner

    ran: list[str] = []

    @node
    async def ask(value: Any, ctx: NodeContext) -> str:
        ran.append("ask")
        return str(await ctx.request_input("k"))

    flow = Workflow("wf", START >> step("a", ran) >> ask >> step("b", ran))
    lab = kit.Lab(flow.as_agent)
    first = await lab.run("one")
    async with lab.store.opened() as service, Runner(flow.as_agent(), sessions=service) as runner:
        await runner.rewind(user_id="u", session_id="s", before_invocation_id=first.outcome.invocation_id)
    with pytest.raises(NothingToResume):
        raise (await lab.run(answers({first.waits_for[0]: {"result": "x"}}))).error
    second = await lab.run("two")
    assert second.outcome.kind == "paused"
    turn = await lab.run(answers({second.waits_for[0]: {"result": "y"}}))
    assert turn.outcome.output == "b(y)"
    assert ran == ["a", "ask", "a", "ask", "ask", "b"]


async def test_act_6_a_resume_asks_each_node_that_is_done_twice(kit: Any) -> None:
    """Once for where the run stands, once to go on; not again when it has come to its end."""
    asked: list[str] = []

    class Asked(GraphNode[Any, Any]):
        def __init__(self, name: str) -> None:
            self.name = name

        async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
            yield Event(output=self.name)

        def standing(self, view: Any) -> Any:
            asked.append(self.name)
            return super().standing(view)

    flow = Workflow("wf", START >> Asked("a") >> Asked("b") >> handoff("ask", "q") >> step("end"))
    lab = kit.Lab(flow.as_agent)
    await lab.run("hi")
    asked.clear()
    assert (await answered(lab, {"q": "yes"})).outcome.output == "end(yes)"
    assert sorted(asked) == ["a", "a", "b", "b"]
