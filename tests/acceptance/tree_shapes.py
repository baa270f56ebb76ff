"""Random trees of agents as plain data, and the agents they describe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st
from tests.acceptance.agent_lab import World

from hookwork import Agent, Part, ToolContext
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call, stream, text
from hookwork_workflow import LoopAgent, ParallelAgent, SequentialAgent

#: What an agent may do in a turn. ``sub``: hand over to, or call, a child; ``subs``: call all that can be called;
#: ``back``: hand back to the parent; ``fail``: the model fails once; ``inner``: a tool that runs an agent that asks.
STEPS = (
    "tool",
    "tool",
    "bad",
    "gated",
    "gated+tool",
    "gated+gated2",
    "wait",
    "wait+gated",
    "sub",
    "sub",
    "sub",
    "sub+gated",
    "sub+wait",
    "subs",
    "subs",
    "subs+tool",
    "back",
    "fail",
    "inner",
    "inner+gated",
)


class Shape(msgspec.Struct, frozen=True):
    """A node of a tree. ``kind``: chat, task, single (LLM agents), seq, par, loop."""

    kind: str
    name: str = ""
    children: tuple[Shape, ...] = ()
    steps: tuple[str, ...] = ()
    rejects: bool = False
    asks: bool = False


def _llm(kinds: list[str], children: Any = None) -> st.SearchStrategy[Shape]:
    return st.builds(
        Shape,
        kind=st.sampled_from(kinds),
        children=children if children is not None else st.just(()),
        steps=st.lists(st.sampled_from(STEPS), max_size=3).map(tuple),
        rejects=st.sampled_from([False, False, True]),
        asks=st.booleans(),
    )


def _inner(below: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    several = st.lists(below, min_size=1, max_size=3).map(tuple)
    composed = st.builds(
        Shape, kind=st.sampled_from(["seq", "par", "loop"]), children=several.map(lambda c: tuple(map(_as_chat, c)))
    )
    return st.one_of(_llm(["chat", "task", "single"], several), composed)


def _as_chat(shape: Shape) -> Shape:
    """Under a composed agent nobody calls: every LLM agent talks."""
    return msgspec.structs.replace(shape, kind="chat") if shape.kind in ("task", "single") else shape


def _named(shape: Shape, numbers: Iterator[int], called: bool = False) -> Shape:
    """Names in order. Inside a single-turn call nothing fails: that would be an error for the caller's model."""
    name = f"{shape.kind}{next(numbers)}"
    called = called or shape.kind == "single"
    children = tuple(_named(child, numbers, called) for child in shape.children)
    steps = tuple("tool" if called and step == "fail" else step for step in shape.steps)
    return msgspec.structs.replace(shape, name=name, children=children, steps=steps)


TREES = st.recursive(_llm(["chat", "task", "single"]), _inner, max_leaves=5).map(
    lambda shape: _named(_as_chat(shape), iter(range(1000)))
)


def build(shape: Shape, world: World, parent: Shape | None = None) -> Agent:
    """The agents of a shape."""
    children = [build(child, world, shape) for child in shape.children]
    if shape.kind == "seq":
        return SequentialAgent(name=shape.name, sub_agents=children)
    if shape.kind == "par":
        return ParallelAgent(name=shape.name, sub_agents=children)
    if shape.kind == "loop":
        return LoopAgent(name=shape.name, sub_agents=children, max_iterations=2)
    return _agent(shape, children, world, parent)


def _agent(shape: Shape, children: list[Agent], world: World, parent: Shape | None) -> LlmAgent:
    name = shape.name
    has_parent = parent is not None and parent.kind in ("chat", "task") and shape.kind == "chat"

    def respond(request: Any) -> Any:
        turn = sum(content.role == "model" for content in request.contents)
        for step in shape.steps[turn : turn + 1]:
            if step == "fail" and f"{name}{turn}" not in world.failed:
                world.failed.add(f"{name}{turn}")
                return ValueError(f"{name} failed")
            parts = [
                part for what in step.split("+") for part in _parts(shape, what, turn, parent if has_parent else None)
            ]
            if parts:
                return parts
        if has_parent and parent is not None and parent.kind == "task" and turn > len(shape.steps):
            return _parts(shape, "back", turn, parent)  # in a task the user talks to whom it was handed to
        return _last_words(shape, turn)

    model = ScriptedModel(respond, name=name)
    world.models.append(model)
    mode = {"chat": "chat", "task": "task", "single": "single_turn"}[shape.kind]
    key = f"said_{name}" if shape.kind == "chat" else None
    return LlmAgent(name=name, model=model, mode=mode, tools=_tools(shape, world), sub_agents=children, output_key=key)


def _parts(shape: Shape, what: str, turn: int, parent: Shape | None) -> list[Part]:
    name = shape.name
    called = [child for child in shape.children if child.kind in ("task", "single")]
    if what == "tool" or what == "bad" or what.startswith("gated") or what == "inner":
        return [call(f"{name}_{what}", id=f"call_{what}")]
    if what == "wait":
        return [call(f"{name}_wait", id=f"{name}_wait{turn}")]
    if what == "subs":
        return [call(child.name, id=f"{name}_{turn}_{child.name}", request=f"{turn}") for child in called]
    if what == "back":
        return [call("transfer_to_agent", id="call_t", agent_name=parent.name)] if parent is not None else []
    if what == "sub" and shape.children:
        child = shape.children[turn % len(shape.children)]
        if child in called:
            return [call(child.name, id=f"{name}_{turn}_{child.name}", request=f"{turn}")]
        return [call("transfer_to_agent", id="call_t", agent_name=child.name)]
    return []


def _last_words(shape: Shape, turn: int) -> Any:
    if shape.kind != "task":
        return stream(text(f"{shape.name} says "), text(f"{turn}"))
    if shape.asks and turn == len(shape.steps):
        return f"{shape.name} asks"
    return call("finish_task", id="call_f", result=f"{shape.name} done")


def _tools(shape: Shape, world: World) -> list[Any]:
    name = shape.name
    used = {what for step in shape.steps for what in step.split("+")}
    made: list[Any] = []
    for what in sorted(used & {"tool", "bad", "gated", "gated2", "wait"}):
        made.append(_body(world, f"{name}_{what}", what))
    if "inner" in used:
        asks = Shape(kind="chat", name=f"{name}_in", steps=("gated",), rejects=shape.rejects)
        made.append(_runs_child(f"{name}_inner", _agent(asks, [], world, None)))
    return made


def _body(world: World, name: str, what: str) -> Any:
    async def body(ctx: ToolContext) -> Any:
        events = ctx.session.events
        assert any(c.id == ctx.function_call_id for event in events for c in event.function_calls), "INV-1"
        world.ran.append(f"{ctx.invocation_id}:{ctx.path}#{name}")
        ctx.state[f"ran_{name}"] = ctx.state.get(f"ran_{name}", 0) + 1
        if what == "bad":
            raise ValueError("bad")
        return None if what == "wait" else "ok"

    body.__name__ = name
    body.__doc__ = f"Does {what}."
    return tool(long_running=what == "wait", require_confirmation=what.startswith("gated"))(body)


def _runs_child(name: str, child: Agent) -> Any:
    async def body(ctx: ToolContext) -> str:
        await ctx.run_node(child, "x")
        return "inner done"

    body.__name__ = name
    body.__doc__ = "Runs an agent."
    return tool(body)
