"""The model suite of the testkit, on both backends, against the local service (MOD-1 … MOD-17, ERR-1)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.gemini.making import api_model, vertex_model
from tests.gemini.service import KEY, Failure, Received, Reply, Service, chunk, error_body

from hookwork import Model, UsageMetadata
from hookwork_testkit.suites import ModelSuite

USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 12}


def answered(received: Received) -> Reply:
    """A deterministic service: one answer per kind of request."""
    last = received.body["contents"][-1]["parts"][-1]
    if "functionResponse" in last:
        return Reply(
            chunk({"text": "It is "}), chunk({"text": "clear."}), chunk({}, finish="STOP", usageMetadata=USAGE)
        )
    if received.body.get("tools"):
        call = {"name": "get_weather", "args": {"city": "Paris"}}
        return Reply(
            chunk({"text": "Let me look.", "thought": True}),
            chunk({"functionCall": call, "thoughtSignature": "Af8="}, finish="STOP", usageMetadata=USAGE),
        )
    said = last["text"]
    return Reply(chunk({"text": "You said: "}), chunk({"text": said}, finish="STOP", usageMetadata=USAGE))


class _Suite(ModelSuite):
    secrets = (KEY, "token-77")

    @pytest.fixture(autouse=True)
    def _service(self, service: Service) -> None:
        service.always = answered
        self.service = service

    def make_failing_model(self) -> Model:
        self.service.always = Failure(503, error_body(503, "UNAVAILABLE", f"overloaded, {KEY}"))
        return self.make_model()

    def make_breaking_model(self) -> Model:
        self.service.always = Reply(chunk({"text": "You"}), breaks=True)
        return self.make_model()

    def make_reporting_model(self, usage: UsageMetadata | None) -> Model:
        reported: dict[str, Any] = {}
        if usage is not None:
            reported = {"usageMetadata": msgspec.to_builtins(usage)}
        self.service.always = Reply(chunk({"text": "a"}), chunk({"text": "b"}, finish="STOP", **reported))
        return self.make_model()


class TestGeminiApi(_Suite):
    def make_model(self) -> Model:
        return api_model(self.service)


class TestVertexAi(_Suite):
    def make_model(self) -> Model:
        return vertex_model(self.service)
