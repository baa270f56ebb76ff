"""`hookwork run` with a real LLM agent, its tools and a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hookwork_inmemory import InMemorySessionService
from hookwork_llm.agent import LlmAgent
from hookwork_llm.functions import tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call, partial, stream

Hookwork = Callable[..., Any]


@tool
def get_weather(city: str) -> dict[str, Any]:
    """Current weather of a city."""
    return {"city": city, "sky": "clear"}


def test_con_7_a_turn_with_a_tool(serve: Any, hookwork: Hookwork) -> None:
    model = ScriptedModel([["Let me look.", call("get_weather", city="Tokyo")], "Clear."])
    agent = LlmAgent(name="weather", model=model, tools=[get_weather])
    result = hookwork("run", serve(agent), "Weather in Tokyo?")
    assert (result.code, result.out) == (0, "Clear.\n")
    told = result.err.splitlines()
    assert told[:2] == ["Let me look.", 'get_weather(city="Tokyo")']
    assert told[2].startswith('get_weather → {"city": "Tokyo", "sky": "clear"}  ')
    assert_valid_prompt(model.prompts[-1], ids=False)


def test_con_7_stream_asks_the_model_to_stream(serve: Any, hookwork: Hookwork) -> None:
    model = ScriptedModel(
        [[partial("Let me "), partial("look."), call("get_weather", city="Rome")], stream("It is ", "5.")]
    )
    agent = LlmAgent(name="weather", model=model, tools=[get_weather])
    assert hookwork("run", "--stream", serve(agent), "Weather?")[:2] == (0, "It is 5.\n")
    assert [request.stream for request in model.requests] == [True, True]


def test_hitl_2_an_approval_given_by_a_later_command_runs_the_tool_once(serve: Any, hookwork: Hookwork) -> None:
    runs: list[str] = []

    @tool(require_confirmation=True)
    def delete(path: str) -> dict[str, Any]:
        """Delete a file."""
        runs.append(path)
        return {"deleted": path}

    model = ScriptedModel([call("delete", path="/tmp/x"), "Deleted."])
    agent = serve(LlmAgent(name="cleaner", model=model, tools=[delete]), sessions=InMemorySessionService())
    paused = hookwork("run", agent, "clean up", "--session", "s1")
    assert (paused.code, paused.out, runs) == (2, "", [])
    assert '"path": "/tmp/x"' in paused.err
    answer = paused.err.split("--answer ")[1].strip()
    done = hookwork("run", agent, "--session", "s1", "--answer", answer)
    assert (done.code, done.out, runs) == (0, "Deleted.\n", ["/tmp/x"])
    assert_valid_prompt(model.prompts[-1], ids=False)


def test_cli_5_model_overrides_the_roots_model(serve: Any, hookwork: Hookwork) -> None:
    scripted = ScriptedModel(["never"])
    result = hookwork("run", serve(LlmAgent(name="a", model=scripted)), "hello", "--model", "offline")
    assert result.code == 0
    assert result.out.strip()
    assert scripted.requests == []
