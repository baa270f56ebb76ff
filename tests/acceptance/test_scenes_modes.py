"""Scenes of delegations, single-turn calls, tools with children and approvals, crashed after every event (ACT §6).

Each is played in one go, plain and streamed, in memory and on SQLite; then with a crash behind every stored event; then
left, stopped and cancelled everywhere. Every run is a program started anew. The end is always the same (but ACT-41 a).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.agent_lab import Scene, World, play, play_crashed, play_ended

from hookwork_llm import LlmAgent
from hookwork_testkit import call
from hookwork_workflow import ParallelAgent, SequentialAgent

YES = {"confirmed": True}
NO = {"confirmed": False}


def finish(result: str, id: str = "f1") -> Any:
    return call("finish_task", id=id, result=result)


def s1(rejected: bool) -> Scene:
    """S1: a root hands over to a sequence whose first child needs an approval."""

    def build(world: World) -> Any:
        tools = [world.tool("look"), world.tool("go", require_confirmation=True)]
        plan = world.llm("plan", [call("look", id="a2"), call("go", id="a3")], "plan text", tools=tools)
        seq = SequentialAgent(name="seq", sub_agents=[plan, world.llm("report", "report text")])
        return world.llm("root", call("transfer_to_agent", id="a1", agent_name="seq"), sub_agents=[seq])

    first = [
        "U 'do it'",
        "root@1 call transfer_to_agent#a1",
        "root@1 response transfer_to_agent#a1 →seq",
        "root@1/seq@1/plan@1 call look#a2 call go#a3",
        "root@1/seq@1/plan@1 response look#a2 response go#a3",
        "root@1/seq@1/plan@1 call approve#r1",
    ]
    second = [
        "U response approve#r1",
        "root@1/seq@1/plan@1 response go#a3",
        "root@1/seq@1/plan@1 'plan text' ✓",
        "root@1/seq@1/report@1 'report text' ✓",
    ]
    turns: Any = [("do it", first, "paused r1"), ({"r1": NO if rejected else YES}, second, "completed")]
    return Scene(build=build, turns=turns, ran=["look"] if rejected else ["look", "go"])


def s5() -> Scene:
    """S5: a task asks in plain text and is finished in the next turn."""

    def build(world: World) -> Any:
        book = world.llm("book", "which day?", finish("mon"), mode="task")
        return world.llm("coord", call("book", id="c1", request="a table"), "all booked", sub_agents=[book])

    first = ["U 'book it'", "coord@1 call book#c1", "coord@1/book@c1 'which day?' [c1]"]
    second = [
        "U 'monday' [c1]",
        "coord@1/book@c1 call finish_task#f1 [c1]",
        "coord@1/book@c1 response finish_task#f1 =mon ✓ [c1]",
        "coord@1 response book#c1",
        "coord@1 'all booked' ✓",
    ]
    return Scene(build=build, turns=[("book it", first, "completed +c1"), ("monday", second, "completed")])


def s5_in_a_sequence() -> Scene:
    """S5 under a sequence: it holds, then goes on in the same invocation."""

    def build(world: World) -> Any:
        book = world.llm("book", "which day?", finish("mon"), mode="task")
        coord = world.llm("coord", call("book", id="c1", request="a table"), "all booked", sub_agents=[book])
        return SequentialAgent(name="seq", sub_agents=[coord, world.llm("after", "bye")])

    first = ["U 'book it'", "seq@1/coord@1 call book#c1", "seq@1/coord@1/book@c1 'which day?' [c1]"]
    second = [
        "U 'monday' [c1]",
        "seq@1/coord@1/book@c1 call finish_task#f1 [c1]",
        "seq@1/coord@1/book@c1 response finish_task#f1 =mon ✓ [c1]",
        "seq@1/coord@1 response book#c1",
        "seq@1/coord@1 'all booked' ✓",
        "seq@1/after@1 'bye' ✓",
    ]
    return Scene(build=build, turns=[("book it", first, "paused +c1"), ("monday", second, "completed")])


def s5_behind_a_transfer() -> Scene:
    """A chat root hands over to a sequence that holds a task: the answer reaches it in the same invocation."""

    def build(world: World) -> Any:
        book = world.llm("book", "which day?", finish("mon"), mode="task")
        coord = world.llm("coord", call("book", id="c1", request="a table"), "all booked", sub_agents=[book])
        seq = SequentialAgent(name="seq", sub_agents=[coord, world.llm("after", "bye")])
        return world.llm("root", call("transfer_to_agent", id="t1", agent_name="seq"), sub_agents=[seq])

    at = "root@1/seq@1/coord@1"
    first = [
        "U 'book it'",
        "root@1 call transfer_to_agent#t1",
        "root@1 response transfer_to_agent#t1 →seq",
        f"{at} call book#c1",
        f"{at}/book@c1 'which day?' [c1]",
    ]
    second = [
        "U 'monday' [c1]",
        f"{at}/book@c1 call finish_task#f1 [c1]",
        f"{at}/book@c1 response finish_task#f1 =mon ✓ [c1]",
        f"{at} response book#c1",
        f"{at} 'all booked' ✓",
        "root@1/seq@1/after@1 'bye' ✓",
    ]
    return Scene(build=build, turns=[("book it", first, "paused +c1"), ("monday", second, "completed")])


def s5_with_an_approval(rejected: bool) -> Scene:
    """An approval inside the task goes on in the invocation that asked."""

    def build(world: World) -> Any:
        pay = world.tool("pay", require_confirmation=True)
        book = world.llm("book", "which day?", call("pay", id="p1"), finish("mon"), mode="task", tools=[pay])
        return world.llm("coord", call("book", id="c1", request="a table"), "all booked", sub_agents=[book])

    first = ["U 'book it'", "coord@1 call book#c1", "coord@1/book@c1 'which day?' [c1]"]
    second = [
        "U 'monday' [c1]",
        "coord@1/book@c1 call pay#p1 [c1]",
        "coord@1/book@c1 response pay#p1 [c1]",
        "coord@1/book@c1 call approve#r1 [c1]",
    ]
    third = [
        "U response approve#r1 [c1]",
        "coord@1/book@c1 response pay#p1 [c1]",
        "coord@1/book@c1 call finish_task#f1 [c1]",
        "coord@1/book@c1 response finish_task#f1 =mon ✓ [c1]",
        "coord@1 response book#c1",
        "coord@1 'all booked' ✓",
    ]
    turns: Any = [
        ("book it", first, "completed +c1"),
        ("monday", second, "paused r1,+c1"),
        ({"r1": NO if rejected else YES}, third, "completed"),
    ]
    return Scene(build=build, turns=turns, ran=[] if rejected else ["pay"])


def s5_in_parallel() -> Scene:
    """A task in a parallel agent keeps its branch; its sibling is done and not entered again."""

    def build(world: World) -> Any:
        book = world.llm("book", "which day?", finish("mon"), mode="task")
        coord = world.llm("coord", call("book", id="c1", request="a table"), "all booked", sub_agents=[book])
        beside = world.llm("beside", call("look", id="l1"), "seen", tools=[world.tool("look")])
        par = ParallelAgent(name="par", sub_agents=[coord, beside])
        return SequentialAgent(name="seq", sub_agents=[par, world.llm("after", "bye")])

    at = "seq@1/par@1/coord@1"
    first = [
        "U 'book it'",
        f"{at} {{par.coord}} call book#c1",
        f"{at}/book@c1 {{par.coord}} 'which day?' [c1]",
        "seq@1/par@1/beside@1 {par.beside} call look#l1",
        "seq@1/par@1/beside@1 {par.beside} response look#l1",
        "seq@1/par@1/beside@1 {par.beside} 'seen' ✓",
    ]
    second = [
        "U 'monday' [c1]",
        f"{at}/book@c1 {{par.coord}} call finish_task#f1 [c1]",
        f"{at}/book@c1 {{par.coord}} response finish_task#f1 =mon ✓ [c1]",
        f"{at} {{par.coord}} response book#c1",
        f"{at} {{par.coord}} 'all booked' ✓",
        "seq@1/after@1 'bye' ✓",
    ]
    turns: Any = [("book it", first, "paused +c1"), ("monday", second, "completed")]
    return Scene(build=build, turns=turns, again=["look"], order_is_free=True)


def s5_twice() -> Scene:
    """The same call id again in a later turn is a task of its own (``c1~2``)."""

    def build(world: World) -> Any:
        book = world.llm("book", "which day?", finish("mon"), mode="task")
        steps = [call("book", id="c1", request="one"), "first", call("book", id="c1", request="two"), "second"]
        return world.llm("coord", *steps, sub_agents=[book])

    def turn(say: str, scope: str, done: str) -> list[tuple[str, list[str], str]]:
        asked = [f"U '{say}'", "coord@1 call book#c1", f"coord@1/book@{scope} 'which day?' [{scope}]"]
        told = [
            f"U 'monday' [{scope}]",
            f"coord@1/book@{scope} call finish_task#f1 [{scope}]",
            f"coord@1/book@{scope} response finish_task#f1 =mon ✓ [{scope}]",
            "coord@1 response book#c1",
            f"coord@1 '{done}' ✓",
        ]
        return [(say, asked, "completed +c1"), ("monday", told, "completed")]

    return Scene(build=build, turns=[*turn("go", "c1", "first"), *turn("again", "c1~2", "second")])


def task_hands_over_inside() -> Scene:
    """A task agent hands over to its own sub-agent, which hands back: the task ends where it began."""

    def build(world: World) -> Any:
        desk = world.llm("desk", "the desk asks", call("transfer_to_agent", id="t2", agent_name="book"))
        book = world.llm(
            "book", call("transfer_to_agent", id="t1", agent_name="desk"), finish("mon"), mode="task", sub_agents=[desk]
        )
        return world.llm("coord", call("book", id="c1", request="a table"), "all booked", sub_agents=[book])

    first = [
        "U 'book it'",
        "coord@1 call book#c1",
        "coord@1/book@c1 call transfer_to_agent#t1 [c1]",
        "coord@1/book@c1 response transfer_to_agent#t1 →desk [c1]",
        "coord@1/book@c1/desk@1 'the desk asks' ✓ [c1]",
    ]
    second = [
        "U 'monday' [c1]",
        "coord@1/book@c1 call finish_task#f1 [c1]",
        "coord@1/book@c1 response finish_task#f1 =mon ✓ [c1]",
        "coord@1 response book#c1",
        "coord@1 'all booked' ✓",
    ]
    return Scene(build=build, turns=[("book it", first, "completed +c1"), ("monday", second, "completed")])


def task_hands_over_and_back() -> Scene:
    """The sub-agent hands back in the same turn; the task finishes at its second place."""

    def build(world: World) -> Any:
        desk = world.llm("desk", call("transfer_to_agent", id="t2", agent_name="book"))
        book = world.llm(
            "book", call("transfer_to_agent", id="t1", agent_name="desk"), finish("mon"), mode="task", sub_agents=[desk]
        )
        return world.llm("coord", call("book", id="c1", request="a table"), "all booked", sub_agents=[book])

    lines = [
        "U 'book it'",
        "coord@1 call book#c1",
        "coord@1/book@c1 call transfer_to_agent#t1 [c1]",
        "coord@1/book@c1 response transfer_to_agent#t1 →desk [c1]",
        "coord@1/book@c1/desk@1 call transfer_to_agent#t2 [c1]",
        "coord@1/book@c1/desk@1 response transfer_to_agent#t2 →book [c1]",
        "coord@1/book@t2 call finish_task#f1 [c1]",
        "coord@1/book@t2 response finish_task#f1 =mon ✓ [c1]",
        "coord@1 response book#c1",
        "coord@1 'all booked' ✓",
    ]
    return Scene(build=build, turns=[("book it", lines, "completed")])


def two_tasks() -> Scene:
    """Two tasks of one turn: the second starts when the first is finished (MODE-11)."""

    def build(world: World) -> Any:
        one = world.llm("one", "one asks", finish("1"), mode="task")
        two = world.llm("two", "two asks", finish("2", "f2"), mode="task")
        calls = [call("one", id="c1", request="a"), call("look", id="l1"), call("two", id="c2", request="b")]
        return world.llm("coord", calls, "both done", sub_agents=[one, two], tools=[world.tool("look")])

    first = [
        "U 'go'",
        "coord@1 call one#c1 call look#l1 call two#c2",
        "coord@1 response look#l1",
        "coord@1/one@c1 'one asks' [c1]",
    ]
    second = [
        "U 'for one' [c1]",
        "coord@1/one@c1 call finish_task#f1 [c1]",
        "coord@1/one@c1 response finish_task#f1 =1 ✓ [c1]",
        "coord@1 response one#c1",
        "coord@1/two@c2 'two asks' [c2]",
    ]
    third = [
        "U 'for two' [c2]",
        "coord@1/two@c2 call finish_task#f2 [c2]",
        "coord@1/two@c2 response finish_task#f2 =2 ✓ [c2]",
        "coord@1 response two#c2",
        "coord@1 'both done' ✓",
    ]
    turns: Any = [
        ("go", first, "completed +c1"),
        ("for one", second, "completed +c2"),
        ("for two", third, "completed"),
    ]
    return Scene(build=build, turns=turns, ran=["look"])


def task_in_a_task() -> Scene:
    """A task hands a part of its work to a task of its own; the user talks to the inner one."""

    def build(world: World) -> Any:
        inner = world.llm("inner", "inner asks", finish("deep", "f2"), mode="task")
        outer = world.llm(
            "outer", call("inner", id="c2", request="part"), finish("all"), mode="task", sub_agents=[inner]
        )
        return world.llm("coord", call("outer", id="c1", request="whole"), "done", sub_agents=[outer])

    first = [
        "U 'go'",
        "coord@1 call outer#c1",
        "coord@1/outer@c1 call inner#c2 [c1]",
        "coord@1/outer@c1/inner@c2 'inner asks' [c2]",
    ]
    second = [
        "U 'answer' [c2]",
        "coord@1/outer@c1/inner@c2 call finish_task#f2 [c2]",
        "coord@1/outer@c1/inner@c2 response finish_task#f2 =deep ✓ [c2]",
        "coord@1/outer@c1 response inner#c2 [c1]",
        "coord@1/outer@c1 call finish_task#f1 [c1]",
        "coord@1/outer@c1 response finish_task#f1 =all ✓ [c1]",
        "coord@1 response outer#c1",
        "coord@1 'done' ✓",
    ]
    return Scene(build=build, turns=[("go", first, "completed +c1,+c2"), ("answer", second, "completed")])


def s6() -> Scene:
    """S6: a tool runs a child that waits for an approval, beside a call that is done."""

    def build(world: World) -> Any:
        quick = world.llm("quick", "fast")
        waits = world.llm("waits", call("act", id="b1"), "acted", tools=[world.tool("act", require_confirmation=True)])
        tools = [world.asker("both", quick, waits), world.tool("side")]
        return world.llm("ag", [call("both", id="a1"), call("side", id="a2")], "ag text", tools=tools)

    at = "ag@1/both@1-1"
    first = [
        "U 'hi'",
        "ag@1 call both#a1 call side#a2",
        f"{at}/quick@1 'fast' ✓",
        f"{at}/waits@1 call act#b1",
        f"{at}/waits@1 response act#b1",
        f"{at}/waits@1 call approve#r1",
        "ag@1 response side#a2",
    ]
    second = [
        "U response approve#r1",
        f"{at}/waits@1 response act#b1",
        f"{at}/waits@1 'acted' ✓",
        "ag@1 response both#a1",
        "ag@1 'ag text' ✓",
    ]
    turns: Any = [("hi", first, "paused r1"), ({"r1": YES}, second, "completed")]
    return Scene(build=build, turns=turns, ran=["act"], again=["both", "side"], order_is_free=True, answers_meet=True)


def two_children_wait() -> Scene:
    """S6, two calls whose children wait: no model call until both have a response."""

    def build(world: World) -> Any:
        def waiting(name: str, id: str) -> LlmAgent:
            return world.llm(
                name, call(f"act_{name}", id=id), name, tools=[world.tool(f"act_{name}", require_confirmation=True)]
            )

        tools = [world.asker("ask_one", waiting("one", "b1")), world.asker("ask_two", waiting("two", "b2"))]
        return world.llm("ag", [call("ask_one", id="a1"), call("ask_two", id="a2")], "ag text", tools=tools)

    def asked(n: int, name: str) -> list[str]:
        at = f"ag@1/ask_{name}@1-{n}/{name}@1"
        return [f"{at} call act_{name}#b{n}", f"{at} response act_{name}#b{n}", f"{at} call approve#r{n}"]

    def told(n: int, name: str) -> list[str]:
        at = f"ag@1/ask_{name}@1-{n}/{name}@1"
        return [
            f"U response approve#r{n}",
            f"{at} response act_{name}#b{n}",
            f"{at} '{name}' ✓",
            f"ag@1 response ask_{name}#a{n}",
        ]

    first = ["U 'hi'", "ag@1 call ask_one#a1 call ask_two#a2", *asked(1, "one"), *asked(2, "two")]
    turns: Any = [
        ("hi", first, "paused r1,r2"),
        ({"r1": YES}, told(1, "one"), "paused r2"),
        ({"r2": YES}, [*told(2, "two"), "ag@1 'ag text' ✓"], "completed"),
    ]
    ran = ["act_one", "act_two"]
    return Scene(build=build, turns=turns, ran=ran, again=["ask_one", "ask_two"], order_is_free=True)


def s8() -> Scene:
    """S8: two approvals of one turn, answered one at a time, under an LLM root."""

    def build(world: World) -> Any:
        tools = [world.tool("x", require_confirmation=True), world.tool("x2", require_confirmation=True)]

        def after(request: Any) -> str:
            answers = [part.function_response for content in request.contents for part in content.parts]
            return "after b" if any(a and a.response.get("status") == "pending" for a in answers) else "after a"

        return world.llm("plan", [call("x", id="c1"), call("x2", id="c2")], after, after, tools=tools)

    first = ["U 'hi'", "plan@1 call x#c1 call x2#c2", "plan@1 response x#c1 response x2#c2"]
    turns: Any = [
        ("hi", [*first, "plan@1 call approve#r1 call approve#r2"], "paused r1,r2"),
        ({"r2": YES}, ["U response approve#r2", "plan@1 response x2#c2", "plan@1 'after b' ✓"], "paused r1"),
        ({"r1": NO}, ["U response approve#r1", "plan@1 response x#c1", "plan@1 'after a' ✓"], "completed"),
    ]
    return Scene(build=build, turns=turns, ran=["x2"], answers_meet=True)


def approval_beside_a_transfer() -> Scene:
    """An approval and a transfer in one batch: the hand-over is taken after the answer (ACT-18)."""

    def build(world: World) -> Any:
        target = world.llm("target", "hello")
        calls = [call("go", id="a1"), call("transfer_to_agent", id="t1", agent_name="target")]
        tools = [world.tool("go", require_confirmation=True)]
        return world.llm("root", calls, sub_agents=[target], tools=tools)

    first = [
        "U 'hi'",
        "root@1 call go#a1 call transfer_to_agent#t1",
        "root@1 response go#a1 response transfer_to_agent#t1 →target",
        "root@1 call approve#r1",
    ]
    second = ["U response approve#r1", "root@1 response go#a1", "root@1/target@1 'hello' ✓"]
    turns: Any = [("hi", first, "paused r1"), ({"r1": YES}, second, "completed")]
    return Scene(build=build, turns=turns, ran=["go"])


def one_id_again_and_again() -> Scene:
    """A model that calls everything ``call_0``: each answer belongs to the newest call of the id (PND-3)."""

    def build(world: World) -> Any:
        tools = [world.tool("go", require_confirmation=True), world.tool("wait", None, long_running=True)]
        steps = [call("go", id="call_0"), call("wait", id="call_0"), call("go", id="call_0"), "done"]
        return world.llm("ag", *steps, tools=tools)

    def asked(n: int) -> list[str]:
        return ["ag@1 call go#call_0", "ag@1 response go#call_0", f"ag@1 call approve#r{n}"]

    turns: Any = [
        ("hi", ["U 'hi'", *asked(1)], "paused r1"),
        ({"r1": YES}, ["U response approve#r1", "ag@1 response go#call_0", "ag@1 call wait#call_0"], "paused call_0"),
        ({"call_0": {"result": 1}}, ["U response wait#call_0", *asked(2)], "paused r2"),
        ({"r2": YES}, ["U response approve#r2", "ag@1 response go#call_0", "ag@1 'done' ✓"], "completed"),
    ]
    return Scene(build=build, turns=turns, ran=["go", "wait", "go"], unsure=["wait"])


def single_turn_in_single_turn() -> Scene:
    """An approval at the bottom of two single-turn calls; each goes on at its own place (MODE-6)."""

    def build(world: World) -> Any:
        act = world.tool("act", require_confirmation=True)
        inner = world.llm("inner", call("act", id="b1"), "inner text", mode="single_turn", tools=[act])
        outer = world.llm(
            "outer", call("inner", id="a2", request="x"), "outer text", mode="single_turn", sub_agents=[inner]
        )
        return world.llm("root", call("outer", id="a1", request="y"), "root text", sub_agents=[outer])

    outer = "root@1/outer@1-1"
    inner = f"{outer}/inner@1-1"
    in_outer, in_inner = "{outer@1-1}", "{outer@1-1.inner@1-1}"
    first = [
        "U 'hi'",
        "root@1 call outer#a1",
        f"{outer} {in_outer} call inner#a2",
        f"{inner} {in_inner} call act#b1",
        f"{inner} {in_inner} response act#b1",
        f"{inner} {in_inner} call approve#r1",
    ]
    second = [
        "U response approve#r1",
        f"{inner} {in_inner} response act#b1",
        f"{inner} {in_inner} 'inner text' ✓",
        f"{outer} {in_outer} response inner#a2",
        f"{outer} {in_outer} 'outer text' ✓",
        "root@1 response outer#a1",
        "root@1 'root text' ✓",
    ]
    turns: Any = [("hi", first, "paused r1"), ({"r1": YES}, second, "completed")]
    return Scene(build=build, turns=turns, ran=["act"])


def task_in_a_single_turn() -> Scene:
    """A single-turn agent hands over a task that asks in plain text: the answer finds its way down again."""

    def build(world: World) -> Any:
        book = world.llm("book", "which day?", finish("mon"), mode="task")
        helper = world.llm(
            "helper", call("book", id="c1", request="x"), "helped", mode="single_turn", sub_agents=[book]
        )
        return world.llm("root", call("helper", id="a1", request="y"), "root text", sub_agents=[helper])

    at = "root@1/helper@1-1"
    first = [
        "U 'hi'",
        "root@1 call helper#a1",
        f"{at} {{helper@1-1}} call book#c1",
        f"{at}/book@c1 {{helper@1-1}} 'which day?' [c1]",
    ]
    second = [
        "U 'monday' [c1]",
        f"{at}/book@c1 {{helper@1-1}} call finish_task#f1 [c1]",
        f"{at}/book@c1 {{helper@1-1}} response finish_task#f1 =mon ✓ [c1]",
        f"{at} {{helper@1-1}} response book#c1",
        f"{at} {{helper@1-1}} 'helped' ✓",
        "root@1 response helper#a1",
        "root@1 'root text' ✓",
    ]
    return Scene(build=build, turns=[("hi", first, "completed +c1"), ("monday", second, "completed")])


def waits_inside_a_task_and_beside_it() -> Scene:
    """A sequence: a task with a long-running call, beside an approval of the coordinator in the same turn."""

    def build(world: World) -> Any:
        wait = world.tool("wait", None, long_running=True)
        book = world.llm("book", call("wait", id="w1"), finish("mon"), mode="task", tools=[wait])
        calls = [call("go", id="a1"), call("book", id="c1", request="x")]
        tools = [world.tool("go", require_confirmation=True)]
        coord = world.llm("coord", calls, "all booked", sub_agents=[book], tools=tools)
        return SequentialAgent(name="seq", sub_agents=[coord, world.llm("after", "bye")])

    at = "seq@1/coord@1"
    first = ["U 'hi'", f"{at} call go#a1 call book#c1", f"{at} response go#a1", f"{at} call approve#r1"]
    second = ["U response approve#r1", f"{at} response go#a1", f"{at}/book@c1 call wait#w1 [c1]"]
    third = [
        "U response wait#w1 [c1]",
        f"{at}/book@c1 call finish_task#f1 [c1]",
        f"{at}/book@c1 response finish_task#f1 =mon ✓ [c1]",
        f"{at} response book#c1",
        f"{at} 'all booked' ✓",
        "seq@1/after@1 'bye' ✓",
    ]
    turns: Any = [
        ("hi", first, "paused r1"),
        ({"r1": YES}, second, "paused w1,+c1"),
        ({"w1": {"result": 1}}, third, "completed"),
    ]
    return Scene(build=build, turns=turns, ran=["go", "wait"], unsure=["wait"])


SCENES: dict[str, Callable[[], Scene]] = {
    "s1": lambda: s1(rejected=False),
    "s1-rejected": lambda: s1(rejected=True),
    "s5": s5,
    "s5-sequence": s5_in_a_sequence,
    "s5-transfer": s5_behind_a_transfer,
    "s5-approval": lambda: s5_with_an_approval(rejected=False),
    "s5-rejection": lambda: s5_with_an_approval(rejected=True),
    "s5-parallel": s5_in_parallel,
    "s5-twice": s5_twice,
    "task-hands-over": task_hands_over_inside,
    "task-hands-over-and-back": task_hands_over_and_back,
    "two-tasks": two_tasks,
    "task-in-a-task": task_in_a_task,
    "task-beside-approval": waits_inside_a_task_and_beside_it,
    "s6": s6,
    "s6-two": two_children_wait,
    "s8": s8,
    "approval-and-transfer": approval_beside_a_transfer,
    "one-id": one_id_again_and_again,
    "single-turn-twice": single_turn_in_single_turn,
    "task-in-single-turn": task_in_a_single_turn,
}


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
async def test_scene_as_stored_event_by_event(backend: Any, name: str, streaming: bool) -> None:
    scene = SCENES[name]()
    lab = await play(scene, backend, streaming=streaming)
    assert len(await lab.lines()) == len(scene.lines)


@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "by-answer"])
@pytest.mark.parametrize("name", SCENES)
async def test_act_41_a_scene_crashed_after_every_event_comes_to_the_same_end(
    in_memory: Any, name: str, by_id: bool
) -> None:
    count = len(SCENES[name]().lines)
    for crash_after in range(1, count + 1):
        await play_crashed(SCENES[name](), type(in_memory)("memory", Path()), crash_after, by_id=by_id)
    assert count > 3


@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "by-answer"])
@pytest.mark.parametrize("name", ["s1", "s5", "s5-sequence", "s5-approval", "s6", "s8", "task-hands-over-and-back"])
async def test_act_41_a_scene_crashed_after_every_event_on_its_store(
    backend: Any, tmp_path: Path, name: str, by_id: bool
) -> None:
    count = len(SCENES[name]().lines)
    for crash_after in range(1, count + 1):
        folder = tmp_path / str(crash_after)
        folder.mkdir()
        await play_crashed(SCENES[name](), type(backend)(backend.kind, folder), crash_after, by_id=by_id)
    assert count > 3


@pytest.mark.parametrize("way", ["leave", "stop", "cancel", "any time"])
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize("name", SCENES)
async def test_inv_3_a_scene_ended_anywhere_goes_on_to_the_same_end(
    in_memory: Any, name: str, streaming: bool, way: str
) -> None:
    over, after = False, 0
    while not over:
        after += 1
        over = await play_ended(SCENES[name](), type(in_memory)("memory", Path()), after, way, streaming=streaming)
    assert after > 3
