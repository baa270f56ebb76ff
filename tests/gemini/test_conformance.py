"""The model suite of the testkit, on both backends, against the local service (MOD-1 … MOD-17, ERR-1)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.gemini.interactions_service import Answer, InteractionsService, call, events_of, output, thought
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


#: Key of the service's usage → key of ours.
_COUNTS = {
    "total_input_tokens": "promptTokenCount",
    "total_output_tokens": "candidatesTokenCount",
    "total_thought_tokens": "thoughtsTokenCount",
    "total_cached_tokens": "cachedContentTokenCount",
    "total_tool_use_tokens": "toolUsePromptTokenCount",
    "total_tokens": "totalTokenCount",
}


def interacted(asked: dict[str, Any]) -> Answer:
    """The same service as an interaction."""
    last = asked["input"][-1]
    if last["type"] == "function_result":
        return Answer([output("It is clear.")])
    if asked.get("tools"):
        steps = [thought("Let me look.", "Af8="), call("get_weather", {"city": "Paris"})]
        return Answer(steps, status="requires_action")
    return Answer([output("You said: " + last["content"][-1]["text"])])


class TestInteractions(ModelSuite):
    """models Beyond: the Interactions API keeps the Model contract, with chains and without."""

    secrets = (KEY,)
    options: dict[str, Any] = {"interactions": True}  # noqa: RUF012 - never changed

    @pytest.fixture(autouse=True)
    def _service(self, kept: InteractionsService) -> None:
        kept.always = interacted
        self.service = kept

    def make_model(self) -> Model:
        service: Any = self.service
        return api_model(service, **self.options)

    def make_failing_model(self) -> Model:
        self.service.always = lambda asked: Failure(503, error_body(503, "UNAVAILABLE", f"overloaded, {KEY}"))
        return self.make_model()

    def make_breaking_model(self) -> Model:
        events = events_of({"id": "v1_1", "model": "m", "status": "completed", "steps": [output("You said")]})
        self.service.always = lambda asked: Answer(events=events[:3], breaks=True)
        return self.make_model()

    def make_reporting_model(self, usage: UsageMetadata | None) -> Model:
        given = msgspec.to_builtins(usage) if usage is not None else {}
        counts = {theirs: given[ours] for theirs, ours in _COUNTS.items() if given.get(ours) is not None}
        fields = {"usage": counts if usage is not None else None}
        self.service.always = lambda asked: Answer([output("ab")], fields=fields)
        return self.make_model()


class TestInteractionsWithoutStoring(TestInteractions):
    options: dict[str, Any] = {"interactions": {"store": False}}  # noqa: RUF012 - never changed
