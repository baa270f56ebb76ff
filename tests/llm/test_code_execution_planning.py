"""Planners: their instruction, what becomes a thought, and the loop they make (core §4.2 stage 9, B-7)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Content, ModelResponse, Part, Runner, text_content
from hookwork.errors import ConfigurationError
from hookwork_llm import LlmAgent, Planner, PlanReActPlanner
from hookwork_llm.planning.plan_react import ACTION, FINAL_ANSWER, INSTRUCTION, PLANNING, REASONING, REPLANNING
from hookwork_testkit import ScriptedModel, make_context
from hookwork_testkit.steps import call


def processed(*parts: Part | str) -> list[tuple[str | None, bool]] | None:
    made = [Part(text=part) if isinstance(part, str) else part for part in parts]
    response = ModelResponse(content=Content(role="model", parts=made))
    changed = PlanReActPlanner().process_response(make_context("callback"), response)
    if changed is None:
        return None
    assert changed.content is not None
    return [(part.text, bool(part.thought)) for part in changed.content.parts]


def test_everything_but_the_final_answer_becomes_a_thought() -> None:
    text = f"{PLANNING}\n1. look\n{REASONING}\nfine\n{FINAL_ANSWER}\nIt is 4.\n"
    assert processed(text) == [(f"{PLANNING}\n1. look\n{REASONING}\nfine\n", True), ("It is 4.", False)]
    assert processed(f"{PLANNING}\n1. look", call("look", id="c1")) == [(f"{PLANNING}\n1. look", True), (None, False)]
    assert processed(f"{REPLANNING} x", "more of it", f"{FINAL_ANSWER} y", "and z") == [
        (f"{REPLANNING} x", True),
        ("more of it", True),
        ("y", False),
        ("and z", False),
    ]
    assert processed(f"{FINAL_ANSWER} not yet {FINAL_ANSWER} now") == [
        (f"{FINAL_ANSWER} not yet ", True),
        ("now", False),
    ]


def test_what_has_no_tag_stays_as_it_is() -> None:
    assert processed("plain") is None
    assert processed(Part(text=f"{PLANNING} x", thought=True), "plain") is None
    assert PlanReActPlanner().process_response(make_context("callback"), ModelResponse(error_code="X")) is None


async def test_b_7_a_planned_turn() -> None:
    def look() -> dict[str, int]:
        """Look."""
        return {"seen": 4}

    model = ScriptedModel(
        [
            [Part(text=f"{PLANNING}\n1. look"), call("look", id="c1")],
            f"{REASONING}\nI have it.\n{FINAL_ANSWER}\nIt is 4.",
        ]
    )
    agent = LlmAgent(name="root", model=model, instruction="Be exact.", tools=[look], planner=PlanReActPlanner())
    async with Runner.in_memory(agent) as runner:
        assert await runner.ask("how many?", session_id="s") == "It is 4."
        run = runner.run(user_id="user-1", session_id="s")
        assert run.session is None
        await run.aclose()
    assert model.requests[0].instruction.startswith("Be exact.")
    assert INSTRUCTION in model.requests[0].instruction
    first = model.prompts[1][1].parts[0]
    assert (first.text, first.thought) == (f"{PLANNING}\n1. look", None)  # the model sees its plan again


async def test_flow_2_a_plan_without_an_answer_is_gone_on_with() -> None:
    model = ScriptedModel([f"{PLANNING}\n1. think", f"{FINAL_ANSWER} done"])
    agent = LlmAgent(name="root", model=model, planner=PlanReActPlanner())
    async with Runner.in_memory(agent) as runner:
        assert await runner.ask("go") == "done"
    assert model.calls == 2
    assert ACTION in INSTRUCTION


async def test_a_planner_of_ones_own_may_be_async_and_say_nothing() -> None:
    class Own:
        async def build_instruction(self, ctx: Any, request: Any) -> str | None:
            return f"The user said {len(request.contents)} thing(s)."

        async def process_response(self, ctx: Any, response: ModelResponse) -> ModelResponse | None:
            ctx.state["heard"] = response.text
            return response.replace(content=text_content(response.text.upper()))

    class Silent:
        def build_instruction(self, ctx: Any, request: Any) -> None:
            return None

        def process_response(self, ctx: Any, response: Any) -> None:
            return None

    assert isinstance(Own(), Planner)
    model = ScriptedModel(["hello", "hello"])
    async with Runner.in_memory(LlmAgent(name="root", model=model, planner=Own())) as runner:
        run = runner.run(user_id="u", message="hi")
        outcome = await run.wait()
        assert outcome.final_event is not None
        assert outcome.final_event.text == "HELLO"
        assert run.session is not None
        assert run.session.state["heard"] == "hello"
    assert "The user said 1 thing(s)." in model.requests[0].instruction
    async with Runner.in_memory(LlmAgent(name="root", model=model, planner=Silent())) as runner:
        assert await runner.ask("hi") == "hello"
    assert "thing(s)" not in model.requests[1].instruction


@pytest.mark.parametrize("value", [3, "plan", PlanReActPlanner, object()])
def test_what_is_no_planner_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="planner is an object with build_instruction and process_response"):
        LlmAgent(name="root", planner=value)
