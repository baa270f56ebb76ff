"""The kit's own suite for models, on both APIs, over the wire (models MOD-1…17, ERR-1, CAP-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.openai.asking import KEY, chat_model_on, model_on
from tests.openai.server import Json, Sent, Service, ServiceHost, Sse
from tests.openai.wire import (
    Event,
    chat_stream,
    chunk,
    completion,
    created,
    function_call,
    message,
    reasoning,
    response,
    stream,
    text_delta,
    tool_call,
)

from hookwork import Model, UsageMetadata
from hookwork_testkit.suites.models import ModelSuite

ARGUMENTS = json.dumps({"city": "Paris"})


def responses_service(sent: Sent) -> Json | Sse:
    """Answers by what it is asked: a call first, a text about its result then."""
    items = sent.body["input"]
    if any(item["type"] == "function_call_output" for item in items):
        output: list[Event] = [message("It is clear in Paris.")]
    elif "tools" in sent.body:
        output = [reasoning("They ask for the weather.", encrypted="ENC"), function_call("get_weather", ARGUMENTS)]
    else:
        output = [message("Hello" + "!" * len(items))]
    return Sse(stream(*output)) if sent.body.get("stream") else Json(response(*output))


def chat_service(sent: Sent) -> Json | Sse:
    messages = sent.body["messages"]
    if any(said["role"] == "tool" for said in messages):
        return _chat(sent, "It is clear in Paris.")
    if "tools" in sent.body:
        return _chat(sent, "", tool_call("get_weather", ARGUMENTS))
    return _chat(sent, "Hello" + "!" * len(messages), reasoning_content="A greeting.")


def _chat(sent: Sent, text: str, *calls: Event, **fields: Any) -> Json | Sse:
    if sent.body.get("stream"):
        return Sse(chat_stream(text, *calls, **fields), named=False, done=True)
    return Json(completion(text, *calls, **fields))


class _Suite(ModelSuite):
    secrets = (KEY,)
    host: ServiceHost

    @pytest.fixture(autouse=True)
    def _on_a_service(self, host: ServiceHost) -> None:
        self.host = host

    def _service(self) -> Service:
        return self.host.service()


class TestResponses(_Suite):
    def make_model(self) -> Model:
        service = self._service()
        service.respond = responses_service
        return model_on(service)

    def make_failing_model(self) -> Model:
        service = self._service()
        service.respond = lambda sent: Json({"error": {"message": KEY, "code": "server_error"}}, 500)
        return model_on(service)

    def make_breaking_model(self) -> Model:
        service = self._service()
        service.respond = lambda sent: Sse([created(), text_delta("He")], breaks=True)
        return model_on(service)

    def make_reporting_model(self, usage: UsageMetadata | None) -> Model:
        service, raw = self._service(), _usage(usage, "input_tokens", "output_tokens")
        service.respond = lambda sent: (
            Sse(stream(message("a"), usage=raw)) if sent.body.get("stream") else Json(response(message("a"), usage=raw))
        )
        return model_on(service)


class TestChainedResponses(TestResponses):
    """models Beyond: the contract holds where requests go on from responses that the service keeps."""

    def make_model(self) -> Model:
        service = self._service()
        service.respond = responses_service
        return model_on(service, chain=True)


class TestChat(_Suite):
    def make_model(self) -> Model:
        service = self._service()
        service.respond = chat_service
        return chat_model_on(service)

    def make_failing_model(self) -> Model:
        service = self._service()
        service.respond = lambda sent: Json({"error": {"message": KEY, "code": 503}}, 503)
        return chat_model_on(service)

    def make_breaking_model(self) -> Model:
        service = self._service()
        service.respond = lambda sent: Sse([chunk({"content": "He"})], breaks=True, named=False)
        return chat_model_on(service)

    def make_reporting_model(self, usage: UsageMetadata | None) -> Model:
        service, raw = self._service(), _usage(usage, "prompt_tokens", "completion_tokens")
        service.respond = lambda sent: _chat(sent, "a", usage=raw)
        return chat_model_on(service)


def _usage(usage: UsageMetadata | None, prompt: str, output: str) -> Event | None:
    """Usage as the service would report it: its output includes reasoning."""
    if usage is None:
        return None
    candidates, thoughts = usage.candidates_token_count, usage.thoughts_token_count
    counts = {
        prompt: usage.prompt_token_count,
        output: None if candidates is None else candidates + (thoughts or 0),
        "total_tokens": usage.total_token_count,
    }
    raw: Event = {name: count for name, count in counts.items() if count is not None}
    for name, detail, count in (
        (f"{prompt}_details", "cached_tokens", usage.cached_content_token_count),
        (f"{output}_details", "reasoning_tokens", thoughts),
    ):
        if count is not None:
            raw[name] = {detail: count}
    return raw
