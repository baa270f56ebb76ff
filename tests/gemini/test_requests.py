"""What goes over the wire: models GEM-1 … GEM-8, GEM-11, GEM-12, GEM-14, GEM-15, CAP-4, MOD-9, MOD-10."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from tests.gemini.making import api_model, asking, responses_of, vertex_model, whole_of
from tests.gemini.service import KEY, Service

from hookwork import (
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    ModelRequest,
    Part,
    ToolDeclaration,
    __version__,
    text_content,
    user_content,
)
from hookwork.errors import ConfigurationError, ModelError
from hookwork.records.codec import load
from hookwork.records.content import FunctionResponseBlob, FunctionResponsePart
from hookwork.records.request import GenerateContentConfig
from hookwork_gemini import GeminiModel, conversion
from hookwork_gemini.requests import FOLLOW_INSTRUCTION, GO_ON


@pytest.fixture(autouse=True)
def warn_again() -> None:
    conversion._warned.clear()


async def sent(service: Service, request: ModelRequest, *, vertex: bool = False, **options: Any) -> dict[str, Any]:
    """The body that a request becomes."""
    await whole_of((vertex_model if vertex else api_model)(service, **options), request)
    return service.received[-1].body


# --- construction and addresses ---------------------------------------------------------------------------------------


async def test_gem_1_the_gemini_api_is_called_with_the_key(service: Service) -> None:
    for stream, method in ((False, "generateContent"), (True, "streamGenerateContent")):
        await whole_of(api_model(service), stream=stream)
        received = service.received[-1]
        assert received.path == f"/v1beta/models/gemini-2.5-flash:{method}"
        assert received.query == ("alt=sse" if stream else "")
        assert received.headers["x-goog-api-key"] == [KEY]


async def test_gem_1_vertex_ai_is_called_with_a_token(service: Service) -> None:
    await whole_of(vertex_model(service))
    received = service.received[-1]
    assert received.path == (
        "/v1beta1/projects/p1/locations/europe-west4/publishers/google/models/gemini-2.5-flash:generateContent"
    )
    assert received.headers["authorization"] == ["Bearer token-77"]


@pytest.mark.parametrize("rest", ["publishers/google/models/gemini-2.5-flash", "endpoints/12345"])
async def test_gem_1_a_resource_name_says_where_it_is(service: Service, rest: str) -> None:
    name = f"projects/p9/locations/us-east1/{rest}"
    model = vertex_model(service, name, project=None, location=None)
    assert model.capabilities.provider == "gcp.vertex_ai"
    await whole_of(model)
    assert service.received[-1].path == f"/v1beta1/{name}:generateContent"
    assert (model._config.project, model._config.location) == ("p9", "us-east1")


async def test_gem_1_vertex_ai_in_express_mode_takes_a_key(service: Service) -> None:
    await whole_of(GeminiModel("gemini-2.5-flash", vertexai=True, api_key=KEY, base_url=service.url))
    received = service.received[-1]
    assert received.path == "/v1beta1/publishers/google/models/gemini-2.5-flash:generateContent"
    assert received.headers["x-goog-api-key"] == [KEY]


async def test_gem_1_without_arguments_the_environment_decides(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SDK-3: GOOGLE_API_KEY wins over GEMINI_API_KEY; the base URL and the version come from there too."""
    monkeypatch.setenv("GEMINI_API_KEY", "second")
    monkeypatch.setenv("GOOGLE_API_KEY", "first")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", service.url)
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1alpha")
    await whole_of(GeminiModel("gemini-2.5-flash"))
    assert service.received[-1].headers["x-goog-api-key"] == ["first"]
    assert service.received[-1].path.startswith("/v1alpha/")


@pytest.mark.parametrize(
    ("environment", "vertex"),
    [
        ({}, False),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "TRUE"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "1"}, True),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "yes"}, False),
        ({"GOOGLE_GENAI_USE_ENTERPRISE": "false", "GOOGLE_GENAI_USE_VERTEXAI": "true"}, False),
        ({"GOOGLE_GENAI_USE_ENTERPRISE": "true"}, True),
    ],
)
def test_sdk_3_the_backend_by_environment(
    environment: dict[str, str], vertex: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    wanted = "gcp.vertex_ai" if vertex else "gcp.gemini"
    assert GeminiModel("gemini-2.5-flash").capabilities.provider == wanted


@pytest.mark.parametrize("vertex", [False, True])
async def test_sdk_2_no_key_is_told_at_the_first_call(vertex: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """SDK-2: the client is built lazily, so a model can be made without credentials (REG-8)."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    model = GeminiModel("gemini-2.5-flash", vertexai=vertex)
    with pytest.raises(ModelError, match="GOOGLE_CLOUD_PROJECT" if vertex else "GOOGLE_API_KEY") as caught:
        await responses_of(model)
    assert (caught.value.kind, caught.value.retryable) == ("auth", False)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "gemini-x", "api_key": "k", "credentials": object()},
        {"name": "gemini-x", "vertexai": False, "project": "p"},
        {"name": "gemini-x", "retry": {"attemps": 1}},
    ],
)
def test_gem_1_arguments_that_do_not_fit_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        GeminiModel(**options)


async def test_gem_1_the_callers_client_and_options_are_used_and_not_changed(service: Service) -> None:
    import httpx2
    from google.genai import types

    seen: list[str] = []

    async def note(request: Any) -> None:
        seen.append(str(request.url))

    options = types.HttpOptions(headers={"x-team": "t"}, api_version="v1beta", retry_options=types.HttpRetryOptions())
    async with httpx2.AsyncClient(event_hooks={"request": [note]}, headers={"x-own": "1"}) as client:
        before = (dict(client.event_hooks), options.model_dump())
        model = GeminiModel(
            "gemini-2.5-flash", api_key=KEY, base_url=service.url, http_client=client, http_options=options
        )
        await responses_of(model, stream=True)
        assert not client.is_closed
        assert client.event_hooks == before[0]
    assert options.model_dump() == before[1]
    assert len(seen) == 1
    assert service.received[-1].headers["x-team"] == ["t"]
    assert service.received[-1].path.startswith("/v1beta/")


async def test_gem_3_the_requests_model_wins_over_the_models_name(service: Service) -> None:
    request = asking()
    request.model = "gemini-3-pro"
    await whole_of(api_model(service), request)
    assert "/models/gemini-3-pro:" in service.received[-1].path


async def test_gem_11_version_and_address_are_options(service: Service) -> None:
    await whole_of(api_model(service, api_version="v1", base_url=f"{service.url}/proxy"))
    assert service.received[-1].path == "/proxy/v1/models/gemini-2.5-flash:generateContent"


# --- headers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_gem_4_each_identification_header_has_one_value(service: Service, stream: bool) -> None:
    python = ".".join(map(str, sys.version_info[:3]))
    request = asking(http_options={"headers": {"User-Agent": "mine", "x-goog-api-client": "mine", "X-Keep": "1"}})
    await whole_of(api_model(service), request, stream=stream)
    headers = service.received[-1].headers
    for name in ("x-goog-api-client", "user-agent"):
        (value,) = headers[name]
        assert value.startswith("google-genai-sdk/")
        assert value.endswith(f"hookwork/{__version__} gl-python/{python}")
        assert "mine" not in value
    assert headers["x-keep"] == ["1"]


async def test_gem_5_headers_of_the_model_and_of_the_call_are_kept(service: Service) -> None:
    model = api_model(service, headers={"x-model": "1"})
    await whole_of(model, asking(http_options={"headers": {"x-call": "2"}, "timeout": 5000}))
    headers = service.received[-1].headers
    assert (headers["x-model"], headers["x-call"]) == (["1"], ["2"])
    assert headers["x-server-timeout"] == ["5"]  # the SDK tells the server of the time limit


# --- contents ---------------------------------------------------------------------------------------------------------


async def test_gem_6_a_history_that_ends_with_the_model_gets_a_user_turn(service: Service) -> None:
    contents = [user_content("a"), text_content("b")]
    request = ModelRequest(contents=contents)
    body = await sent(service, request)
    assert body["contents"][:2] == [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"text": "b"}]},
    ]
    assert body["contents"][2:] == [{"role": "user", "parts": [{"text": GO_ON}]}]
    assert request.contents is contents
    assert len(contents) == 2  # GEM-8: a retry does not add it twice
    assert len((await sent(service, ModelRequest(contents=[*contents, user_content("c")])))["contents"]) == 3


async def test_gem_7_no_contents_point_to_the_instruction(service: Service) -> None:
    request = ModelRequest(config=GenerateContentConfig(system_instruction=Content(parts=[Part(text="Be brief.")])))
    body = await sent(service, request)
    assert body["contents"] == [{"role": "user", "parts": [{"text": FOLLOW_INSTRUCTION}]}]
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]


@pytest.mark.parametrize("vertex", [False, True])
async def test_gem_14_parts_cross_the_door_unchanged(service: Service, vertex: bool) -> None:
    """CASE-STREAM-1: three calls in one content, the signature on the first alone, thoughts with their mark."""
    calls = [Part(function_call=FunctionCall(name="f", args={"n": i, "none": None})) for i in range(3)]
    calls[0] = calls[0].replace(thought_signature=b"\x01\xff")
    history = [
        user_content([Part(text="see"), Part(inline_data=Blob(data=b"\xfb\xff\x00", mime_type="image/png"))]),
        Content(role="model", parts=[Part(text="hm", thought=True, thought_signature=b"\xfe"), *calls]),
        user_content([Part(function_response=FunctionResponse(name="f", response={"r": [1, None]})) for _ in calls]),
        user_content([Part(file_data=FileData(file_uri="gs://b/o", mime_type="video/mp4"))]),
    ]
    body = await sent(service, ModelRequest(contents=history), vertex=vertex)
    assert [load(Content, content) for content in body["contents"]] == history


async def test_gem_14_a_key_the_sdk_does_not_know_is_left_out_with_one_warning(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    content = load(Content, {"role": "user", "parts": [{"text": "a", "zork": {"b": 1}}, {"text": "c", "zork": 2}]})
    with caplog.at_level(logging.WARNING, "hookwork.gemini"):
        body = await sent(service, ModelRequest(contents=[content]))
        await sent(service, ModelRequest(contents=[content]))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "a"}, {"text": "c"}]}]
    assert [record.getMessage().count("'zork'") for record in caplog.records] == [1]


async def test_gem_14_newer_parts_that_the_sdk_knows_pass_through(service: Service) -> None:
    content = load(Content, {"role": "model", "parts": [{"toolCall": {"id": "1", "args": {"q": "x"}}}]})
    body = await sent(service, ModelRequest(contents=[content, user_content("go")]))
    assert body["contents"][0]["parts"] == [{"toolCall": {"id": "1", "args": {"q": "x"}}}]


NAMED = [
    Part(inline_data=Blob(data=b"x", mime_type="image/png", display_name="n")),
    Part(file_data=FileData(file_uri="https://x/y", mime_type="image/png", display_name="n")),
    Part(
        function_response=FunctionResponse(
            name="f",
            response={},
            parts=(
                FunctionResponsePart(
                    inline_data=FunctionResponseBlob(data=b"x", mime_type="image/png", display_name="n")
                ),
                FunctionResponsePart(file_data=FileData(file_uri="gs://b/o", mime_type="a/b", display_name="n")),
            ),
        )
    ),
]


async def test_cap_4_display_names_are_cleared_for_the_gemini_api(service: Service) -> None:
    body = await sent(service, ModelRequest(contents=[user_content(NAMED)]))
    assert "displayName" not in str(body)
    assert "display_name" not in str(body)
    assert NAMED[0].inline_data is not None
    assert NAMED[0].inline_data.display_name == "n"


async def test_cap_4_display_names_reach_vertex_ai(service: Service) -> None:
    body = await sent(service, ModelRequest(contents=[user_content(NAMED[:2])]), vertex=True)
    assert str(body).count("displayName") == 2


async def test_cap_6_labels_are_for_vertex_ai_only(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hookwork.gemini"):
        assert "labels" not in await sent(service, asking(labels={"team": "a"}))
    assert "labels" in caplog.text
    assert (await sent(service, asking(labels={"team": "a"}), vertex=True))["labels"] == {"team": "a"}


async def test_metadata_of_another_provider_does_not_break_vertex_ai(service: Service) -> None:
    """A part that an OpenAI model wrote carries metadata, which the SDK refuses to send to Vertex AI."""
    part = load(Part, {"text": "a", "partMetadata": {"id": "rs_1"}, "toolCall": {"id": "x"}})
    history = [user_content("q"), Content(role="model", parts=[part]), user_content("go")]
    body = await sent(service, ModelRequest(contents=history), vertex=True)
    assert body["contents"][1]["parts"] == [{"text": "a"}]


async def test_marks_of_streamed_calls_and_answers_do_not_break_the_other_backend(service: Service) -> None:
    call = load(Part, {"functionCall": {"name": "f", "args": {}, "willContinue": False}})
    answer = load(Part, {"functionResponse": {"name": "f", "response": {}, "willContinue": False}})
    history = ModelRequest(contents=[user_content("q"), Content(role="model", parts=[call]), user_content([answer])])
    assert "willContinue" not in str((await sent(service, history))["contents"][1])
    assert "willContinue" not in str((await sent(service, history, vertex=True))["contents"][2])


async def test_gem_14_a_content_of_a_wrong_form_is_an_invalid_request(service: Service) -> None:
    part = load(Part, {"text": "a", "mediaResolution": {"numTokens": "s3cret"}})
    with pytest.raises(ModelError, match=r"numTokens|num_tokens") as caught:
        await responses_of(api_model(service), ModelRequest(contents=[user_content([part])]))
    assert caught.value.kind == "invalid_request"
    assert "s3cret" not in str(caught.value)


# --- config -----------------------------------------------------------------------------------------------------------

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
