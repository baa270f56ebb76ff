"""A text in the place of `set_model_response` is judged like any other reply (LLM-10, OUT-5, OUT-6)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Runner
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["city", "n"],
}
GOOD = {"city": "Rome", "n": 3}


@tool
def look() -> dict[str, Any]:
    """Looks."""
    return {"seen": 1}


async def answered(model: ScriptedModel, **options: Any) -> tuple[Any, Any]:
    agent = LlmAgent(name="a", model=model, output_schema=CITY, output_key="out", tools=[look], **options)
    async with Runner.in_memory(agent) as runner, runner.run(user_id="u", message="go") as run:
        outcome = await run.wait()
    return outcome, run.session


async def test_out_5_an_object_written_as_text_counts() -> None:
    model = ScriptedModel([call("look"), 'Here: {"city": "Rome", "n": 3}'])
    outcome, session = await answered(model)
    assert session.state["out"] == GOOD
    assert outcome.final_event.error_code is None


async def test_out_6_prose_gets_another_try_that_names_the_tool() -> None:
    model = ScriptedModel([call("look"), "It is Rome.", call("set_model_response", city="Rome", n=3)])
    outcome, session = await answered(model)
    assert "set_model_response" in model.prompts[2][-1].text
    assert session.state["out"] == GOOD
    assert outcome.final_event.text == '{"city": "Rome", "n": 3}'


@pytest.mark.parametrize("retries", [0, 1])
async def test_out_6_prose_alone_ends_in_an_error_event_and_never_reaches_the_state(retries: int) -> None:
    outcome, session = await answered(ScriptedModel(["It is Rome."] * 5), output_retries=retries)
    assert outcome.kind == "completed"
    assert outcome.final_event.error_code == "INVALID_OUTPUT"
    assert "out" not in session.state
