"""Handing over to another agent (core §2.5, §3.2; activations ACT-17, ACT-18)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.context import InvocationContext, ToolContext
from hookwork.errors import ConfigurationError, LlmCallLimitError
from hookwork.invocation import RunConfig
from hookwork.records.content import Content, FunctionCall, Part, text_content
from hookwork.records.event import Event
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call


def to(name: str, call_id: str | None = None) -> Part:
    return call("transfer_to_agent", call_id, agent_name=name)


def enum_of(request: Any) -> list[str]:
    (declaration,) = [d for d in request.config.function_declarations() if d.name == "transfer_to_agent"]
    return list(declaration.parameters_json_schema["properties"]["agent_name"]["enum"])


async def says(ctx: InvocationContext) -> AsyncIterator[Event]:
    yield Event(content=text_content("custom"))


async def test_core_7_scene_transfer(runner_factory: Any, play: Any) -> None:
    b_model = ScriptedModel(["B here.", "B again."])
    b = LlmAgent(name="b", model=b_model, description="Knows b.")
    a = LlmAgent(name="a", model=ScriptedModel([to("b", "c1")]), sub_agents=[b])
    async with runner_factory(a) as runner:
        turn = await play(runner)
        assert turn.scene == ["a: +transfer_to_agent", "a: -transfer_to_agent", "b: B here."]
        response = turn.events[1].function_responses[0]
        assert (response.response, turn.events[1].actions.transfer_to_agent) == ({}, "b")
        assert [event.path for event in turn.events] == ["a@1", "a@1", "a@1/b@1"]
        assert turn.outcome.kind == "completed"
        assert turn.outcome.final_event.text == "B here."
        again = await play(runner, "and now?")
    assert again.scene == ["b: B again."]  # RUN-33: the next turn starts at b
    for prompt in b_model.prompts:
        assert_valid_prompt(prompt)


async def test_trf_1_targets_in_order(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([to("b"), "done"])
    leaf = Agent(name="leaf", body=says)
    b = LlmAgent(name="b", model=model, sub_agents=[leaf])
    root = LlmAgent(
        name="root", model=model, sub_agents=[LlmAgent(name="a", model=model), b, Agent(name="c", body=says)]
    )
    async with runner_factory(root) as runner:
        await play(runner)
    assert enum_of(model.requests[0]) == ["a", "b", "c"]
    assert enum_of(model.requests[1]) == ["leaf", "root", "a", "c"]


@pytest.mark.parametrize(
    ("flags", "targets"),
    [
        ({"disallow_transfer_to_parent": True}, ["peer"]),
        ({"disallow_transfer_to_peers": True}, ["root"]),
        ({"disallow_transfer_to_parent": True, "disallow_transfer_to_peers": True}, None),
    ],
)
async def test_trf_1_the_disallow_flags(runner_factory: Any, play: Any, flags: dict[str, Any], targets: Any) -> None:
    model = ScriptedModel([to("b"), "done"])
    b = LlmAgent(name="b", model=model, **flags)
    root = LlmAgent(name="root", model=model, sub_agents=[b, LlmAgent(name="peer", model=model)])
    async with runner_factory(root) as runner:
        await play(runner)
    request = model.requests[1]
    if targets is None:
        assert request.declared == []
        assert "transfer_to_agent" not in request.instruction
    else:
        assert enum_of(request) == targets
        assert ("root" in request.instruction) is ("root" in targets)  # the parent is named only if it is a target


async def test_trf_2_no_targets_no_tool_and_descriptions_are_told(runner_factory: Any, play: Any) -> None:
    alone = ScriptedModel(["done"])
    async with runner_factory(LlmAgent(name="a", model=alone)) as runner:
        await play(runner)
    assert alone.requests[0].declared == []
    model = ScriptedModel(["done"])
    helper = LlmAgent(name="helper", model=model, description="Books flights.")
    async with runner_factory(LlmAgent(name="a", model=model, sub_agents=[helper])) as runner:
        await play(runner)
    assert "helper: Books flights." in model.requests[0].instruction


@pytest.mark.parametrize("args", [{}, {"agent_name": ""}, {"agent_name": " "}, {"agent_name": 7}, {"agent_name": None}])
async def test_trf_3_a_bad_name_is_a_tool_error(runner_factory: Any, play: Any, args: dict[str, Any]) -> None:
    model = ScriptedModel([Part(function_call=FunctionCall(name="transfer_to_agent", args=args)), "Stay."])
    b = LlmAgent(name="b", model=model)
    async with runner_factory(LlmAgent(name="a", model=model, sub_agents=[b])) as runner:
        turn = await play(runner)
    assert "b" in turn.events[1].function_responses[0].response["error"]
    assert turn.scene[-1] == "a: Stay."


async def test_trf_4_a_name_that_is_no_target_raises(runner_factory: Any, play: Any) -> None:
    """Also when it is an agent of the tree: what the flags took away cannot be reached by name."""
    model = ScriptedModel([to("b"), to("root")])
    b = LlmAgent(name="b", model=model, disallow_transfer_to_parent=True)
    root = LlmAgent(name="root", model=model, sub_agents=[b, LlmAgent(name="c", model=model)])
    async with runner_factory(root) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, ConfigurationError)
    assert "'b'" in str(turn.error)
    assert "'root'" in str(turn.error)


async def test_trf_6_an_ordinary_tool_may_hand_over_and_the_last_one_wins(runner_factory: Any, play: Any) -> None:
    @tool
    async def route(ctx: ToolContext, where: str) -> dict[str, Any]:
        """Route."""
        ctx.actions.transfer_to_agent = where
        return {}

    model = ScriptedModel([[call("route", where="b"), call("route", where="c")]])
    subs = [LlmAgent(name=name, model=ScriptedModel([name])) for name in ("b", "c")]
    async with runner_factory(LlmAgent(name="a", model=model, tools=[route], sub_agents=subs)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +route +route", "a: -route -route", "c: c"]


async def test_act_17_the_callers_after_agent_runs_at_the_hand_over(runner_factory: Any, play: Any) -> None:
    b = LlmAgent(name="b", model=ScriptedModel(["B."]), after_agent=lambda ctx: text_content("b over"))
    a = LlmAgent(
        name="a", model=ScriptedModel([to("b")]), sub_agents=[b], after_agent=lambda ctx: text_content("a over")
    )
    async with runner_factory(a) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +transfer_to_agent", "a: -transfer_to_agent", "a: a over", "b: B.", "b: b over"]


async def test_act_17_a_chain_of_transfers_does_not_nest(runner_factory: Any, play: Any) -> None:
    """Back and forth, more often than Python could recurse; ended by the call limit (TRF-5)."""
    a = LlmAgent(name="a", model=ScriptedModel(lambda request: to("b")))
    b = LlmAgent(name="b", model=ScriptedModel(lambda request: to("a")))
    root = LlmAgent(name="root", model=ScriptedModel([to("a")]), sub_agents=[a, b])
    async with runner_factory(root, config=RunConfig(max_llm_calls=600)) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, LlmCallLimitError)
    assert turn.outcome.kind == "limit"
    assert len(turn.events) == 1200
    assert turn.events[-1].path == "root@1/a@t300"  # call 1 by root, then a and b in turn


async def test_act_18_an_approval_in_the_same_batch_comes_first(runner_factory: Any, play: Any, answer: Any) -> None:
    runs: list[str] = []

    @tool(require_confirmation=True)
    async def go() -> dict[str, Any]:
        """Go."""
        runs.append("go")
        return {"done": True}

    b = LlmAgent(name="b", model=ScriptedModel(["B."]))
    a = LlmAgent(name="a", model=ScriptedModel([[call("go", "c1"), to("b", "c2")]]), tools=[go], sub_agents=[b])
    async with runner_factory(a) as runner:
        paused = await play(runner)
        assert paused.scene == [
            "a: +go +transfer_to_agent",
            "a: -go -transfer_to_agent",
            "a: +adk_request_confirmation",
        ]
        assert paused.outcome.kind == "paused"
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert done.scene == ["a: -go", "b: B."]
    assert runs == ["go"]
    assert done.outcome.kind == "completed"


async def test_hitl_15_an_approved_call_may_hand_over(runner_factory: Any, play: Any, answer: Any) -> None:
    @tool(require_confirmation=True)
    async def escalate(ctx: ToolContext) -> dict[str, Any]:
        """Hand over to b."""
        ctx.actions.transfer_to_agent = "b"
        return {}

    b = LlmAgent(name="b", model=ScriptedModel(["B."]))
    a = LlmAgent(name="a", model=ScriptedModel([call("escalate", "c1")]), tools=[escalate], sub_agents=[b])
    async with runner_factory(a) as runner:
        paused = await play(runner)
        done = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert done.scene == ["a: -escalate", "b: B."]


async def test_trf_5_a_paused_target_pauses_the_run_and_the_caller_is_not_asked_again(
    runner_factory: Any, play: Any, answer: Any
) -> None:
    @tool(long_running=True)
    async def wait() -> None:
        """Wait."""

    a_model = ScriptedModel([to("b")])
    entered: list[str] = []
    b = LlmAgent(
        name="b",
        model=ScriptedModel([call("wait", "c1"), "B."]),
        tools=[wait],
        before_agent=lambda ctx: entered.append(f"b resuming={ctx.resuming}"),
    )
    a = LlmAgent(name="a", model=a_model, sub_agents=[b], before_agent=lambda ctx: entered.append("a"))
    async with runner_factory(a) as runner:
        paused = await play(runner)
        assert (paused.outcome.kind, paused.open_ids) == ("paused", ["c1"])
        done = await play(runner, answer("c1", {"ok": 1}, name="wait"))
    assert done.scene == ["b: B."]
    assert a_model.calls == 1
    assert entered == ["a", "b resuming=False", "b resuming=True"]


async def test_trf_4_a_custom_agent_as_target(runner_factory: Any, play: Any) -> None:
    a = LlmAgent(name="a", model=ScriptedModel([to("c"), "A again."]), sub_agents=[Agent(name="c", body=says)])
    async with runner_factory(a) as runner:
        turn = await play(runner)
        assert turn.scene[:3] == ["a: +transfer_to_agent", "a: -transfer_to_agent", "c: custom"]
        again = await play(runner, "next")
    assert again.scene == ["a: A again."]  # RUN-33: only LLM agents are transferable


async def test_con_4_the_target_is_told_what_the_caller_did_as_text(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel(["B."])
    b = LlmAgent(name="b", model=model)
    a = LlmAgent(name="a", model=ScriptedModel([["Let me hand over.", to("b")]]), sub_agents=[b])
    async with runner_factory(a) as runner:
        await play(runner)
    prompt = model.prompts[0]
    assert_valid_prompt(prompt)
    assert {content.role for content in prompt} == {"user"}
    assert any("Let me hand over." in content.text for content in prompt)
    assert not any(content.function_calls for content in prompt)


async def test_run_35_routing_root_starts_every_message_at_the_root(runner_factory: Any, play: Any) -> None:
    b = LlmAgent(name="b", model=ScriptedModel(["B."]))
    a = LlmAgent(name="a", model=ScriptedModel([to("b"), "A."]), sub_agents=[b])
    async with runner_factory(a, routing="root") as runner:
        await play(runner)
        again = await play(runner, "next")
    assert again.scene == ["a: A."]


async def test_agt_17_the_targets_events_are_forwarded_unchanged(runner_factory: Any, play: Any, stored: Any) -> None:
    b = LlmAgent(name="b", model=ScriptedModel([Content(role="model", parts=[Part(text="B.")])]), output_key="from_b")
    a = LlmAgent(name="a", model=ScriptedModel([to("b")]), sub_agents=[b], output_key="from_a")
    async with runner_factory(a) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert session.events[-1] == turn.events[-1]
    assert dict(session.state) == {"from_b": "B."}  # LLM-10: not the caller's key
