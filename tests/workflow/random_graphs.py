"""Random graphs, and a small sequential interpreter that says what must come out of them (issue 8).

A plan is plain data. `build` makes a workflow of it, `expected` interprets it: no task, no queue per node, no
history; a list of pending steps and a map for joins.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from random import Random
from typing import Any

import msgspec
from hypothesis import strategies as st

from hookwork import Agent, Content, Event, text_content
from hookwork_llm import tool
from hookwork_workflow import (
    DEFAULT,
    START,
    Edge,
    FunctionNode,
    Join,
    NodeConfig,
    NodeContext,
    RequestInput,
    Retry,
    ToolNode,
    Workflow,
    chain,
    node,
    parallel,
    routed,
)

KINDS = (
    *("plain", "leaf", "ask", "two", "hand", "flaky", "dynamic", "router", "router"),
    *("loop", "inner", "gate", "each", "agent"),
)
#: Steps that are workflows of their own; their last node is called ``<name>_b``.
NESTED = ("inner", "gate", "each")


class Step(msgspec.Struct, frozen=True):
    """One node: its kind, whom it follows (always unconditionally, unless ``wanted`` says which route it takes)."""

    kind: str
    follows: tuple[int, ...]
    wanted: str | None = None
    fails: int = 0
    attempts: int = 0

    def name(self, number: int) -> str:
        return f"{self.kind}_{number}"


class Plan(msgspec.Struct, frozen=True):
    """Steps in an order in which each follows earlier ones; -1 is START."""

    steps: tuple[Step, ...]
    max_concurrency: int | None = None

    def name(self, number: int) -> str:
        return self.steps[number].name(number)


def digest(*values: Any) -> str:
    """A short text that depends on all values."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:8]


def given(name: str, value: Any) -> str:
    """What a node gives for an input."""
    return f"{name}:{digest(name, value)}"


def answer(name: str, value: Any) -> str:
    """What a person answers to a node that asks about a value."""
    return f"answer:{digest(name, value)}"


def route(name: str, value: Any) -> str:
    """Where a router goes for an input."""
    return "ab"[int(digest("route", name, value), 16) % 2]


def turns(name: str, value: Any) -> tuple[int, Any]:
    """How many rounds of a loop are left, and what it began with."""
    if isinstance(value, dict) and set(value) == {"left", "of"}:
        return value["left"], value["of"]
    return int(digest("turns", name, value), 16) % 3, value


@st.composite
def plans(draw: Any, *, max_steps: int = 7) -> Plan:
    """Connected graphs; joins stand only behind unconditional edges."""
    number = draw(st.integers(2, max_steps))
    steps: list[Step] = []
    for i in range(number):
        before = [-1] if i == 0 else draw(st.lists(st.integers(0, i - 1), min_size=1, max_size=3, unique=True))
        routers = [n for n, step in enumerate(steps) if step.kind == "router"]
        if routers and draw(st.booleans()):  # else routes would be rare
            before = [draw(st.sampled_from(routers))]
        kind = draw(st.sampled_from(KINDS))
        wanted = None
        if len(before) >= 2 and draw(st.booleans()):
            kind = draw(st.sampled_from(["join", "join", "stream"]))
        elif len(before) == 1 and before[0] >= 0 and steps[before[0]].kind == "router":
            wanted = draw(st.sampled_from([None, "a", "a", "b", "b", "default", "default"]))
        if kind == "join" and any(steps[n].kind == "loop" for n in before):
            kind = "leaf"  # what leaves a loop has a route
        fails = draw(st.integers(0, 3)) if kind == "flaky" else 0
        attempts = draw(st.integers(0, 3)) if kind == "flaky" else 0
        steps.append(Step(kind, tuple(sorted(before)), wanted, fails, attempts))
    taken: set[int] = set()
    for i, step in enumerate(steps):  # at most one default edge for each router (GV-8)
        if step.wanted == "default":
            if step.follows[0] in taken:
                steps[i] = msgspec.structs.replace(step, wanted="a")
            taken.add(step.follows[0])
    followed = {source for step in steps for source in step.follows}
    for i, step in enumerate(steps):  # an answer that is handed off at the end is an output; there may be one (RSL-1)
        if step.kind == "hand" and i not in followed:
            steps[i] = msgspec.structs.replace(step, kind="ask")
    concurrency = draw(st.sampled_from([None, 1, 2]))
    return Plan(tuple(steps), max_concurrency=concurrency)


class World:
    """What outlives a process: how often flaky nodes failed already, which bodies ran, what was answered."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.failed: Counter[str] = Counter()
        self.ran: Counter[tuple[str, Any]] = Counter()
        #: paths whose end is stored; set by whoever watches the store.
        self.ended: set[str] = set()
        self.entered_after_end: list[str] = []
        self.asked: dict[str, tuple[str, Any]] = {}

    async def enter(self, ctx: NodeContext) -> None:
        """A body with a context begins."""
        if ctx.path in self.ended:
            self.entered_after_end.append(ctx.path)
        await self.wander()

    async def wander(self) -> None:
        """Let others go on, a few times: bodies overlap in another way in each run."""
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)


def build(plan: Plan, world: World) -> Agent:
    """The workflow of a plan, with nodes of its own."""
    nodes: list[Any] = [_node(plan, number, world) for number in range(len(plan.steps))]
    edges = []
    for number, step in enumerate(plan.steps):
        if step.kind == "loop":
            edges.append(Edge(nodes[number], nodes[number], "again"))
        for source in step.follows:
            wanted = {None: None, "default": DEFAULT}.get(step.wanted, step.wanted)
            if source >= 0 and plan.steps[source].kind == "loop":
                wanted = "done"
            edges.append(Edge(START if source < 0 else nodes[source], nodes[number], wanted))
    return Workflow("wf", edges, max_concurrency=plan.max_concurrency).as_agent()


def _last(plan: Plan, number: int) -> bool:
    """Whether nobody follows: such a node gives nothing, so that there is no question which one is the workflow's."""
    return not any(number in step.follows for step in plan.steps)


def _node(plan: Plan, number: int, world: World) -> Any:
    step, name = plan.steps[number], plan.name(number)
    silent = _last(plan, number)
    if step.kind == "join":
        return Join(name) if not silent else _silent_join(name)
    if step.kind == "stream":
        return Join(name, as_completed=True) if not silent else _silent_join(name, as_completed=True)

    def result(value: Any) -> Any:
        world.ran[name, _key(value)] += 1
        return None if silent else given(name, value)

    async def plain(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)
        return result(value)

    async def leaf(value: Any) -> Any:
        await world.wander()
        return result(value)

    async def ask(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)
        world.asked[ctx.interrupt_id("q")] = (name, value)
        reply = await ctx.request_input("q", "?")
        return result([value, reply])

    async def two(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)

        async def one(key: str) -> Any:
            world.asked[ctx.interrupt_id(key)] = (f"{name}.{key}", value)
            return await ctx.request_input(key, "?")

        async with asyncio.TaskGroup() as group:
            replies = [group.create_task(one(key)) for key in ("left", "right")]
        return result([value, *(reply.result() for reply in replies)])

    async def hand(value: Any, ctx: NodeContext) -> RequestInput:
        await world.enter(ctx)
        world.asked[ctx.interrupt_id("h")] = (name, value)
        return RequestInput(interrupt_id=ctx.interrupt_id("h"))

    async def flaky(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)
        if world.failed[name] < step.fails:
            world.failed[name] += 1
            raise OSError(f"{name} fails")
        return result(value)

    async def child(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)
        world.ran[f"{name}.child", _key(value)] += 1
        return given("child", value)

    inner = FunctionNode(child, name="child")

    async def dynamic(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)
        first = await ctx.run_node(inner, value)
        second = await ctx.run_node(inner, [value, first])
        return result([first, second])

    async def router(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)
        return routed(route(name, value), result(value))

    async def loop(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)
        left, of = turns(name, value)
        return routed("again", {"left": left - 1, "of": of}) if left else routed("done", result(of))

    async def arguments(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)
        place = ctx.path.rpartition("/")[0]
        world.asked[f"wf_tool_confirmation:{ctx.invocation_id}:{place}/{name}_t@1"] = (name, value)
        return {"value": value}

    @tool(require_confirmation=True, inline=True)
    def gated(value: Any) -> Any:
        """Runs once it is approved."""
        world.ran[f"{name}.tool", _key(value)] += 1
        return given("tool", value)

    async def three(value: Any) -> Any:
        return [[value, i] for i in range(3)]

    async def item(value: Any, ctx: NodeContext) -> Any:
        await world.enter(ctx)
        return given("item", value)

    async def speaks(ctx: Any) -> Any:
        await world.wander()
        if not silent:
            said = ctx.input.text if isinstance(ctx.input, Content) else ctx.input  # the first node gets the message
            yield Event(content=text_content(given(name, said)))

    def nested(*inner: Any) -> Workflow:
        return Workflow(name, chain(START, *inner, FunctionNode(plain, name=f"{name}_b")))

    if step.kind == "agent":
        return node(Agent(name=name, body=speaks))
    if step.kind == "gate":
        return nested(FunctionNode(arguments, name=f"{name}_a"), ToolNode(gated, name=f"{name}_t"))
    if step.kind == "each":
        return nested(
            FunctionNode(three, name=f"{name}_a"), parallel(FunctionNode(item, name="item"), name=f"{name}_p")
        )
    if step.kind == "inner":
        return nested(FunctionNode(ask, name=f"{name}_a"))
    bodies = {
        "plain": plain,
        "leaf": leaf,
        "ask": ask,
        "two": two,
        "hand": hand,
        "flaky": flaky,
        "dynamic": dynamic,
        "router": router,
        "loop": loop,
    }
    retry = Retry(max_attempts=step.attempts, initial_delay=0) if step.attempts else None
    return FunctionNode(bodies[step.kind], name=name, config=NodeConfig(retry=retry))


def _silent_join(name: str, **how: Any) -> Any:
    class Silent(Join[Any]):
        async def run(self, ctx: Any, input: Any) -> Any:
            for nothing in ():
                yield nothing

    return Silent(name, **how)


def _key(value: Any) -> str:
    return digest(value)


class Expected(msgspec.Struct):
    """What the interpreter says: outputs by node, activations by node, questions."""

    outputs: Counter[tuple[str, str]]
    activations: Counter[str]
    questions: Counter[str]


def expected(plan: Plan, message: str) -> Expected | None:
    """Interpret a plan step by step; None when a join would be offered one predecessor twice.

    What a join does with that depends on the order of arrival, which is free.
    """
    found = Expected(Counter(), Counter(), Counter())
    waiting: dict[int, dict[str, Any]] = {}
    pending: list[tuple[int, int, Any]] = [(-1, n, message) for n, step in enumerate(plan.steps) if -1 in step.follows]
    while pending:
        source, number, value = pending.pop(0)
        step, name = plan.steps[number], plan.name(number)
        if step.kind == "join":
            arrived = waiting.setdefault(number, {})
            if plan.name(source) in arrived:
                return None
            arrived[plan.name(source)] = value
            if len(arrived) < len(step.follows):
                continue
            if found.activations[name]:
                return None
            value = {plan.name(n): arrived[plan.name(n)] for n in step.follows}
        if step.kind == "stream":
            value = [plan.name(source), value]
        found.activations[name] += 1
        if sum(found.activations.values()) > 60:
            return None
        output, chosen = _interpreted(step, name, value, found)
        if _last(plan, number) and chosen != "again":
            output = None
        if output is not None and step.kind != "hand":
            found.outputs[name, repr(output)] += 1
        pending += [(number, n, output) for n in _successors(plan, number, chosen)]
    return found


def _interpreted(step: Step, name: str, value: Any, found: Expected) -> tuple[Any, str | None]:
    if step.kind in ("join", "stream"):
        return value, None
    if step.kind == "hand":
        found.questions[name] += 1
        return answer(name, value), None
    if step.kind == "ask":
        found.questions[name] += 1
        return given(name, [value, answer(name, value)]), None
    if step.kind == "two":
        found.questions.update((f"{name}.left", f"{name}.right"))
        return given(name, [value, answer(f"{name}.left", value), answer(f"{name}.right", value)]), None
    if step.kind == "inner":
        found.questions[name] += 1
        return given(name, given(name, [value, answer(name, value)])), None
    if step.kind == "gate":
        found.questions[name] += 1
        return given(name, given("tool", value)), None
    if step.kind == "each":
        return given(name, [given("item", [value, i]) for i in range(3)]), None
    if step.kind == "loop":
        left, of = turns(name, value)
        return ({"left": left - 1, "of": of}, "again") if left else (given(name, of), "done")
    if step.kind == "dynamic":
        first = given("child", value)
        return given(name, [first, given("child", [value, first])]), None
    return given(name, value), route(name, value) if step.kind == "router" else None


def _successors(plan: Plan, number: int, chosen: str | None) -> list[int]:
    following = [n for n, step in enumerate(plan.steps) if number in step.follows]
    if plan.steps[number].kind == "loop":
        return [number] if chosen == "again" else following
    matched = [n for n in following if plan.steps[n].wanted == chosen and chosen is not None]
    always = [n for n in following if plan.steps[n].wanted is None]
    default = [n for n in following if plan.steps[n].wanted == "default"] if not matched else []
    return sorted([*matched, *always, *default])
