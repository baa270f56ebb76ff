"""Addresses, headers and contents on the wire: models GEM-1, GEM-3 … GEM-8, GEM-11, GEM-14, CAP-4."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from tests.gemini.making import api_model, asking, responses_of, sent, vertex_model, whole_of
from tests.gemini.service import KEY, Service

from hookwork import (
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    ModelRequest,
    Part,
    __version__,
    text_content,
    user_content,
)
from hookwork.errors import ConfigurationError, ModelError
from hookwork.records.codec import load
from hookwork.records.content import FunctionResponseBlob, FunctionResponsePart
from hookwork.records.request import GenerateContentConfig
from hookwork_gemini import GeminiModel
from hookwork_gemini.requests import FOLLOW_INSTRUCTION, GO_ON

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
