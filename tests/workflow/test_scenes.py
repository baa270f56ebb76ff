"""The scenes of activations §6 that concern sequence, parallel, loop, transfer and approval, event by event.

Each is played plain and streaming, and crashed behind every stored event, then continued by id and by answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookwork_testkit import call
from hookwork_workflow import LoopAgent, ParallelAgent, SequentialAgent

YES = {"confirmed": True}
NO = {"confirmed": False}


def s1(kit: Any, answer: dict[str, Any]) -> Any:
    """Root LLM → transfer → sequence with an approval (CASE-HITL-2)."""

    def build(ran: list[str]) -> Any:
        look, go = kit.body_of(ran, "look"), kit.body_of(ran, "go", require_confirmation=True)
        plan = kit.llm("plan", call("look", id="a2"), call("go", id="a3"), "plan text", tools=[look, go])
        seq = SequentialAgent(name="seq", sub_agents=[plan, kit.llm("report", "report text")])
        return kit.llm("root", call("transfer_to_agent", id="a1", agent_name="seq"), sub_agents=[seq])

    plan = "root@1/seq@1/plan@1"
    first = [
        "U 'do it'",
        "root@1 call transfer_to_agent#a1",
        "root@1 response transfer_to_agent#a1 →seq",
        f"{plan} call look#a2",
        f"{plan} response look#a2",
        f"{plan} call go#a3",
        f"{plan} response go#a3",
        f"{plan} call adk_request_confirmation#r1",
    ]
    second = [
        "U response adk_request_confirmation#r1",
        f"{plan} response go#a3",
        f"{plan} 'plan text' ✓",
        "root@1/seq@1/report@1 'report text' ✓",
    ]
    ran = ["look", "go"] if answer["confirmed"] else ["look"]
    return kit.Scene(build=build, turns=[("do it", first, ["r1"]), ({"r1": answer}, second, [])], ran=ran)


def s2(kit: Any) -> Any:
    """Sequence, long-running first step (CASE-FLOW-1)."""

    def build(ran: list[str]) -> Any:
        wait = kit.body_of(ran, "wait", None, long_running=True)
        ask = kit.llm("ask", call("wait", id="a1"), "ask done", tools=[wait])
        return SequentialAgent(name="seq", sub_agents=[ask, kit.llm("use", "used")])

    first = ["U 'hi'", "seq@1/ask@1 call wait#a1"]
    second = ["U response wait#a1", "seq@1/ask@1 'ask done' ✓", "seq@1/use@1 'used' ✓"]
    turns = [("hi", first, ["a1"]), ({"a1": {"value": 1}}, second, [])]
    return kit.Scene(build=build, turns=turns, ran=["wait"], unsure=["wait"])


def s3(kit: Any) -> Any:
    """A parallel child pauses inside a sequence."""

    def build(ran: list[str]) -> Any:
        wait = kit.body_of(ran, "wait", None, long_running=True)
        a = kit.llm("a", call("wait", id="a1"), "a done", tools=[wait])
        b = kit.llm("b", call("bt", id="a2"), "b done", tools=[kit.body_of(ran, "bt")])
        par = ParallelAgent(name="par", sub_agents=[a, b])
        return SequentialAgent(name="seq", sub_agents=[par, kit.llm("z", "z done")])

    first = [
        "U 'hi'",
        "seq@1/par@1/a@1 {par.a} call wait#a1",
        "seq@1/par@1/b@1 {par.b} call bt#a2",
        "seq@1/par@1/b@1 {par.b} response bt#a2",
        "seq@1/par@1/b@1 {par.b} 'b done' ✓",
    ]
    second = ["U response wait#a1", "seq@1/par@1/a@1 {par.a} 'a done' ✓", "seq@1/z@1 'z done' ✓"]
    turns = [("hi", first, ["a1"]), ({"a1": {"value": 1}}, second, [])]
    return kit.Scene(build=build, turns=turns, ran=["wait", "bt"], unsure=["wait"], order_is_free=True)


def s3_both(kit: Any) -> Any:
    """Both children pause; b is answered first, then a."""

    def build(ran: list[str]) -> Any:
        def child(name: str, call_id: str) -> Any:
            wait = kit.body_of(ran, f"wait_{name}", None, long_running=True)
            return kit.llm(name, call(f"wait_{name}", id=call_id), f"{name} done", tools=[wait])

        par = ParallelAgent(name="par", sub_agents=[child("a", "a1"), child("b", "a2")])
        return SequentialAgent(name="seq", sub_agents=[par, kit.llm("z", "z done")])

    first = ["U 'hi'", "seq@1/par@1/a@1 {par.a} call wait_a#a1", "seq@1/par@1/b@1 {par.b} call wait_b#a2"]
    second = ["U response wait_b#a2", "seq@1/par@1/b@1 {par.b} 'b done' ✓"]
    third = ["U response wait_a#a1", "seq@1/par@1/a@1 {par.a} 'a done' ✓", "seq@1/z@1 'z done' ✓"]
    turns = [("hi", first, ["a1", "a2"]), ({"a2": {"value": 2}}, second, ["a1"]), ({"a1": {"value": 1}}, third, [])]
    ran = ["wait_a", "wait_b"]
    return kit.Scene(build=build, turns=turns, ran=ran, unsure=ran, order_is_free=True)


def s4(kit: Any) -> Any:
    """A loop pauses in round two."""

    def build(ran: list[str]) -> Any:
        wait = kit.body_of(ran, "wait", None, long_running=True)
        p = kit.llm("p", "p1", call("wait", id="a1"), "p2", tools=[wait])
        loop = LoopAgent(name="loop", sub_agents=[p, kit.llm("q", "q1", "q2")], max_iterations=2)
        return SequentialAgent(name="outer", sub_agents=[loop, kit.llm("end", "bye")])

    first = [
        "U 'hi'",
        "outer@1/loop@1/p@1 'p1' ✓",
        "outer@1/loop@1/q@1 'q1' ✓",
        "outer@1/loop@1/p@2 call wait#a1",
    ]
    second = [
        "U response wait#a1",
        "outer@1/loop@1/p@2 'p2' ✓",
        "outer@1/loop@1/q@2 'q2' ✓",
        "outer@1/end@1 'bye' ✓",
    ]
    turns = [("hi", first, ["a1"]), ({"a1": {"value": 1}}, second, [])]
    return kit.Scene(build=build, turns=turns, ran=["wait"], unsure=["wait"])


def s4_transfers(kit: Any) -> Any:
    """In round one a hands over to b and b back: the next place of a is ``a@t2``; round two is still ``a@2``."""

    def build(ran: list[str]) -> Any:
        b = kit.llm("b", call("transfer_to_agent", id="b1", agent_name="a"))
        first = call("transfer_to_agent", id="a1", agent_name="b")
        a = kit.llm("a", first, "a again", "a round two", sub_agents=[b])
        return LoopAgent(name="loop", sub_agents=[a], max_iterations=2)

    turn = [
        "U 'hi'",
        "loop@1/a@1 call transfer_to_agent#a1",
        "loop@1/a@1 response transfer_to_agent#a1 →b",
        "loop@1/a@1/b@1 call transfer_to_agent#b1",
        "loop@1/a@1/b@1 response transfer_to_agent#b1 →a",
        "loop@1/a@t2 'a again' ✓",
        "loop@1/a@2 'a round two' ✓",
    ]
    return kit.Scene(build=build, turns=[("hi", turn, [])], ran=[])


def s7(kit: Any) -> Any:
    """Sequence under an LLM root, crashed wherever it may."""

    def build(ran: list[str]) -> Any:
        b = kit.llm("b", call("tb", id="a2"), "b done", tools=[kit.body_of(ran, "tb")])
        seq = SequentialAgent(name="seq", sub_agents=[kit.llm("a", "a done"), b])
        return kit.llm("root", call("transfer_to_agent", id="a1", agent_name="seq"), sub_agents=[seq])

    turn = [
        "U 'hi'",
        "root@1 call transfer_to_agent#a1",
        "root@1 response transfer_to_agent#a1 →seq",
        "root@1/seq@1/a@1 'a done' ✓",
        "root@1/seq@1/b@1 call tb#a2",
        "root@1/seq@1/b@1 response tb#a2",
        "root@1/seq@1/b@1 'b done' ✓",
    ]
    return kit.Scene(build=build, turns=[("hi", turn, [])], ran=["tb"])


def s8(kit: Any, place: str) -> Any:
    """Two approvals, answered one at a time, in the first or the last child of a sequence (CASE-HITL-3)."""

    def turn(request: Any) -> Any:
        results = {
            part.function_response.id: part.function_response
            for part in request.contents[-1].parts
            if part.function_response is not None
        }
        if not results:
            return [call("x", id="c1"), call("x2", id="c2")]
        return "after a" if "error" in results["c1"].response else "after b"

    def build(ran: list[str]) -> Any:
        tools = [kit.body_of(ran, name, require_confirmation=True) for name in ("x", "x2")]
        plan = kit.llm("plan", turn, tools=tools)
        other = kit.llm("other", "other text")
        return SequentialAgent(name="seq", sub_agents=[plan, other] if place == "first" else [other, plan])

    plan, other = "seq@1/plan@1", ["seq@1/other@1 'other text' ✓"]
    first = [
        "U 'hi'",
        *(other if place == "last" else []),
        f"{plan} call x#c1 call x2#c2",
        f"{plan} response x#c1 response x2#c2",
        f"{plan} call adk_request_confirmation#r1 call adk_request_confirmation#r2",
    ]
    second = ["U response adk_request_confirmation#r2", f"{plan} response x2#c2", f"{plan} 'after b' ✓"]
    third = [
        "U response adk_request_confirmation#r1",
        f"{plan} response x#c1",
        f"{plan} 'after a' ✓",
        *(other if place == "first" else []),
    ]
    turns = [("hi", first, ["r1", "r2"]), ({"r2": YES}, second, ["r1"]), ({"r1": NO}, third, [])]
    return kit.Scene(build=build, turns=turns, ran=["x2"], answers_meet=True)


SCENES: dict[str, Any] = {
    "s1": lambda kit: s1(kit, YES),
    "s1-rejected": lambda kit: s1(kit, NO),
    "s2": s2,
    "s3": s3,
    "s3-both": s3_both,
    "s4": s4,
    "s4-transfers": s4_transfers,
    "s7": s7,
    "s8-first": lambda kit: s8(kit, "first"),
    "s8-last": lambda kit: s8(kit, "last"),
}


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
async def test_scene_as_stored_event_by_event(kit: Any, name: str, streaming: bool) -> None:
    scene = SCENES[name](kit)
    lab = await kit.play(scene, streaming=streaming)
    assert len(await lab.lines()) == len(scene.lines)


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "by-answer"])
async def test_act_41_a_scene_crashed_after_every_event_comes_to_the_same_end(kit: Any, name: str, by_id: bool) -> None:
    scene = SCENES[name](kit)
    for crash_after in range(1, len(scene.lines) + 1):
        await kit.play_crashed(SCENES[name](kit), crash_after, by_id=by_id)
    assert scene.lines


@pytest.mark.parametrize("name", SCENES)
async def test_scene_on_sqlite_every_run_in_a_process_of_its_own(kit: Any, name: str, tmp_path: Path) -> None:
    scene = SCENES[name](kit)
    lab = await kit.play(scene, url=f"sqlite:///{tmp_path}/sessions.db")
    assert len(await lab.lines()) == len(scene.lines)


@pytest.mark.parametrize("name", ["s1", "s2", "s4", "s7"])
async def test_act_41_a_scene_on_sqlite_crashed_after_every_event(kit: Any, name: str, tmp_path: Path) -> None:
    scene = SCENES[name](kit)
    for crash_after in range(1, len(scene.lines) + 1):
        url = f"sqlite:///{tmp_path}/{crash_after}.db"
        await kit.play_crashed(SCENES[name](kit), crash_after, by_id=True, url=url)
    assert scene.lines
