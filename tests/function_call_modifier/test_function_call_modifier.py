"""The function-call modifier (tools-plugins SP-10, SP-11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hookwork import (
    Content,
    FunctionDeclaration,
    FunctionPlugin,
    GenerateContentConfig,
    ModelRequest,
    ModelResponse,
    RunConfig,
    Runner,
    ToolDeclaration,
)
from hookwork.errors import ConfigurationError
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_function_call_modifier import FunctionCallModifier
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call, make_context, stream

RunnerFactory = Callable[..., Runner]
WHY = {"why": {"type": "string"}}


def get_weather(city: str) -> dict[str, Any]:
    """Current weather of a city."""
    return {"city": city}


async def test_sp_10_the_model_is_asked_for_more(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel([call("get_weather", city="Oslo"), "Cold."])
    agent = LlmAgent(name="weather", model=model, tools=[get_weather])
    plugin = FunctionCallModifier("get_*", WHY, "{description} Say why.")
    async with runner_factory(agent, plugins=[plugin]) as runner:
        await runner.ask("Weather?")
    declared = [request.config.function_declarations()[0] for request in model.requests]
    for one in declared:  # TT-12: the same on every request
        schema = one.parameters_json_schema or {}
        assert list(schema["properties"]) == ["city", "why"]
        assert schema["required"] == ["city"]
        assert one.description == "Current weather of a city. Say why."


async def test_sp_11_the_arguments_move_into_state(runner_factory: RunnerFactory) -> None:
    model = ScriptedModel([call("get_weather", id="c1", city="Oslo", why="to pack"), "Cold."])
    agent = LlmAgent(name="weather", model=model, tools=[get_weather])
    async with runner_factory(agent, plugins=[FunctionCallModifier(args=WHY)]) as runner:
        events = [event async for event in runner.run(user_id="u", session_id="s", message="Weather?")]
        session = await runner.sessions.get_session(app_name="weather", user_id="u", session_id="s")
    assert events[0].function_calls[0].args == {"city": "Oslo"}
    assert events[0].actions.state_delta == {"c1/why": "to pack"}
    assert events[1].function_responses[0].response == {"city": "Oslo"}  # the tool got what it takes
    assert session.state["c1/why"] == "to pack"


async def test_sp_11_partial_calls_are_stripped_and_write_nothing(runner_factory: RunnerFactory) -> None:
    turn = stream(call("get_weather", id="c1", city="Oslo", why="to pack"))
    model = ScriptedModel([turn, "Cold."])
    agent = LlmAgent(name="weather", model=model, tools=[get_weather])
    async with runner_factory(agent, plugins=[FunctionCallModifier(args=WHY)]) as runner:
        run = runner.run(user_id="u", message="Weather?", config=RunConfig(streaming_mode="sse"))
        events = [event async for event in run]
    assert [(bool(event.partial), event.function_calls[0].args) for event in events[:2]] == [
        (True, {"city": "Oslo"}),
        (False, {"city": "Oslo"}),
    ]
    assert [dict(event.actions.state_delta) for event in events[:2]] == [{}, {"c1/why": "to pack"}]


def test_sp_11_only_the_final_chunk_writes_state() -> None:
    content = Content(role="model", parts=[call("get_weather", id="c1", city="Oslo", why="to pack")])
    plugin, ctx = FunctionCallModifier(args=WHY), make_context("callback")
    for response, written in (
        (ModelResponse(content=content, partial=True), {}),
        (ModelResponse(content=content), {"c1/why": "to pack"}),
    ):
        assert plugin.after_model(ctx, ModelRequest(), response) is not None
        assert ctx.state.to_dict() == written


async def test_sp_11_a_call_that_came_without_a_model_is_stripped_too(runner_factory: RunnerFactory) -> None:
    part = call("get_weather", id="c1", city="Oslo", why="to pack")
    given = iter([ModelResponse(content=Content(role="model", parts=[part])), None])
    cache = FunctionPlugin("cache", before_model=lambda: next(given))
    agent = LlmAgent(name="weather", model=ScriptedModel(["Cold."]), tools=[get_weather])
    async with runner_factory(agent, plugins=[FunctionCallModifier(args=WHY), cache]) as runner:
        events = [event async for event in runner.run(user_id="u", message="Weather?")]
    assert events[1].function_responses[0].response == {"city": "Oslo"}
    assert events[1].actions.state_delta == {"c1/why": "to pack"}


async def test_tt_11_without_such_arguments_it_decides_nothing(runner_factory: RunnerFactory) -> None:
    seen: list[str] = []
    later = FunctionPlugin("later", after_model=lambda response: seen.append(response.text))
    model = ScriptedModel([[call("get_weather", city="Oslo")], "Cold."])
    agent = LlmAgent(name="weather", model=model, tools=[get_weather])
    async with runner_factory(agent, plugins=[FunctionCallModifier(args=WHY), later]) as runner:
        await runner.ask("Weather?")
    assert seen == ["", "Cold."]


def request_of(*declarations: FunctionDeclaration, runnable: str = "f") -> ModelRequest:
    tool: Any = object()
    config = GenerateContentConfig(
        tools=(ToolDeclaration(google_search={}), ToolDeclaration(function_declarations=declarations))
    )
    return ModelRequest(config=config, tools={runnable: tool})


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        (
            FunctionDeclaration(name="f"),
            FunctionDeclaration(name="f", parameters_json_schema={"type": "object", "properties": WHY}),
        ),
        (
            FunctionDeclaration(
                name="f", parameters_json_schema={"type": "object", "properties": {"why": {}}, "required": ["why"]}
            ),
            FunctionDeclaration(name="f", parameters_json_schema={"type": "object", "properties": WHY}),
        ),
        (
            FunctionDeclaration(
                name="f",
                parameters={"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
            ),
            FunctionDeclaration(
                name="f",
                parameters={
                    "type": "OBJECT",
                    "properties": {"a": {"type": "STRING"}, "why": {"type": "STRING"}},
                    "required": ["a"],
                },
            ),
        ),
    ],
    ids=["no schema", "equal name", "genai schema"],
)
def test_sp_10_whichever_schema_is_in_use_is_changed(
    declaration: FunctionDeclaration, expected: FunctionDeclaration
) -> None:
    request = request_of(declaration)
    FunctionCallModifier(args=WHY).before_model(make_context("callback"), request)
    assert request.config.function_declarations() == [expected]
    assert request.config.tools[0].google_search == {}


@pytest.mark.parametrize("predicate", ["g*", ["g", "h*"], lambda name: name == "g"], ids=["glob", "globs", "function"])
def test_sp_10_only_matching_functions_that_run_here_are_changed(predicate: Any) -> None:
    plugin = FunctionCallModifier(predicate, WHY)
    for runnable in ("f", "elsewhere"):
        request = request_of(FunctionDeclaration(name="f"), FunctionDeclaration(name="g"), runnable=runnable)
        before = request.config
        plugin.before_model(make_context("callback"), request)
        assert request.config is before


def test_sp_10_a_function_rewrites_the_description() -> None:
    request = request_of(FunctionDeclaration(name="f", description="old"))
    FunctionCallModifier(args=WHY, override_description=str.upper).before_model(make_context("callback"), request)
    assert request.config.function_declarations()[0].description == "OLD"


@pytest.mark.parametrize("args", [None, {}, {"why": "string"}], ids=str)
def test_wrong_options_are_named(args: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"args|'why'"):
        FunctionCallModifier(args=args)


def test_ext_8_options_come_from_its_table() -> None:
    table = {"predicate": ["get_*"], "args": {"why": {"type": "string"}}, "override_description": "{description}"}
    [plugin] = resolve_plugins(["function_call_modifier"], Settings(tables={"function_call_modifier": table}))
    assert isinstance(plugin, FunctionCallModifier)
    assert plugin.name == "FunctionCallModifierPlugin"
