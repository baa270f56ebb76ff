"""Sequence, parallel and loop in one run (core §1.2, WFA-1 … WFA-5; workflow CPA-1, CPA-4, CPA-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hookwork import Agent, Event, EventActions, Plugin, Runner, ToolContext, text_content
from hookwork.errors import SessionBusyError
from hookwork_llm import tool
from hookwork_testkit import call, make_context
from hookwork_workflow import LoopAgent, ParallelAgent, SequentialAgent
from hookwork_workflow.composed import CancelWatch


def speaker(name: str, *texts: str, escalate_in: int = 0, then: Callable[[Any], Any] | None = None) -> Agent:
    """Says its texts (its own name by default); in round ``escalate_in`` the first of them escalates."""

    async def body(ctx: Any) -> Any:
        for number, said in enumerate(texts or (name,)):
            escalates = number == 0 and ctx.path.endswith(f"@{escalate_in}")
            yield Event(content=text_content(said), actions=EventActions(escalate=escalates or None))
        if then is not None:
            done = then(ctx)
            if asyncio.iscoroutine(done):
                await done

    return Agent(name=name, body=body)


async def texts(kit: Any, root: Agent) -> list[str]:
    lab = kit.Lab(lambda: root)
    turn = await lab.run("hi")
    if turn.error is not None:
        raise turn.error
    return [f"{event.path} {event.text}" for event in turn.events if event.text]


async def test_a_sequence_runs_its_children_in_order_once(kit: Any) -> None:
    root = SequentialAgent(name="s", sub_agents=[speaker("a", "1", "2"), speaker("b"), speaker("c")])
    assert await texts(kit, root) == ["s@1/a@1 1", "s@1/a@1 2", "s@1/b@1 b", "s@1/c@1 c"]


async def test_escalate_means_nothing_to_a_sequence_and_a_parallel_agent(kit: Any) -> None:
    inner = ParallelAgent(name="p", sub_agents=[speaker("a", escalate_in=1), speaker("b")])
    root = SequentialAgent(name="s", sub_agents=[inner, speaker("c")])
    assert sorted(await texts(kit, root)) == ["s@1/c@1 c", "s@1/p@1/a@1 a", "s@1/p@1/b@1 b"]


async def test_wfa_1_parallel_children_keep_everything_but_the_branch(kit: Any) -> None:
    seen: dict[str, Any] = {}

    def look(ctx: Any) -> None:
        seen[ctx.agent_name] = (ctx.branch, ctx.invocation_id, ctx.run_config.max_llm_calls, ctx.session.id)

    inner = ParallelAgent(name="q", sub_agents=[speaker("b", then=look)])
    root = ParallelAgent(name="p", sub_agents=[speaker("a", then=look), inner])
    lab = kit.Lab(lambda: root)
    turn = await lab.run("hi")
    rest = (turn.outcome.invocation_id, 500, "s")
    assert seen == {"a": ("p.a", *rest), "b": ("p.q.q.b", *rest)}
    assert {event.branch for event in turn.events} == {"p.a", "p.q.q.b"}


async def test_wfa_1_parallel_children_really_run_at_once(kit: Any) -> None:
    met = asyncio.Barrier(3)

    async def meet(ctx: Any) -> None:
        await asyncio.wait_for(met.wait(), 5)

    root = ParallelAgent(name="p", sub_agents=[speaker(name, then=meet) for name in "abc"])
    assert len(await texts(kit, root)) == 3


async def test_inv_1_a_parallel_child_goes_on_only_after_its_event_was_stored(kit: Any) -> None:
    checks: list[bool] = []

    async def body(ctx: Any) -> Any:
        for number in range(3):
            event = Event(
                id=f"{ctx.agent_name}{number}",
                content=text_content("x"),
                actions=EventActions(state_delta={f"k_{ctx.agent_name}": number}),
            )
            yield event
            stored = [e.id for e in ctx.session.events]
            checks.append(event.id in stored and ctx.state[f"k_{ctx.agent_name}"] == number)

    root = ParallelAgent(name="p", sub_agents=[Agent(name=name, body=body) for name in "abcd"])
    events = (await kit.Lab(lambda: root).run("hi")).events
    assert checks == [True] * 12
    for name in "abcd":
        assert [event.id for event in events if event.author == name][:3] == [f"{name}{n}" for n in range(3)]


async def test_wfa_3_the_first_error_wins_and_names_its_child(kit: Any) -> None:
    torn_down: list[str] = []
    started = asyncio.Event()

    async def sibling(ctx: Any) -> Any:
        try:
            yield Event(content=text_content("b"))
            started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            torn_down.append("b")

    async def broken(ctx: Any) -> None:
        await started.wait()
        raise ValueError("a is broken")

    root = ParallelAgent(name="p", sub_agents=[speaker("a", then=broken), Agent(name="b", body=sibling)])
    lab = kit.Lab(lambda: SequentialAgent(name="s", sub_agents=[root, speaker("never")]))
    turn = await lab.run("hi")
    assert isinstance(turn.error, ValueError)
    assert turn.error.__notes__ == ["raised in 'a', a child of the parallel agent 'p'"]
    assert torn_down == ["b"]
    assert turn.outcome.kind == "failed"
    assert "never" not in [event.text for event in turn.events]


async def test_wfa_3_a_talkative_sibling_does_not_hold_the_error_back(kit: Any) -> None:
    async def endless(ctx: Any) -> Any:
        while True:
            yield Event(content=text_content("more"))

    async def broken(ctx: Any) -> None:
        raise ValueError("broken")

    talkers = [Agent(name=name, body=endless) for name in ("x", "y", "z")]
    root = ParallelAgent(name="p", sub_agents=[*talkers, speaker("a", then=broken)])
    turn = await kit.Lab(lambda: root).run("hi")
    assert isinstance(turn.error, ValueError)
    assert len(turn.events) < 20


@pytest.mark.parametrize("kind", ["sequence", "loop"])
async def test_cpa_1_an_error_ends_the_run_and_later_children_do_not_run(kit: Any, kind: str) -> None:
    """CPA-1, WT-31: also when the consumer keeps iterating."""

    async def broken(ctx: Any) -> None:
        raise ValueError("broken")

    children = [speaker("a"), speaker("b", then=broken), speaker("c")]
    root = (
        SequentialAgent(name="r", sub_agents=children)
        if kind == "sequence"
        else LoopAgent(name="r", sub_agents=children)
    )
    turn = await kit.Lab(lambda: root).run("hi")
    assert str(turn.error) == "broken"
    assert [event.text for event in turn.events if event.text] == ["a", "b"]


async def test_wfa_4_a_loop_ends_after_its_rounds(kit: Any) -> None:
    root = LoopAgent(name="l", sub_agents=[speaker("a"), speaker("b")], max_iterations=2)
    assert await texts(kit, root) == ["l@1/a@1 a", "l@1/b@1 b", "l@1/a@2 a", "l@1/b@2 b"]


async def test_wfa_4_the_escalating_child_finishes_and_later_ones_do_not_run(kit: Any) -> None:
    root = LoopAgent(name="l", sub_agents=[speaker("a"), speaker("b", "stop", "last", escalate_in=3), speaker("c")])
    said = await texts(kit, root)
    assert said[-3:] == ["l@1/a@3 a", "l@1/b@3 stop", "l@1/b@3 last"]
    assert len(said) == 4 * 2 + 3


async def test_wfa_4_escalate_is_heard_from_a_deeper_descendant(kit: Any) -> None:
    deep = SequentialAgent(name="s", sub_agents=[ParallelAgent(name="p", sub_agents=[speaker("a", escalate_in=1)])])
    root = LoopAgent(name="l", sub_agents=[deep, speaker("b")])
    assert await texts(kit, root) == ["l@1/s@1/p@1/a@1 a"]


async def test_wfa_5_an_inner_loops_escalate_ends_the_outer_loop_too(kit: Any) -> None:
    inner = LoopAgent(name="inner", sub_agents=[speaker("a", escalate_in=2)])
    root = LoopAgent(name="outer", sub_agents=[inner, speaker("b")])
    assert await texts(kit, root) == ["outer@1/inner@1/a@1 a", "outer@1/inner@1/a@2 a"]


async def test_cpa_4_direct_hears_only_the_loops_own_children(kit: Any) -> None:
    inner = LoopAgent(name="inner", sub_agents=[speaker("a", escalate_in=1)])
    root = LoopAgent(name="outer", sub_agents=[inner, speaker("b", escalate_in=2)], escalate="direct")
    assert await texts(kit, root) == [
        "outer@1/inner@1/a@1 a",
        "outer@1/b@1 b",
        "outer@1/inner@2/a@1 a",
        "outer@1/b@2 b",
    ]


async def test_wfa_4_an_unbounded_loop_ends_by_a_tool_that_escalates(kit: Any) -> None:
    @tool
    def stop(ctx: ToolContext) -> str:
        """Stops."""
        ctx.actions.escalate = True
        return "stopped"

    writer = kit.llm("w", "one", "two", "three")
    critic = kit.llm("c", "go on", call("stop", id="s1"), "fine", tools=[stop])
    lab = kit.Lab(lambda: LoopAgent(name="l", sub_agents=[writer, critic]))
    await lab.run("hi")
    assert (await lab.lines())[1:] == [
        "l@1/w@1 'one' ✓",
        "l@1/c@1 'go on' ✓",
        "l@1/w@2 'two' ✓",
        "l@1/c@2 call stop#s1",
        "l@1/c@2 response stop#s1 ^",
        "l@1/c@2 'fine' ✓",
    ]


async def test_wfa_4_a_partial_events_escalate_is_no_escalate(kit: Any) -> None:
    async def body(ctx: Any) -> Any:
        yield Event(content=text_content("p"), partial=True, actions=EventActions(escalate=True))
        yield Event(content=text_content("whole"))

    root = LoopAgent(name="l", sub_agents=[Agent(name="a", body=body)], max_iterations=2)
    assert await texts(kit, root) == [f"l@1/a@{n} {said}" for n in (1, 2) for said in ("p", "whole")]


@pytest.mark.parametrize("children", [0, 1])
async def test_cpa_5_a_loop_in_which_nothing_waits_lets_others_run(kit: Any, children: int) -> None:
    async def silent(ctx: Any) -> Any:
        return
        yield

    class Nothing(Agent):
        @property
        def derives_end(self) -> bool:
            return True

    inner: list[Agent] = [*[Nothing(name="a", body=silent)] * children] or [SequentialAgent(name="empty")]
    root = LoopAgent(name="l", sub_agents=inner)
    lab = kit.Lab(lambda: root)
    task = asyncio.ensure_future(lab.run("hi"))
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await lab.lines()) == ["U 'hi'"]


@pytest.mark.parametrize("kind", ["sequence", "loop", "parallel"])
async def test_agt_18_after_end_invocation_no_child_is_started(kit: Any, kind: str) -> None:
    def end(ctx: Any) -> None:
        ctx.end_invocation("enough")

    async def silent_end(ctx: Any) -> Any:
        ctx.end_invocation("enough")
        return
        yield

    tree: Any = {
        "sequence": lambda: SequentialAgent(name="r", sub_agents=[speaker("a", then=end), speaker("b")]),
        "loop": lambda: LoopAgent(name="r", sub_agents=[speaker("a", then=end), speaker("b")]),
        "parallel": lambda: ParallelAgent(name="r", sub_agents=[Agent(name="a", body=silent_end), speaker("b")]),
    }[kind]
    met: list[str] = []

    class Met(Plugin):
        name = "met"

        async def before_agent(self, ctx: Any, agent: Agent) -> None:
            met.append(agent.name)

    root = SequentialAgent(name="top", sub_agents=[tree(), speaker("z")])
    turn = await kit.Lab(lambda: root).run("hi", plugins=[Met()])
    assert met == ["top", "r", "a"]
    assert [event.text for event in turn.events] == ([] if kind == "parallel" else ["a"])
    assert (turn.outcome.kind, turn.outcome.reason) == ("ended", "enough")


async def test_agt_18_an_invocation_that_was_ended_between_children_goes_on_by_id(kit: Any) -> None:
    ends = [True]

    def end(ctx: Any) -> None:
        if ends.pop() if ends else False:
            ctx.end_invocation()

    lab = kit.Lab(lambda: SequentialAgent(name="s", sub_agents=[speaker("a", then=end), speaker("b")]))
    assert (await lab.run("hi")).outcome.kind == "ended"
    again = await lab.run(invocation_id=await lab.first_invocation())
    assert [event.path for event in again.events if event.text][-1] == "s@1/b@1"
    assert again.outcome.kind == "completed"


async def test_agt_12_a_before_hook_answers_for_one_child_and_the_next_runs(kit: Any) -> None:
    first = speaker("a").clone(before_agent=lambda ctx: text_content("instead"))
    root = SequentialAgent(name="s", sub_agents=[first, speaker("b")])
    assert await texts(kit, root) == ["s@1/a@1 instead", "s@1/b@1 b"]


async def test_agt_12_a_before_hook_answers_for_the_whole_agent(kit: Any) -> None:
    inner = SequentialAgent(name="s", sub_agents=[speaker("a")], before_agent=lambda ctx: text_content("instead"))
    assert await texts(kit, SequentialAgent(name="top", sub_agents=[inner, speaker("b")])) == [
        "top@1/s@1 instead",
        "top@1/b@1 b",
    ]


async def test_cpa_5_a_child_that_keeps_a_cancellation_to_itself_is_the_last(kit: Any) -> None:
    """Inside a run the kernel sees a stop by itself; what runs under a caller's own task is watched here."""
    watch = CancelWatch()

    async def stage() -> str:
        watch.start()
        watch.check()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        watch.check()
        return "went on"

    task = asyncio.ensure_future(stage())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


@pytest.mark.parametrize("kind", ["sequence", "loop"])
async def test_cpa_5_no_child_starts_behind_a_swallowed_cancellation(kit: Any, kind: str) -> None:
    waits, ran = asyncio.Event(), []

    async def deaf(ctx: Any) -> None:
        waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ran.append("deaf")

    children = [speaker("a", then=deaf), speaker("b", then=lambda ctx: ran.append("b"))]
    root = (
        SequentialAgent(name="r", sub_agents=children)
        if kind == "sequence"
        else LoopAgent(name="r", sub_agents=children)
    )
    lab = kit.Lab(lambda: root)
    task = asyncio.ensure_future(lab.run("hi"))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == ["deaf"]


async def test_str_2_partial_events_of_parallel_children_pass_with_the_place_of_their_whole(kit: Any) -> None:
    children = [kit.llm(name, f"{name}: some text") for name in "ab"]
    lab = kit.Lab(lambda: ParallelAgent(name="p", sub_agents=children))
    turn = await lab.run("hi", streaming=True)
    for name in "ab":
        own = [event for event in turn.events if event.author == name]
        assert [bool(event.partial) for event in own] == [True, True, False]
        assert {(event.id, event.path, event.branch) for event in own} == {(own[0].id, f"p@1/{name}@1", f"p.{name}")}
        assert "".join(event.text for event in own[:2]) == own[2].text == f"{name}: some text"
    assert len(await lab.lines()) == 3


async def test_pol_5_a_run_started_inside_a_parallel_child_does_not_wait_for_itself(kit: Any) -> None:
    caught: list[str] = []
    runners: list[Runner] = []

    async def start_another(ctx: Any) -> None:
        try:
            await asyncio.wait_for(runners[0].ask("again", user_id="u", session_id="s"), 5)
        except SessionBusyError:
            caught.append(ctx.agent_name)

    root = ParallelAgent(name="p", sub_agents=[speaker(name, then=start_another) for name in "ab"])
    async with Runner(root, sessions="memory:") as runner:
        runners.append(runner)
        outcome = await runner.run(user_id="u", session_id="s", message="hi").wait()
    assert sorted(caught) == ["a", "b"]
    assert outcome.kind == "completed"


async def test_agt_5_composed_agents_run_without_a_runner() -> None:
    par = ParallelAgent(name="p", sub_agents=[speaker("a"), speaker("b")])
    loop = LoopAgent(name="l", sub_agents=[speaker("c")], max_iterations=2)
    root = SequentialAgent(name="s", sub_agents=[par, loop])
    activation = root.run(make_context("invocation"))
    said = [event.text async for event in activation if event.text]
    assert sorted(said[:2]) == ["a", "b"]
    assert said[2:] == ["c", "c"]
    assert activation.status == "completed"
