"""Scene S6 of the activations spec: a tool of an agent node runs a child that pauses (ACT-20, ACT-23, ACT-24)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.workflow.flows import answers, step

from hookwork import Content, FunctionCall, FunctionResponse, Part, ToolContext
from hookwork.errors import NothingToResume
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel
from hookwork_workflow import START, NodeContext, Workflow, WorkflowAgent, node


def build(ran: list[str]) -> WorkflowAgent:
    @node
    async def child(value: str, ctx: NodeContext) -> str:
        ran.append(f"child {value}")
        return "fast" if value == "first" else f"slow {await ctx.request_input('ok')}"

    @tool
    async def t(which: str, ctx: ToolContext) -> str:
        """Runs a child."""
        ran.append(f"t {which}")
        return str(await ctx.run_node(child, which))

    @tool
    def side() -> str:
        """Stands beside."""
        ran.append("side")
        return "side"

    def turn(*calls: tuple[str, str, dict[str, Any]]) -> Content:
        parts = [Part(function_call=FunctionCall(id=i, name=name, args=args)) for name, i, args in calls]
        return Content(role="model", parts=parts)

    def respond(request: Any) -> Any:
        answered = sum(part.function_response is not None for c in request.contents for part in c.parts)
        ran.append("model")
        if answered == 0:
            return turn(("t", "a1", {"which": "first"}))
        if answered == 1:
            return turn(("t", "a2", {"which": "second"}), ("side", "a3", {}))
        return "ag text"

    agent = LlmAgent(name="ag", model=ScriptedModel(respond), tools=[t, side])
    return Workflow("wf", START >> agent >> step("after", ran)).as_agent()


def lines(events: Any) -> list[str]:
    shown = []
    for event in events:
        calls = [f"call {c.name}#{(c.id or '').partition(':')[0]}" for c in event.function_calls]
        responses = [f"response {r.name}#{(r.id or '').partition(':')[0]}" for r in event.function_responses]
        said = [] if event.output is None else [f"output {event.output}"]
        text = [event.text] if event.text else []
        shown.append(" ".join([event.path or "U", *calls, *responses, *said, *text]))
    return shown


FIRST = [
    "U hi",
    "wf@1/ag@1 call t#a1",
    "wf@1/ag@1/t@1-1/child@1 output fast",
    "wf@1/ag@1 response t#a1",
    "wf@1/ag@1 call t#a2 call side#a3",
    "wf@1/ag@1/t@2-1/child@1 call adk_request_input#ok",
    "wf@1/ag@1 response side#a3",
]
SECOND = [
    "U response adk_request_input#ok",
    "wf@1/ag@1/t@2-1/child@1 output slow yes",
    "wf@1/ag@1 response t#a2",
    "wf@1/ag@1 ag text",
    "wf@1/after@1 output after(ag text)",
]


async def test_act_24_a_tool_of_an_agent_node_runs_a_child_that_pauses(kit: Any) -> None:
    ran: list[str] = []
    lab = kit.Lab(lambda: build(ran))
    turn = await lab.run("hi")
    assert lines(await lab.events()) == FIRST
    (question,) = turn.waits_for
    assert question == f"ok:{turn.outcome.invocation_id}:wf@1/ag@1/t@2-1/child@1"
    ran.clear()
    turn = await lab.run(answers({question: {"result": "yes"}}))
    assert lines(await lab.events()) == FIRST + SECOND
    # Again: the bodies of t (call a2) and child from the top. Not: side, call a1, the model turn before.
    assert ran == ["t second", "child second", "model", "after"]
    assert turn.outcome.output == "after(ag text)"


@pytest.mark.parametrize("crash_after", range(1, len(FIRST) + len(SECOND) + 1))
async def test_act_24_with_a_crash_behind_every_event(kit: Any, crash_after: int) -> None:
    ran: list[str] = []
    lab = kit.Lab(lambda: build(ran))
    lab.store.crash_after = crash_after
    message: Any = "hi"
    invocation_id: str | None = None
    for _ in range(6):
        turn = await lab.run(message, invocation_id=invocation_id)
        if isinstance(turn.error, kit.Crash):
            lab.store.revive()
            message, invocation_id = None, await lab.first_invocation()
            continue
        assert turn.error is None or isinstance(turn.error, NothingToResume)
        waiting = list((await lab.session()).open_calls)
        if not waiting:
            break
        message, invocation_id = answers({waiting[0]: {"result": "yes"}}), None
    stored = lines(await lab.events())
    assert sorted(stored[: len(FIRST)]) == sorted(FIRST)
    assert stored[len(FIRST) :] == SECOND
    times = Counter(ran)
    assert times["after"] == 1 or crash_after >= len(FIRST) + len(SECOND)
    with pytest.raises(NothingToResume):
        raise (await lab.run(invocation_id=await lab.first_invocation())).error


async def test_act_22_two_such_children_one_answered_no_model_call_until_both(kit: Any) -> None:
    ran: list[str] = []

    def two() -> WorkflowAgent:
        @node
        async def child(value: str, ctx: NodeContext) -> str:
            return f"{value} {await ctx.request_input('ok')}"

        @tool
        async def t(which: str, ctx: ToolContext) -> str:
            """Runs a child."""
            return str(await ctx.run_node(child, which))

        def respond(request: Any) -> Any:
            ran.append("model")
            answered = sum(part.function_response is not None for c in request.contents for part in c.parts)
            if answered:
                return "done"
            calls = [Part(function_call=FunctionCall(id=i, name="t", args={"which": i})) for i in ("a", "b")]
            return Content(role="model", parts=calls)

        agent = LlmAgent(name="ag", model=ScriptedModel(respond), tools=[t])
        return Workflow("wf", START >> agent).as_agent()

    lab = kit.Lab(two)
    first, second = (await lab.run("hi")).waits_for
    turn = await lab.run(answers({second: {"result": "2"}}))
    assert (turn.waits_for, ran) == ([first], ["model"])
    turn = await lab.run(answers({first: {"result": "1"}}))
    assert (turn.outcome.output, ran) == ("done", ["model", "model"])


async def test_act_25_an_answered_sibling_does_not_run_the_others_again(kit: Any) -> None:
    ran: list[str] = []

    def asking(name: str) -> Any:
        @node(name=name)
        async def body(value: str, ctx: NodeContext) -> str:
            ran.append(name)
            return str(await ctx.request_input("k"))

        return body

    flow = Workflow("wf", START >> (asking("a"), asking("b")) >> step("z", give=lambda value: None))
    lab = kit.Lab(flow.as_agent)
    first, second = (await lab.run("hi")).waits_for
    turn = await lab.run(answers({second: {"result": "x"}}))
    assert (ran, turn.waits_for) == (["a", "b", "b"], [first])
    response = FunctionResponse(id=first, name="x", response={"result": "y"})
    turn = await lab.run(Content(role="user", parts=[Part(function_response=response)]))
    assert (ran, turn.outcome.kind) == (["a", "b", "b", "a"], "completed")
