"""The traps of models §Traps, each over the wire: what a reference gets wrong, the adapters get right (models T-1…23).

T-8, T-9 and T-10 are about live sessions; their tests stand with those (tests/gemini, tests/openai, tests/llm).
"""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import aclosing
from typing import Any

import pytest
from tests.apigee.conftest import gemini, nobody, openai, running_gemini, running_openai  # noqa: F401 - fixtures
from tests.gemini.making import api_model, vertex_model
from tests.gemini.service import Failure, Reply, chunk, error_body
from tests.gemini.service import Service as GeminiService
from tests.openai.asking import chat_model_on, model_on
from tests.openai.server import Json, Sse
from tests.openai.server import Service as OpenAIService
from tests.openai.wire import (
    added,
    arguments_delta,
    chat_stream,
    completion,
    created,
    function_call,
    incomplete,
    message,
    response,
    stream,
    tool_call,
)

from hookwork import (
    Content,
    FunctionDeclaration,
    FunctionResponse,
    GenerateContentConfig,
    Model,
    ModelRequest,
    ModelResponse,
    Part,
    RunConfig,
    Runner,
    Settings,
    ToolDeclaration,
    user_content,
)
from hookwork.errors import LimitExceeded, ModelError, UnknownModelError
from hookwork.records.codec import dump_json
from hookwork.resolve import resolve_model
from hookwork_apigee import ApigeeModel
from hookwork_budget import Budget
from hookwork_gemini.capabilities import version_of
from hookwork_llm import LlmAgent, tool

STREAMS = pytest.mark.parametrize("streamed", [False, True])
NO_SETTINGS = Settings(tables={})
SIGNATURE = b64encode(b"\x01\xff").decode()


async def ask(model: Model, request: ModelRequest, *, stream: bool = False) -> list[ModelResponse]:
    try:
        async with aclosing(model.generate(request, stream=stream)) as responses:  # type: ignore[type-var]
            return [response async for response in responses]
    finally:
        await model.close()


def asked(*contents: Content | str, **config: Any) -> ModelRequest:
    listed = [user_content(item) if isinstance(item, str) else item for item in contents or ("hi",)]
    return ModelRequest(contents=listed, config=GenerateContentConfig(**config))


def said(*parts: Part) -> Content:
    return Content(role="model", parts=list(parts))


def parts_of(found: ModelResponse) -> list[Part]:
    assert found.content is not None
    return list(found.content.parts)


# --- Gemini and aggregation ------------------------------------------------------------------------------------------


@STREAMS
async def test_t_1_a_blocked_prompt_says_why_streamed_or_not(gemini: GeminiService, streamed: bool) -> None:  # noqa: F811
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "not that"}}
    gemini.scripts = [Reply(blocked, whole=blocked)]
    found = (await ask(vertex_model(gemini), asked(), stream=streamed))[-1]
    assert (found.error_code, found.error_message, found.content) == ("PROHIBITED_CONTENT", "not that", None)


async def test_t_2_a_signature_of_a_text_stays_with_it_and_returns_on_it(gemini: GeminiService) -> None:  # noqa: F811
    gemini.scripts = [
        Reply(
            chunk({"text": "I ", "thoughtSignature": SIGNATURE}),
            chunk({"text": "call."}),
            chunk({"functionCall": {"name": "f", "args": {}}}, finish="STOP"),
        )
    ]
    found = (await ask(api_model(gemini), asked(), stream=True))[-1]
    text, call = parts_of(found)
    assert (text.text, text.thought_signature, call.thought_signature) == ("I call.", b"\x01\xff", None)
    answered = Content(role="user", parts=[Part(function_response=FunctionResponse(name="f", response={"ok": 1}))])
    assert found.content is not None
    await ask(api_model(gemini), asked("hi", found.content, answered))
    sent = gemini.received[-1].body["contents"][1]["parts"]
    assert sent[0] == {"text": "I call.", "thoughtSignature": SIGNATURE}
    assert "thoughtSignature" not in sent[1]


def fragment(name: str = "", *args: tuple[str, Any], more: bool = True, call_id: str = "") -> dict[str, Any]:
    call: dict[str, Any] = {"willContinue": more}
    if name:
        call["name"] = name
    if call_id:
        call["id"] = call_id
    if args:
        call["partialArgs"] = [{"jsonPath": path, "stringValue": value} for path, value in args]
    return {"functionCall": call}


async def test_t_3_an_array_step_of_a_path_is_a_place_in_an_array(gemini: GeminiService) -> None:  # noqa: F811
    gemini.scripts = [
        Reply(
            chunk(fragment("f", ("$.items[0].name", "a"), ("$.items[1]['name']", "b"))),
            chunk(fragment("", ("$.items[0].name", "A"), more=False), finish="STOP"),
        )
    ]
    (part,) = parts_of((await ask(vertex_model(gemini), asked(), stream=True))[-1])
    assert part.function_call is not None
    assert part.function_call.args == {"items": [{"name": "aA"}, {"name": "b"}]}


async def test_t_4_two_calls_that_are_streamed_one_after_the_other_keep_their_arguments(
    gemini: GeminiService,  # noqa: F811
) -> None:
    gemini.scripts = [
        Reply(
            chunk(fragment("f", ("$.a", "1"), call_id="c1")),
            chunk(fragment("g", ("$.b", "2"), call_id="c2")),
            chunk(fragment("", more=False), finish="STOP"),
        )
    ]
    calls = [part.function_call for part in parts_of((await ask(vertex_model(gemini), asked(), stream=True))[-1])]
    assert [(call.name, call.args) for call in calls if call is not None] == [("f", {"a": "1"}), ("g", {"b": "2"})]


def hello_of(which: str, service: Any, streamed: bool) -> Model:
    """A model whose service says hello, on each adapter."""
    if which == "gemini":
        service.scripts = [Reply(chunk({"text": "Hel"}), chunk({"text": "lo."}, finish="STOP"))]
        return api_model(service)
    if which == "responses":
        return model_on(
            service.answers(Sse(stream(message("Hello."))) if streamed else Json(response(message("Hello."))))
        )
    whole = Json(completion("Hello."))
    return chat_model_on(service.answers(Sse(chat_stream("Hello."), named=False, done=True) if streamed else whole))


@STREAMS
@pytest.mark.parametrize("which", ["gemini", "responses", "chat"])
async def test_t_5_turn_complete_means_one_thing(
    gemini: GeminiService,  # noqa: F811
    openai: OpenAIService,  # noqa: F811
    which: str,
    streamed: bool,
) -> None:
    model = hello_of(which, gemini if which == "gemini" else openai, streamed)
    *partials, whole = await ask(model, asked(), stream=streamed)
    assert not any(one.turn_complete or one.finish_reason for one in partials)
    assert all(one.partial for one in partials)
    assert (whole.turn_complete, whole.finish_reason, bool(whole.partial)) == (True, "STOP", False)
    assert len(partials) > 1 if streamed else not partials


async def test_t_6_the_whole_response_keeps_version_logprobs_and_an_early_error(gemini: GeminiService) -> None:  # noqa: F811
    logprobs = {"chosenCandidates": [{"token": "a", "logProbability": -0.5}]}
    gemini.scripts = [
        Reply(
            chunk({"text": "a"}, avgLogprobs=-0.5, logprobsResult=logprobs),
            {"modelVersion": "gemini-served", "usageMetadata": {"promptTokenCount": 3}},
        ),
        Reply(
            {"candidates": [{"finishReason": "SAFETY", "index": 0}], "modelVersion": "gemini-served"},
            {"usageMetadata": {"promptTokenCount": 3}},
        ),
    ]
    found = (await ask(vertex_model(gemini), asked(), stream=True))[-1]
    assert (found.model_version, found.avg_logprobs) == ("gemini-served", -0.5)
    assert found.logprobs_result is not None
    refused = (await ask(vertex_model(gemini), asked(), stream=True))[-1]
    assert (refused.error_code, refused.finish_reason) == ("SAFETY", "SAFETY")


@pytest.mark.parametrize("which", ["gemini", "responses", "chat", "apigee"])
async def test_t_7_the_request_is_only_read(gemini: GeminiService, openai: OpenAIService, which: str) -> None:  # noqa: F811
    schema = {"type": "object", "properties": {"a": {"type": "string", "const": "x"}, "b": {"$ref": "#/$defs/b"}},
              "$defs": {"b": {"type": "integer"}}}  # fmt: skip
    declaration = FunctionDeclaration(name="f.g", parameters_json_schema=schema)
    request = asked(
        "hi",
        said(Part(text="half")),
        tools=(ToolDeclaration(function_declarations=(declaration,)),),
        response_json_schema=schema if which in ("responses", "chat") else None,
        http_options={"headers": {"x-one": "1"}},
    )
    model = (
        ApigeeModel("apigee/gemini/v1/m", proxy_url=gemini.url, api_key="k")
        if which == "apigee"
        else hello_of(which, gemini if which == "gemini" else openai, False)
    )
    request.model = "apigee/gemini/v1/m" if which == "apigee" else ""
    before = (request.model, [dump_json(content) for content in request.contents], dump_json(request.config))
    await ask(model, request)
    assert (request.model, [dump_json(content) for content in request.contents], dump_json(request.config)) == before


# --- OpenAI ----------------------------------------------------------------------------------------------------------


async def test_t_11_an_assistants_text_of_the_history_is_not_input_text(openai: OpenAIService) -> None:  # noqa: F811
    openai.answers(Json(response(message("ok"))))
    await ask(model_on(openai), asked("a", said(Part(text="b")), "c", said(Part(text="d"), Part(text="e")), "f"))
    spoken = [item for item in openai.body["input"] if item["role"] == "assistant"]
    assert spoken[0]["content"] == "b"
    assert [piece["type"] for piece in spoken[1]["content"]] == ["output_text", "output_text"]
    assert "input_text" not in json.dumps(spoken)


@STREAMS
async def test_t_12_the_proxy_is_asked_for_the_model_itself(gemini: GeminiService, streamed: bool) -> None:  # noqa: F811
    agent = LlmAgent(name="helper", model=ApigeeModel("apigee/gemini/v1/m", proxy_url=gemini.url, api_key="k"))
    async with Runner.in_memory(agent, settings=NO_SETTINGS) as runner:
        config = RunConfig(streaming_mode="sse" if streamed else "none")
        await runner.ask("hi", config=config)
    (received,) = gemini.received
    assert received.path == f"/v1/models/m:{'streamGenerateContent' if streamed else 'generateContent'}"


async def test_t_13_capabilities_of_what_stands_behind_the_proxy(gemini: GeminiService) -> None:  # noqa: F811
    place = {"project": "p", "location": "l"}
    vertex = ApigeeModel("apigee/vertex_ai/gemini-2.5-flash", proxy_url=gemini.url, **place)
    api = ApigeeModel("apigee/gemini/gemini-2.5-flash", proxy_url=gemini.url)
    assert (vertex.capabilities.provider, api.capabilities.provider) == ("gcp.vertex_ai", "gcp.gemini")
    assert (vertex.capabilities.output_schema_with_tools, api.capabilities.output_schema_with_tools) == (True, False)
    assert vertex.capabilities.live
    assert api.capabilities.live


@STREAMS
@pytest.mark.parametrize("chat", [False, True])
async def test_t_14_reasoning_is_counted_once(openai: OpenAIService, chat: bool, streamed: bool) -> None:  # noqa: F811
    model = hello_of("chat" if chat else "responses", openai, streamed)
    usage = (await ask(model, asked(), stream=streamed))[-1].usage_metadata
    assert usage is not None
    assert (usage.candidates_token_count, usage.thoughts_token_count) == (30, 20)
    assert usage.total_token_count == 150


async def test_t_15_thoughts_do_not_go_back_as_prose(openai: OpenAIService) -> None:  # noqa: F811
    history = [
        said(Part(text="secretly", thought=True), Part(thought_signature=b"\x01"), Part(text="aloud")),
        said(Part(text="only thought", thought=True)),
    ]
    openai.answers(Json(response(message("ok"))), Json(completion("ok")))
    await ask(model_on(openai), asked("a", *history, "b"))
    await ask(chat_model_on(openai), asked("a", *history, "b"))
    for sent in openai.sent:
        text = json.dumps(sent.body)
        assert "aloud" in text
        assert "secretly" not in text
        assert "only thought" not in text


@STREAMS
async def test_t_16_a_failed_response_is_an_error(openai: OpenAIService, streamed: bool) -> None:  # noqa: F811
    failed = response(status="failed", error={"code": "server_error", "message": "oh"}, usage=None)
    event = {"type": "response.failed", "response": failed}
    openai.answers(Sse([created(), event]) if streamed else Json(failed))
    with pytest.raises(ModelError) as caught:
        await ask(model_on(openai), asked(), stream=streamed)
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == ("invalid_response", "server_error", True)


@STREAMS
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("text", ["null", "", "{}"])
async def test_t_17_null_arguments_are_an_empty_object(
    openai: OpenAIService,  # noqa: F811
    text: str,
    chat: bool,
    streamed: bool,
) -> None:
    if chat:
        call = tool_call("f", text)
        reply: Any = Sse(chat_stream("", call), named=False, done=True) if streamed else Json(completion(None, call))
    else:
        item = function_call("f", text)
        reply = Sse(stream(item)) if streamed else Json(response(item))
    model = (chat_model_on if chat else model_on)(openai.answers(reply))
    (part,) = parts_of((await ask(model, asked(), stream=streamed))[-1])
    assert part.function_call is not None
    assert part.function_call.args == {}


SETTINGS: dict[str, Any] = {
    "top_k": 3,
    "seed": 7,
    "thinking_config": {"thinkingBudget": 100},
    "cached_content": "x",
    "media_resolution": "MEDIA_RESOLUTION_LOW",
    "safety_settings": ({"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "OFF"},),
    "labels": {"a": "b"},
    "stop_sequences": ("x",),
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "candidate_count": 2,
    "speech_config": {"languageCode": "de"},
    "response_modalities": ("AUDIO",),
    "extra": {"imageConfig": {}},
}


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("name", sorted(SETTINGS))
async def test_t_18_no_setting_is_left_out_without_a_word(
    openai: OpenAIService,  # noqa: F811
    name: str,
    chat: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply = Json(completion("ok")) if chat else Json(response(message("ok")))
    plain = (chat_model_on if chat else model_on)(openai.answers(reply, reply))
    await ask(plain, asked())
    reference = openai.body
    model = (chat_model_on if chat else model_on)(openai)
    refusals: list[str] = []
    try:
        await ask(model, asked(**{name: SETTINGS[name]}))
    except ModelError as error:
        refusals.append(error.kind)
    told = [record for record in caplog.records if name in record.message or "imageConfig" in record.message]
    if refusals:
        assert refusals == ["invalid_request"]
        assert len(openai.sent) == 1, "refused before anything was sent"
    else:
        assert openai.body != reference or len(told) == 1


async def test_t_19_an_optional_field_of_a_response_schema_may_be_null(openai: OpenAIService) -> None:  # noqa: F811
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a"],
    }
    openai.answers(Json(response(message("{}"))))
    await ask(model_on(openai), asked(response_json_schema=schema))
    sent = openai.body["text"]["format"]["schema"]
    assert sent["required"] == ["a", "b"]
    assert sent["properties"] == {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}


def test_t_20_a_name_that_only_contains_gemini_is_not_one() -> None:
    for name in ("my-model-gemini", "gateway/gemini-2.5-flash", "x-gemini-2"):
        with pytest.raises(UnknownModelError):
            resolve_model(name, NO_SETTINGS)
    assert version_of("my-model-gemini-3") is None
    assert resolve_model("openai/gateway/gemini-2.5-flash", NO_SETTINGS).capabilities.provider == "openai"


@pytest.mark.parametrize("which", ["gemini", "interactions", "responses", "chat"])
async def test_t_21_one_layer_retries(gemini: GeminiService, openai: OpenAIService, which: str) -> None:  # noqa: F811
    retry = {"attempts": 3, "base": 0.001, "jitter": False}
    service: Any = gemini if which in ("gemini", "interactions") else openai
    error = error_body(429, "RESOURCE_EXHAUSTED")
    if service is gemini:
        gemini.always = Failure(429, error)
        model: Model = api_model(gemini, retry=retry, interactions=which == "interactions")
    else:
        openai.respond = lambda sent: Json({"error": {"code": "rate_limit_exceeded"}}, status=429)
        model = (chat_model_on if which == "chat" else model_on)(openai, retry=retry)
    with pytest.raises(ModelError) as caught:
        await ask(model, asked())
    assert caught.value.status_code == 429
    assert len(gemini.received if service is gemini else openai.sent) == 3


@pytest.mark.parametrize("which", ["gemini", "responses", "chat"])
async def test_t_22_a_call_that_the_limit_cut_off_is_not_run(
    gemini: GeminiService,  # noqa: F811
    openai: OpenAIService,  # noqa: F811
    which: str,
) -> None:
    ran: list[str] = []

    @tool
    def write(path: str = "", text: str = "") -> dict[str, Any]:
        """Write."""
        ran.append(path)
        return {}

    torso = '{"path": "/a", "te'
    if which == "gemini":
        gemini.scripts = [
            Reply(chunk(fragment("write", ("$.path", "/a"))), chunk(fragment("", ("$.te", "x")), finish="MAX_TOKENS"))
        ]
        model: Model = vertex_model(gemini)
    elif which == "responses":
        begun = [created(), added(function_call("write", "")), arguments_delta(torso)]
        model = model_on(openai.answers(Sse([*begun, incomplete("max_output_tokens")])))
    else:
        chunks = chat_stream("", tool_call("write", torso), finish="length")
        model = chat_model_on(openai.answers(Sse(chunks, named=False, done=True)))
    agent = LlmAgent(name="writer", model=model, tools=[write])
    async with Runner.in_memory(agent, settings=NO_SETTINGS) as runner:
        config = RunConfig(streaming_mode="sse")
        async with runner.run(user_id="u", session_id="s", message="write", config=config) as run:
            events = [event async for event in run if not event.partial]
    assert ran == []
    assert (events[-1].error_code, events[-1].finish_reason) == ("MAX_TOKENS", "MAX_TOKENS")
    assert "'write'" in (events[-1].error_message or "")


@pytest.mark.parametrize("which", ["gemini", "chat"])
async def test_t_23_an_empty_stop_is_told_apart_from_an_answer(
    gemini: GeminiService,  # noqa: F811
    openai: OpenAIService,  # noqa: F811
    which: str,
) -> None:
    saved: list[int] = []

    @tool
    def save() -> dict[str, Any]:
        """Save."""
        saved.append(1)
        return {"ok": True}

    if which == "gemini":
        empty = {"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP"}],
                 "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 0}}  # fmt: skip
        gemini.scripts = [
            Reply(chunk({"functionCall": {"name": "save", "args": {}}}, finish="STOP")),
            Reply(empty, whole=empty),
        ]
        model: Model = api_model(gemini)
    else:
        usage = {"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10}
        openai.answers(Json(completion(None, tool_call("save", "{}"))), Json(completion("", usage=usage)))
        model = chat_model_on(openai)
    agent = LlmAgent(name="saver", model=model, tools=[save])
    async with Runner.in_memory(agent, settings=NO_SETTINGS) as runner:
        run = runner.run(user_id="u", session_id="s", message="save")
        async with run:
            events = [event async for event in run]
    assert run.outcome is not None
    assert (saved, run.outcome.kind) == ([1], "completed")
    assert (events[-1].error_code, events[-1].finish_reason) == ("EMPTY_RESPONSE", "STOP")
    assert events[-1].usage_metadata is not None
    assert (events[-1].usage_metadata.prompt_token_count, events[-1].usage_metadata.candidates_token_count) == (10, 0)


USAGE = {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 30, "thoughtsTokenCount": 20}


@STREAMS
@pytest.mark.parametrize("which", ["gemini", "responses", "chat"])
async def test_mod_16_a_token_budget_counts_alike_on_every_adapter(
    gemini: GeminiService,  # noqa: F811
    openai: OpenAIService,  # noqa: F811
    which: str,
    streamed: bool,
) -> None:
    """models Beyond: a token budget of an invocation. Each call is 100 in, 60 of it cached, 30 out, 20 thought."""

    @tool
    def look() -> dict[str, Any]:
        """Look."""
        return {"seen": 1}

    if which == "gemini":
        call = {"functionCall": {"name": "look", "args": {}}}
        gemini.always = Reply(chunk(call, finish="STOP", usageMetadata={**USAGE, "totalTokenCount": 150}))
        model: Model = api_model(gemini)
    else:
        item, made = function_call("look", "{}"), tool_call("look", "{}")
        replies: dict[tuple[str, bool], Any] = {
            ("responses", False): Json(response(item)),
            ("responses", True): Sse(stream(item)),
            ("chat", False): Json(completion(None, made)),
            ("chat", True): Sse(chat_stream("", made), named=False, done=True),
        }
        openai.respond = lambda sent: replies[which, streamed]
        model = (chat_model_on if which == "chat" else model_on)(openai)
    agent = LlmAgent(name="looker", model=model, tools=[look])
    async with Runner.in_memory(agent, settings=NO_SETTINGS, plugins=[Budget(tokens=300)]) as runner:
        config = RunConfig(streaming_mode="sse" if streamed else "none")
        run = runner.run(user_id="u", session_id="s", message="go", config=config)
        with pytest.raises(LimitExceeded, match="tokens: 300 of 300 used"):
            await run.wait()
    assert run.outcome is not None
    assert run.outcome.kind == "limit"
    assert len(gemini.received if which == "gemini" else openai.sent) == 2
