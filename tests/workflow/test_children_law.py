"""Random trees of dynamic nodes that start, ask, fail and crash, against what they must give (DYN-20 … DYN-23).

Whatever happens on the way: the output is that of an undisturbed run, each place ends once, each question is asked once
and each child that has an end is not run again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.workflow.flows import answers, is_marker

from hookwork.errors import NothingToResume
from hookwork_workflow import START, NodeContext, Retry, Workflow, node, parallel

LAW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Call(msgspec.Struct, frozen=True):
    """What one child does. ``how``: its own children run one after the other, in a task group, or as items."""

    kind: str
    how: str = "series"
    children: tuple[Call, ...] = ()
    fails: int = 0
    retried: bool = False
    name: str = ""


LEAVES = st.builds(
    Call, kind=st.sampled_from(["plain", "ask", "hand", "silent"]), fails=st.sampled_from([0, 0, 0, 1]),
    retried=st.booleans(),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        Call,
        kind=st.sampled_from(["dynamic", "dynamic", "flow"]),
        how=st.sampled_from(["series", "group", "items"]),
        children=st.lists(inner, min_size=1, max_size=3).map(tuple),
        fails=st.sampled_from([0, 0, 0, 1]),
        retried=st.booleans(),
    ),
    max_leaves=7,
)


def named(call: Call, numbers: Iterator[int]) -> Call:
    name = f"{call.kind}{next(numbers)}"
    return msgspec.structs.replace(call, name=name, children=tuple(named(child, numbers) for child in call.children))


def expected(call: Call) -> Any:
    """The output of an undisturbed run."""
    if call.kind == "silent":
        return None
    if call.kind == "plain":
        return call.name
    if call.kind in ("ask", "hand"):
        return f"answer {call.name}"
    if call.kind == "flow":
        return [expected(call.children[-1])]
    found = [expected(child) for child in call.children]
    return [found[0]] * 2 if call.how == "items" else found


class World:
    """What outlives processes: how often a body may still fail, what ran."""

    def __init__(self, root: Call) -> None:
        self.left: dict[str, int] = {}
        self.ran: list[str] = []
        pending = [root]
        while pending:
            call = pending.pop()
            self.left[call.name] = call.fails
            pending += call.children

    def fail(self, name: str) -> None:
        if self.left[name]:
            self.left[name] -= 1
            raise OSError(name)


def make(call: Call, world: World) -> Any:
    """The node of a call."""
    retry = Retry(max_attempts=2, initial_delay=0) if call.retried else None
    if call.kind == "flow":
        nodes = [make(child, world) for child in call.children]
        edges: Any = START >> nodes[0]
        for after in nodes[1:]:
            edges = edges >> after

        async def listed(value: Any) -> list[Any]:
            return [value]

        return Workflow(call.name, edges >> node(name=f"{call.name}_end")(listed), retry=retry)
    if call.kind == "hand":
        from hookwork_workflow import RequestInput

        async def hand(value: Any) -> Any:
            world.ran.append(call.name)
            await asyncio.sleep(0)
            world.fail(call.name)
            return RequestInput(message=call.name)

        return node(name=call.name, retry=retry)(hand)

    async def body(value: Any, ctx: NodeContext) -> Any:
        world.ran.append(ctx.path)
        await asyncio.sleep(0)
        if call.kind == "ask":
            answer = await ctx.request_input("k", call.name)
            world.fail(call.name)
            return answer
        if call.kind in ("plain", "silent"):
            world.fail(call.name)
            return call.name if call.kind == "plain" else None
        found = await started(call, world, ctx)
        world.fail(call.name)
        return found

    return node(name=call.name, retry=retry)(body)


async def started(call: Call, world: World, ctx: NodeContext) -> list[Any]:
    nodes = [make(child, world) for child in call.children]
    if call.how == "items":
        first = nodes[0]
        retry, first = first.config.retry, first.replace(config=msgspec.structs.replace(first.config, retry=None))
        return list(await ctx.run_node(parallel(first, name="items", retry=retry), [1, 2]))
    if call.how == "group":
        tasks = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ctx.run_node(child)) for child in nodes]
        except ExceptionGroup as errors:
            raise errors.exceptions[0]  # noqa: B904 - what failed, with its own cause
        return [task.result() for task in tasks]
    return [await ctx.run_node(child) for child in nodes]


def cause_of(error: BaseException | None) -> BaseException | None:
    """What failed first, below the errors of those that started it."""
    while error is not None and not isinstance(error, OSError):
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__
    return error


async def play(kit: Any, root: Call, crashes: list[int], picks: st.DataObject) -> tuple[Any, World]:
    world = World(root)
    lab = kit.Lab(lambda: Workflow("wf", START >> make(root, world)).as_agent())
    message: Any = "hi"
    invocation_id: str | None = None
    for _ in range(80):
        lab.store.revive()
        lab.store.crash_after = lab.store.stored + crashes.pop() if crashes else None
        turn = await lab.run(message, invocation_id=invocation_id)
        known = turn.error is None or isinstance(turn.error, kit.Crash | NothingToResume)
        assert known or isinstance(cause_of(turn.error), OSError), turn.error
        lab.store.revive()
        waiting = dict((await lab.session()).open_calls)
        if turn.error is not None and not isinstance(turn.error, NothingToResume):
            message, invocation_id = None, await lab.first_invocation()
            continue
        if not waiting:
            return lab, world
        calls = sorted(waiting.values(), key=lambda call: call.path)
        chosen = picks.draw(st.lists(st.integers(0, len(calls) - 1), min_size=1, unique=True))
        given = {calls[n].id: {"result": f"answer {calls[n].message}"} for n in chosen}
        message, invocation_id = answers(given), None
    raise AssertionError("it did not come to an end")


@LAW
@given(tree=TREES, crashes=st.lists(st.integers(1, 6), max_size=4), picks=st.data())
async def test_dyn_20_to_23_children_end_once_whatever_happens(
    kit: Any, tree: Call, crashes: list[int], picks: st.DataObject
) -> None:
    root = named(tree, iter(range(1000)))
    lab, _ = await play(kit, root, list(crashes), picks)
    events = await lab.events()
    ends = Counter(e.path for e in events if e.author != "user" and (e.output is not None or is_marker(e)))
    assert [path for path, times in ends.items() if times > 1] == []
    outputs = [e.output for e in events if e.path == f"wf@1/{root.name}@1" and e.output is not None]
    if root.kind == "hand":
        outputs = [expected(root)]
    if root.kind == "flow":
        outputs = [e.output for e in events if e.path == f"wf@1/{root.name}@1/{root.name}_end@1" and e.output]
    assert outputs == ([] if expected(root) is None else [expected(root)])
