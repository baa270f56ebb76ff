"""Questions to people (workflow §5.1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.workflow.flows import answered, handoff, rerun, run_flow, step

from hookwork import Content, Event, Part
from hookwork.errors import InvalidResumeResponse, NothingToResume
from hookwork.platform import use_uuids
from hookwork_workflow import (
    REQUEST_INPUT,
    START,
    Join,
    NodeContext,
    RequestInput,
    Retry,
    Workflow,
    node,
    request_input_event,
)

# --- raising ----------------------------------------------------------------------------------------------------------


def test_ask_1_and_2_the_form_of_a_request() -> None:
    schema = {"type": "string"}
    request = RequestInput(interrupt_id="q1", message="Sure?", payload={"to": "x"}, response_schema=schema)
    event = request_input_event(request)
    assert REQUEST_INPUT == "adk_request_input"
    (call,) = event.function_calls
    assert (call.name, call.id, event.content.role) == ("adk_request_input", "q1", "model")
    assert call.args == {"interruptId": "q1", "message": "Sure?", "payload": {"to": "x"}, "responseSchema": schema}
    assert event.long_running_tool_ids == ("q1",)
    assert event.requested_input == request
    assert "responseSchema" not in request_input_event(RequestInput(interrupt_id="q")).function_calls[0].args


def test_ask_1_without_an_id_it_gets_a_uuid() -> None:
    with use_uuids(lambda: "fresh"):
        assert request_input_event(RequestInput()).long_running_tool_ids == ("fresh",)


async def test_ask_2_author_branch_and_the_open_call(kit: Any) -> None:
    flow = Workflow("wf", START >> (handoff("ask", schema={"type": "string"}), step("b", give=lambda v: None)))
    turn = await run_flow(kit, flow)
    event = next(event for event in turn.events if event.long_running_tool_ids)
    assert (event.author, event.branch, event.path) == ("wf", "ask@1", "wf@1/ask@1")
    (call,) = turn.outcome.open_calls
    assert (call.kind, call.message, call.response_schema) == ("input", "?", {"type": "string"})


async def test_ask_2_a_schema_in_the_other_spelling_is_read(kit: Any) -> None:
    """google-adk writes ``response_schema`` into the arguments and no ``requestedInput`` field."""
    from hookwork import FunctionCall

    call = FunctionCall(id="q", name="adk_request_input", args={"response_schema": {"type": "integer"}})

    @node
    async def ask(value: str) -> AsyncIterator[Any]:
        content = Content(role="model", parts=[Part(function_call=call)])
        yield Event(content=content, long_running_tool_ids=("q",))

    lab = kit.Lab(Workflow("wf", START >> ask).as_agent)
    assert (await lab.run("hi")).outcome.open_calls[0].response_schema == {"type": "integer"}
    with pytest.raises(InvalidResumeResponse):
        await answered(lab, {"q": "no number"})


async def test_ask_4_several_questions_and_several_askers(kit: Any) -> None:
    flow = Workflow("wf", START >> (handoff("a", "q1", "q2"), rerun("b", "k")) >> Join("j"))
    turn = await run_flow(kit, flow)
    assert len(turn.waits_for) == 3


async def test_ask_5_an_output_before_the_pause_is_dropped_on_resume(kit: Any) -> None:
    ran: list[str] = []

    @node(rerun_on_resume=True)
    async def eager(value: str, ctx: NodeContext) -> AsyncIterator[Any]:
        answer = ctx.resumed_input(ctx.interrupt_id("k"))
        yield Event(output="early" if not answer else f"late {answer}")
        if not answer:
            await ctx.request_input("k")

    lab = kit.Lab(Workflow("wf", START >> eager >> step("after", ran)).as_agent)
    turn = await lab.run("hi")
    assert turn.outcome.kind == "paused"
    assert ran == []
    assert (await answered(lab, {turn.waits_for[0]: "x"})).outcome.output == "after(late x)"


async def test_ask_5_an_error_after_raising_is_a_failure_not_a_wait(kit: Any) -> None:
    @node
    async def ask(value: str) -> AsyncIterator[Any]:
        yield RequestInput(interrupt_id="q")
        raise OSError("after asking")

    lab = kit.Lab(Workflow("wf", START >> ask).as_agent)
    assert isinstance((await lab.run("hi")).error, OSError)
    session = await lab.session()
    assert dict(session.open_calls) == {}
    assert [call.id for call in session.history().calls] == ["q"]
    with pytest.raises(NothingToResume):
        await answered(lab, {"q": "too late"})


async def test_ask_5_the_question_of_a_retried_attempt_waits_no_longer(kit: Any) -> None:
    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def ask(value: str, ctx: NodeContext) -> AsyncIterator[Any]:
        if ctx.attempt == 2:
            yield "no question"
            return
        yield RequestInput(interrupt_id="q")
        raise OSError("after asking")

    assert (await run_flow(kit, Workflow("wf", START >> ask))).outcome.output == "no question"


async def test_ask_6_the_two_ways_to_ask(kit: Any) -> None:
    """A yielded question hands its answer on, an awaited one runs the body again; the choice is on the event."""
    ran: list[str] = []
    lab = kit.Lab(Workflow("wf", START >> (handoff("h", ran=ran), rerun("r", ran=ran)) >> Join("j")).as_agent)
    turn = await lab.run("hi")
    rerun_id = f"k:{turn.outcome.invocation_id}:wf@1/r@1"
    assert turn.waits_for == ["h-q", rerun_id]
    turn = await answered(lab, {"h-q": "one", rerun_id: "two"})
    assert turn.outcome.output == {"h": "one", "r": ["two"]}
    assert ran == ["h", "r", "r"]


async def test_ask_6_a_configured_choice_wins(kit: Any) -> None:
    ran: list[int] = []

    @node(rerun_on_resume=True)
    async def again(value: str, ctx: NodeContext) -> AsyncIterator[Any]:
        ran.append(1)
        if "q" in ctx.resume_inputs:
            yield f"got {ctx.resume_inputs['q']}"
        else:
            yield RequestInput(interrupt_id="q")

    lab = kit.Lab(Workflow("wf", START >> again).as_agent)
    await lab.run("hi")
    assert (await answered(lab, {"q": "x"})).outcome.output == "got x"
    assert len(ran) == 2


async def test_ask_8_an_open_question_is_not_asked_again(kit: Any) -> None:
    lab = kit.Lab(Workflow("wf", START >> rerun("r", "k1", "k2")).as_agent)

    @node
    async def two(value: str, ctx: NodeContext) -> list[Any]:
        import asyncio

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.request_input(key)) for key in ("k1", "k2")]
        return [task.result() for task in tasks]

    lab = kit.Lab(Workflow("wf", START >> two).as_agent)
    first, second = (await lab.run("hi")).waits_for
    turn = await answered(lab, {second: "b"})
    assert turn.waits_for == [first]
    assert [event for event in turn.events if event.long_running_tool_ids] == []
    assert (await answered(lab, {first: "a"})).outcome.output == ["a", "b"]
