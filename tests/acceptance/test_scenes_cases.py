"""CASE-HITL-2, CASE-FLOW-1 and CASE-FLOW-2 (c) as users met them: every run in a new process, on both stores."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance.agent_lab import Lab, World, lines_of

from hookwork_testkit import call
from hookwork_workflow import ParallelAgent, SequentialAgent


@pytest.mark.parametrize("confirmed", [True, False])
async def test_case_hitl_2_approval_deep_in_the_tree_then_the_rest_of_the_sequence(
    backend: Any, confirmed: bool
) -> None:
    """HITL-18, WFA-6: the asker sits in a sequence below a hand-over; its parents go on after it."""

    def build(world: World) -> Any:
        tools = [world.tool("look"), world.tool("go", require_confirmation=True)]
        plan = world.llm("plan", call("look", id="l1"), call("go", id="g1"), "planned", tools=tools)
        seq = SequentialAgent(name="seq", sub_agents=[plan, world.llm("report", "reported")])
        return world.llm("root", call("transfer_to_agent", id="t1", agent_name="seq"), sub_agents=[seq])

    lab = Lab(build, backend)
    first = await lab.run("do it")
    assert first.outcome is not None
    assert first.outcome.kind == "paused"
    second = await lab.run(await lab.answer({"r1": {"confirmed": confirmed}}))
    assert second.outcome is not None
    assert second.outcome.kind == "completed"
    assert second.invocation_id == first.invocation_id
    assert lab.world.ran == (["look", "go"] if confirmed else ["look"])
    assert [event.author for event in second.events] == ["plan", "plan", "report"]
    answer = second.events[0].function_responses[0]
    assert answer.name == "go"
    assert (answer.response == {"result": "ok"}) is confirmed
    assert second.outcome.final_event is not None
    assert second.outcome.final_event.text == "reported"
    lab.world.check_prompts()


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "in-parallel"])
async def test_case_flow_1_the_sequence_waits_for_the_human(backend: Any, beside: bool) -> None:
    begun: list[str] = []

    def build(world: World) -> Any:
        wait = world.tool("wait", None, long_running=True)
        ask: Any = world.llm("ask", call("wait", id="w1"), "asked", tools=[wait])
        if beside:
            ask = ParallelAgent(name="par", sub_agents=[ask, world.llm("other", "other done")])
        use = world.llm("use", "used", before_agent=lambda ctx: begun.append("use"))
        return SequentialAgent(name="seq", sub_agents=[ask, use])

    lab = Lab(build, backend)
    first = await lab.run("hi")
    assert first.outcome is not None
    assert first.outcome.kind == "paused"
    assert begun == []
    said = [line.split(" ")[-2:] for line in lines_of(first.events) if "other" in line]
    assert bool(said) is beside
    second = await lab.run(await lab.answer({"w1": {"result": "yes"}}))
    assert second.outcome is not None
    assert second.outcome.kind == "completed"
    assert begun == ["use"]
    assert [event.text for event in second.events] == ["asked", "used"]
    assert lab.world.ran == ["wait"]


async def test_case_flow_2_c_a_single_turn_helper_gives_its_result_to_the_root_in_both_turns(backend: Any) -> None:
    def build(world: World) -> Any:
        helper = world.llm("h", "42", mode="single_turn")
        steps = [call("h", id="c1", request="?"), "first: 42", call("h", id="c1", request="?"), "second: 42"]
        return world.llm("root", *steps, sub_agents=[helper])

    lab = Lab(build, backend)
    for turn in ("first", "second"):
        played = await lab.run(f"{turn} question")
        assert [event.author for event in played.events] == ["root", "h", "root", "root"]
        assert played.events[2].function_responses[0].response == {"result": "42"}
        assert played.events[3].text == f"{turn}: 42"
    lab.world.check_prompts()
