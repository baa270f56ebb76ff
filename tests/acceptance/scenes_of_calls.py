"""Scenes of approvals, hand-overs, tools with children and single-turn calls (activations §6, S1, S6, S8)."""

from __future__ import annotations

from typing import Any

from tests.acceptance.agent_lab import Scene, World

from hookwork_llm import LlmAgent
from hookwork_testkit import call
from hookwork_workflow import SequentialAgent

YES = {"confirmed": True}
NO = {"confirmed": False}


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
