"""Runs that were begun with another graph go on with this one, if it says so and how (workflow WB-20, RPL-8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.workflow.flows import answered, handoff, outputs, rerun, step

from hookwork.errors import GraphError
from hookwork_workflow import DEFAULT, START, GraphChanged, Join, ReplayDivergence, Workflow, node, routed


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else ""


class Versions:
    """A workflow that is deployed anew while a run waits."""

    def __init__(self, kit: Any, url: str, first: Any) -> None:
        self.ran: list[str] = []
        self.now = first
        self.lab = kit.Lab(lambda: self.now(self.ran).as_agent(), url=url)

    async def answer(self, new: Any, given: dict[str, Any]) -> Any:
        self.now = new
        return await answered(self.lab, given)


def old(ran: list[str]) -> Workflow:
    return Workflow("wf", START >> step("a", ran) >> handoff("ask", "q") >> step("end", ran))


@pytest.mark.parametrize("allowed", [True, False])
async def test_wb_20_a_function_says_whether_a_run_goes_on(kit: Any, allowed: bool, url: str) -> None:
    """It is given both fingerprints: that of the run, and that of the graph."""
    versions = Versions(kit, url, old)
    await versions.lab.run("hi")
    asked: list[tuple[str, str]] = []

    def decide(stored: str, current: str) -> bool:
        asked.append((stored, current))
        return allowed

    def new(ran: list[str]) -> Workflow:
        edges = START >> step("a", ran) >> handoff("ask", "q") >> step("end", ran) >> step("more", ran)
        return Workflow("wf", edges, allow_changed_graph=decide)

    if allowed:
        turn = await versions.answer(new, {"q": "yes"})
        assert turn.outcome.output == "more(end(yes))"
        assert versions.ran == ["a", "end", "more"]
    else:
        with pytest.raises(GraphChanged):
            await versions.answer(new, {"q": "yes"})
    assert set(asked) == {(old([]).graph.fingerprint, new([]).graph.fingerprint)}


async def test_wb_20_an_unchanged_graph_asks_nobody(kit: Any) -> None:
    def same(ran: list[str]) -> Workflow:
        def never(stored: str, current: str) -> bool:
            raise AssertionError("nothing has changed")

        edges = START >> step("a", ran) >> handoff("ask", "q") >> step("end", ran)
        return Workflow("wf", edges, allow_changed_graph=never)

    versions = Versions(kit, "", same)
    await versions.lab.run("hi")
    assert (await versions.answer(same, {"q": "yes"})).outcome.output == "end(yes)"


@pytest.mark.parametrize("asks", ["hands off", "runs again"])
async def test_wb_20_nodes_that_have_other_names_now(kit: Any, asks: str, url: str) -> None:
    """What is done is not run again, what asked is answered, and joins know who came; new places have the new names."""

    def asking(name: str) -> Any:
        return handoff(name, "q") if asks == "hands off" else rerun(name, "q")

    def first(ran: list[str]) -> Workflow:
        return Workflow("wf", START >> (step("a", ran), asking("ask")) >> Join("both") >> step("end", ran, give=dict))

    def second(ran: list[str]) -> Workflow:
        edges = START >> (step("alpha", ran), asking("approve")) >> Join("all") >> step("finish", ran, give=dict)
        renamed = {"a": "alpha", "ask": "approve", "both": "all", "end": "finish"}
        return Workflow("wf", edges, allow_changed_graph=True, renamed=renamed)

    versions = Versions(kit, url, first)
    turn = await versions.lab.run("hi")
    turn = await versions.answer(second, {turn.waits_for[0]: "yes"})
    answer = "yes" if asks == "hands off" else ["yes"]
    assert turn.outcome.output == {"alpha": "a(hi)", "approve": answer}
    assert versions.ran == ["a", "finish"]
    assert "wf@1/finish@1" in outputs(turn.events)


async def test_wb_20_a_node_that_is_left_out(kit: Any, url: str) -> None:
    """Without saying so its record is one that nothing leads to (RPL-5)."""

    def begun(ran: list[str]) -> Workflow:
        a = step("a", ran)
        log = step("log", ran, give=lambda value: None)
        return Workflow("wf", START >> (log, a), a >> handoff("ask", "q") >> step("end", ran))

    def later(renamed: Any) -> Any:
        def build(ran: list[str]) -> Workflow:
            edges = START >> step("a", ran) >> handoff("ask", "q") >> step("end", ran)
            return Workflow("wf", edges, allow_changed_graph=True, renamed=renamed)

        return build

    versions = Versions(kit, url, begun)
    await versions.lab.run("hi")
    turn = await versions.answer(later({"log": None}), {"q": "yes"})
    assert turn.outcome.output == "end(yes)"
    assert sorted(versions.ran) == ["a", "end", "log"]
    versions = Versions(kit, "", begun)
    await versions.lab.run("hi")
    with pytest.raises(ReplayDivergence, match="log"):
        await versions.answer(later(None), {"q": "yes"})


async def test_wb_20_rounds_that_were_begun_keep_their_places(kit: Any) -> None:
    """A new round of a renamed node stands under the new name; the count goes on."""

    def loop(name: str) -> Any:
        def build(ran: list[str]) -> Workflow:
            @node(name=name)
            async def work(value: Any) -> int:
                ran.append(name)
                return value + 1 if isinstance(value, int) else 1

            @node
            async def judge(value: int) -> Any:
                return routed("again" if value < 3 else "done", value)

            ask = rerun("ask", "q")
            renamed = {"work": name} if name != "work" else None
            edges = (START >> work >> ask, ask >> node(name="back")(lambda given: int(given[0])) >> judge)
            routes = judge.on({"again": work, DEFAULT: step("end", ran)})
            return Workflow("wf", *edges, routes, allow_changed_graph=True, renamed=renamed)

        return build

    versions = Versions(kit, "", loop("work"))
    turn = await versions.lab.run("hi")
    turn = await versions.answer(loop("labour"), {turn.waits_for[0]: 1})
    turn = await versions.answer(loop("labour"), {turn.waits_for[0]: 3})
    assert turn.outcome.output == "end(3)"
    paths = [event.path for event in await versions.lab.events() if "wor" in event.path or "labour" in event.path]
    assert paths == ["wf@1/work@1", "wf@1/labour@2"]


@pytest.mark.parametrize("renamed", [{"end": "a"}, {"x": "y"}])
def test_wb_20_what_is_renamed_is_gone_and_what_it_became_is_there(renamed: dict[str, str]) -> None:
    with pytest.raises(GraphError, match="renamed") as caught:
        Workflow("wf", START >> step("a") >> step("end"), renamed=renamed)
    assert caught.value.code == "bad_setting"


async def test_join_4_a_quorum_is_the_same_in_another_process(kit: Any, url: str) -> None:
    """Two of three: it fired before the pause and does not fire again for the third (JOIN-1)."""

    def build(ran: list[str]) -> Workflow:
        sources = (handoff("ask", "q"), step("a", ran), step("b", ran))
        return Workflow("wf", START >> sources >> Join("two", require=2) >> step("end", ran, give=sorted))

    versions = Versions(kit, url, build)
    turn = await versions.lab.run("hi")
    assert (turn.outcome.kind, versions.ran) == ("paused", ["a", "b", "end"])
    turn = await versions.answer(build, {"q": "yes"})
    assert (turn.outcome.kind, versions.ran) == ("completed", ["a", "b", "end"])
