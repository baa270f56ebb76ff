"""Generation settings, tools and options on the wire (models §8 Request, OAI-15…25, 47, 48)."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
from tests.openai.asking import KEY, a_call, asked, body, declared, model_on, whole
from tests.openai.server import Json, Service
from tests.openai.wire import message, response

from hookwork import Content, FunctionDeclaration, GenerateContentConfig, ModelRequest, Part, ToolDeclaration
from hookwork.errors import ConfigurationError, ModelError
from hookwork.records.frozen import thaw
from hookwork_openai import OpenAIModel
from hookwork_openai.config import transport
from hookwork_openai.responses.request import request_body


def sent(**config: Any) -> dict[str, Any]:
    """The body without what every request has."""
    found = body(asked("hi", **config))
    del found["model"], found["input"]
    return found


def refused(code: str = "", /, *, name: str = "gpt-4.1", options: dict[str, Any] | None = None, **config: Any) -> str:
    with pytest.raises(ModelError) as caught:
        body(asked("hi", **config), name, **(options or {}))
    assert caught.value.kind == "invalid_request"
    assert code in ("", caught.value.code)
    return str(caught.value)


# --- the table of §8 -------------------------------------------------------------------------------------------------


def test_the_model_of_the_request_comes_first() -> None:
    assert body(asked())["model"] == "gpt-4.1"
    request = asked()
    request.model = "other"
    call = OpenAIModel("mine", api_key=KEY)._call(request)
    assert request_body(call, request)["model"] == "other"


def test_system_instruction_becomes_instructions() -> None:
    parts = [Part(text="a"), Part(text="b")]
    assert sent(system_instruction=Content(parts=parts)) == {"instructions": "a\nb"}
    assert sent(system_instruction=Content(parts=[Part(text="")])) == {}
    assert "no text" in refused("unsupported_part", system_instruction=Content(parts=[Part(thought_signature=b"x")]))


def test_sampling_and_limit() -> None:
    config = {"temperature": 0.2, "top_p": 0.9, "max_output_tokens": 50}
    assert sent(**config) == config
    assert sent(max_output_tokens=0) == {}


def test_logprobs() -> None:
    include = ["message.output_text.logprobs"]
    assert sent(response_logprobs=True) == {"top_logprobs": 1, "include": include}
    assert sent(response_logprobs=True, logprobs=5) == {"top_logprobs": 5, "include": include}


@pytest.mark.parametrize(
    ("code", "config"),
    [
        ("unsupported_top_k", {"top_k": 5}),
        ("unsupported_stop_sequences", {"stop_sequences": ("x",)}),
        ("unsupported_candidates", {"candidate_count": 2}),
        ("unsupported_penalties", {"frequency_penalty": 0.5}),
        ("unsupported_penalties", {"presence_penalty": 0.0}),
        ("unsupported_labels", {"labels": {"team": "a"}}),
        ("unsupported_safety_settings", {"safety_settings": ({"category": "x"},)}),
        ("unsupported_mime_type", {"response_mime_type": "text/x.enum"}),
        ("empty_json_schema", {"response_json_schema": {}}),
        ("unsupported_modalities", {"response_modalities": ("TEXT", "AUDIO")}),
    ],
)
def test_oai_48_settings_without_counterpart_are_refused_by_code(code: str, config: dict[str, Any]) -> None:
    assert "openai 'gpt-4.1': invalid_request" in refused(code, **config)


def test_oai_48_harmless_values_are_not_refused() -> None:
    assert (
        sent(stop_sequences=(), candidate_count=1, labels={}, safety_settings=(), response_mime_type="text/plain") == {}
    )


def test_oai_48_a_model_needs_a_name() -> None:
    for name in ("", "  "):
        with pytest.raises(ModelError) as caught:
            OpenAIModel(name)
        assert caught.value.code == "model_name_required"


async def test_oai_48_nothing_is_sent_when_a_request_is_refused(service: Service) -> None:
    with pytest.raises(ModelError) as caught:
        await whole(model_on(service), asked("hi", top_k=3))
    assert (caught.value.provider, caught.value.model, service.sent) == ("openai", "gpt-5.2", [])


def test_unsupported_warn_leaves_settings_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    call = a_call(unsupported="warn")
    for _ in range(2):
        found = request_body(call, asked("hi", top_k=5, stop_sequences=("x",), temperature=1))
        assert sorted(found) == ["input", "model", "temperature"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


# --- structured output -----------------------------------------------------------------------------------------------

CITY = {"type": "object", "title": "City info", "properties": {"name": {"type": "string"}}, "required": ["name"]}
STRICT = {**CITY, "additionalProperties": False}


def test_oai_15_a_json_schema_wins_over_a_schema_and_a_mime_type_alone_asks_for_json() -> None:
    other = {"type": "OBJECT", "properties": {"x": {"type": "STRING"}}, "required": ["x"]}
    found = sent(response_json_schema=CITY, response_schema=other, response_mime_type="application/json")
    assert found["text"]["format"]["schema"] == STRICT
    assert sent(response_mime_type="application/json") == {"text": {"format": {"type": "json_object"}}}


def test_oai_16_form_and_name() -> None:
    expected = {"type": "json_schema", "name": "City_info", "strict": True, "schema": STRICT}
    assert sent(response_json_schema=CITY) == {"text": {"format": expected}}
    nameless = {key: value for key, value in CITY.items() if key != "title"}
    assert sent(response_json_schema=nameless)["text"]["format"]["name"] == "adk_response"
    titled = {"type": "OBJECT", "title": "x" * 80, "properties": {}}
    assert sent(response_schema=titled)["text"]["format"]["name"] == "x" * 64


def test_oai_18_types_become_lower_case_and_null_is_a_type() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {"a": {"type": "STRING", "nullable": True}, "b": {"type": "ARRAY", "items": {"type": "INTEGER"}}},
        "required": ["a", "b"],
        "propertyOrdering": ["b", "a"],
    }
    assert sent(response_schema=schema)["text"]["format"]["schema"] == {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "array", "items": {"type": "integer"}}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }


def test_oai_47_the_callers_schema_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}
    before = copy.deepcopy(schema)
    request = asked("hi", response_json_schema=schema)
    kept = thaw(request.config.response_json_schema)
    body(request)
    assert (schema, thaw(request.config.response_json_schema)) == (before, kept)


# --- tools -----------------------------------------------------------------------------------------------------------


def tools_of(*tools: ToolDeclaration, **options: Any) -> Any:
    return body(asked("hi", tools=tools), **options).get("tools")


def function(**fields: Any) -> ToolDeclaration:
    return ToolDeclaration(function_declarations=(FunctionDeclaration(**fields),))


@pytest.mark.parametrize(
    "name",
    ["google_search", "google_search_retrieval", "google_maps", "enterprise_web_search", "retrieval", "url_context",
     "code_execution", "computer_use", "file_search"],
)  # fmt: skip
def test_oai_19_built_in_tools_are_refused_by_their_index(name: str) -> None:
    text = refused("unsupported_tool", tools=(*declared("f"), ToolDeclaration().replace(**{name: {}})))
    assert "tools[1]" in text and name in text  # noqa: PT018


def test_oai_19_every_other_field_and_an_entry_without_functions_are_refused() -> None:
    both = ToolDeclaration(function_declarations=declared("f")[0].function_declarations, extra={"mcpServers": [1]})
    assert "mcpServers" in refused("unsupported_tool", tools=(both,))
    assert "tools[0]" in refused("tool_without_declarations", tools=(ToolDeclaration(),))
    assert [tool["name"] for tool in tools_of(both, unsupported="warn")] == ["f"]


def test_oai_20_declarations() -> None:
    upper = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}
    plain = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert tools_of(function(name="f", description="does", parameters=upper, parameters_json_schema={"type": "x"})) == [
        {"type": "function", "name": "f", "description": "does", "parameters": plain, "strict": False}
    ]
    assert tools_of(function(name="f", parameters_json_schema=plain))[0]["parameters"] == plain
    assert tools_of(function(name="f", description=""))[0] == {
        "type": "function",
        "name": "f",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
    refused("function_declaration_missing_name", tools=(function(description="x"),))


def test_oai_21_strict_is_said_to_be_off() -> None:
    assert tools_of(*declared("f"))[0]["strict"] is False


def test_oai_22_response_schemas_are_not_sent() -> None:
    tool = tools_of(function(name="f", response={"type": "OBJECT"}, response_json_schema={"type": "object"}))[0]
    assert sorted(tool) == ["name", "parameters", "strict", "type"]


NAMED = [{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]


@pytest.mark.parametrize(
    ("mode", "names", "wanted"),
    [
        (None, [], None),
        ("MODE_UNSPECIFIED", [], None),
        ("AUTO", [], None),
        ("AUTO", ["f", "g"], {"type": "allowed_tools", "mode": "auto", "tools": NAMED}),
        (None, ["f", "", "g"], {"type": "allowed_tools", "mode": "auto", "tools": NAMED}),
        ("AUTO", [""], None),
        ("NONE", ["f"], "none"),
        ("ANY", [], "required"),
        ("ANY", [""], "required"),
        ("ANY", ["f", "g"], {"type": "allowed_tools", "mode": "required", "tools": NAMED}),
    ],
)
def test_oai_23_tool_choice(mode: str | None, names: list[str], wanted: Any) -> None:
    for calling in (
        {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": names}},
        {"function_calling_config": {"mode": mode, "allowed_function_names": names}},
    ):
        found = sent(tools=declared("f", "g"), tool_config=calling)
        assert found.get("tool_choice") == wanted
        assert "tool_choice" not in sent(tool_config=calling), "there is nothing to choose from"


def test_oai_23_other_modes_are_refused() -> None:
    calling = {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert "'VALIDATED'" in refused("unsupported_tool_choice", tools=declared("f"), tool_config=calling)


# --- reasoning and the rest of genai ---------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["minimal", "LOW", "Medium", "HIGH"])
def test_oai_24_thinking_levels_are_efforts(level: str) -> None:
    assert sent(thinking_config={"thinkingLevel": level}) == {"reasoning": {"effort": level.lower()}}


def test_oai_24_thoughts_and_budgets() -> None:
    assert sent(thinking_config={"include_thoughts": True}) == {"reasoning": {"summary": "auto"}}
    assert sent(thinking_config={"thinkingBudget": 0}) == {"reasoning": {"effort": "none"}}
    assert sent(thinking_config={"thinkingBudget": -1}) == {}
    refused("unsupported_thinking_budget", thinking_config={"thinking_budget": 100})
    refused("unsupported_thinking_level", thinking_config={"thinking_level": "EXTREME"})


@pytest.mark.parametrize(
    "config",
    [
        {"cached_content": "cachedContents/1"},
        {"extra": {"routingConfig": {}}},
        {"extra": {"model_selection_config": {"a": 1}}},
        {"extra": {"imageConfig": {"aspectRatio": "1:1"}}},
    ],
)
def test_oai_24_settings_that_change_the_answer_are_refused(config: dict[str, Any]) -> None:
    assert "has no counterpart" in refused(**config)


@pytest.mark.parametrize(
    "config",
    [
        {"seed": 7},
        {"media_resolution": "MEDIA_RESOLUTION_LOW"},
        {"speech_config": {"languageCode": "en-US"}},
        {"extra": {"audioTimestamp": True}},
        {"extra": {"enable_enhanced_civic_answers": True}},
        {"extra": {"somethingNew": 1}},
        {"logprobs": 3},
        {"http_options": {"apiVersion": "v1beta"}},
    ],
)
def test_oai_24_harmless_settings_are_left_out_with_one_warning(
    config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """T-18: never in silence."""
    call = a_call()
    for _ in range(2):
        assert sorted(request_body(call, asked("hi", **config))) == ["input", "model"]
        transport(call, GenerateContentConfig(**config))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_oai_24_settings_of_the_genai_sdk_itself_are_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    assert sent(extra={"automaticFunctionCalling": {"disable": True}}) == {}
    assert caplog.records == []


async def test_oai_24_headers_and_timeout_of_one_call(service: Service) -> None:
    service.answers(Json(response(message("a"))))
    options = {"headers": {"X-One": "1"}, "timeout": 2500, "extraBody": {"beta": True}}
    request = asked("hi", http_options=options)
    found = transport(a_call(), request.config)
    assert (found.headers, found.timeout, found.extra_body) == ({"X-One": "1"}, 2.5, {"beta": True})
    await whole(model_on(service, headers={"X-Two": "2"}), request)
    heard = service.sent[0]
    assert (heard.headers["x-one"], heard.headers["x-two"], heard.body["beta"]) == ("1", "2", True)
    assert heard.headers["x-stainless-read-timeout"] == "2.5"


# --- options ---------------------------------------------------------------------------------------------------------


def test_oai_25_options_of_the_model() -> None:
    options: dict[str, Any] = {
        "store": False,
        "reasoning": {"effort": "xhigh", "summary": "concise"},
        "parallel_tool_calls": False,
        "truncation": "auto",
        "service_tier": "flex",
        "prompt_cache_key": "k",
    }
    found = body(asked("hi", tools=declared("f")), **options)
    assert {name: found[name] for name in options} == options
    assert "parallel_tool_calls" not in body(asked(), **options), "only beside tools"
    assert body(asked("hi", extra={"serviceTier": "priority"}), **options)["service_tier"] == "priority"


def test_oai_25_the_request_decides_over_the_option() -> None:
    request = asked("hi", thinking_config={"thinkingLevel": "LOW"})
    assert body(request, reasoning={"effort": "high", "summary": "auto"})["reasoning"] == {
        "effort": "low",
        "summary": "auto",
    }


def test_oai_25_labels_are_metadata_of_stored_responses() -> None:
    found = body(asked("hi", labels={"team": "a"}), store=True)
    assert (found["metadata"], found["store"]) == ({"team": "a"}, True)
    refused("unsupported_labels", options={"store": False}, labels={"team": "a"})


async def test_oai_25_an_extra_body_comes_last(service: Service) -> None:
    service.answers(Json(response(message("a"))))
    await whole(model_on(service, extra_body={"top_k": 3, "temperature": 0}), asked("hi", temperature=1))
    assert (service.body["top_k"], service.body["temperature"]) == (3, 0)


def test_oai_34_without_storage_reasoning_is_asked_for_in_its_portable_form() -> None:
    assert body(asked(), store=False)["include"] == ["reasoning.encrypted_content"]
    assert "include" not in body(asked())


@pytest.mark.parametrize("name", ["o3", "o4-mini", "gpt-5.2", "gpt-5", "gpt-6-nano", "gpt-10"])
def test_sdk_13_reasoning_models_get_no_sampling(name: str, caplog: pytest.LogCaptureFixture) -> None:
    found = body(asked("hi", temperature=0.3, top_p=1), name)
    assert "temperature" not in found
    assert found["top_p"] == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("name", "official"), [("gpt-4.1", True), ("gpt-5.2-chat-latest", True), ("gpt-5.2", False)])
def test_sdk_13_other_models_and_other_hosts_do(name: str, official: bool) -> None:
    request = asked("hi", temperature=0.3)
    assert request_body(a_call(name, official=official), request)["temperature"] == 0.3


@pytest.mark.parametrize(
    "options",
    [
        {"api": "completions"},
        {"unsupported": "ignore"},
        {"store": "yes"},
        {"base_url": 1},
        {"timeout": 0},
        {"timeout": True},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"headers": {"x-one": 5}},
        {"reasoning": {"effort": "extreme"}},
        {"reasoning": "high"},
        {"base_url": "http://h/v1", "azure_endpoint": "https://a"},
        {"retry": {"attempt": 3}},
    ],
)
def test_oai_25_wrong_options_are_named(options: dict[str, Any]) -> None:
    name = next(iter(options))
    with pytest.raises(ConfigurationError, match=name):
        OpenAIModel("gpt-5.2", **options)


def test_no_key_in_the_text_of_options() -> None:
    model = OpenAIModel(
        "gpt-5.2", api_key=KEY, headers={"Authorization": f"Bearer {KEY}"}, base_url=f"http://u:{KEY}@h/v1?key={KEY}"
    )
    assert KEY not in f"{model.options!r} {model!r}"


def test_mod_6_a_request_may_be_sent_again_unchanged() -> None:
    request = ModelRequest(contents=asked("hi").contents, config=GenerateContentConfig(tools=declared("f")))
    contents, config = request.contents, request.config
    assert body(request) == body(request)
    assert (request.contents is contents, request.config is config) == (True, True)
