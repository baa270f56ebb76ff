"""Joins, branches, paths and results of graph runs (workflow §3.3 … §3.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.workflow.flows import outputs, paths, run_flow, step

from hookwork import Agent, Blob, Content, Event, Part, Runner, text_content
from hookwork_inmemory import InMemorySessionService
from hookwork_workflow import (
    DEFAULT,
    START,
    Edge,
    Join,
    MultipleTerminalOutputs,
    NodeContext,
    SequentialAgent,
    Workflow,
    node,
    routed,
)
from hookwork_workflow.advance import common_branch


def branches(events: Any) -> dict[str, str]:
    return {event.path: event.branch for event in events if event.author != "user"}


def looping(name: str, rounds: int) -> Any:
    """Goes round by the route ``again`` until its last round, then leaves by ``on``."""

    @node(name=name)
    async def body(value: Any, ctx: NodeContext) -> Any:
        return routed("again" if int(ctx.run_id) < rounds else "on", f"{name}{ctx.run_id}")

    return body


# --- joins ------------------------------------------------------------------------------------------------------------


async def test_join_1_and_2_waits_for_all_and_maps_their_outputs(kit: Any) -> None:
    @node
    async def silent(value: str) -> None:
        return None

    flow = Workflow("wf", START >> (step("a"), silent) >> Join("j"))
    turn = await run_flow(kit, flow)
    assert turn.outcome.output == {"a": "a(hi)", "silent": None}
    assert paths(turn.events).count("wf@1/j@1") == 1


async def test_join_2_is_a_map_for_one_predecessor_too(kit: Any) -> None:
    turn = await run_flow(kit, Workflow("wf", START >> step("a") >> Join("j")))
    assert turn.outcome.output == {"a": "a(hi)"}


async def test_join_1_start_counts_as_complete(kit: Any) -> None:
    join = Join("j")
    turn = await run_flow(kit, Workflow("wf", START >> step("a") >> join, [Edge(START, join)]))
    assert turn.outcome.output == {"START": "hi", "a": "a(hi)"}


async def test_join_1_each_firing_uses_completions_up(kit: Any) -> None:
    """In a loop a join needs new completions of all; no output of an earlier round comes back (WT-5)."""
    fired: list[Any] = []

    @node
    async def split(value: Any, ctx: NodeContext) -> str:
        return f"round{ctx.run_id}"

    @node
    async def sometimes(value: str) -> str | None:
        return f"s-{value}" if value == "round1" else None

    @node
    async def check(value: dict[str, Any], ctx: NodeContext) -> Any:
        fired.append(dict(value))
        return routed("again" if len(fired) < 3 else "on", None)

    end = step("end", give=lambda value: None)
    flow = Workflow(
        "wf", START >> split >> (step("a"), sometimes) >> Join("j") >> check, check.on({"again": split, "on": end})
    )
    await run_flow(kit, flow)
    assert fired == [
        {"a": "a(round1)", "sometimes": "s-round1"},
        {"a": "a(round2)", "sometimes": None},
        {"a": "a(round3)", "sometimes": None},
    ]


async def test_join_4_any_fires_on_each_arrival_and_a_number_on_so_many(kit: Any) -> None:
    def graph(require: Any) -> Workflow:
        sources = tuple(step(name) for name in "abc")
        return Workflow("wf", START >> sources >> Join("j", require=require) >> step("end", give=lambda value: None))

    turn = await run_flow(kit, graph("any"))
    given = [value for path, value in outputs(turn.events).items() if "/j@" in path]
    assert given[0] == {"a": "a(hi)"}
    assert [name for value in given for name in value] == ["a", "b", "c"], "each completion is used once"
    turn = await run_flow(kit, graph(2))
    given = [value for path, value in outputs(turn.events).items() if "/j@" in path]
    assert given == [{"a": "a(hi)", "b": "b(hi)"}]


async def test_join_4_an_optional_predecessor_may_be_absent(kit: Any) -> None:
    """WT-5: a join behind a routed edge that is not taken still fires."""
    triage, join, never = node(name="triage")(_to_b), Join("j"), step("never")
    flow = Workflow(
        "wf",
        START >> (triage, step("sure") >> join),
        triage.on({"a": never, DEFAULT: step("other", give=_none)}),
        [Edge(never, join, optional=True)],
    )
    turn = await run_flow(kit, flow)
    assert turn.outcome.output == {"sure": "sure(hi)"}


# --- branches ---------------------------------------------------------------------------------------------------------


async def test_br_1_one_successor_keeps_the_branch_several_get_their_own(kit: Any) -> None:
    a, b, c, d = (step(name) for name in "abcd")
    flow = Workflow(
        "wf", START >> a >> (b, c), b >> d >> Join("j"), c >> (step("e"), step("f")) >> step("z", give=_none)
    )
    turn = await run_flow(kit, flow)
    assert branches(turn.events) == {
        "wf@1/a@1": "",
        "wf@1/b@1": "b@1",
        "wf@1/c@1": "c@1",
        "wf@1/d@1": "b@1",
        "wf@1/j@1": "b@1",
        "wf@1/e@1": "c@1.e@1",
        "wf@1/f@1": "c@1.f@1",
        "wf@1/z@1": "c@1.e@1",
        "wf@1/z@2": "c@1.f@1",
    }


def _none(value: Any) -> None:
    return None


async def test_br_1_the_run_of_the_activation_is_in_its_branch(kit: Any) -> None:
    loop = looping("loop", 2)
    flow = Workflow("wf", START >> loop, loop.on({"again": (loop, step("side", give=_none)), "on": step("end")}))
    turn = await run_flow(kit, flow)
    assert branches(turn.events)["wf@1/loop@2"] == "loop@2"
    assert branches(turn.events)["wf@1/side@1"] == "side@1"


@pytest.mark.parametrize(
    ("given", "common"),
    [
        (["a@1.b@1", "a@1.c@1"], "a@1"),
        (["a@1", "ab@1"], ""),
        (["a@1.b@1", ""], ""),
        (["x.y", "x.y.z", "x.y.q"], "x.y"),
        (["x"], "x"),
    ],
)
def test_br_2_a_join_runs_on_the_common_prefix_by_segments(given: list[str], common: str) -> None:
    assert common_branch(given) == common


async def test_br_2_in_a_run(kit: Any) -> None:
    flow = Workflow("wf", START >> step("a") >> (step("b"), step("c")) >> Join("j") >> step("d"))
    turn = await run_flow(kit, flow)
    assert branches(turn.events)["wf@1/j@1"] == ""
    assert branches(turn.events)["wf@1/d@1"] == ""


async def test_br_4_scope_is_inherited_and_separate(kit: Any) -> None:
    """A graph below a scope hands it on; its branches do not touch it (BR-4)."""
    seen: list[tuple[str, str]] = []

    @node
    async def look(value: str, ctx: NodeContext) -> None:
        seen.append((ctx.isolation_scope, ctx.branch))

    async def body(ctx: Any) -> AsyncIterator[Event]:
        inner = ctx.activate(Workflow("wf", START >> (look, step("b"))), "in", branch="x", scope="s")
        async for event in inner:
            assert event.isolation_scope == "s"
            yield event

    lab = kit.Lab(lambda: Agent(name="root", body=body))
    assert (await lab.run("hi")).error is None
    assert seen == [("s", "x.look@1")]


# --- paths ------------------------------------------------------------------------------------------------------------


async def test_path_1_and_3_run_ids_count_activations_in_trigger_order(kit: Any) -> None:
    """WT-8: every activation of a loop has a path of its own."""
    loop = looping("loop", 3)
    flow = Workflow("wf", START >> loop, loop.on({"again": loop, "on": step("end")}))
    turn = await run_flow(kit, flow)
    assert paths(turn.events) == ["wf@1/loop@1", "wf@1/loop@2", "wf@1/loop@3", "wf@1/end@1"]


async def test_path_2_and_4_agents_that_are_no_graph_and_what_they_start(kit: Any) -> None:
    async def body(ctx: Any) -> AsyncIterator[Event]:
        yield Event(content=text_content("plain"))

    def build() -> Agent:
        flow = Workflow("wf", START >> step("a")).as_agent()
        return SequentialAgent(name="seq", sub_agents=[Agent(name="plain", body=body), flow])

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert [event.path for event in turn.events if event.text or event.output] == ["seq@1/plain@1", "seq@1/wf@1/a@1"]


async def test_path_1_a_sub_workflow_is_one_segment_of_its_nodes(kit: Any) -> None:
    inner = Workflow("inner", START >> step("a") >> step("b"))
    turn = await run_flow(kit, Workflow("wf", START >> inner >> step("c")))
    assert list(outputs(turn.events)) == ["wf@1/inner@1/a@1", "wf@1/inner@1/b@1", "wf@1/c@1"]
    assert turn.outcome.output == "c(b(a(hi)))"


# --- results ----------------------------------------------------------------------------------------------------------


async def test_rsl_1_none_one_and_several_terminal_outputs(kit: Any) -> None:
    silent = step("silent", give=_none)
    assert (await run_flow(kit, Workflow("wf", START >> silent))).outcome.output is None
    turn = await run_flow(kit, Workflow("wf", START >> (step("a"), silent)))
    assert turn.outcome.output == "a(hi)"


async def test_rsl_1_the_second_terminal_output_fails_before_it_is_emitted(kit: Any) -> None:
    """WT-19; the node is not tried again for it."""
    lab = kit.Lab(Workflow("wf", START >> (step("b"), step("a"))).as_agent)
    turn = await lab.run("hi")
    assert isinstance(turn.error, MultipleTerminalOutputs)
    assert "multiple terminal nodes produced output" in str(turn.error)
    assert "a, b" in str(turn.error)
    assert list(outputs(await lab.events())) == ["wf@1/b@1"]


async def test_rsl_1_counts_outputs_not_topology(kit: Any) -> None:
    triage = node(name="triage")(_to_b)
    flow = Workflow("wf", START >> triage, triage.on({"a": step("a"), "b": step("b")}))
    assert (await run_flow(kit, flow)).outcome.output == "b(1)"


async def _to_b(value: Any) -> Any:
    return routed("b", 1)


async def test_rsl_2_a_terminal_node_in_a_loop_counts_once_and_its_last_value_wins(kit: Any) -> None:
    loop = looping("loop", 3)
    flow = Workflow("wf", START >> loop, [Edge(loop, loop, "again"), Edge(loop, step("end"), {"again", "on"})])
    turn = await run_flow(kit, flow)
    assert turn.outcome.output == "end(loop3)"
    assert "wf@1/end@3" in outputs(turn.events)


async def test_rsl_3_an_output_says_whose_it_is_and_is_emitted_once(kit: Any) -> None:
    inner = Workflow("inner", START >> step("a") >> step("b"))
    turn = await run_flow(kit, Workflow("wf", START >> step("first") >> inner))
    found = {event.path: event.node_info.output_for for event in turn.events if event.output is not None}
    assert found == {
        "wf@1/first@1": ("wf@1/first@1",),
        "wf@1/inner@1/a@1": ("wf@1/inner@1/a@1",),
        "wf@1/inner@1/b@1": ("wf@1/inner@1/b@1", "wf@1/inner@1", "wf@1"),
    }
    assert turn.outcome.output == "b(a(first(hi)))"


async def test_rsl_4_inner_outputs_stay_on_their_events_and_only_the_last_counts(kit: Any) -> None:
    """WT-13: nested results are in the history."""
    inner = Workflow("inner", START >> step("a") >> (step("b"), step("c")) >> Join("j"))
    turn = await run_flow(kit, Workflow("wf", START >> inner >> step("end", give=lambda value: sorted(value))))
    assert turn.outcome.output == ["b", "c"]
    assert outputs(turn.events)["wf@1/inner@1/b@1"] == "b(a(hi))"


# --- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Content(role="user", parts=[Part(text="a"), Part(text="b")]), "ab"),
        (Content(role="user", parts=[Part(inline_data=Blob(data=b"x", mime_type="image/png"))]), ""),
    ],
)
async def test_wf_3_the_input_is_the_text_of_the_message(kit: Any, message: Content, expected: str) -> None:
    turn = await run_flow(kit, Workflow("wf", START >> step("a", give=lambda value: [value])), message)
    assert turn.outcome.output == [expected]


async def test_wf_3_a_first_node_may_take_the_whole_message(kit: Any) -> None:
    @node
    async def count(message: Content) -> int:
        return len(message.parts)

    message = Content(role="user", parts=[Part(text="a"), Part(text="b")])
    assert (await run_flow(kit, Workflow("wf", START >> count), message)).outcome.output == 2


async def test_wf_2_a_workflow_agent_registers_the_agents_among_its_nodes() -> None:
    async def body(ctx: Any) -> AsyncIterator[Event]:
        yield Event(content=text_content("I am here"))

    worker = Agent(name="worker", body=body)
    inner = Workflow("inner", START >> worker)
    agent = Workflow("wf", START >> inner).as_agent(description="does it")
    assert agent.description == "does it"
    assert [sub.name for sub in agent.sub_agents] == ["worker"]
    async with Runner(agent, sessions=InMemorySessionService()) as runner:
        assert runner.tree.find("worker") is worker
        assert await runner.ask("hi", user_id="u", session_id="s") == "I am here"
