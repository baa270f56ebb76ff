"""Agents with a body of their own as nodes of a graph: what they hear when it goes on (core RES-4, ACT-16)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import Agent, Content, Event, FunctionCall, FunctionResponse, Part, text_content
from hookwork_workflow import START, Join, ParallelAgent, SequentialAgent, Workflow

#: What each agent heard, run by run: its input, the ids of the answers and the text of its message.
Heard = dict[str, list[tuple[Any, list[str], str]]]


def asker(name: str, heard: Heard, *, questions: int = 1) -> Agent:
    """Asks with long-running calls of its own, then says who answered."""

    async def body(ctx: Any) -> AsyncIterator[Event]:
        message = ctx.user_content
        ids = [response.id or "" for response in message.function_responses] if message is not None else []
        heard.setdefault(name, []).append((ctx.input, ids, message.text if message is not None else ""))
        for number in range(questions):
            call_id = f"{name}-{number}"
            if not any(call.id == call_id for call in ctx.view.calls):
                call = FunctionCall(id=call_id, name="look")
                yield Event(
                    content=Content(role="model", parts=[Part(function_call=call)]), long_running_tool_ids=(call_id,)
                )
        if not ctx.view.open_calls:
            yield Event(content=text_content(f"{name} done"))

    return Agent(name=name, body=body)


def listener(name: str, heard: Heard) -> Agent:
    """Asks nothing."""
    return asker(name, heard, questions=0)


def given(ids: list[str], text: str = "") -> Content:
    parts = [Part(function_response=FunctionResponse(id=one, name="look", response={"v": one})) for one in ids]
    return Content(role="user", parts=[*parts, *([Part(text=text)] if text else [])])


async def test_res_4_a_generic_agent_node_gets_only_the_answers_it_waits_for(kit: Any) -> None:
    """Text beside the answers is allowed and seen (RES-6); the input is that of the first time (ACT-16)."""
    heard: Heard = {}

    def build() -> Agent:
        flow = START >> (asker("a", heard), asker("b", heard)) >> Join("both") >> listener("c", heard)
        return Workflow("wf", flow).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert turn.waits_for == ["a-0", "b-0"]
    turn = await lab.run(given(["b-0", "a-0"], "both at once"))
    assert turn.outcome.kind == "completed"
    assert heard["a"] == [("hi", [], "hi"), ("hi", ["a-0"], "both at once")]
    assert heard["b"] == [("hi", [], "hi"), ("hi", ["b-0"], "both at once")]
    assert [entry[1:] for entry in heard["c"]] == [([], "both at once")]


async def test_res_4_answers_one_at_a_time_each_reach_their_asker_once(kit: Any) -> None:
    """CASE-HITL-3 for agents with a body of their own: the other one is not run again (ACT-25)."""
    heard: Heard = {}

    def build() -> Agent:
        return Workflow("wf", START >> (asker("a", heard, questions=2), asker("b", heard)) >> Join("j")).as_agent()

    lab = kit.Lab(build)
    await lab.run("hi")
    turn = await lab.run(given(["a-1"]))
    assert turn.waits_for == ["a-0", "b-0"]
    turn = await lab.run(given(["b-0"]))
    assert turn.waits_for == ["a-0"]
    turn = await lab.run(given(["a-0"]))
    assert turn.outcome.kind == "completed"
    assert [entry[1] for entry in heard["a"]] == [[], ["a-1"], ["a-0"]]
    assert [entry[1] for entry in heard["b"]] == [[], ["b-0"]]


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_res_4_below_a_composed_agent_too(kit: Any, kind: Any) -> None:
    heard: Heard = {}

    def build() -> Agent:
        return kind(name="root", sub_agents=[asker("a", heard), asker("b", heard)])

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    turn = await lab.run(given(turn.waits_for))
    if kind is SequentialAgent:
        turn = await lab.run(given(turn.waits_for))
    assert turn.outcome.kind == "completed"
    second = [[], ["a-0"]], ([[], ["b-0"]])
    assert ([entry[1] for entry in heard["a"]], [entry[1] for entry in heard["b"]]) == second


async def test_res_4_the_agent_that_asked_sees_the_answers_of_what_it_started(kit: Any) -> None:
    """What waits below an agent is waited for by it."""
    heard: Heard = {}
    child = asker("child", heard)

    async def body(ctx: Any) -> AsyncIterator[Event]:
        message = ctx.user_content
        ids = [response.id or "" for response in message.function_responses] if message is not None else []
        heard.setdefault("parent", []).append((None, ids, ""))
        async for event in ctx.activate(child):
            yield event

    def build() -> Agent:
        parent = Agent(name="parent", body=body, sub_agents=[child])
        return Workflow("wf", START >> (parent, asker("other", heard)) >> Join("j")).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    turn = await lab.run(given(turn.waits_for))
    assert turn.outcome.kind == "completed"
    assert [entry[1] for entry in heard["parent"]] == [[], ["child-0"]]
    assert [entry[1] for entry in heard["child"]] == [[], ["child-0"]]
