"""The local model on a scripted engine (models LOC-1, LOC-2)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import aclosing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.local.fake_llama import failing_model, local_model

from hookwork.errors import ConfigurationError, ModelError
from hookwork.model import Model, ModelRequest
from hookwork.plugins.discovery import use_extensions
from hookwork.records.content import Blob, Content, FunctionCall, FunctionResponse, Part, user_content
from hookwork.records.metadata import ModelResponse
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration
from hookwork.resolve import resolve_model
from hookwork.runner import Runner
from hookwork.settings import Settings
from hookwork_llm import LlmAgent, tool
from hookwork_local import LocalModel, extension
from hookwork_local.llama import acquire, release
from hookwork_local.options import Options
from hookwork_modelkit.errors import refusal
from hookwork_testkit.suites import ModelSuite

WEATHER = FunctionDeclaration(
    name="get_weather",
    description="Current weather of a city.",
    parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def answering(body: dict[str, Any]) -> Any:
    """What a small model would write: a call where a tool is offered and no result is there yet."""
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
    last = body["messages"][-1]["content"]
    if "oneOf" not in schema:
        return "Hello, nice to meet you."
    if last.startswith("Result of"):
        return json.dumps({"reply": 'It is "clear" — 22 °C.'})
    if "weather" in last:
        return '{\n "tool": "get_weather",\n "arguments": {"city": "Paris"}}'
    return json.dumps({"reply": "Hello there."})


class TestLocalModel(ModelSuite):
    def make_model(self) -> Model:
        return local_model(answering)[0]

    def make_failing_model(self) -> Model:
        return failing_model(refusal("local", "local/model.gguf", "there is no such file"))

    def make_breaking_model(self) -> None:
        return None


def asked(text: str = "What is the weather in Paris?", **config: Any) -> ModelRequest:
    request = ModelRequest(contents=[user_content(text)], config=GenerateContentConfig(**config))
    request.add_declarations([WEATHER])
    return request


async def collect(model: Model, request: ModelRequest, *, stream: bool = False) -> list[ModelResponse]:
    async with aclosing(model.generate(request, stream=stream)) as responses:  # type: ignore[type-var]
        return [response async for response in responses]


def parts(response: ModelResponse) -> tuple[Part, ...]:
    return tuple(response.content.parts) if response.content is not None else ()


async def test_loc_2_a_call_is_one_branch_of_a_schema_with_a_reply_branch() -> None:
    model, server = local_model(answering)
    (response,) = await collect(model, asked())
    assert parts(response) == (Part(function_call=FunctionCall(name="get_weather", args={"city": "Paris"})),)
    assert server.bodies[0]["response_format"]["json_schema"]["schema"] == {
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "tool": {"const": "get_weather"},
                    "arguments": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}},
                        "required": ["city"],
                    },
                },
                "required": ["tool", "arguments"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"reply": {"type": "string"}},
                "required": ["reply"],
                "additionalProperties": False,
            },
        ]
    }


async def test_loc_2_the_reply_is_prose_and_streams_as_it_is_written() -> None:
    model, _ = local_model(answering)
    *partials, whole = await collect(model, asked("Say hello."), stream=True)
    assert [part.text for response in partials for part in parts(response)] == ["Hel", "lo", " ther", "e."]
    assert all(response.partial for response in partials)
    assert parts(whole) == (Part(text="Hello there."),)
    assert (whole.finish_reason, whole.turn_complete, whole.partial) == ("STOP", True, None)


async def test_loc_2_usage_comes_from_the_engine() -> None:
    model, _ = local_model(answering)
    (response,) = await collect(model, ModelRequest(contents=[user_content("hi")]))
    usage = response.usage_metadata
    assert usage is not None
    assert usage.candidates_token_count == 6
    assert usage.total_token_count == (usage.prompt_token_count or 0) + 6
    assert usage.thoughts_token_count is None


async def test_loc_2_cancellation_stops_the_engine_between_tokens() -> None:
    model, server = local_model(lambda body: "word " * 100_000, max_output_tokens=100_000)
    async with aclosing(model.generate(ModelRequest(contents=[user_content("hi")]), stream=True)) as responses:  # type: ignore[type-var]
        await anext(responses)
    assert server.stopped == 1


async def test_loc_1_one_call_at_a_time_and_a_waiting_one_can_be_cancelled() -> None:
    model, server = local_model(lambda body: "word " * 1000, max_output_tokens=10_000)
    request = ModelRequest(contents=[user_content("hi")])
    running = [asyncio.create_task(collect(model, request)) for _ in range(3)]
    await asyncio.sleep(0)
    running[2].cancel()
    done = await asyncio.gather(*running, return_exceptions=True)
    assert isinstance(done[2], asyncio.CancelledError)
    assert len(server.bodies) == 2


async def test_agg_32_a_call_that_the_limit_cut_is_dropped_and_named() -> None:
    model, _ = local_model(answering)
    (response,) = await collect(model, asked(max_output_tokens=8))
    assert (response.finish_reason, response.error_code) == ("MAX_TOKENS", "MAX_TOKENS")
    assert "get_weather" in (response.error_message or "")
    assert response.content is None


async def test_a_reply_that_the_limit_cut_is_kept() -> None:
    model, _ = local_model(answering)
    (response,) = await collect(model, asked("Say hello.", max_output_tokens=5))
    assert (response.finish_reason, response.error_code) == ("MAX_TOKENS", None)
    assert "Hello there.".startswith(parts(response)[0].text or "-")


async def test_output_that_the_schema_does_not_allow_is_an_invalid_response() -> None:
    model, _ = local_model(lambda body: '{"tool": "rm", "arguments": {}}')
    with pytest.raises(ModelError) as caught:
        await collect(model, asked())
    assert (caught.value.kind, caught.value.retryable) == ("invalid_response", False)


@pytest.mark.parametrize(
    ("calling", "tools", "reply"),
    [
        ({"mode": "NONE"}, [], True),
        ({"mode": "ANY"}, ["get_weather", "other"], False),
        ({"mode": "ANY", "allowedFunctionNames": ["other"]}, ["other"], False),
        ({"mode": "AUTO", "allowedFunctionNames": ["other"]}, ["other"], True),
        ({}, ["get_weather", "other"], True),
    ],
)
async def test_tool_config_decides_what_is_offered(calling: dict[str, Any], tools: list[str], reply: bool) -> None:
    model, server = local_model(lambda body: '{"tool": "other", "arguments": {}}' if tools else "hi")
    request = ModelRequest(
        contents=[user_content("hi")], config=GenerateContentConfig(tool_config={"functionCallingConfig": calling})
    )
    request.add_declarations([WEATHER, FunctionDeclaration(name="other")])
    await collect(model, request)
    schema = (server.bodies[0].get("response_format") or {}).get("json_schema", {}).get("schema", {})
    branches = schema.get("oneOf", [schema] if schema else [])
    assert [branch["properties"]["tool"]["const"] for branch in branches if "tool" in branch["properties"]] == tools
    assert any("reply" in branch["properties"] for branch in branches) == (reply and bool(tools))


async def test_a_response_schema_binds_the_reply_with_and_without_tools() -> None:
    schema = {"type": "object", "properties": {"sky": {"type": "string"}}, "required": ["sky"]}
    plain, server = local_model(lambda body: '{"sky": "clear"}')
    config = GenerateContentConfig(response_json_schema=schema)
    (response,) = await collect(plain, ModelRequest(contents=[user_content("hi")], config=config))
    assert server.bodies[0]["response_format"]["json_schema"]["schema"] == schema
    assert parts(response) == (Part(text='{"sky": "clear"}'),)
    with_tools, server = local_model(lambda body: '{"reply": {"sky": "clear"}}')
    *_, response = await collect(with_tools, asked(response_json_schema=schema), stream=True)
    assert server.bodies[0]["response_format"]["json_schema"]["schema"]["oneOf"][1]["properties"] == {"reply": schema}
    assert parts(response) == (Part(text='{"sky": "clear"}'),)


async def test_the_chat_has_three_roles_and_no_two_neighbours_of_one() -> None:
    model, server = local_model(answering)
    call = FunctionCall(id="c1", name="get_weather", args={"city": "Paris"})
    result = FunctionResponse(id="c1", name="get_weather", response={"sky": "clear"})
    request = asked(system_instruction=Content(parts=[Part(text="Be brief.")]), temperature=0.5, top_k=20.0, seed=7)
    request.contents = [
        user_content("Hello."),
        Content(role="model", parts=[Part(text="pondering", thought=True), Part(text="Hi.")]),
        user_content("And the weather?"),
        user_content("In Paris."),
        Content(role="model", parts=[Part(function_call=call)]),
        Content(role="user", parts=[Part(function_response=result)]),
    ]
    await collect(model, request)
    body = server.bodies[0]
    system, *rest = body["messages"]
    assert system["role"] == "system"
    assert system["content"].startswith('Be brief.\n\nYou can use these tools:\n{"tool": "get_weather"')
    assert rest == [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": '{"reply": "Hi."}'},
        {"role": "user", "content": "And the weather?\nIn Paris."},
        {"role": "assistant", "content": '{"tool": "get_weather", "arguments": {"city": "Paris"}}'},
        {"role": "user", "content": 'Result of get_weather: {"sky": "clear"}'},
    ]
    assert (body["temperature"], body["top_k"], body["seed"], body["max_tokens"]) == (0.5, 20, 7, 512)


@pytest.mark.parametrize(
    ("request_of", "code", "text"),
    [
        (
            lambda: ModelRequest(
                contents=[Content(role="user", parts=[Part(inline_data=Blob(data=b"x", mime_type="image/png"))])]
            ),
            "unsupported_media",
            "reads text only",
        ),
        (lambda: ModelRequest(), "", "no contents"),
        (lambda: asked(cached_content="x"), "unsupported_cached_content", "cached_content is not supported"),
        (lambda: asked(candidate_count=2), "unsupported_candidates", "candidate_count"),
        (
            lambda: ModelRequest(
                contents=[user_content("hi")],
                config=GenerateContentConfig(tools=(ToolDeclaration(google_search={}),)),
            ),
            "unsupported_tool",
            "carries out itself",
        ),
    ],
)
async def test_what_the_engine_lacks_is_refused_before_it_is_asked(request_of: Any, code: str, text: str) -> None:
    model, server = local_model(answering)
    with pytest.raises(ModelError) as caught:
        await collect(model, request_of())
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == ("invalid_request", code, False)
    assert text in str(caught.value)
    assert server.bodies == []


LACKING: dict[str, Any] = {
    "cached_content": "x",
    "speech_config": {"languageCode": "de"},
    "response_logprobs": True,
    "candidate_count": 2,
    "response_modalities": ("AUDIO",),
    "tools": (ToolDeclaration(google_search={}),),
}


@pytest.mark.parametrize("name", sorted(LACKING))
async def test_a_setting_that_the_engine_lacks_is_an_error_or_one_warning(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    request = asked(**{name: LACKING[name]})
    strict, _ = local_model(answering)
    with pytest.raises(ModelError, match="unsupported='warn'"):
        await collect(strict, request)
    lenient, server = local_model(answering, unsupported="warn")
    plain, reference = local_model(answering)
    for _ in range(2):
        await collect(lenient, request)
    await collect(plain, asked())
    assert server.bodies == reference.bodies * 2
    assert len([record for record in caplog.records if "left out" in record.message]) == 1


@pytest.mark.parametrize(
    "config",
    [
        {"labels": {"a": "b"}},
        {"thinking_config": {"thinkingLevel": "HIGH"}},
        {"safety_settings": ({"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "OFF"},)},
        {"extra": {"serviceTier": "flex"}},
    ],
    ids=lambda config: next(iter(config)),
)
async def test_t_18_a_setting_that_means_nothing_here_is_told_once(
    config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    model, _ = local_model(answering)
    for _ in range(2):
        await collect(model, asked(**config))
    assert len([record for record in caplog.records if "left out" in record.message]) == 1


def test_models_of_a_file_share_its_weights_however_strict_they_are() -> None:
    assert Options(unsupported="warn") == Options()
    assert hash(Options(unsupported="warn")) == hash(Options())
    with pytest.raises(ConfigurationError, match="'unsupported'"):
        LocalModel("a.gguf", unsupported="maybe")


async def test_an_error_of_the_engine_is_a_model_error_with_its_type() -> None:
    error = {"error": {"code": 400, "message": "request exceeds the context", "type": "exceed_context_size_error"}}
    model, _ = local_model(lambda body: error)
    with pytest.raises(ModelError) as caught:
        await collect(model, asked())
    assert (caught.value.kind, caught.value.code) == ("invalid_request", "exceed_context_size_error")
    broken, _ = local_model(lambda body: ValueError("Unable to generate parser\nsecret prompt"))
    with pytest.raises(ModelError) as caught:
        await collect(broken, asked())
    assert "Unable to generate parser" in str(caught.value)
    assert "secret prompt" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


async def test_an_agent_calls_its_tool_and_answers() -> None:
    @tool
    def get_weather(city: str) -> dict[str, Any]:
        """Current weather of a city."""
        return {"city": city, "sky": "clear"}

    model, _ = local_model(answering)
    async with Runner(LlmAgent(name="root", model=model, tools=[get_weather]), sessions="memory:") as runner:
        assert await runner.ask("What is the weather in Paris?") == 'It is "clear" — 22 °C.'


# --- names and options ------------------------------------------------------------------------------------------------


def test_loc_1_only_local_names_are_taken() -> None:
    assert extension.create_model("model.gguf", {}, False) is None
    model = extension.create_model("weights/model.gguf", {"threads": 2}, True)
    assert isinstance(model, LocalModel)
    assert (model.name, model.options.threads) == ("local/weights/model.gguf", 2)


def test_reg_1_by_provider_prefix_and_settings() -> None:
    settings = Settings(tables={"local": {"context": 1024}})
    with use_extensions([("local", extension)]):
        model = resolve_model("local//abs/model.gguf", settings)
    assert isinstance(model, LocalModel)
    assert (model.path, model.options.context) == ("/abs/model.gguf", 1024)


@pytest.mark.parametrize(
    ("path", "options", "text"),
    [
        ("model.bin", {}, "local/path/to/model.gguf"),
        ("m.gguf", {"treads": 2}, "did you mean 'threads'?"),
        ("m.gguf", {"threads": 0}, "whole number from 1"),
        ("m.gguf", {"context": "big"}, "whole number from 64"),
        ("m.gguf", {"chat_template": 3}, "Jinja template"),
    ],
)
def test_wrong_names_and_options_are_refused(path: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        LocalModel(path, **options)
    assert text in str(caught.value)


async def test_two_models_of_one_file_share_its_weights_until_the_last_closes() -> None:
    from hookwork_local import llama

    first, second = LocalModel("shared.gguf"), LocalModel("./shared.gguf")
    for model in (first, second):
        with pytest.raises(ModelError):
            await collect(model, asked())
    assert first._engine is second._engine
    await first.close()
    await first.close()
    assert len(llama._engines) == 1
    await second.close()
    assert llama._engines == {}


async def test_loc_1_the_doctor_is_told_that_the_file_or_the_engine_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", ModuleType("xllamacpp"))
    file = tmp_path / "model.gguf"
    with pytest.raises(ModelError, match="no such file") as caught:
        await LocalModel(str(file)).check()
    assert caught.value.code == "no_weights"
    file.write_bytes(b"GGUF")
    await LocalModel(str(file)).check()
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelError, match="pip install") as caught:
        await LocalModel(str(file)).check()
    assert caught.value.code == "no_engine"


def test_loc_1_a_forked_process_takes_an_engine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options()
    before = acquire("model.gguf", options)
    own = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: own + 1)
        release("model.gguf", options)  # of a model that came along: nothing of this process
        after = acquire("model.gguf", options)
        assert after is not before
        release("model.gguf", options)
    assert acquire("model.gguf", options) is before
    release("model.gguf", options)
    release("model.gguf", options)
