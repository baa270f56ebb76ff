"""Requests to the Interactions API: steps, settings, tools, options (models Beyond)."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from tests.gemini.interacting import asked, body, model_on, said
from tests.gemini.interactions_service import (
    InteractionsService,
    user_step,
)
from tests.gemini.making import vertex_model, whole_of
from tests.gemini.service import KEY

from hookwork import (
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    Part,
    ToolDeclaration,
)
from hookwork.errors import ConfigurationError, ModelError
from hookwork.records.codec import dump
from hookwork_gemini import GeminiModel

STREAMS = pytest.mark.parametrize("streamed", [False, True])
SIGNATURE = b64encode(b"\x01\xff").decode()


# --- requests --------------------------------------------------------------------------------------------------------


async def test_a_request_goes_to_the_path_of_interactions_with_key_and_name(kept: InteractionsService) -> None:
    found = await body(kept, asked("hi"))
    assert found == {"model": "gemini-2.5-flash", "input": [user_step({"type": "text", "text": "hi"})]}
    assert kept.sent[0].path == "/v1beta/interactions"
    assert kept.sent[0].headers["x-goog-api-key"] == KEY
    assert "hookwork/" in kept.sent[0].headers["user-agent"]
    assert "hookwork/" in kept.sent[0].headers["x-goog-api-client"]


async def test_vertex_ai_has_its_own_path(kept: InteractionsService) -> None:
    await whole_of(vertex_model(kept, interactions=True), asked("hi"))
    assert kept.sent[0].path == "/v1beta1/projects/p1/locations/europe-west4/interactions"


async def test_contents_are_steps_in_order(kept: InteractionsService) -> None:
    request = asked(
        Content(
            role="user",
            parts=[
                Part(text="look"),
                Part(inline_data=Blob(data=b"\x01\x02", mime_type="image/png")),
                Part(file_data=FileData(file_uri="https://f/1", mime_type="application/pdf")),
            ],
        ),
        said(
            Part(text="hm", thought=True, thought_signature=b"\x01\xff"),
            Part(text="unsigned", thought=True),
            Part(text="I call."),
            Part(function_call=FunctionCall(id="a", name="f", args={"x": [1]})),
            Part(function_call=FunctionCall(name="g"), thought_signature=b"\x02"),
        ),
        Content(
            role="user",
            parts=[
                Part(function_response=FunctionResponse(id="a", name="f", response={"ok": True})),
                Part(function_response=FunctionResponse(name="g", response=None)),
            ],
        ),
    )
    found = (await body(kept, request))["input"]
    assert found == [
        user_step(
            {"type": "text", "text": "look"},
            {"type": "image", "mime_type": "image/png", "data": "AQI="},
            {"type": "document", "mime_type": "application/pdf", "uri": "https://f/1"},
        ),
        {"type": "thought", "signature": SIGNATURE, "summary": [{"type": "text", "text": "hm"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "I call."}]},
        {"type": "function_call", "id": "a", "name": "f", "arguments": {"x": [1]}},
        {"type": "thought", "signature": "Ag=="},
        {"type": "function_call", "id": "call-1", "name": "g", "arguments": {}},
        {"type": "function_result", "call_id": "a", "name": "f", "result": {"ok": True}},
        {"type": "function_result", "call_id": "call-1", "name": "g", "result": {}},
    ]


async def test_case_hist_3_an_id_of_two_turns_is_unique_on_the_wire(kept: InteractionsService) -> None:
    def turn(city: str, degrees: int) -> list[Content]:
        made = FunctionCall(id="call_0", name="w", args={"city": city})
        answered = FunctionResponse(id="call_0", name="w", response={"t": degrees})
        return [said(Part(function_call=made)), Content(role="user", parts=[Part(function_response=answered)])]

    steps = (await body(kept, asked("hi", *turn("A", 1), *turn("B", 2))))["input"]
    calls = {step["id"]: step["arguments"]["city"] for step in steps if step["type"] == "function_call"}
    results = {step["call_id"]: step["result"]["t"] for step in steps if step["type"] == "function_result"}
    assert len(calls) == 2
    assert {calls[key]: value for key, value in results.items()} == {"A": 1, "B": 2}


async def test_a_later_result_of_a_call_takes_the_place_of_the_first(kept: InteractionsService) -> None:
    def answered(value: str) -> Content:
        result = FunctionResponse(id="a", name="f", response={"is": value})
        return Content(role="user", parts=[Part(function_response=result)])

    request = asked(
        "hi", said(Part(function_call=FunctionCall(id="a", name="f"))), answered("pending"), answered("done")
    )
    (result,) = [step for step in (await body(kept, request))["input"] if step["type"] == "function_result"]
    assert result["result"] == {"is": "done"}


async def test_a_response_without_its_call_is_refused_before_anything_is_sent(kept: InteractionsService) -> None:
    lost = Content(role="user", parts=[Part(function_response=FunctionResponse(id="x", name="f", response={}))])
    with pytest.raises(ModelError) as caught:
        await whole_of(model_on(kept), asked("hi", lost))
    assert (caught.value.kind, caught.value.code) == ("invalid_request", "function_response_without_call")
    assert not kept.sent


async def test_gem_6_a_model_turn_at_the_end_is_asked_to_go_on(kept: InteractionsService) -> None:
    steps = (await body(kept, asked("hi", said(Part(text="half")))))["input"]
    assert steps[-1]["type"] == "user_input"
    assert (await body(kept, asked()))["input"][0]["type"] == "user_input"


async def test_settings_are_mapped(kept: InteractionsService) -> None:
    found = await body(
        kept,
        asked(
            "hi",
            system_instruction=Content(parts=[Part(text="Be"), Part(text="brief")]),
            temperature=0.25,
            top_p=0.5,
            seed=7,
            max_output_tokens=50,
            stop_sequences=("END",),
            thinking_config={"thinkingLevel": "HIGH", "includeThoughts": True},
            safety_settings=({"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_ONLY_HIGH"},),
            response_schema={"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
            extra={"serviceTier": "FLEX"},
        ),
    )
    assert found["system_instruction"] == "Be\nbrief"
    assert found["generation_config"] == {
        "temperature": 0.25,
        "top_p": 0.5,
        "seed": 7,
        "max_output_tokens": 50,
        "stop_sequences": ["END"],
        "thinking_level": "high",
        "thinking_summaries": "auto",
    }
    assert found["safety_settings"] == [{"type": "hate_speech", "threshold": "block_only_high"}]
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert found["response_format"] == {"type": "text", "mime_type": "application/json", "schema": schema}
    assert found["service_tier"] == "flex"


async def test_tools_and_the_choice_among_them(kept: InteractionsService) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = (
        ToolDeclaration(
            function_declarations=(
                FunctionDeclaration(name="f", description="F.", parameters_json_schema=schema),
                FunctionDeclaration(name="g"),
            )
        ),
        ToolDeclaration(google_search={}),
    )
    choice = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}
    found = await body(kept, asked("hi", tools=tools, tool_config=choice))
    assert found["tools"] == [
        {"type": "function", "name": "f", "description": "F.", "parameters": schema},
        {"type": "function", "name": "g"},
        {"type": "google_search"},
    ]
    assert found["generation_config"]["tool_choice"] == {"allowed_tools": {"mode": "any", "tools": ["f"]}}
    none = await body(kept, asked("hi", tools=tools, tool_config={"functionCallingConfig": {"mode": "NONE"}}))
    assert none["generation_config"]["tool_choice"] == "none"


LACKING: list[dict[str, Any]] = [
    {"top_k": 3},
    {"presence_penalty": 0.1},
    {"frequency_penalty": 0.1},
    {"response_logprobs": True},
    {"media_resolution": "MEDIA_RESOLUTION_LOW"},
    {"thinking_config": {"thinkingBudget": 100}},
    {"tools": (ToolDeclaration(retrieval={}),)},
    {"extra": {"imageConfig": {}}},
]


@pytest.mark.parametrize("config", LACKING, ids=lambda config: next(iter(config)))
async def test_a_setting_that_the_api_lacks_is_an_error_or_one_warning(
    kept: InteractionsService, config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ModelError, match="unsupported='warn'") as caught:
        await whole_of(model_on(kept), asked("hi", **config))
    assert caught.value.kind == "invalid_request"
    assert caught.value.code.startswith("unsupported_")
    assert not kept.sent
    for _ in range(2):
        found = await body(kept, asked("hi", **config), unsupported="warn")
        assert set(found) == {"model", "input"}
    assert len([record for record in caplog.records if "left out" in record.message]) == 1


async def test_http_options_of_one_call(kept: InteractionsService) -> None:
    options = {"headers": {"X-One": "1"}, "timeout": 2500, "extraBody": {"beta": True}}
    found = await body(kept, asked("hi", http_options=options))
    assert found["beta"] is True
    assert kept.sent[0].headers["x-one"] == "1"


# --- options ---------------------------------------------------------------------------------------------------------


def test_options_that_do_not_fit() -> None:
    with pytest.raises(ConfigurationError, match="context_cache"):
        GeminiModel("gemini-2.5-flash", api_key=KEY, interactions=True, context_cache=True)
    with pytest.raises(ConfigurationError, match="known keys: store, chain"):
        GeminiModel("gemini-2.5-flash", api_key=KEY, interactions={"stor": True})
    with pytest.raises(ConfigurationError, match="'unsupported'"):
        GeminiModel("gemini-2.5-flash", api_key=KEY, unsupported="ignore")


def test_capabilities_are_those_of_the_api() -> None:
    capabilities = GeminiModel("gemini-3-flash", api_key=KEY, interactions=True).capabilities
    assert capabilities.pairs_calls_by_id
    assert "file_search" not in capabilities.builtin_tools


def test_the_request_is_only_read() -> None:
    request = asked("hi", said(Part(text="half")))
    before = [json.dumps(dump(content)) for content in request.contents]
    from hookwork_gemini.interactions.calls import _answerable

    assert len(_answerable(request.contents)) == 3
    assert [json.dumps(dump(content)) for content in request.contents] == before
