"""Requests to Chat Completions (models CHAT-1, CHAT-2, and OAI-9…25 where they hold here too)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.openai.asking import a_call, answer, asked, body_for_chat, call, declared, said, user

from hookwork import Blob, Content, FileData, Part
from hookwork.errors import ModelError
from hookwork.records.content import FunctionResponseBlob, FunctionResponsePart


def messages(*contents: Content | str, **options: Any) -> list[dict[str, Any]]:
    found = body_for_chat(asked(*contents), **options)["messages"]
    assert isinstance(found, list)
    return found


def sent(official: bool = False, name: str = "local-model", **config: Any) -> dict[str, Any]:
    found = body_for_chat(asked("hi", **config), name, official)
    del found["model"], found["messages"]
    return found


def refusal(*contents: Content | str, **config: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        body_for_chat(asked(*contents, **config))
    assert caught.value.kind == "invalid_request"
    return caught.value


def tool_call(id: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


# --- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("official", "name", "role"),
    [
        (False, "gpt-5.2", "system"),
        (True, "gpt-4.1", "system"),
        (True, "gpt-5.2", "developer"),
        (True, "o3", "developer"),
    ],
)
def test_chat_1_the_system_instruction_comes_first(official: bool, name: str, role: str) -> None:
    instruction = Content(parts=[Part(text="be"), Part(text="brief")])
    found = body_for_chat(asked("hi", system_instruction=instruction), name, official)["messages"]
    assert found == [{"role": role, "content": "be\nbrief"}, {"role": "user", "content": "hi"}]


def test_chat_1_texts_calls_and_responses() -> None:
    history: list[Content | str] = [
        "q",
        said("look", call("f", {"n": 1}, "a"), call("g", id="b")),
        user(answer("g", {"r": 2}, "b"), answer("f", None, "a"), Part(text="and?")),
        said("so"),
    ]
    assert messages(*history) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "look", "tool_calls": [tool_call("a", "f", '{"n":1}'), tool_call("b", "g")]},
        {"role": "tool", "tool_call_id": "a", "content": "null"},
        {"role": "tool", "tool_call_id": "b", "content": '{"r":2}'},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "so"},
    ]


def test_chat_1_a_message_of_calls_alone_has_null_content() -> None:
    assert messages("q", said(call("f", id="a")))[1]["content"] is None


def test_chat_1_neighbours_of_one_role_are_one_message() -> None:
    assert messages("a", "b", said("c"), said("d", call("f", id="x"))) == [
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "c\nd", "tool_calls": [tool_call("x", "f")]},
    ]


def test_chat_1_responses_part_what_would_be_neighbours() -> None:
    history: list[Content | str] = [
        "q",
        said(call("f", id="a")),
        user(answer("f", {}, "a")),
        said(call("f", id="b")),
        user(answer("f", {}, "b")),
    ]
    assert [message["role"] for message in messages(*history)] == ["user", "assistant", "tool", "assistant", "tool"]


def test_chat_1_a_response_stands_behind_its_call_wherever_it_was_said() -> None:
    """A text that came in between goes after it; a later response takes the place of the earlier one (OAI-10)."""
    history: list[Content | str] = [
        "q",
        said(call("slow", id="a")),
        user(answer("slow", {"s": "pending"}, "a")),
        said("wait"),
        "hm",
    ]
    found = messages(*history, user(answer("slow", {"s": "done"}, "a")))
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "assistant", "user"]
    assert found[2]["content"] == '{"s":"done"}'
    between: list[Content | str] = ["q", said(call("f", id="a")), "meanwhile", user(answer("f", {}, "a"))]
    assert [message["role"] for message in messages(*between)] == ["user", "assistant", "tool", "user"]


def test_chat_1_no_empty_message_is_sent() -> None:
    empty: list[Content | str] = [
        Content(role="user"),
        user(Part(text=" ")),
        said(Part(text="hm", thought=True)),
        "q",
        said(Part()),
    ]
    assert messages(*empty) == [{"role": "user", "content": "q"}]
    assert refusal(said(Part(text="hm", thought=True))).code == "no_contents"


def test_chat_5_repeated_ids_become_unique_call_and_response_alike() -> None:
    """CASE-HIST-3."""
    history: list[Content | str] = [
        "q",
        said(call("w", {"city": "A"}, "call_0")),
        user(answer("w", {"t": 1}, "call_0")),
        said(call("w", {"city": "B"}, "call_0")),
        user(answer("w", {"t": 2}, "call_0")),
    ]
    found = messages(*history)
    ids = [message["tool_calls"][0]["id"] for message in found if "tool_calls" in message]
    assert len(set(ids)) == 2
    assert [(m["tool_call_id"], m["content"]) for m in found if m["role"] == "tool"] == [
        (ids[0], '{"t":1}'),
        (ids[1], '{"t":2}'),
    ]


def test_oai_9_ids_longer_than_the_api_takes_are_replaced() -> None:
    adk = "adk-" + "0" * 36
    found = messages("q", said(call("f", id=adk), call("g", id="x" * 41)))
    assert [made["id"] for made in found[1]["tool_calls"]] == [adk, "adk-openai-call-0"]


def test_oai_8_a_response_without_its_call_is_refused() -> None:
    assert refusal("q", user(answer("f", {}, "gone"))).code == "function_response_without_call"


def test_chat_media() -> None:
    image = Part(inline_data=Blob(data=b"x", mime_type="image/png"))
    pdf = Part(inline_data=Blob(data=b"x", mime_type="application/pdf", display_name="a.pdf"))
    stored = Part(file_data=FileData(file_uri="file-1", mime_type="application/pdf"))
    linked = Part(file_data=FileData(file_uri="https://h/a.png", mime_type="image/png"))
    assert messages(user(Part(text="see"), image, pdf, stored, linked))[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,eA=="}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "image_url", "image_url": {"url": "https://h/a.png"}},
    ]
    assert "by URL" in str(refusal(user(Part(file_data=FileData(file_uri="https://h/a.pdf", mime_type="text/pdf")))))
    assert refusal("q", said(image)).code == "unsupported_part"


def test_oai_12_media_of_a_response_follow_as_the_users() -> None:
    """A tool message takes text alone."""
    image = FunctionResponsePart(inline_data=FunctionResponseBlob(data=b"x", mime_type="image/png"))
    found = messages("q", said(call("f", id="a")), user(answer("f", {"n": 1}, "a", parts=(image,)), Part(text="see")))
    assert found[2] == {"role": "tool", "tool_call_id": "a", "content": '{"n":1}'}
    assert found[3]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
    ]


def test_chat_1_what_is_sent_fits_the_published_types() -> None:
    from openai.types.chat import ChatCompletionMessageParam
    from pydantic import TypeAdapter

    check = TypeAdapter(ChatCompletionMessageParam)
    image = Part(inline_data=Blob(data=b"x", mime_type="image/png"))
    found = messages(user(Part(text="q"), image), said("a", call("f", id="a")), user(answer("f", {}, "a")), said("b"))
    assert len(found) == 4
    for message in found:
        check.validate_python(message)


# --- settings --------------------------------------------------------------------------------------------------------


def test_chat_2_the_limit_by_host() -> None:
    assert sent(max_output_tokens=5) == {"max_tokens": 5}
    assert sent(True, max_output_tokens=5) == {"max_completion_tokens": 5}


def test_chat_2_settings_that_only_chat_has() -> None:
    config: dict[str, Any] = {
        "frequency_penalty": 0.5,
        "presence_penalty": 0.0,
        "seed": 7,
        "temperature": 0.1,
        "top_p": 0.5,
    }
    assert sent(stop_sequences=("x", "y"), **config) == {"stop": ["x", "y"], **config}
    assert sent(response_logprobs=True, logprobs=3) == {"logprobs": True, "top_logprobs": 3}


def test_chat_2_structured_output() -> None:
    schema = {"type": "object", "title": "T", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    strict = {**schema, "additionalProperties": False}
    assert sent(response_json_schema=schema)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "T", "strict": True, "schema": strict},
    }
    assert sent(response_mime_type="application/json")["response_format"] == {"type": "json_object"}


F, G = ({"type": "function", "function": {"name": name}} for name in "fg")


@pytest.mark.parametrize(
    ("official", "mode", "names", "wanted"),
    [
        (False, "NONE", [], "none"),
        (False, "AUTO", [], None),
        (False, "ANY", [], "required"),
        (False, "ANY", ["f"], F),
        (True, "ANY", ["f"], F),
        (True, "ANY", ["f", "g"], {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [F, G]}}),
        (True, "AUTO", ["f"], {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [F]}}),
        (False, "ANY", ["f", "g"], "required"),
        (False, "AUTO", ["f", "g"], "auto"),
    ],
)
def test_chat_2_tool_choice(official: bool, mode: str, names: list[str], wanted: Any) -> None:
    calling = {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": names}}
    assert sent(official, tools=declared("f", "g"), tool_config=calling).get("tool_choice") == wanted
    assert "tool_choice" not in sent(official, tool_config=calling)


def test_chat_2_tools() -> None:
    assert sent(tools=declared("f"))["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False},
        }
    ]


@pytest.mark.parametrize(
    "config",
    [{"top_k": 1}, {"candidate_count": 2}, {"labels": {"a": "b"}}, {"safety_settings": ({},)}, {"cached_content": "c"}],
)
def test_oai_48_the_rest_is_refused_here_too(config: dict[str, Any]) -> None:
    assert refusal("hi", **config).code.startswith("unsupported_")


def test_oai_24_reasoning_is_an_effort(caplog: pytest.LogCaptureFixture) -> None:
    assert sent(thinking_config={"thinkingLevel": "LOW"}) == {"reasoning_effort": "low"}
    assert caplog.records == []
    assert sent(thinking_config={"includeThoughts": True}) == {}
    assert len(caplog.records) == 1, "nothing is left out in silence"


def test_oai_25_options_in_chat(caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {
        "store": True,
        "parallel_tool_calls": False,
        "service_tier": "flex",
        "prompt_cache_key": "k",
    }
    found = body_for_chat(asked("hi", tools=declared("f"), labels={"a": "b"}), truncation="auto", **options)
    assert {name: found[name] for name in options} == options
    assert found["metadata"] == {"a": "b"}
    assert "truncation" not in found
    assert len(caplog.records) == 1


def test_oai_1_roles_are_the_same() -> None:
    found = messages(
        Content(role="system", parts=[Part(text="s")]), Content(role="developer", parts=[Part(text="d")]), "q"
    )
    assert [message["role"] for message in found] == ["system", "developer", "user"]
    assert a_call(chat=True).chat
