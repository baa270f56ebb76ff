"""Defects of the reference that users of graphs meet (workflow, Traps), as scenes: they must come out right here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import Content, Event, FunctionResponse, Part, Runner
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import (
    DEFAULT,
    START,
    InputValidationError,
    Join,
    NodeContext,
    NodeRunError,
    RequestInput,
    Retry,
    Workflow,
    WorkflowAgent,
    node,
    routed,
)


def answer(call_id: str, value: Any) -> Content:
    response = FunctionResponse(id=call_id, name="adk_request_input", response={"result": value})
    return Content(role="user", parts=[Part(function_response=response)])


def outputs(events: list[Event]) -> dict[str, Any]:
    """Segment of each node → its output."""
    return {event.path.rpartition("/")[2]: event.output for event in events if event.output is not None}


async def test_wt_3_a_workflow_agent_has_every_option_of_a_workflow() -> None:
    now = peak = 0

    async def busy(x: Any) -> int:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        await asyncio.sleep(0)
        now -= 1
        return 1

    edges = START >> tuple(node(busy, name=f"n{i}") for i in range(6)) >> Join("all")
    agent = WorkflowAgent(name="wf", edges=[edges], max_concurrency=2, state_schema={"x": int}, max_activations=50)
    assert (agent.workflow.max_concurrency, agent.workflow.max_activations) == (2, 50)
    async with Runner(agent, sessions="memory:") as runner:
        await runner.run(user_id="u", message="go").wait()
    assert peak == 2


async def test_wt_4_state_written_in_a_function_is_stored() -> None:
    @node
    async def writes(x: Any, ctx: NodeContext) -> None:
        ctx.state["seen"] = [x]

    assert (await writes.test("hi")).state == {"seen": ["hi"]}


async def test_wt_5_a_join_in_a_cycle_fires_on_fresh_completions_only() -> None:
    """JOIN-1, JOIN-2: round two has the outputs of round two, and a silent one counts as None."""
    rounds: list[Any] = []

    @node
    async def left(x: Any) -> Any:
        return f"left {x}"

    @node
    async def right(x: Any) -> Any:
        return f"right {x}" if x == "go" else None

    @node
    async def judge(both: dict[str, Any]) -> Any:
        rounds.append(both)
        return routed("again" if len(rounds) == 1 else "done", "more")

    flow = Workflow("flow", START >> (left, right) >> Join("both") >> judge, judge.on({"again": (left, right)}))
    await flow.test("go")
    assert rounds == [{"left": "left go", "right": "right go"}, {"left": "left more", "right": None}]


async def test_wt_6_one_message_that_answers_two_askers_of_one_join() -> None:
    """ANS-5: the reference hangs."""

    @node
    async def one(x: Any) -> RequestInput:
        return RequestInput(interrupt_id="one")

    @node
    async def two(x: Any) -> RequestInput:
        return RequestInput(interrupt_id="two")

    flow = Workflow("flow", START >> (one, two) >> Join("both"))
    assert (await flow.test(1, answers={"one": 1, "two": 2})).output == {"one": 1, "two": 2}


async def test_wt_8_the_next_round_of_a_dynamic_node_has_children_of_its_own() -> None:
    """DYN-21: no stale outputs."""
    ran: list[int] = []

    @node
    async def child(x: int) -> int:
        ran.append(x)
        return x * 10

    @node
    async def loop(x: int, ctx: NodeContext) -> Any:
        got = await ctx.run_node(child, x)
        return routed("again", x + 1) if x < 3 else routed("done", got)

    trial = await Workflow("flow", START >> loop, loop.on({"again": loop})).test(1)
    assert ran == [1, 2, 3]
    assert outputs(list(trial.events))["loop@3"] == 30


async def test_wt_9_a_resume_has_the_paths_of_the_first_run(kit: Any) -> None:
    """PATH-1, DYN-23: the finished child is not run again, in a new process either."""
    ran: list[str] = []

    def build() -> Any:
        @node
        async def fetch(x: Any) -> str:
            ran.append("fetch")
            return "data"

        @node
        async def ask(x: Any, ctx: NodeContext) -> str:
            ran.append("ask")
            return str(await ctx.request_input("ok", "?"))

        @node
        async def orch(x: Any, ctx: NodeContext) -> list[Any]:
            ran.append("orch")
            return [await ctx.run_node(fetch, 1), await ctx.run_node(ask, 2)]

        return Workflow("wf", START >> orch).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("go")
    [waiting] = turn.waits_for
    assert waiting.endswith(":wf@1/orch@1/ask@1")
    turn = await lab.run(answer(waiting, "yes"))
    assert ran == ["orch", "fetch", "ask", "orch", "ask"]
    assert outputs(await lab.events()) == {"fetch@1": "data", "ask@1": "yes", "orch@1": ["data", "yes"]}
    assert {e.path for e in await lab.events() if e.path} == {
        "wf@1/orch@1",
        "wf@1/orch@1/fetch@1",
        "wf@1/orch@1/ask@1",
    }


async def test_wt_13_an_answer_inside_a_sub_workflow_goes_on_inside_it(kit: Any) -> None:
    """The reference takes it for the output of the whole sub-workflow and skips the rest of it."""

    def build() -> Any:
        @node
        async def ask(x: Any) -> RequestInput:
            return RequestInput(interrupt_id="ask")

        @node
        async def rest(x: Any) -> str:
            return f"rest {x}"

        @node
        async def after(x: Any) -> str:
            return f"after {x}"

        return Workflow("outer", START >> Workflow("inner", START >> ask >> rest) >> after).as_agent()

    lab = kit.Lab(build)
    await lab.run("go")
    await lab.run(answer("ask", "a"))
    assert outputs(await lab.events()) == {"rest@1": "rest a", "after@1": "after rest a"}


async def test_wt_14_an_agent_node_may_call_its_sub_agents() -> None:
    """AN-5: "RunNode called outside a dynamic node" there."""
    helper = LlmAgent(name="helper", description="Helps.", model=ScriptedModel(["42"]), mode="single_turn")
    model = ScriptedModel([call("helper", request="how many?"), "It is 42."])
    boss = node(LlmAgent(name="boss", model=model, sub_agents=[helper]))
    trial = await boss.test("how many?")
    assert trial.output == "It is 42."
    assert [e.text for e in trial.events if e.author == "helper"] == ["42"]


async def test_wt_20_what_a_person_typed_stays_text() -> None:
    @node
    async def ask(x: Any) -> RequestInput:
        return RequestInput(interrupt_id="ask")

    @node
    async def shows(x: Any) -> str:
        return repr(x)

    for typed in ("42", "true", "null", "1e3", '"quoted"'):
        trial = await Workflow("flow", START >> ask >> shows).test(1, answers={"ask": typed})
        assert trial.output == repr(typed)
    trial = await Workflow("flow", START >> ask >> shows).test(1, answers={"ask": '{"a": [1]}'})
    assert trial.output == "{'a': [1]}"


@pytest.mark.parametrize(("said", "goes_to"), [("yes", "sent"), ("no", "kept"), (True, "sent"), ("?", "lost")])
async def test_wt_23_an_answer_chooses_the_edge(said: Any, goes_to: str) -> None:
    """ANS-9: users expect {"yes": a, "no": b} to work."""

    @node
    async def approve(x: Any) -> RequestInput:
        return RequestInput(interrupt_id="approve")

    sent, kept, lost = (node(lambda x: "here", name=name, inline=True) for name in ("sent", "kept", "lost"))
    edges = approve.on({("yes", True): sent, "no": kept, DEFAULT: lost})
    trial = await Workflow("flow", START >> approve, edges).test(1, answers={"approve": said})
    assert outputs(list(trial.events)) == {f"{goes_to}@1": "here"}


async def test_edge_5_a_dead_end_is_told_once(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The replay of a resume says nothing twice."""

    def build() -> Any:
        @node
        async def lost(x: Any) -> Any:
            return routed("nowhere", x)

        @node
        async def ask(x: Any) -> RequestInput:
            return RequestInput(interrupt_id="ask")

        @node
        async def never(x: Any) -> None: ...

        return Workflow("wf", START >> (lost, ask), lost.on({"x": never})).as_agent()

    lab = kit.Lab(build)
    with caplog.at_level("WARNING", "hookwork.workflow"):
        await lab.run("go")
        await lab.run(answer("ask", 1))
    assert [record.getMessage().count("nowhere") for record in caplog.records] == [1]


async def test_wt_24_a_review_loop_asks_as_often_as_it_takes(kit: Any) -> None:
    def build() -> Any:
        @node
        async def draft(x: Any) -> str:
            return f"draft after {x}"

        @node
        async def review(x: Any) -> RequestInput:
            return RequestInput(message=x)

        @node
        async def publish(x: Any) -> str:
            return "published"

        return Workflow("wf", START >> draft >> review, review.on({"ok": publish, DEFAULT: draft})).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("go")
    for said in ("shorter", "longer", "ok"):
        [waiting] = turn.waits_for
        turn = await lab.run(answer(waiting, said))
    assert turn.outcome.kind == "completed"
    assert outputs(await lab.events()) == {
        "draft@1": "draft after go",
        "draft@2": "draft after shorter",
        "draft@3": "draft after longer",
        "publish@1": "published",
    }


async def test_wt_25_a_rerun_node_behind_a_handoff_has_its_input_again(kit: Any) -> None:
    """ANS-10: the reference gives it None on its own resume."""

    def build() -> Any:
        @node
        async def first(x: Any) -> RequestInput:
            return RequestInput(interrupt_id="first")

        @node
        async def second(x: Any, ctx: NodeContext) -> list[Any]:
            return [x, await ctx.request_input("second", "?")]

        return Workflow("wf", START >> first >> second).as_agent()

    lab = kit.Lab(build)
    await lab.run("go")
    turn = await lab.run(answer("first", "one"))
    turn = await lab.run(answer(turn.waits_for[0], "two"))
    assert outputs(await lab.events()) == {"second@1": ["one", "two"]}


async def test_wt_26_a_child_has_its_retry_its_timeout_and_its_check() -> None:
    """DYN-2."""
    tries: list[int] = []

    @node(retry=Retry(max_attempts=3, initial_delay=0))
    async def flaky(x: int) -> int:
        tries.append(x)
        if len(tries) < 3:
            raise OSError("again")
        return x

    @node
    async def parent(x: Any, ctx: NodeContext) -> Any:
        return await ctx.run_node(flaky, x)

    assert (await parent.test(7)).output == 7
    assert tries == [7, 7, 7]
    with pytest.raises(NodeRunError, match="dynamic child trial@1/parent@1/flaky@1") as caught:  # DYN-4
        await parent.test("no number")
    assert isinstance(caught.value.__cause__, InputValidationError)
    assert (caught.value.child_name, caught.value.run_id) == ("flaky", "1")


async def test_wt_27_two_calls_with_one_run_id_share_one_execution() -> None:
    """DYN-22."""
    ran: list[Any] = []

    @node
    async def child(x: Any) -> Any:
        ran.append(x)
        await asyncio.sleep(0)
        return x

    @node
    async def parent(x: Any, ctx: NodeContext) -> Any:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.run_node(child, x, run_id="same")) for _ in range(3)]
        return [task.result() for task in tasks]

    assert (await parent.test(5)).output == [5, 5, 5]
    assert ran == [5]


async def test_wt_28_a_child_as_output_is_what_the_successors_get(kit: Any) -> None:
    """DYN-24: live and after a resume the same."""

    def build() -> Any:
        @node
        async def child(x: Any) -> str:
            return f"child {x}"

        @node
        async def parent(x: Any, ctx: NodeContext) -> str:
            await ctx.run_node(child, x, use_as_output=True)
            return "ignored"

        @node
        async def after(x: Any, ctx: NodeContext) -> str:
            return f"{x} {await ctx.request_input('q', '?')}"

        return Workflow("wf", START >> parent >> after).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("go")
    await lab.run(answer(turn.waits_for[0], "yes"))
    assert outputs(await lab.events()) == {"child@1": "child go", "after@1": "child go yes"}


async def test_wt_34_a_retried_agent_does_not_see_its_failed_attempt() -> None:
    """RTY-5."""
    prompts: list[int] = []

    async def respond(request: Any) -> Any:
        prompts.append(len(request.contents))
        if len(prompts) == 2:
            raise OSError("the line is dead")
        return call("look") if len(prompts) in (1, 3) else "done"

    async def look() -> str:
        """Looks."""
        return "seen"

    agent = node(
        LlmAgent(name="agent", model=ScriptedModel(respond), tools=[look]),
        retry=Retry(max_attempts=2, initial_delay=0),
    )
    trial = await agent.test("go")
    assert trial.output == "done"
    assert prompts == [1, 3, 1, 3]


async def test_wt_35_what_stands_before_the_question_is_emitted_again() -> None:
    """Told to users: keep `request_input` first."""

    @node
    async def ask(x: Any, ctx: NodeContext) -> AsyncIterator[Any]:
        yield Event(content=Content(role="model", parts=[Part(text="thinking")]))
        yield await ctx.request_input("q", "?")

    trial = await ask.test(1, answers={"q": "yes"})
    assert [event.text for event in trial.events if event.text] == ["thinking", "thinking", "yes"]
