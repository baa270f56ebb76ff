"""Random graphs of plain nodes whose bodies overlap differently in every run, and what must hold of what they store."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from hookwork import Event, NodeConfig
from hookwork_workflow import START, Edge, GraphNode, Join, RequestInput, Workflow, WorkflowAgent


class Plan(msgspec.Struct, frozen=True):
    """A graph as plain data. ``edges``: (source, target) with -1 for START; ``loops``: node → rounds.

    ``asks``: node → ``"handoff"`` or ``"rerun"``. ``joins``: nodes that are joins.
    """

    size: int
    edges: tuple[tuple[int, int], ...]
    loops: tuple[tuple[int, int], ...] = ()
    joins: frozenset[int] = frozenset()
    asks: tuple[tuple[int, str], ...] = ()
    inner: frozenset[int] = frozenset()


def random_plan(seed: int, *, size: int, asks: bool = False, inner: bool = False) -> Plan:
    """Each node has one to three earlier ones before it; loops lead from a node to itself."""
    rng = random.Random(seed)
    edges: set[tuple[int, int]] = set()
    for node in range(size):
        earlier = range(max(-1, node - 4), node)
        for source in rng.sample(list(earlier), min(len(earlier), rng.choice([1, 1, 2, 3]))):
            edges.add((source, node))
    sources = {source for source, _ in edges}
    inner_nodes = [node for node in range(size) if node in sources]
    loops = tuple((node, rng.choice([2, 3])) for node in inner_nodes if rng.random() < 0.1)
    plain = [node for node in inner_nodes if node not in dict(loops)]
    behind_loop = {target for source, target in edges if source in dict(loops)}
    joins = frozenset(node for node in plain if node not in behind_loop and rng.random() < 0.2)
    kinds = [(node, rng.choice(["handoff", "rerun"])) for node in plain if node not in joins and rng.random() < 0.15]
    subs = frozenset(n for n in plain if n not in joins and n not in dict(kinds) and inner and rng.random() < 0.2)
    return Plan(size, tuple(sorted(edges)), loops, joins, tuple(kinds) if asks else (), subs)


class Body(GraphNode[Any, Any]):
    """Waits some turns of the loop, may ask, and gives its own segment and what triggered it."""

    def __init__(self, name: str, rng: random.Random, ran: list[str], *, asks: str = "", rounds: int = 0) -> None:
        self.name = name
        self.rng = rng
        self.ran = ran
        self.asks = asks
        self.rounds = rounds
        if asks == "rerun":
            self.config = NodeConfig(rerun_on_resume=True)

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        segment = ctx.path.rpartition("/")[2]
        self.ran.append(ctx.path)
        for _ in range(self.rng.choice([0, 0, 1, 2, 5, 9])):
            await asyncio.sleep(0)
        if self.rng.random() < 0.3:
            yield Event(custom_metadata={"step": 1})
        if self.asks == "handoff":
            yield RequestInput(interrupt_id=f"ask-{ctx.path}", message="?")
            return
        if self.asks == "rerun":
            await ctx.request_input("ask", "?")
        routes = ()
        if self.rounds:
            routes = ("again",) if int(ctx.run_id) % self.rounds else ("on",)
        yield Event(output={"me": segment, "from": input}, routes=routes)


class Silent(GraphNode[Any, Any]):
    """Gives nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        for event in ():
            yield event


def build(plan: Plan, rng: random.Random, ran: list[str], **options: Any) -> WorkflowAgent:
    """The graph, with new nodes; ``rng`` makes its bodies overlap in a way of their own."""
    asks, loops = dict(plan.asks), dict(plan.loops)
    nodes: list[Any] = []
    for number in range(plan.size):
        name = f"n{number}"
        if number in plan.joins:
            nodes.append(Join(name))
        elif number in plan.inner:
            nodes.append(_inner(name, rng, ran))
        else:
            rounds = loops.get(number, 0)
            nodes.append(Body(name, rng, ran, asks=asks.get(number, ""), rounds=rounds))
    edges = []
    for source, target in plan.edges:
        start = START if source < 0 else nodes[source]
        edges.append(Edge(start, nodes[target], "on" if source in loops else None))
    edges += [Edge(nodes[node], nodes[node], "again") for node in loops]
    with_successor = {source for source, _ in plan.edges}
    last = Silent("last")
    edges += [Edge(nodes[node], last) for node in range(plan.size) if node not in with_successor]
    return Workflow("wf", edges, max_activations=100_000, **options).as_agent()


def _inner(name: str, rng: random.Random, ran: list[str]) -> Workflow:
    left, right, last = (Body(f"{name}_{part}", rng, ran) for part in ("a", "b", "c"))
    return Workflow(name, START >> (left, right) >> Join(f"{name}_j") >> last)


def sources(value: Any) -> list[str]:
    """What an output says it came from."""
    return [value["me"]] if isinstance(value, dict) and "me" in value else [str(value)]


def check_stored(plan: Plan, events: Sequence[Event]) -> None:
    """Each completion went to each successor exactly once, and nothing ended twice (SCH-4, JOIN-1, RPL-5)."""
    ends: dict[str, Any] = {}
    for event in events:
        info = event.node_info
        if event.author == "user" or info is None or event.path.count("/") != 1:
            continue
        if event.output is not None:
            assert event.path not in ends, f"{event.path} gave its output twice"
            ends[event.path] = event.output
    loops = dict(plan.loops)
    handoff = {f"n{node}" for node, kind in plan.asks if kind == "handoff"}
    by_node: dict[str, dict[str, Any]] = {}
    for path, output in ends.items():
        segment = path.rpartition("/")[2]
        by_node.setdefault(segment.partition("@")[0], {})[segment] = output
    for number in range(plan.size):
        name = f"n{number}"
        if number in plan.joins or number in plan.inner or name in handoff:
            continue
        predecessors = [source for source, target in plan.edges if target == number]
        if any(p in plan.joins or p in plan.inner or f"n{p}" in handoff for p in predecessors):
            continue
        sent = Counter[str]()
        for source in predecessors:
            runs = by_node.get(f"n{source}", {})
            rounds = loops.get(source, 0)
            sent.update(s for s in runs if not rounds or int(s.partition("@")[2]) % rounds == 0)
            if source < 0:
                sent["hi"] += 1
        own = by_node.get(name, {})
        if number in loops:
            sent.update(s for s in own if int(s.partition("@")[2]) % loops[number])
        got = Counter(s for output in own.values() for s in sources(output["from"]))
        assert got == sent, f"{name} was triggered by {got}, but {sent} led to it"
