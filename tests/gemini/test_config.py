"""Settings and tools on the wire: models GEM-2, GEM-12, GEM-14, GEM-15, MOD-9, MOD-10."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.gemini.making import api_model, asking, responses_of, sent, whole_of
from tests.gemini.service import Service

from hookwork import (
    FunctionDeclaration,
    ModelRequest,
    ToolDeclaration,
    user_content,
)
from hookwork.errors import ModelError
from hookwork.records.codec import load
from hookwork.records.request import GenerateContentConfig

SETTINGS = {
    "temperature": 0.5,
    "topP": 0.9,
    "topK": 3,
    "candidateCount": 1,
    "maxOutputTokens": 100,
    "stopSequences": ["x"],
    "responseLogprobs": True,
    "logprobs": 2,
    "presencePenalty": 0.1,
    "frequencyPenalty": 0.2,
    "seed": 7,
    "responseMimeType": "application/json",
    "responseModalities": ["TEXT"],
    "mediaResolution": "MEDIA_RESOLUTION_LOW",
    "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 10},
    "speechConfig": {"languageCode": "de-DE"},
}


async def test_gem_2_settings_are_passed_through(service: Service) -> None:
    request = ModelRequest(contents=[user_content("q")])
    request.config = load(
        GenerateContentConfig,
        {
            **SETTINGS,
            "systemInstruction": {"role": "user", "parts": [{"text": "s"}]},
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
            "cachedContent": "cachedContents/1",
            "tools": [{"functionDeclarations": [{"name": "f"}]}, {"googleSearch": {}}, {"codeExecution": {}}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        },
    )
    config = request.config
    body = await sent(service, request)
    assert body["generationConfig"] == SETTINGS
    assert body["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    assert body["cachedContent"] == "cachedContents/1"
    assert sorted(body["tools"], key=str) == [  # the SDK puts functions last
        {"codeExecution": {}},
        {"functionDeclarations": [{"name": "f"}]},
        {"googleSearch": {}},
    ]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}
    assert body["systemInstruction"]["parts"] == [{"text": "s"}]
    assert request.config is config


async def test_gem_2_settings_the_kernel_does_not_know_reach_the_sdk(service: Service) -> None:
    request = asking()
    request.config = load(GenerateContentConfig, {"audioTimestamp": True, "imageConfig": {"aspectRatio": "1:1"}})
    body = await sent(service, request, vertex=True)
    assert body["generationConfig"] == {"audioTimestamp": True, "imageConfig": {"aspectRatio": "1:1"}}


async def test_gem_2_extra_body_and_tools_of_the_service_pass(service: Service) -> None:
    request = asking(http_options={"extra_body": {"zork": 1}})
    request.config = request.config.replace(tools=(ToolDeclaration(url_context={}), ToolDeclaration(google_maps={})))
    body = await sent(service, request)
    assert body["zork"] == 1
    assert body["tools"] == [{"urlContext": {}}, {"googleMaps": {}}]


@pytest.mark.parametrize(
    "config",
    [
        {"zork": 1},
        {"tools": [{"functionDeclarations": [{"name": "f", "zork": 1}]}]},
        {"tools": [{"zork": {}}]},
        {"httpOptions": {"zork": 1}},
    ],
)
async def test_gem_14_a_setting_nobody_knows_is_refused_before_any_call(
    service: Service, config: dict[str, Any]
) -> None:
    request = asking()
    request.config = load(GenerateContentConfig, config)
    with pytest.raises(ModelError, match="'zork'") as caught:
        await responses_of(api_model(service), request)
    assert (caught.value.kind, caught.value.provider, caught.value.model) == (
        "invalid_request",
        "gcp.gemini",
        "gemini-2.5-flash",
    )
    assert service.received == []


async def test_gem_14_a_setting_of_a_wrong_form_is_told_by_place_not_by_value(service: Service) -> None:
    request = asking(thinking_config={"thinkingBudget": "s3cret"})
    with pytest.raises(ModelError, match="thinkingBudget") as caught:
        await responses_of(api_model(service), request)
    assert caught.value.kind == "invalid_request"
    assert "s3cret" not in str(caught.value)


async def test_gem_12_argument_streaming_is_asked_of_vertex_ai(service: Service) -> None:
    streaming = {"functionCallingConfig": {"mode": "AUTO", "streamFunctionCallArguments": True}}
    body = await sent(service, asking(tool_config=streaming), vertex=True)
    assert body["toolConfig"] == streaming
    with pytest.raises(ModelError, match="stream_function_call_arguments") as caught:
        await responses_of(api_model(service), asking(tool_config=streaming))
    assert caught.value.kind == "invalid_request"


async def test_gem_2_a_response_schema_is_sent_as_the_api_takes_it(service: Service) -> None:
    raw = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "additionalProperties": False}
    said = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}
    for schema in (raw, said):
        body = await sent(service, asking(response_schema=schema, response_mime_type="application/json"))
        assert body["generationConfig"]["responseSchema"] == said
    body = await sent(service, asking(response_json_schema=raw, response_mime_type="application/json"))
    assert body["generationConfig"]["responseJsonSchema"] == raw
    with pytest.raises(ModelError, match="response schema"):
        await responses_of(api_model(service), asking(response_schema={"$ref": "https://x/y"}))


# --- tools ------------------------------------------------------------------------------------------------------------


class Dangerous:
    """Something callable among the tools' implementations, which no adapter may touch."""

    def __call__(self, **_: Any) -> None:
        raise AssertionError("the SDK ran a tool")


async def test_mod_10_the_sdk_runs_no_tools(service: Service) -> None:
    """MOD-9: what is declared comes from the config alone."""
    from tests.gemini.service import Reply, chunk

    service.always = Reply(chunk({"functionCall": {"name": "f", "args": {}}}, finish="STOP"))
    request = asking()
    request.add_declarations([FunctionDeclaration(name="f")])
    request.tools = {"f": Dangerous(), "g": Dangerous()}  # type: ignore[dict-item]
    for stream in (False, True):
        whole = await whole_of(api_model(service), request, stream=stream)
        assert [call.name for call in whole.content.function_calls] == ["f"]  # type: ignore[union-attr]
    assert len(service.received) == 2
    assert all(r.body["tools"] == [{"functionDeclarations": [{"name": "f"}]}] for r in service.received)


ODD = {
    "type": "object",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "properties": {
        "kind": {"const": "x", "description": "the kind"},
        "who": {"$ref": "#/$defs/Who"},
        "note": {"type": ["string", "null"]},
        "any": True,
        "one": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    },
    "required": ["kind"],
    "additionalProperties": False,
    "$defs": {"Who": {"type": "string", "enum": ["me", "you"]}},
}


@pytest.mark.parametrize("vertex", [False, True])
async def test_gem_15_schemas_of_mcp_servers_are_rewritten(service: Service, vertex: bool) -> None:
    """CASE-MCP-4: no key that the API rejects; the meaning is kept; the record is unchanged."""
    request = asking()
    declaration = FunctionDeclaration(name="odd", description="d", parameters_json_schema=ODD)
    request.add_declarations([declaration, FunctionDeclaration(name="bare", parameters_json_schema={"type": "object"})])
    body = await sent(service, request, vertex=vertex)
    odd, bare = body["tools"][0]["functionDeclarations"]
    assert bare == {"name": "bare"}
    assert odd["parameters"]["required"] == ["kind"]
    properties = odd["parameters"]["properties"]
    assert properties["kind"] == {
        "type": "STRING", "format": "enum", "enum": ["x"], "description": "the kind"
    }  # fmt: skip
    assert properties["who"] == {"type": "STRING", "format": "enum", "enum": ["me", "you"]}
    assert properties["note"] == {"type": "STRING", "nullable": True}
    assert [branch["type"] for branch in properties["one"]["anyOf"]] == ["STRING", "INTEGER"]
    for key in ("$schema", "$ref", "$defs", "const", "oneOf", "additionalProperties", "arametersJsonSchema"):
        assert key not in str(odd)
    assert declaration.parameters_json_schema == ODD


async def test_gem_15_a_tool_that_cannot_be_said_is_left_out_with_one_warning(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    request = asking()
    request.add_declarations(
        [
            FunctionDeclaration(name="lost", parameters_json_schema={"$ref": "https://example.com/x.json"}),
            FunctionDeclaration(name="kept", parameters={"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}),
        ]
    )
    with caplog.at_level(logging.WARNING, "hookwork.gemini"):
        body = await sent(service, request)
        await sent(service, request)
    assert [one["name"] for one in body["tools"][0]["functionDeclarations"]] == ["kept"]
    assert [record.getMessage().count("'lost'") for record in caplog.records] == [1]


async def test_gem_15_parameters_in_the_form_of_a_json_schema_are_rewritten_too(service: Service) -> None:
    request = asking()
    request.add_declarations([FunctionDeclaration(name="f", parameters=ODD)])
    body = await sent(service, request)
    assert body["tools"][0]["functionDeclarations"][0]["parameters"]["properties"]["note"] == {
        "type": "STRING",
        "nullable": True,
    }
