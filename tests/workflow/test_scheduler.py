"""The scheduler of graphs: order, readiness, limits, ends (workflow §3.1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.workflow.flows import Meeting, answers, outputs, paths, run_flow, step

from hookwork import Event, EventActions, Runner, text_content
from hookwork.platform import run_sequentially, use_sleep, use_task_runner
from hookwork_inmemory import InMemorySessionService
from hookwork_workflow import (
    DEFAULT,
    START,
    GraphNode,
    Join,
    NodeConfig,
    NodeContext,
    RequestInput,
    Retry,
    RunawayGraph,
    Workflow,
    node,
    routed,
)
from hookwork_workflow.advance import Status


async def test_a_line_of_three_functions(kit: Any) -> None:
    """SCH-3, RSL-1: each gets its predecessor's output; the last one's is the result."""
    turn = await run_flow(kit, Workflow("wf", START >> step("a") >> step("b") >> step("c")))
    assert outputs(turn.events) == {"wf@1/a@1": "a(hi)", "wf@1/b@1": "b(a(hi))", "wf@1/c@1": "c(b(a(hi)))"}
    assert turn.outcome.kind == "completed"
    assert turn.outcome.output == "c(b(a(hi)))"


async def test_sch_1_bodies_only_send_events_and_the_graph_holds_no_lock(kit: Any) -> None:
    """One graph object serves many runs at once: nothing of a run is kept on it (SCH-1, INV-4)."""
    flow = Workflow("wf", START >> (step("a"), step("b")) >> Join("j"))
    turns = await asyncio.gather(*(run_flow(kit, flow, str(number)) for number in range(20)))
    assert [turn.outcome.output for turn in turns] == [{"a": f"a({n})", "b": f"b({n})"} for n in range(20)]


async def test_sch_2_a_body_goes_on_once_its_event_is_stored(kit: Any) -> None:
    seen: list[tuple[str, bool]] = []

    def talker(name: str) -> Any:
        @node(name=name)
        async def body(value: str, ctx: NodeContext) -> AsyncIterator[Any]:
            for number in range(3):
                yield Event(content=text_content(f"{name}{number}"))
                stored = [event.text for event in ctx.session.events if event.path == ctx.path]
                seen.append((f"{name}{number}", stored == [f"{name}{n}" for n in range(number + 1)]))

        return body

    turn = await run_flow(kit, Workflow("wf", START >> (talker("a"), talker("b"))))
    assert len(seen) == 6
    assert all(stored for _, stored in seen)
    for name in "ab":
        assert [e.text for e in turn.events if e.path == f"wf@1/{name}@1" and e.text] == [
            f"{name}{n}" for n in range(3)
        ]


async def test_sch_2_partial_events_wait_for_nothing(kit: Any) -> None:
    pulled: list[int] = []

    @node
    async def stream(value: str) -> AsyncIterator[Any]:
        for number in range(50):
            pulled.append(number)
            yield Event(content=text_content("x"), partial=True)
        yield "done"

    flow = Workflow("wf", START >> stream)
    async with Runner(flow.as_agent(), sessions=InMemorySessionService()) as runner:
        most = 0
        async for event in runner.run(user_id="u", session_id="s", message="hi"):
            if event.partial and not most:
                most = len(pulled)
    assert most > 1, "the body was held at its first partial event"


async def test_sch_3_no_output_is_none_and_order_is_that_of_the_edges(kit: Any) -> None:
    order: list[str] = []
    got: list[Any] = []

    @node
    async def silent(value: str) -> None:
        return None

    def noting(name: str) -> Any:
        async def body(value: Any) -> None:
            order.append(name)
            got.append(value)

        return node(name=name)(body)

    targets = [noting(name) for name in ("z", "m", "a")]
    await run_flow(kit, Workflow("wf", START >> silent >> tuple(targets)))
    assert order == ["z", "m", "a"]
    assert got == [None, None, None]


async def test_sch_4_a_node_runs_once_for_each_trigger(kit: Any) -> None:
    """Two nodes lead to one that is no join: two activations (SCH-4, GV-11)."""
    end = step("end", give=lambda value: None)
    turn = await run_flow(kit, Workflow("wf", START >> (step("a"), step("b")) >> step("c") >> end))
    assert sorted(value for path, value in outputs(turn.events).items() if "/c@" in path) == ["c(a(hi))", "c(b(hi))"]


async def test_sch_5_activations_of_one_node_never_overlap_and_queue_in_order(kit: Any) -> None:
    meeting = Meeting()
    order: list[str] = []

    @node
    async def slow(value: str) -> None:
        order.append(value)
        await meeting.inside("slow")

    sources = tuple(step(name) for name in "abcd")
    turn = await run_flow(kit, Workflow("wf", START >> sources >> slow))
    assert meeting.most == 1
    assert order == ["a(hi)", "b(hi)", "c(hi)", "d(hi)"]
    assert [path for path in paths(turn.events) if "slow" in path] == [f"wf@1/slow@{n}" for n in range(1, 5)]


async def test_sch_5_a_waiting_node_keeps_its_queue(kit: Any) -> None:
    @node
    async def ask(value: str) -> AsyncIterator[Any]:
        yield RequestInput(interrupt_id=f"about {value}")

    lab = kit.Lab(Workflow("wf", START >> (step("a"), step("b")) >> ask).as_agent)
    assert (await lab.run("hi")).waits_for == ["about a(hi)"]
    assert (await lab.run(answers({"about a(hi)": {"result": "1"}}))).waits_for == ["about b(hi)"]
    turn = await lab.run(answers({"about b(hi)": {"result": "2"}}))
    assert turn.outcome.kind == "completed"


@pytest.mark.parametrize(("limit", "most"), [(2, 2), (1, 1), (None, 6), (0, 6), (-1, 6)])
async def test_sch_6_max_concurrency(kit: Any, limit: int | None, most: int) -> None:
    meeting = Meeting()
    started: list[str] = []

    def worker(name: str) -> Any:
        async def body(value: str) -> None:
            started.append(name)
            await meeting.inside(name)

        return node(name=name)(body)

    workers = tuple(worker(f"w{n}") for n in range(6))
    await run_flow(kit, Workflow("wf", START >> workers, max_concurrency=limit))
    assert meeting.most == most
    assert started == [f"w{n}" for n in range(6)]


async def test_sch_6_a_node_that_waits_to_be_tried_again_holds_no_place(kit: Any) -> None:
    order: list[str] = []

    @node(retry=Retry(max_attempts=2, initial_delay=5, jitter=0))
    async def flaky(value: str, ctx: NodeContext) -> None:
        order.append(f"flaky {ctx.attempt}")
        if ctx.attempt == 1:
            raise OSError("not yet")

    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await waiting.wait()

    @node
    async def other(value: str) -> None:
        order.append("other")
        waiting.set()

    with use_sleep(sleep):
        await run_flow(kit, Workflow("wf", START >> (flaky, other), max_concurrency=1))
    assert order == ["flaky 1", "other", "flaky 2"]


async def test_sch_6_children_are_not_counted(kit: Any) -> None:
    child = step("child")

    @node
    async def parent(value: str, ctx: NodeContext) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.run_node(child, number)) for number in range(3)]
        return [task.result() for task in tasks]

    turn = await run_flow(kit, Workflow("wf", START >> parent, max_concurrency=1))
    assert turn.outcome.output == ["child(0)", "child(1)", "child(2)"]


async def test_sch_7_other_branches_run_as_far_as_they_go_before_a_pause(kit: Any) -> None:
    ran: list[str] = []

    @node
    async def ask(value: str) -> AsyncIterator[Any]:
        yield RequestInput(interrupt_id="q")

    flow = Workflow(
        "wf", START >> ask >> step("after", ran), START >> step("a", ran) >> step("b", ran) >> step("c", ran)
    )
    turn = await run_flow(kit, flow)
    assert turn.outcome.kind == "paused"
    assert turn.waits_for == ["q"]
    assert ran == ["a", "b", "c"]


async def test_sch_8_a_stopped_run_starts_nothing_and_awaits_what_runs() -> None:
    left: list[str] = []
    begun = asyncio.Event()

    @node
    async def first(value: str) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            left.append("first")
        return "never"

    flow = Workflow("wf", START >> (first, step("quick")) >> step("after", left))
    async with Runner(flow.as_agent(), sessions=InMemorySessionService()) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")

        async def follow() -> list[str]:
            return [event.path async for event in run]

        following = asyncio.ensure_future(follow())
        await begun.wait()
        await run.stop()
        assert "wf@1/first@1" not in await following
    assert run.outcome is not None
    assert run.outcome.kind == "closed"
    assert left[-1] == "first"
    assert left.count("first") == 1


async def test_sch_9_escalate_means_nothing_to_a_graph(kit: Any) -> None:
    ran: list[str] = []

    @node
    async def loud(value: str) -> AsyncIterator[Any]:
        yield Event(content=text_content("!"), actions=EventActions(escalate=True))
        yield "loud"

    await run_flow(kit, Workflow("wf", START >> loud >> step("after", ran)))
    assert ran == ["after"]


async def test_sch_9_end_invocation_lets_what_runs_finish_and_starts_no_more(kit: Any) -> None:
    ran: list[str] = []
    begun, ended = asyncio.Event(), asyncio.Event()

    @node
    async def ender(value: str, ctx: NodeContext) -> str:
        await begun.wait()
        ctx.end_invocation("enough")
        ended.set()
        return "last words"

    @node
    async def running(value: str) -> str:
        begun.set()
        await ended.wait()
        ran.append("running")
        return "finished"

    turn = await run_flow(kit, Workflow("wf", START >> (ender, running) >> step("after", ran)))
    assert ran == ["running"]
    assert (turn.outcome.kind, turn.outcome.reason) == ("ended", "enough")
    assert set(outputs(turn.events).values()) == {"last words", "finished"}


@pytest.mark.parametrize("limit", [1000, 5])
async def test_sch_10_a_graph_that_runs_away_is_stopped(kit: Any, limit: int) -> None:
    count = 0

    @node
    async def again(value: Any) -> Any:
        nonlocal count
        count += 1
        return routed("again", None)

    options = {} if limit == 1000 else {"max_activations": limit}
    flow = Workflow("wf", START >> again, again.on({"again": again, DEFAULT: step("end")}), **options)
    with pytest.raises(RunawayGraph, match=str(limit)):
        await run_flow(kit, flow)
    assert count == limit


def test_st_1_statuses_have_the_numbers_of_google_adk() -> None:
    names = ("INACTIVE", "PENDING", "RUNNING", "COMPLETED", "WAITING", "FAILED", "CANCELLED")
    assert [getattr(Status, name) for name in names] == list(range(7))


async def test_st_1_nothing_but_events_is_stored(kit: Any) -> None:
    """WT-7: no status of a graph is in the session's state."""
    lab = kit.Lab(Workflow("wf", START >> step("a") >> step("b")).as_agent)
    await lab.run("hi")
    assert dict((await lab.session()).state) == {}


async def test_node_9_a_node_that_waits_for_output_is_triggered_again(kit: Any) -> None:
    """Three triggers; the first two finish without output, so nothing follows them (NODE-9)."""
    seen: list[Any] = []

    class Gather(GraphNode[Any, Any]):
        name = "gather"
        config = NodeConfig(wait_for_output=True)

        async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
            seen.append(input)
            if len(seen) == 3:
                yield Event(output=sorted(seen))

    ran: list[str] = []
    flow = Workflow("wf", START >> (step("a"), step("b"), step("c")) >> Gather() >> step("after", ran))
    turn = await run_flow(kit, flow)
    assert turn.outcome.kind == "completed"
    assert ran == ["after"]
    assert turn.outcome.output == "after(['a(hi)', 'b(hi)', 'c(hi)'])"


async def test_node_9_without_a_further_trigger_the_run_pauses_and_no_call_is_open(kit: Any) -> None:
    @node(wait_for_output=True)
    async def hungry(value: str) -> None:
        return None

    turn = await run_flow(kit, Workflow("wf", START >> hungry >> step("after")))
    assert turn.outcome.kind == "paused"
    assert turn.waits_for == []


async def test_inv_5_nodes_are_started_through_the_task_runner(kit: Any) -> None:
    meeting = Meeting()

    def worker(name: str) -> Any:
        async def body(value: str) -> None:
            await meeting.inside(name)

        return node(name=name)(body)

    with use_task_runner(run_sequentially):
        await run_flow(kit, Workflow("wf", START >> tuple(worker(f"w{n}") for n in range(4))))
    assert meeting.most == 1
