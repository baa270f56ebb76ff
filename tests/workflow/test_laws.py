"""Random trees against a small sequential interpreter: what is said, what waits, in which order (activations §2, §3).

Leaves may ask once, fail once, escalate in a round. Runs crash, are continued by id, and are answered in any portions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from hookwork import Agent, Content, Event, EventActions, FunctionCall, Part, Pause, text_content
from hookwork.errors import NothingToResume
from hookwork_workflow import LoopAgent, ParallelAgent, SequentialAgent


class Shape(msgspec.Struct, frozen=True):
    """A node of a tree as plain data. ``escalate_in``: the round of the nearest loop, 0 = never."""

    kind: str
    name: str = ""
    children: tuple[Shape, ...] = ()
    asks: bool = False
    fails: bool = False
    escalate_in: int = 0
    rounds: int = 1
    mode: str = "any"


LEAVES = st.builds(
    Shape,
    kind=st.just("leaf"),
    asks=st.booleans(),
    fails=st.booleans(),
    escalate_in=st.sampled_from([0, 0, 0, 1, 2]),
)


def _composed(children: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    several = st.lists(children, max_size=3).map(tuple)
    loop = st.builds(
        Shape,
        kind=st.just("loop"),
        children=several,
        rounds=st.integers(1, 2),
        mode=st.sampled_from(["any", "direct"]),
    )
    return st.one_of(st.builds(Shape, kind=st.sampled_from(["seq", "par"]), children=several), loop)


def _named(shape: Shape, numbers: Iterator[int]) -> Shape:
    name = f"{shape.kind}{next(numbers)}"
    children = tuple(_named(child, numbers) for child in shape.children)
    return msgspec.structs.replace(shape, name=name, children=children)


TREES = _composed(st.recursive(LEAVES, _composed, max_leaves=7)).map(lambda shape: _named(shape, iter(range(1000))))


# --- the real thing ---------------------------------------------------------------------------------------------------


def build(shape: Shape, failed: set[str]) -> Agent:
    """The agents of a shape; ``failed`` is the world outside, which remembers what has failed already."""
    if shape.kind == "leaf":
        return leaf(shape, failed)
    children = [build(child, failed) for child in shape.children]
    if shape.kind == "loop":
        return LoopAgent(name=shape.name, sub_agents=children, max_iterations=shape.rounds, escalate=shape.mode)
    return (SequentialAgent if shape.kind == "seq" else ParallelAgent)(name=shape.name, sub_agents=children)


def leaf(shape: Shape, failed: set[str]) -> Agent:
    async def body(ctx: Any) -> Any:
        path = ctx.path
        if not ctx.view.events:
            yield Event(content=text_content("did"))
        if shape.fails and path not in failed:
            failed.add(path)
            raise ValueError(path)
        if shape.asks:
            calls = ctx.view.calls
            if not calls:
                asked = FunctionCall(id=path, name="adk_request_input", args={})
                content = Content(role="model", parts=[Part(function_call=asked)])
                yield Event(content=content, long_running_tool_ids=(path,))
                raise Pause
            if calls[0].answer is None:
                raise Pause
        escalates = shape.escalate_in and path.endswith(f"@{shape.escalate_in}")
        yield Event(content=text_content("end"), output=path, actions=EventActions(escalate=bool(escalates) or None))

    return Agent(name=shape.name, body=body)


# --- the reference ----------------------------------------------------------------------------------------------------


class Result(msgspec.Struct):
    """What a place has come to, once everything that fails has been run again.

    ``said``: leaf place → its lines. ``units``: groups of leaf places, each wholly before the next.
    """

    finished: bool
    said: dict[str, list[str]]
    waiting: set[str]
    escalated: bool = False
    output: Any = None
    before: list[tuple[list[str], list[str]]] = []


def interpret(shape: Shape, path: str, answered: set[str]) -> Result:
    if shape.kind == "leaf":
        return _leaf(shape, path, answered)
    if shape.kind == "par":
        results = [(child, interpret(child, f"{path}/{child.name}@1", answered)) for child in shape.children]
        outputs = {child.name: result.output for child, result in results if result.output is not None}
        return _merged([result for _, result in results], outputs or None)
    return _in_order(shape, path, answered)


def _leaf(shape: Shape, path: str, answered: set[str]) -> Result:
    if shape.asks and path not in answered:
        return Result(finished=False, said={path: ["did", "ask"]}, waiting={path})
    lines = ["did", "ask", "end"] if shape.asks else ["did", "end"]
    escalated = bool(shape.escalate_in and path.endswith(f"@{shape.escalate_in}"))
    return Result(finished=True, said={path: lines}, waiting=set(), escalated=escalated, output=path)


def _in_order(shape: Shape, path: str, answered: set[str]) -> Result:
    results: list[Result] = []
    output = None
    for number in range(1, (shape.rounds if shape.kind == "loop" else 1) + 1):
        for child in shape.children:
            result = interpret(child, f"{path}/{child.name}@{number}", answered)
            results.append(result)
            if not _is_empty(child):
                output = result.output
            heard = result.escalated and (shape.mode == "any" or child.kind == "leaf")
            if not result.finished or (shape.kind == "loop" and heard):
                return _merged(results, output, in_order=True)
    return _merged(results, output, in_order=True)


def _is_empty(shape: Shape) -> bool:
    return shape.kind != "leaf" and all(_is_empty(child) for child in shape.children)


def _merged(results: Sequence[Result], output: Any, *, in_order: bool = False) -> Result:
    said: dict[str, list[str]] = {}
    before = [pair for result in results for pair in result.before]
    for result in results:
        if in_order and said and result.said:
            before.append(([*said], [*result.said]))
        said.update(result.said)
    return Result(
        finished=all(result.finished for result in results),
        said=said,
        waiting=set().union(*(result.waiting for result in results)),
        escalated=any(result.escalated for result in results),
        output=output,
        before=before,
    )


# --- the comparison ---------------------------------------------------------------------------------------------------


def said_by_place(events: Sequence[Event]) -> dict[str, list[str]]:
    said: dict[str, list[str]] = {}
    for event in events:
        if event.author != "user":
            said.setdefault(event.path, []).append(event.text or "ask")
    return said


def check_order(events: Sequence[Event], result: Result) -> None:
    positions: dict[str, list[int]] = {}
    for position, event in enumerate(events):
        positions.setdefault(event.path, []).append(position)
    for earlier, later in result.before:
        assert max(p for place in earlier for p in positions[place]) < min(
            p for place in later for p in positions[place]
        )


async def until_it_waits(kit: Any, lab: Any, turn: Any) -> Any:
    """Continue what failed or crashed by its id until there is nothing more to continue."""
    for _ in range(100):
        if turn.error is None:
            return turn
        if isinstance(turn.error, NothingToResume):
            return None
        assert isinstance(turn.error, ValueError | kit.Crash)
        lab.store.revive()
        turn = await lab.run(invocation_id=await lab.first_invocation())
    raise AssertionError("it fails for ever")


async def compare(kit: Any, shape: Shape, crashes: list[int], portions: list[int]) -> None:
    failed: set[str] = set()
    lab = kit.Lab(lambda: build(shape, failed))
    answered: set[str] = set()
    message: Any = "hi"
    while True:
        if crashes:
            lab.store.crash_after = lab.store.stored + crashes.pop()
        turn = await until_it_waits(kit, lab, await lab.run(message))
        lab.store.revive()
        expected = interpret(shape, f"{shape.name}@1", answered)
        events = await lab.events()
        waiting = list((await lab.session()).open_calls)
        note(f"answered {answered}: {kit.lines_of(events)}")
        assert said_by_place(events) == expected.said
        assert set(waiting) == expected.waiting
        check_order(events, expected)
        if turn is not None:
            assert turn.outcome.kind == ("completed" if expected.finished else "paused")
            assert turn.waits_for == waiting
            assert turn.outcome.output == (expected.output if expected.finished else None)
        if expected.finished:
            break
        count = 1 + (portions.pop() if portions else 0) % len(waiting)
        answered.update(waiting[:count])
        message = await lab.answer({call: {"value": 1} for call in waiting[:count]})
    again = await lab.run(invocation_id=await lab.first_invocation())
    assert isinstance(again.error, NothingToResume) or not shape.children or not expected.said


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=TREES,
    crashes=st.lists(st.integers(1, 6), max_size=3),
    portions=st.lists(st.integers(0, 3), max_size=4),
)
def test_act_11_any_tree_does_what_a_sequential_interpreter_says(
    kit: Any, shape: Shape, crashes: list[int], portions: list[int]
) -> None:
    asyncio.run(compare(kit, shape, crashes, portions))
    assert shape.name
