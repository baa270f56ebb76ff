"""Scenes of delegations (activations §6, S5 and its relatives)."""

from __future__ import annotations

from typing import Any

from tests.acceptance.agent_lab import Scene, World

from hookwork import text_content
from hookwork_testkit import call
from hookwork_workflow import ParallelAgent, SequentialAgent

YES = {"confirmed": True}
NO = {"confirmed": False}


def finish(result: str, id: str = "f1") -> Any:
    return call("finish_task", id=id, result=result)


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


def task_answered_by_a_guard(kind: str) -> Scene:
    """``before_agent`` answers in the task's place: that is its result, and its parents go on (AGT-12, PLUG-20)."""
    at = "seq@1/coord@1" if kind == "sequence" else "coord@1"

    def build(world: World) -> Any:
        closed = text_content("closed today", role="model")
        book = world.llm("book", finish("never"), mode="task", before_agent=[lambda ctx: closed])
        coord = world.llm("coord", call("book", id="c1", request="x"), "not today", "still not", sub_agents=[book])
        return SequentialAgent(name="seq", sub_agents=[coord]) if kind == "sequence" else coord

    first = [
        "U 'book it'",
        f"{at} call book#c1",
        f"{at}/book@c1 'closed today' ✓ [c1]",
        f"{at} response book#c1",
        f"{at} 'not today' ✓",
    ]
    second = ["U 'why?'", f"{at} 'still not' ✓"]
    return Scene(build=build, turns=[("book it", first, "completed"), ("why?", second, "completed")])


def task_asks_after_a_hand_over(kind: str) -> Scene:
    """Whom a task was handed over to asks; the answer comes to it under any root, in a new invocation or in the same.

    ``kind``: a ``chat`` root, one ``below`` a hand-over, or a ``sequence`` around the coordinator.
    """
    at = {"chat": "coord@1", "below": "root@1/coord@1", "sequence": "seq@1/coord@1"}[kind]

    def build(world: World) -> Any:
        back = call("transfer_to_agent", id="t2", agent_name="book")
        helper = world.llm("helper", "which day?", "which hour?", back)
        over = call("transfer_to_agent", id="t1", agent_name="helper")
        book = world.llm("book", over, finish("mon 8"), mode="task", sub_agents=[helper])
        coord = world.llm("coord", call("book", id="c1", request="x"), "all booked", sub_agents=[book])
        if kind == "sequence":
            return SequentialAgent(name="seq", sub_agents=[coord, world.llm("after", "bye")])
        if kind == "below":
            return world.llm("root", call("transfer_to_agent", id="t0", agent_name="coord"), sub_agents=[coord])
        return coord

    first = [
        "U 'book it'",
        f"{at} call book#c1",
        f"{at}/book@c1 call transfer_to_agent#t1 [c1]",
        f"{at}/book@c1 response transfer_to_agent#t1 →helper [c1]",
        f"{at}/book@c1/helper@1 'which day?' ✓ [c1]",
    ]
    if kind == "below":
        first[1:1] = ["root@1 call transfer_to_agent#t0", "root@1 response transfer_to_agent#t0 →coord"]
    second = ["U 'monday' [c1]", f"{at}/book@c1/helper@1 'which hour?' ✓ [c1]"]
    third = [
        "U 'eight' [c1]",
        f"{at}/book@c1/helper@1 call transfer_to_agent#t2 [c1]",
        f"{at}/book@c1/helper@1 response transfer_to_agent#t2 →book [c1]",
        f"{at}/book@t2 call finish_task#f1 [c1]",
        f"{at}/book@t2 response finish_task#f1 =mon 8 ✓ [c1]",
        f"{at} response book#c1",
        f"{at} 'all booked' ✓",
    ]
    held = "paused +c1" if kind == "sequence" else "completed +c1"
    if kind == "sequence":
        third.append("seq@1/after@1 'bye' ✓")
    return Scene(build=build, turns=[("book it", first, held), ("monday", second, held), ("eight", third, "completed")])


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
