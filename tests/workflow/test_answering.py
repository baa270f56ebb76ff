"""Answers to questions (workflow §5.2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.workflow.flows import answered, answers, handoff, outputs, rerun, step

from hookwork import Content, Event, FunctionResponse, Part, text_content
from hookwork.asking import plain_answer
from hookwork.errors import InvalidResumeResponse, NothingToResume
from hookwork_workflow import (
    DEFAULT,
    START,
    GraphChanged,
    Join,
    NodeContext,
    NodeRunError,
    SequentialAgent,
    Workflow,
    node,
)
from hookwork_workflow.asking import checked_answer


class Approval(msgspec.Struct):
    approved: bool
    note: str = ""


# --- answering --------------------------------------------------------------------------------------------------------


async def test_ans_1_the_name_of_an_answer_is_not_checked(kit: Any) -> None:
    """WT-12: matched by id; the invocation is that of the question."""
    lab = kit.Lab(Workflow("wf", START >> handoff("ask", "q")).as_agent)
    first = await lab.run("hi")
    response = FunctionResponse(id="q", name="whatever", response={"result": "yes"})
    turn = await lab.run(Content(role="user", parts=[Part(function_response=response)]))
    assert turn.outcome.output == "yes"
    assert turn.outcome.invocation_id == first.outcome.invocation_id


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ({"result": "x"}, "x"),
        ({"response": 1}, 1),
        ({"payload": [1]}, [1]),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ({"other": 1}, {"other": 1}),
        ({"result": "42"}, "42"),
        ({"result": "true"}, "true"),
        ({"result": "null"}, "null"),
        ({"result": '{"x": 1}'}, {"x": 1}),
        ({"result": "[1, 2]"}, [1, 2]),
        ({"result": "{broken"}, "{broken"),
    ],
)
def test_ans_2_what_an_answer_means_without_a_schema(payload: Any, value: Any) -> None:
    """WT-20: what a person typed stays text, unless it is an object or a list."""
    assert plain_answer(payload) == value


@pytest.mark.parametrize(
    ("schema", "payload", "value"),
    [
        ({"type": "string"}, {"result": "42"}, "42"),
        ({"type": "integer"}, {"result": "42"}, 42),
        ({"type": "boolean"}, {"result": "true"}, True),
        ({"type": "object", "required": ["a"]}, {"a": 1}, {"a": 1}),
        ({"type": "object", "required": ["a"]}, {"result": '{"a": 1}'}, {"a": 1}),
        ({"type": "object", "required": ["result"]}, {"result": 1}, {"result": 1}),
    ],
)
async def test_ans_2_and_3_what_an_answer_means_with_one(kit: Any, schema: Any, payload: Any, value: Any) -> None:
    lab = kit.Lab(Workflow("wf", START >> handoff("ask", "q", schema=schema)).as_agent)
    (call,) = (await lab.run("hi")).outcome.open_calls
    assert checked_answer(call, payload) == value
    turn = await lab.run(answers({"q": payload}))
    assert turn.outcome.output == value


async def test_ans_3_an_answer_that_does_not_fit_is_refused_before_anything_is_stored(kit: Any) -> None:
    """WT-21: a later valid one works."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    lab = kit.Lab(Workflow("wf", START >> handoff("ask", "q", schema=schema) >> step("b")).as_agent)
    await lab.run("hi")
    stored = len(await lab.events())
    secret = "hush"
    for _ in range(2):
        with pytest.raises(InvalidResumeResponse, match="'q'") as caught:
            await answered(lab, {"q": {"n": secret}})
        assert secret not in str(caught.value)
    assert len(await lab.events()) == stored
    assert list((await lab.session()).open_calls) == ["q"]
    assert (await answered(lab, {"q": {"n": 3}})).outcome.output == "b({'n': 3})"


async def test_ans_3_a_type_as_schema_gives_that_type(kit: Any) -> None:
    @node
    async def approve(value: str, ctx: NodeContext) -> str:
        answer = await ctx.request_input("k", "Send?", payload=value, schema=Approval)
        assert isinstance(answer, Approval)
        return f"{answer.approved} {answer.note}"

    lab = kit.Lab(Workflow("wf", START >> approve).as_agent)
    (call,) = (await lab.run("hi")).outcome.open_calls
    assert call.payload == "hi"
    with pytest.raises(InvalidResumeResponse):
        await answered(lab, {call.id: {"approved": "perhaps"}})
    assert (await answered(lab, {call.id: {"approved": True, "note": "go"}})).outcome.output == "True go"


async def test_ans_4_the_newest_answer_counts(kit: Any) -> None:
    lab = kit.Lab(Workflow("wf", START >> handoff("ask", "q")).as_agent)
    await lab.run("hi")
    parts = [
        Part(function_response=FunctionResponse(id="q", name="x", response={"result": value})) for value in ("a", "b")
    ]
    assert (await lab.run(Content(role="user", parts=parts))).outcome.output == "b"


async def test_ans_5_answers_of_one_message_are_taken_together(kit: Any) -> None:
    """Two askers feed one join; it fires once with both (WT-6)."""
    lab = kit.Lab(Workflow("wf", START >> (handoff("a", "q1"), handoff("b", "q2")) >> Join("j")).as_agent)
    await lab.run("hi")
    turn = await answered(lab, {"q2": "two", "q1": "one"})
    assert outputs(turn.events) == {"wf@1/j@1": {"a": "one", "b": "two"}}


async def test_ans_6_nothing_to_answer(kit: Any) -> None:
    ran: list[str] = []
    lab = kit.Lab(Workflow("wf", START >> handoff("ask", "q", ran=ran) >> step("b", ran)).as_agent)
    await lab.run("hi")
    for given in ({"unknown": "x"}, {"q": "yes"}, {"q": "again"}):
        stored = len(await lab.events())
        if given == {"q": "yes"}:
            await answered(lab, given)
            continue
        with pytest.raises(NothingToResume):
            await answered(lab, given)
        assert len(await lab.events()) == stored
    assert ran == ["ask", "b"]


async def test_ans_7_a_message_that_answers_nothing_is_held(kit: Any) -> None:
    """WT-36: nothing runs, nothing is asked again; the waiting run is answered later."""
    ran: list[str] = []
    lab = kit.Lab(Workflow("wf", START >> step("a", ran) >> handoff("ask", "q", ran=ran) >> step("b", ran)).as_agent)
    first = await lab.run("hi")
    held = await lab.run("are you there?")
    assert (held.outcome.kind, held.waits_for, held.events) == ("paused", ["q"], [])
    assert held.outcome.invocation_id != first.outcome.invocation_id
    assert ran == ["a", "ask"]
    turn = await answered(lab, {"q": "yes"})
    assert turn.outcome.invocation_id == first.outcome.invocation_id
    assert turn.outcome.output == "b(yes)"


async def test_ans_7_restart_begins_anew(kit: Any) -> None:
    lab = kit.Lab(Workflow("wf", START >> step("a") >> rerun("ask"), on_message_while_waiting="restart").as_agent)
    first = await lab.run("hi")
    second = await lab.run("once more")
    assert second.outcome.kind == "paused"
    assert second.waits_for != first.waits_for
    assert outputs(second.events) == {"wf@1/a@1": "a(once more)"}


async def test_ans_7_and_res_6_text_beside_an_answer_is_seen(kit: Any) -> None:
    seen: list[str] = []

    @node
    async def after(value: str, ctx: NodeContext) -> None:
        seen.append(ctx.user_content.text if ctx.user_content is not None else "")

    lab = kit.Lab(Workflow("wf", START >> handoff("ask", "q") >> after).as_agent)
    await lab.run("hi")
    message = answers({"q": {"result": "yes"}})
    await lab.run(message.replace(parts=[*message.parts, Part(text="and hurry")]))
    assert seen == ["and hurry"]


async def test_ans_8_partial_answers(kit: Any) -> None:
    """WT-22: a handing-off node waits for all; a rerun node runs with what there is."""
    ran: list[str] = []
    flow = Workflow("wf", START >> (handoff("h", "q1", "q2", ran=ran), rerun("r", "k1", "k2", ran=ran)) >> Join("j"))
    lab = kit.Lab(flow.as_agent)
    turn = await lab.run("hi")
    k1 = next(call for call in turn.waits_for if call.startswith("k1"))
    ran.clear()
    turn = await answered(lab, {"q1": "a"})
    assert ran == []
    assert set(turn.waits_for) == {"q2", k1}
    turn = await answered(lab, {k1: "x"})
    assert ran == ["r"]
    k2 = next(call for call in turn.waits_for if call.startswith("k2"))
    turn = await answered(lab, {"q2": "b", k2: "y"})
    assert turn.outcome.output == {"h": {"q1": "a", "q2": "b"}, "r": ["x", "y"]}
    assert ran == ["r", "r"]


@pytest.mark.parametrize(
    ("answer", "taken"),
    [("yes", "yes"), ("no", "no"), (True, "true"), (3, "three"), ({"route": "no", "why": "x"}, "no"), ("else", "rest")],
)
async def test_ans_9_an_answer_chooses_the_edge(kit: Any, answer: Any, taken: str) -> None:
    """WT-23: {"yes": a, "no": b} behind a question works."""
    ran: list[str] = []
    ask = handoff("ask", "q")
    names = ("yes", "no", "true", "three", "rest", "always")
    steps = {name: step(name, ran, lambda value: None) for name in names}
    routes = {"yes": steps["yes"], "no": steps["no"], True: steps["true"], 3: steps["three"], DEFAULT: steps["rest"]}
    lab = kit.Lab(Workflow("wf", START >> ask, ask.on(routes), ask >> steps["always"]).as_agent)
    await lab.run("hi")
    turn = await answered(lab, {"q": answer})
    assert sorted(ran) == sorted([taken, "always"])
    assert [event.path for event in turn.events if event.path == "wf@1/ask@1"] == []


async def test_ans_10_a_rerun_gets_its_input_again_and_all_answers_so_far(kit: Any) -> None:
    """WT-24, WT-25: the second question of a node behind a handing-off one is no dead end."""
    inputs: list[Any] = []
    ran: list[str] = []

    @node
    async def review(value: Any, ctx: NodeContext) -> str:
        inputs.append((value, dict(ctx.resume_inputs)))
        first = await ctx.request_input("first")
        second = await ctx.request_input("second")
        return f"{value}:{first}:{second}"

    lab = kit.Lab(Workflow("wf", START >> handoff("ask", "q") >> review >> step("end", ran)).as_agent)
    await lab.run("hi")
    turn = await answered(lab, {"q": "draft"})
    first = turn.waits_for[0]
    turn = await answered(lab, {first: "1"})
    assert ran == []
    turn = await answered(lab, {turn.waits_for[0]: "2"})
    assert turn.outcome.output == "end(draft:1:2)"
    assert [value for value, _ in inputs] == ["draft"] * 3
    assert [len(given) for _, given in inputs] == [0, 1, 2]


async def test_rpl_8_a_changed_graph_is_refused_unless_the_workflow_accepts_it(kit: Any) -> None:
    changed = [False]

    def build(**options: Any) -> Any:
        edges = START >> handoff("ask", "q") >> step("b")
        return Workflow("wf", edges >> step("c") if changed[0] else edges, **options).as_agent()

    lab = kit.Lab(build)
    await lab.run("hi")
    changed[0] = True
    before = len(await lab.events())
    for _ in range(2):  # ANS-3: nothing is stored, so the answer is refused in the same way again
        with pytest.raises(
            GraphChanged, match=r"nothing was stored.* answer again .* or with allow_changed_graph=True"
        ):
            await answered(lab, {"q": "yes"})
        assert len(await lab.events()) == before
    changed[0] = False
    lab.build = build
    assert (await answered(lab, {"q": "yes"})).outcome.output == "b(yes)"


async def test_rpl_8_a_workflow_that_accepts_a_changed_graph_goes_on_with_it(kit: Any) -> None:
    changed = [False]

    def build() -> Any:
        edges = START >> handoff("ask", "q") >> step("b")
        return Workflow("wf", edges >> step("c") if changed[0] else edges, allow_changed_graph=True).as_agent()

    lab = kit.Lab(build)
    await lab.run("hi")
    changed[0] = True
    assert (await answered(lab, {"q": "yes"})).outcome.output == "c(b(yes))"


async def test_rpl_8_a_run_that_is_continued_by_its_id_keeps_what_was_answered(kit: Any) -> None:
    """The process died behind the answer, and the next one has another graph."""
    changed = [False]

    def build() -> Any:
        edges = START >> handoff("ask", "q") >> step("b")
        return Workflow("wf", edges >> step("c") if changed[0] else edges).as_agent()

    lab = kit.Lab(build)
    await lab.run("hi")
    lab.store.crash_after = len(await lab.events()) + 1
    with pytest.raises(kit.Crash):
        await answered(lab, {"q": "yes"})
    lab.store.revive()
    changed[0] = True
    with pytest.raises(GraphChanged, match="what was answered is kept: go on by its invocation id"):
        raise (await lab.run(invocation_id=await lab.first_invocation())).error or AssertionError("it went on")
    error = (await lab.run(answers({"q": "yes"}))).error
    assert isinstance(error, NothingToResume)
    assert "invocation_id" in str(error)
    changed[0] = False
    assert (await lab.run(invocation_id=await lab.first_invocation())).outcome.output == "b(yes)"


@pytest.mark.parametrize("where", ["node", "agent node", "under an agent", "child"])
async def test_rpl_8_a_changed_inner_graph_is_refused_too(kit: Any, where: str) -> None:
    """Where the inner graph is a node, an agent or below one nothing is stored before; a child is met when it runs."""
    changed = [False]

    def build() -> Any:
        edges = START >> handoff("ask", "q") >> step("b")
        inner = Workflow("inner", edges >> step("c") if changed[0] else edges)
        if where == "under an agent":
            return SequentialAgent(name="root", sub_agents=[inner.as_agent()])

        @node
        async def parent(value: Any, ctx: NodeContext) -> Any:
            return await ctx.run_node(inner, value)

        return Workflow(
            "wf", START >> {"node": inner, "agent node": inner.as_agent(), "child": parent}[where]
        ).as_agent()

    lab = kit.Lab(build)
    await lab.run("hi")
    before = len(await lab.events())
    changed[0] = True
    with pytest.raises(GraphChanged if where != "child" else NodeRunError, match='workflow "inner" has changed'):
        await answered(lab, {"q": "yes"})
    changed[0] = False
    if where == "child":
        assert (await lab.run(invocation_id=await lab.first_invocation())).outcome.output == "b(yes)"
        return
    assert len(await lab.events()) == before
    assert (await answered(lab, {"q": "yes"})).outcome.kind == "completed"


async def test_ask_3_a_question_of_a_child_counts_for_every_ancestor(kit: Any) -> None:
    """RPL-2; WT-13: answering an inner question does not end the sub-workflow."""
    inner = Workflow("inner", START >> handoff("ask", "q") >> step("rest"))
    lab = kit.Lab(Workflow("wf", START >> inner >> step("end")).as_agent)
    assert (await lab.run("hi")).waits_for == ["q"]
    assert (await answered(lab, {"q": "yes"})).outcome.output == "end(rest(yes))"


async def test_wt_33_a_failed_sibling_runs_again_and_the_question_stays_open(kit: Any) -> None:
    broken = [True]
    ran: list[str] = []

    @node
    async def sibling(value: str) -> None:
        ran.append("sibling")
        if broken[0]:
            raise OSError("no")

    lab = kit.Lab(
        Workflow("wf", START >> handoff("ask", "q", ran=ran) >> step("after", ran), START >> sibling).as_agent
    )
    assert isinstance((await lab.run("hi")).error, OSError)
    broken[0] = False
    assert list((await lab.session()).open_calls) == ["q"]
    turn = await answered(lab, {"q": "yes"})
    assert turn.outcome.kind == "completed"
    assert ran == ["ask", "sibling", "sibling", "after"] or ran == ["ask", "sibling", "after", "sibling"]


async def test_wt_35_what_stands_before_the_question_happens_again(kit: Any) -> None:
    @node
    async def chatty(value: str, ctx: NodeContext) -> str:
        await ctx.emit(Event(content=text_content("thinking")))
        return str(await ctx.request_input("k"))

    lab = kit.Lab(Workflow("wf", START >> chatty).as_agent)
    turn = await lab.run("hi")
    await answered(lab, {turn.waits_for[0]: "x"})
    assert [event.text for event in await lab.events() if event.text == "thinking"] == ["thinking", "thinking"]


@pytest.mark.parametrize("in_graph", [True, False])
async def test_ans_3_holds_for_nodes_that_the_tools_of_an_agent_run(kit: Any, in_graph: bool) -> None:
    from hookwork import ToolContext
    from hookwork_llm import LlmAgent, tool
    from hookwork_testkit import ScriptedModel, call

    @tool
    async def work(ctx: ToolContext) -> str:
        """Works."""

        @node
        async def child(value: Any, ctx: NodeContext) -> str:
            return str(await ctx.request_input("k", schema=int))

        return str(await ctx.run_node(child))

    def build() -> Any:
        def respond(request: Any) -> Any:
            done = any(part.function_response for content in request.contents for part in content.parts)
            return "done" if done else call("work")

        agent = LlmAgent(name="ag", model=ScriptedModel(respond), tools=[work])
        return Workflow("wf", START >> agent).as_agent() if in_graph else agent

    lab = kit.Lab(build)
    (question,) = (await lab.run("hi")).waits_for
    with pytest.raises(InvalidResumeResponse):
        await answered(lab, {question: "many"})
    turn = await answered(lab, {question: "3"})
    responses = [response.response for event in turn.events for response in event.function_responses]
    assert responses == [{"result": "3"}]


async def test_ans_3_an_answer_that_a_changed_question_does_not_take_is_refused_by_its_name(kit: Any) -> None:
    """The schema of a question changed while another question of the node waited."""
    schema: Any = str

    def build() -> Any:
        @node
        async def ask(value: Any, ctx: NodeContext) -> Any:
            return [await ctx.request_input("k", schema=schema), await ctx.request_input("l")]

        return Workflow("wf", START >> ask).as_agent()

    lab = kit.Lab(build)
    (first,) = (await lab.run("hi")).waits_for
    (second,) = (await answered(lab, {first: "many"})).waits_for
    schema = int
    with pytest.raises(InvalidResumeResponse) as caught:
        await answered(lab, {second: "x"})
    assert first in str(caught.value)
    assert "many" not in str(caught.value)
    schema = str  # the way back that the error names
    turn = await lab.run(invocation_id=(await lab.events())[-1].invocation_id)
    assert turn.outcome.output == ["many", "x"]


@pytest.mark.parametrize("style", [handoff, rerun])
async def test_ans_3_a_recorded_answer_that_does_not_fit_counts_as_none(kit: Any, style: Any) -> None:
    """WT-21: written by another kit without a check; the question is asked again and a valid answer works."""
    from hookwork.records.event import new_event

    def build() -> Any:
        if style is handoff:
            return Workflow("wf", START >> handoff("ask", "q", schema={"type": "integer"})).as_agent()

        @node
        async def ask(value: Any, ctx: NodeContext) -> Any:
            return await ctx.request_input("k", schema=int)

        return Workflow("wf", START >> ask).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    (question,) = turn.waits_for
    bad = answers({question: {"result": "no number"}})
    async with lab.store.opened() as service:
        event = new_event(turn.outcome.invocation_id, author="user", content=bad)
        await service.append_event(await lab.session(), event)
    turn = await lab.run(invocation_id=turn.outcome.invocation_id)
    assert turn.error is None
    assert turn.waits_for == [question]
    assert (await answered(lab, {question: 7})).outcome.output == 7
