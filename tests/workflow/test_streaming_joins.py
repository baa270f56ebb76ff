"""Joins that hand each predecessor on as it completes (workflow WB-25, RPL-5)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.workflow.flows import Meeting, answered, answers, failure, handoff, outputs, run_flow, step

from hookwork.errors import GraphError, NothingToResume
from hookwork_workflow import (
    START,
    InputValidationError,
    Join,
    NodeContext,
    RequestInput,
    Routed,
    Workflow,
    node,
    routed,
)


def in_order(meeting: Meeting, *names: str) -> dict[str, Any]:
    """Nodes that end in this order, whatever order they begin in."""

    def made(position: int, name: str) -> Any:
        async def body(value: str) -> str:
            if position:
                await meeting.event(names[position - 1]).wait()
                for _ in range(20):  # the one before is stored and handed on
                    await asyncio.sleep(0)
            meeting.event(name).set()
            return f"{name}({value})"

        return node(name=name)(body)

    return {name: made(position, name) for position, name in enumerate(names)}


async def test_wb_25_pairs_come_as_predecessors_finish(kit: Any) -> None:
    """One activation for each, in the order of completion; what follows sees each pair at once."""
    nodes = in_order(Meeting(), "c", "a", "b")
    seen: list[Any] = []

    @node
    async def show(pair: tuple[str, str]) -> str:
        seen.append(pair)
        return pair[0]

    flow = Workflow("wf", START >> tuple(nodes[n] for n in "abc") >> Join("each", as_completed=True) >> show)
    turn = await run_flow(kit, flow)
    assert seen == [("c", "c(hi)"), ("a", "a(hi)"), ("b", "b(hi)")]
    assert [(e.path, e.output) for e in turn.events if e.path.startswith("wf@1/each")] == [
        ("wf@1/each@1", ["c", "c(hi)"]),
        ("wf@1/each@2", ["a", "a(hi)"]),
        ("wf@1/each@3", ["b", "b(hi)"]),
    ]
    assert turn.outcome.output == "b"  # RSL-2: the last value of a terminal node counts


async def test_wb_25_the_rest_goes_on_while_one_waits(kit: Any, tmp_path: Path) -> None:
    """Each pair is handed on before the last predecessor is answered; a resume repeats none of them."""
    ran: list[str] = []

    @node
    async def show(pair: list[Any]) -> None:
        ran.append(pair[0])

    def build() -> Any:
        asks = handoff("asks", "q")
        return Workflow("wf", START >> (asks, step("a"), step("b")) >> Join("each", as_completed=True) >> show)

    lab = kit.Lab(lambda: build().as_agent(), url=f"sqlite:///{tmp_path}/s.db")
    turn = await lab.run("hi")
    assert (turn.waits_for, sorted(ran)) == (["q"], ["a", "b"])
    turn = await answered(lab, {"q": "yes"})
    assert ran[2:] == ["asks"]
    assert outputs(turn.events) == {"wf@1/each@3": ["asks", "yes"]}
    assert turn.outcome.kind == "completed"


async def test_wb_25_beside_a_join_that_waits_for_all(kit: Any) -> None:
    """How to know that they are through: the same predecessors into a second join."""
    seen: list[str] = []

    @node
    async def show(pair: list[Any]) -> None:
        seen.append(pair[0])

    workers = (step("a"), step("b"))
    flow = Workflow(
        "wf",
        START >> workers >> Join("each", as_completed=True) >> show,
        workers >> Join("both") >> step("end", give=lambda found: sorted(found)),
    )
    turn = await run_flow(kit, flow)
    assert sorted(seen) == ["a", "b"]
    assert turn.outcome.output == ["a", "b"]


async def test_rpl_5_order_and_numbers_are_the_same_after_a_crash(kit: Any, tmp_path: Path) -> None:
    """Behind every stored event the process dies: the stored pairs stay, none is given twice, none is lost."""

    def build(meeting: Meeting) -> Any:
        nodes = in_order(meeting, "b", "c", "a")

        async def ask(pair: list[Any]) -> Any:
            return RequestInput(interrupt_id=f"q-{pair[0]}", message="?")

        ends = Join("each", as_completed=True) >> node(ask) >> step("end", give=lambda value: value)
        return Workflow("wf", START >> tuple(nodes[n] for n in "abc") >> ends)

    async def play(url: str, crash_after: int | None) -> Any:
        meeting = Meeting()  # outlives the processes, so that nobody waits for one that is done
        lab = kit.Lab(lambda: build(meeting).as_agent(), url=url)
        lab.store.crash_after = crash_after
        turn = await lab.run("hi")
        for _ in range(12):
            if isinstance(turn.error, kit.Crash):
                lab.store.revive()
                turn = await lab.run(invocation_id=await lab.first_invocation())
            elif waiting := list((await lab.session()).open_calls):
                turn = await lab.run(answers({waiting[0]: {"result": waiting[0]}}))
            else:
                assert turn.error is None or isinstance(turn.error, NothingToResume)
                return await lab.events()
        raise AssertionError("not at its end")

    whole = await play("", None)
    expected = [(e.path, e.output) for e in whole if e.path.startswith("wf@1/each")]
    assert [output[0] for _, output in expected] == ["b", "c", "a"]
    for crash_after in range(1, len(whole)):
        for url in ("", f"sqlite:///{tmp_path}/{crash_after}.db"):
            events = await play(url, crash_after)
            pairs = {e.path: e.output for e in events if e.path.startswith("wf@1/each")}
            assert sorted(pairs) == ["wf@1/each@1", "wf@1/each@2", "wf@1/each@3"], crash_after
            assert sorted(output[0] for output in pairs.values()) == ["a", "b", "c"]
            ends = [e.output for e in events if e.path.startswith("wf@1/end")]
            assert sorted(ends) == ["q-a", "q-b", "q-c"]


async def test_wb_25_in_a_cycle_each_completion_is_handed_on(kit: Any) -> None:
    """JOIN-1 counts completions, also of further rounds."""

    async def count(value: Any) -> Routed[int, str]:
        n = value if isinstance(value, int) else 0
        return routed("again" if n < 3 else "done", n + 1)

    counter, each = node(count), Join("each", as_completed=True)
    flow = Workflow("wf", START >> counter >> each, counter.on({"again": counter}))
    turn = await run_flow(kit, flow)
    assert [e.output for e in turn.events if e.path.startswith("wf@1/each")] == [["count", n] for n in (1, 2, 3, 4)]


async def test_gv_15_a_routed_predecessor_keeps_it_waiting_for_nothing(kit: Any) -> None:
    triage = node(name="triage")(lambda value: routed("x", value))
    flow = Workflow(
        "wf", START >> triage, triage.on({"x": step("a"), "y": step("b")}) >> Join("each", as_completed=True)
    )
    assert (await run_flow(kit, flow)).outcome.output == ["a", "a(hi)"]
    triage, each = node(name="triage")(lambda value: routed("x", value)), Join("each", as_completed=True)
    direct = Workflow("wf", START >> (triage, step("c")) >> each)
    assert direct.graph.predecessors("each") == ("triage", "c")
    assert Workflow("wf", START >> triage, triage.on({"x": each})).graph.terminal == {"each"}


async def test_join_3_the_schema_holds_for_each_value(kit: Any) -> None:
    good = Workflow("wf", START >> step("a", give=lambda value: 1) >> Join("each", as_completed=True, input_schema=int))
    assert (await run_flow(kit, good)).outcome.output == ["a", 1]
    error = await failure(
        kit, START >> step("a", give=lambda value: "x") >> Join("each", as_completed=True, input_schema=int)
    )
    assert isinstance(error, InputValidationError)
    assert 'predecessor "a"' in str(error)


async def test_join_2_a_predecessor_without_output(kit: Any) -> None:
    flow = Workflow("wf", START >> step("a", give=lambda value: None) >> Join("each", as_completed=True))
    assert (await run_flow(kit, flow)).outcome.output == ["a", None]


async def test_br_2_a_pair_stays_on_the_branch_of_its_predecessor(kit: Any) -> None:
    @node
    async def where(pair: list[Any], ctx: NodeContext) -> str:
        return ctx.branch

    flow = Workflow("wf", START >> (step("a"), step("b")) >> Join("each", as_completed=True) >> where)
    turn = await run_flow(kit, flow)
    assert {e.output for e in turn.events if e.path.startswith("wf@1/where")} == {"a@1", "b@1"}


def test_join_4_as_completed_takes_no_requirement() -> None:
    for require in ("any", 2):
        with pytest.raises(GraphError, match="as_completed") as caught:
            Join("each", require, as_completed=True)
        assert caught.value.code == "bad_join"


def test_rpl_8_it_is_another_graph() -> None:
    def fingerprint(**how: Any) -> str:
        return Workflow("wf", START >> (step("a"), step("b")) >> Join("j", **how)).graph.fingerprint

    assert fingerprint() != fingerprint(as_completed=True)


def test_wb_27_it_is_drawn_as_a_join() -> None:
    flow = Workflow("wf", START >> (step("a"), step("b")) >> Join("each", as_completed=True))
    assert 'each{{"each"}}' in flow.to_mermaid()
