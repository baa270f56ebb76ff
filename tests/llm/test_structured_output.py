"""Replies that must have a form (core OUT-1 … OUT-6, CASE-OUT-1)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from hookwork import ModelCapabilities, Runner, RunOutcome
from hookwork.errors import ConfigurationError
from hookwork.records.session import Session
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


class City(BaseModel):
    city: str
    n: int


GOOD = {"city": "Rome", "n": 3}


@tool(inline=True)
def look() -> str:
    """Looks."""
    return "seen"


async def answered(agent: LlmAgent) -> tuple[RunOutcome, Session]:
    async with Runner(agent, sessions="memory:") as runner:
        outcome = await runner.run(message="go", **WHO).wait()
        return outcome, await runner.sessions.get_session(app_name=agent.name, **WHO)


async def test_out_1_without_tools_the_model_is_asked_for_the_schema() -> None:
    model = ScriptedModel(['{"city": "Rome", "n": 3}'])
    agent = LlmAgent(name="a", model=model, output_schema=City, output_key="out")
    _, session = await answered(agent)
    config = model.requests[0].config
    assert config.response_mime_type == "application/json"
    assert config.response_json_schema is not None
    assert set(config.response_json_schema["properties"]) == {"city", "n"}
    assert session.state["out"] == GOOD


async def test_out_1_a_model_that_combines_schema_and_tools_gets_both() -> None:
    model = ScriptedModel([call("look"), '{"city": "Rome", "n": 3}'])
    model.capabilities = ModelCapabilities(output_schema=True, output_schema_with_tools=True)
    _, session = await answered(LlmAgent(name="a", model=model, output_schema=City, output_key="out", tools=[look]))
    assert [d.name for d in model.requests[0].config.function_declarations()] == ["look"]
    assert model.requests[0].config.response_json_schema is not None
    assert session.state["out"] == GOOD


async def test_out_2_and_3_another_model_with_tools_answers_through_the_tool() -> None:
    model = ScriptedModel([call("look"), call("set_model_response", city="Rome", n=3)])
    agent = LlmAgent(name="a", model=model, output_schema=City, output_key="out", tools=[look])
    outcome, session = await answered(agent)
    assert [d.name for d in model.requests[0].config.function_declarations()] == ["set_model_response", "look"]
    assert "set_model_response" in model.requests[0].instruction
    assert model.requests[0].config.response_json_schema is None
    last = session.events[-1]
    assert (last.author, last.content.role if last.content else "") == ("a", "model")
    assert last.text == '{"city": "Rome", "n": 3}'
    assert last.is_final_response()
    assert outcome.final_event == last
    assert session.state["out"] == GOOD


async def test_out_3_a_failed_validation_goes_back_to_the_model() -> None:
    model = ScriptedModel([call("set_model_response", city="Rome"), call("set_model_response", city="Rome", n=3)])
    agent = LlmAgent(name="a", model=model, output_schema=City, output_key="out", tools=[look])
    _, session = await answered(agent)
    first = session.events[2].function_responses[0]
    assert "/n" in (first.response or {})["error"]
    assert session.state["out"] == GOOD
    assert_valid_prompt(model.prompts[-1], ids=False)


CASES = [
    '```json\n{"city": "Rome", "n": 3}\n```',
    '```\r\n{"city": "Rome", "n": 3}\r\n```',
    '<think>hm</think>{"city": "Rome", "n": 3}',
    'Here: {"city": "Rome", "n": 3}',
]


@pytest.mark.parametrize("reply", CASES)
async def test_case_out_1_the_object_is_read_and_the_text_stays_as_written(reply: str) -> None:
    model = ScriptedModel([reply])
    _, session = await answered(LlmAgent(name="a", model=model, output_schema=City, output_key="out"))
    assert session.state["out"] == GOOD
    assert session.events[-1].text == reply
    assert session.events[-1].error_code is None


async def test_out_6_a_wrong_reply_gets_one_more_try_with_the_validation_text() -> None:
    model = ScriptedModel(['{"city": 5}', '{"city": "Rome", "n": 3}'])
    outcome, session = await answered(LlmAgent(name="a", model=model, output_schema=City, output_key="out"))
    assert len(model.requests) == 2
    correction = model.prompts[1][-1]
    assert correction.role == "user"
    assert "/city" in correction.text
    assert "/n" in correction.text
    assert not any(event.text == correction.text for event in session.events)  # never stored
    failed = session.events[1]
    assert failed.error_code == "INVALID_OUTPUT"
    assert failed.text == '{"city": 5}'
    assert session.state["out"] == GOOD
    assert outcome.kind == "completed"


@pytest.mark.parametrize(("retries", "calls"), [(0, 1), (1, 2), (3, 4)])
async def test_out_6_tries_are_bounded_and_end_in_an_error_event(retries: int, calls: int) -> None:
    model = ScriptedModel(["no object"] * 10)
    agent = LlmAgent(name="a", model=model, output_schema=City, output_key="out", output_retries=retries)
    outcome, session = await answered(agent)
    assert len(model.requests) == calls
    assert outcome.kind == "completed"
    assert outcome.final_event is not None
    assert outcome.final_event.error_code == "INVALID_OUTPUT"
    assert "out" not in session.state


async def test_a_task_gives_its_result_through_finish_task_alone() -> None:
    booker = ScriptedModel([call("finish_task", city="Rome", n=3)])
    child = LlmAgent(name="book", mode="task", model=booker, output_schema=City)
    model = ScriptedModel([call("book", id="c1", request="x"), "done"])
    await answered(LlmAgent(name="root", model=model, sub_agents=[child]))
    assert booker.requests[0].config.response_json_schema is None
    assert [d.name for d in booker.requests[0].config.function_declarations()] == ["finish_task"]
    answer = model.prompts[-1][-1].parts[0].function_response
    assert answer is not None
    assert answer.response == GOOD


@pytest.mark.parametrize("bad", [{"type": "array", "items": {"type": "string"}}, "text", 3])
def test_out_4_a_schema_that_is_no_object_is_refused_when_the_runner_is_built(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="output_schema"):
        Runner(LlmAgent(name="a", model=ScriptedModel([]), output_schema=bad), sessions="memory:")
