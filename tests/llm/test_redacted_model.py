"""``redacted:NAME``: a model that is told no secrets (models Beyond, WRP-3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork import (
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateContentConfig,
    LiveRunConfig,
    Model,
    ModelCapabilities,
    ModelRequest,
    ModelResponse,
    Part,
    user_content,
)
from hookwork.errors import ConfigurationError
from hookwork.live import LiveConnection
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.markers import hookimpl
from hookwork.records.codec import dump_json
from hookwork.resolve import resolve_model
from hookwork.settings import Settings
from hookwork_llm import LlmAgent, RedactedModel, tool
from hookwork_llm import extension as llm_extension
from hookwork_llm.model_wrappers.secrets import KINDS, Redactor
from hookwork_testkit import ScriptedModel, call
from hookwork_testkit.suites import ModelSuite

KEY = "sk-proj-0123456789abcdefghij"
#: The number that card networks publish for tests; its check digit is right.
CARD = "4111 1111 1111 1111"
MAIL = "ada@example.org"


class TestRedactedModelIsAModel(ModelSuite):
    """The Model contract holds for a wrapper as for what it wraps."""

    def make_model(self) -> Model:
        return RedactedModel(ScriptedModel(lambda request: "hello", name="a"))


async def ask(model: Model, request: ModelRequest, *, stream: bool = False) -> list[ModelResponse]:
    async with aclosing(model.generate(request, stream=stream)) as responses:  # type: ignore[type-var]
        return [response async for response in responses]


async def test_secrets_in_every_text_of_a_request_stay_here() -> None:
    inner = ScriptedModel(["ok"], name="a")
    said = Content(
        role="model",
        parts=[
            Part(text=f"I write to {MAIL}"),
            Part(function_call=FunctionCall(name="f", args={"to": [MAIL], "n": 1})),
        ],
    )
    heard = Content(
        role="user",
        parts=[Part(function_response=FunctionResponse(name="f", response={"a": {"card": f"is {CARD}."}, "k": KEY}))],
    )
    request = ModelRequest(
        contents=[user_content(f"my key is {KEY}"), said, heard],
        config=GenerateContentConfig(system_instruction=Content(parts=[Part(text=f"Boss: {MAIL}")])),
    )
    before = [dump_json(content) for content in request.contents]
    await ask(RedactedModel(inner), request)
    (got,) = inner.requests
    whole = " ".join([dump_json(content).decode() for content in got.contents] + [got.instruction])
    for secret in (KEY, CARD, MAIL):
        assert secret not in whole
    assert got.contents[0].text == "my key is [redacted]"
    assert got.contents[1].parts[1].function_call == FunctionCall(name="f", args={"to": ["[redacted]"], "n": 1})
    assert got.instruction == "Boss: [redacted]"
    assert [dump_json(content) for content in request.contents] == before, "the request is only read (MOD-6)"


async def test_what_holds_no_secret_goes_as_it_is() -> None:
    inner = ScriptedModel(["ok"], name="a")
    contents = [user_content("2026-11-30, order 1234567890123, 5 °C"), Content(role="user", parts=[
        Part(inline_data=Blob(data=KEY.encode(), mime_type="text/plain")),
        Part(text="", thought=True, thought_signature=b"\x01"),
    ])]  # fmt: skip
    await ask(RedactedModel(inner), ModelRequest(contents=contents))
    assert [sent is given for sent, given in zip(inner.requests[0].contents, contents, strict=True)] == [True, True]


@pytest.mark.parametrize(
    "secret",
    [
        KEY,
        "AIza" + "x" * 35,
        "ghp_" + "a" * 36,
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----",
        "5500-0000-0000-0004",
        "first.last+tag@sub.example.co.uk",
    ],
)
def test_known_kinds_are_found(secret: str) -> None:
    assert Redactor(KINDS, "#").text(f"it is {secret} ok") == "it is # ok"


@pytest.mark.parametrize(
    "text", ["4111 1111 1111 1112", "sk-short", "a@b", "1234567890123456789012345", "@example.org"]
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert Redactor(KINDS, "#").text(text) == text


@given(st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    redactor = Redactor(KINDS, "[redacted]")
    once = redactor.text(text)
    assert redactor.text(once) == once


async def test_stored_history_and_tools_keep_what_the_model_is_not_told(runner_factory: Any) -> None:
    ran: list[str] = []

    @tool
    def mail(to: str) -> dict[str, Any]:
        """Send a mail."""
        ran.append(to)
        return {"sent": MAIL}

    inner = ScriptedModel([call("mail", to="[redacted]"), "Sent."], name="a")
    agent = LlmAgent(name="helper", model=RedactedModel(inner), tools=[mail])
    async with runner_factory(agent) as runner:
        assert await runner.ask(f"write to {MAIL}", user_id="u", session_id="s") == "Sent."
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    assert session.events[0].text == f"write to {MAIL}"
    assert session.events[2].content.parts[0].function_response.response == {"sent": MAIL}
    assert all(MAIL not in dump_json(content).decode() for got in inner.requests for content in got.contents)


async def test_wrp_2_usage_and_events_name_the_model_that_answered() -> None:
    (response,) = await ask(RedactedModel(ScriptedModel(["ok"], name="a")), ModelRequest(model="redacted:a"))
    assert response.model_version == "a"
    assert response.custom_metadata == {"hookwork_model": "a"}


class Line(LiveConnection):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send_history(self, contents: Sequence[Content]) -> None:
        self.sent.extend(contents)

    async def send_content(self, content: Content) -> None:
        self.sent.append(content)

    async def send_realtime(self, item: Any) -> None:
        self.sent.append(item)

    async def receive(self) -> AsyncIterator[ModelResponse]:
        yield ModelResponse(content=user_content("hello"))

    async def close(self) -> None:
        self.sent.append("closed")


async def test_wrp_3_live_check_and_close() -> None:
    line, did = Line(), []

    class Inner(ScriptedModel):
        async def check(self) -> None:
            did.append("check")

        async def close(self) -> None:
            did.append("close")

        @asynccontextmanager
        async def connect(self, request: ModelRequest, config: Any) -> AsyncIterator[LiveConnection]:  # type: ignore[override]
            did.append(f"{request.model}: {request.contents[0].text}")
            yield line

    capabilities = ModelCapabilities(provider="p", live=True)
    model = RedactedModel(Inner(name="a", capabilities=capabilities))
    assert model.capabilities == capabilities
    request = ModelRequest(model=model.name, contents=[user_content(f"I am {MAIL}")])
    blob = Blob(data=b"sound", mime_type="audio/pcm")
    async with model.connect(request, LiveRunConfig()) as connection:
        await connection.send_history([user_content(MAIL)])
        await connection.send_content(user_content(f"to {MAIL}"))
        await connection.send_realtime(blob)
        async with aclosing(connection.receive()) as heard:  # type: ignore[type-var]
            assert [one.model_version async for one in heard] == ["a"]
    assert [item.text if isinstance(item, Content) else item for item in line.sent] == [
        "[redacted]",
        "to [redacted]",
        blob,
    ]
    await model.check()
    await model.close()
    assert did == ["a: I am [redacted]", "check", "close"]


class Provider:
    """An extension whose model is called x."""

    @hookimpl
    def create_model(self, name: str, settings: dict[str, Any]) -> Model | None:
        return ScriptedModel(lambda request: request.contents[0].text, name=name) if name == "x" else None


async def test_it_is_selected_by_name() -> None:
    with use_extensions([("llm", llm_extension), Provider()]):
        request = ModelRequest(contents=[user_content(f"{MAIL} K-77")])
        model = resolve_model("redacted:x", Settings(tables={}))
        assert isinstance(model, RedactedModel)
        assert (await ask(model, request))[0].text == "[redacted] K-77"
        own = resolve_model("redacted:x", Settings(tables={"llm": {"redact": [r"\bK-\d+\b"]}}))
        assert (await ask(own, request))[0].text == f"{MAIL} [redacted]"
        nested = resolve_model("redacted:fallback:x", Settings(tables={}))
        assert nested.name == "redacted:fallback:x"
        with pytest.raises(ConfigurationError, match="names no model"):
            resolve_model("redacted: ", Settings(tables={}))
        for table in ({"redact": "emails"}, {"redact": ["("]}, {"redact": []}, {"redcat": []}):
            with pytest.raises(ConfigurationError):
                resolve_model("redacted:x", Settings(tables={"llm": table}))
