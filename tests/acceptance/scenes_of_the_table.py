"""The nine scenes of the kit's event table (core §7), row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.acceptance.agent_lab import Scene, World
from tests.acceptance.scenes_of_tasks import s5

from hookwork_testkit import call
from hookwork_workflow import SequentialAgent

YES = {"confirmed": True}


def tool_call() -> Scene:
    def build(world: World) -> Any:
        return world.llm("ag", call("look", id="a1"), "seen", tools=[world.tool("look")])

    lines = ["U 'hi'", "ag@1 call look#a1", "ag@1 response look#a1", "ag@1 'seen' ✓"]
    return Scene(build=build, turns=[("hi", lines, "completed")], ran=["look"])


def spoken_text() -> Scene:
    """SSE text; two turns, so that the second one has a history."""

    def build(world: World) -> Any:
        return world.llm("ag", "hello there", "good bye")

    turns: Any = [
        ("hi", ["U 'hi'", "ag@1 'hello there' ✓"], "completed"),
        ("bye", ["U 'bye'", "ag@1 'good bye' ✓"], "completed"),
    ]
    return Scene(build=build, turns=turns)


def confirm() -> Scene:
    def build(world: World) -> Any:
        return world.llm("ag", call("go", id="a1"), "gone", tools=[world.tool("go", require_confirmation=True)])

    first = ["U 'hi'", "ag@1 call go#a1", "ag@1 response go#a1", "ag@1 call approve#r1"]
    second = ["U response approve#r1", "ag@1 response go#a1", "ag@1 'gone' ✓"]
    return Scene(build=build, turns=[("hi", first, "paused r1"), ({"r1": YES}, second, "completed")], ran=["go"])


def transfer() -> Scene:
    """The next turn starts at the agent that was handed over to."""

    def build(world: World) -> Any:
        b = world.llm("b", "b speaks", "b again")
        return world.llm("a", call("transfer_to_agent", id="t1", agent_name="b"), sub_agents=[b])

    first = [
        "U 'hi'",
        "a@1 call transfer_to_agent#t1",
        "a@1 response transfer_to_agent#t1 →b",
        "a@1/b@1 'b speaks' ✓",
    ]
    turns: Any = [("hi", first, "completed"), ("more", ["U 'more'", "a@1/b@1 'b again' ✓"], "completed")]
    return Scene(build=build, turns=turns)


def _finish() -> Any:
    return call("finish_task", id="f1", result="mon")


def task() -> Scene:
    def build(world: World) -> Any:
        book = world.llm("book", _finish(), mode="task")
        return world.llm("coord", call("book", id="c1", request="a table"), "all booked", sub_agents=[book])

    lines = [
        "U 'book it'",
        "coord@1 call book#c1",
        "coord@1/book@c1 call finish_task#f1 [c1]",
        "coord@1/book@c1 response finish_task#f1 =mon ✓ [c1]",
        "coord@1 response book#c1",
        "coord@1 'all booked' ✓",
    ]
    return Scene(build=build, turns=[("book it", lines, "completed")])


def long_running() -> Scene:
    def build(world: World) -> Any:
        return world.llm("ag", call("wait", id="w1"), "done", tools=[world.tool("wait", None, long_running=True)])

    first = ["U 'hi'", "ag@1 call wait#w1"]
    second = ["U response wait#w1", "ag@1 'done' ✓"]
    turns: Any = [("hi", first, "paused w1"), ({"w1": {"result": 1}}, second, "completed")]
    return Scene(build=build, turns=turns, ran=["wait"], unsure=["wait"])


def long_running_that_fails() -> Scene:
    def build(world: World) -> Any:
        tools = [world.tool("wait", ValueError("no line"), long_running=True)]
        return world.llm("ag", call("wait", id="w1"), "sorry", tools=tools)

    lines = ["U 'hi'", "ag@1 call wait#w1", "ag@1 response wait#w1", "ag@1 'sorry' ✓"]
    return Scene(build=build, turns=[("hi", lines, "completed")], ran=["wait"], unsure=["wait"])


def sequence_asks() -> Scene:
    def build(world: World) -> Any:
        first = world.llm("first", call("wait", id="w1"), "one", tools=[world.tool("wait", None, long_running=True)])
        return SequentialAgent(name="seq", sub_agents=[first, world.llm("second", "two")])

    before = ["U 'hi'", "seq@1/first@1 call wait#w1"]
    after = ["U response wait#w1", "seq@1/first@1 'one' ✓", "seq@1/second@1 'two' ✓"]
    turns: Any = [("hi", before, "paused w1"), ({"w1": {"result": 1}}, after, "completed")]
    return Scene(build=build, turns=turns, ran=["wait"], unsure=["wait"])


ROWS: dict[str, Callable[[], Scene]] = {
    "tool call": tool_call,
    "SSE text": spoken_text,
    "confirm": confirm,
    "transfer": transfer,
    "task": task,
    "task asks user": s5,
    "long-running, None": long_running,
    "long-running, fails": long_running_that_fails,
    "sequence asks": sequence_asks,
}
