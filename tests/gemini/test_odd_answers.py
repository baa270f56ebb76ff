"""Answers no service should give, keys and options nobody should set: models ERR-1, MOD-2, GEM-1, GEM-10, CONV."""

from __future__ import annotations

import asyncio
import gc
import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from tests.gemini.making import api_model, asking, responses_of
from tests.gemini.service import KEY, Failure, Reply, Service, chunk, error_body

from hookwork import RunConfig, Runner, Settings
from hookwork.errors import ConfigurationError, ModelError
from hookwork_gemini import GeminiModel
from hookwork_gemini.client import CLIENTS, ClientConfig
from hookwork_llm import LlmAgent

STREAMS = pytest.mark.parametrize("stream", [False, True])


class RawServer:
    """Sends the same bytes in answer to every request and hangs up."""

    def __init__(self) -> None:
        self.answer = b""
        self.url = ""

    def says(self, body: bytes, *, stream: bool) -> None:
        """An HTTP response of that JSON text, as one event or as a whole."""
        kind = b"text/event-stream" if stream else b"application/json"
        data = b"data: " + body + b"\r\n\r\n" if stream else body
        self.answer = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(data), data)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if b"content-length" in line)
            await reader.readexactly(length)
            writer.write(self.answer)
            await writer.drain()
        except asyncio.IncompleteReadError:
            pass  # a client that never wrote its request
        finally:
            writer.close()


@asynccontextmanager
async def raw_server() -> AsyncIterator[RawServer]:
    raw = RawServer()
    server = await asyncio.start_server(raw.talk, "127.0.0.1", 0)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield raw


async def failure(url: str, *, stream: bool = False, **options: Any) -> ModelError:
    service = Service()
    service.url = url
    with pytest.raises(ModelError) as caught:
        await responses_of(api_model(service, **options), asking("the-prompt"), stream=stream)
    return caught.value


def said(part: bytes) -> bytes:
    return b'{"candidates":[{"content":{"role":"model","parts":[%b]},"finishReason":"STOP"}]}' % part


def calling(argument: bytes) -> bytes:
    return said(b'{"functionCall":{"name":"f","args":{"x":%b}}}' % argument)


UNREADABLE = {
    "a number": b"12",
    "a finish reason that is a number": b'{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":1}]}',
    "candidates that are an object": b'{"candidates":{"content":{}}}',
    "arguments as deep as a well": calling(b"[" * 3000 + b"]" * 3000),
    "an integer of 5,000 digits": calling(b"9" * 5000),
    "an error that is a text": b'{"error":"boom"}',
    "no field of this API": b'{"status":"ok"}',
    "null": b"null",
    "a text": b'"hello"',
    "a list": b'[{"text":"hello"}]',
    "an empty object": b"{}",
    "a part that is null": said(b"null"),
    "a text that is a number": said(b'{"text":5}'),
    "arguments that are a list": said(b'{"functionCall":{"name":"f","args":[1]}}'),
    "bytes that are no base64": said(b'{"text":"a","thoughtSignature":"***"}'),
}


@STREAMS
@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
async def test_err_1_whatever_an_answer_is_instead_it_ends_as_a_model_error(body: bytes, stream: bool) -> None:
    async with raw_server() as server:
        server.says(body, stream=stream)
        error = await failure(server.url, stream=stream)
    assert (error.kind, error.retryable) == ("invalid_response", False)
    assert (error.provider, error.model) == ("gcp.gemini", "gemini-2.5-flash")
    assert "the-prompt" not in str(error)


@STREAMS
@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"1e400", b'{"deep": [1, {"er": NaN}]}'])
async def test_err_1_an_argument_that_is_no_number_is_refused_and_not_made_null(number: bytes, stream: bool) -> None:
    async with raw_server() as server:
        server.says(calling(number), stream=stream)
        error = await failure(server.url, stream=stream)
    assert (error.kind, error.retryable) == ("invalid_response", False)
    assert "'f'" in str(error.__cause__), "the cause names the function"


@STREAMS
@pytest.mark.parametrize(
    ("fault", "kind", "retryable"),
    [
        (error_body(429, "RESOURCE_EXHAUSTED"), "rate_limit", True),
        (error_body(503, "UNAVAILABLE"), "unavailable", True),
        ({"error": {"status": "PERMISSION_DENIED"}}, "auth", False),
    ],
)
async def test_err_1_an_error_behind_a_200_is_the_error(
    fault: dict[str, Any], kind: str, retryable: bool, stream: bool
) -> None:
    """As proxies send it; unstreamed, the SDK takes it for an answer that says nothing."""
    async with raw_server() as server:
        server.says(json.dumps(fault).encode(), stream=stream)
        error = await failure(server.url, stream=stream)
    assert (error.kind, error.retryable) == (kind, retryable)
    assert error.code == fault["error"]["status"]


@STREAMS
async def test_err_1_a_wrong_key_is_a_matter_of_auth_though_the_api_answers_400(service: Service, stream: bool) -> None:
    """google.rpc.ErrorInfo: the Gemini API says API_KEY_INVALID with HTTP 400 INVALID_ARGUMENT."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
    }
    service.always = Failure(400, error_body(400, "INVALID_ARGUMENT", "API key not valid.", info))
    error = await failure(service.url, stream=stream)
    assert (error.kind, error.retryable, error.status_code) == ("auth", False, 400)
    assert "key" in str(error)


@STREAMS
@pytest.mark.parametrize("role", ["assistant", "user", ""])
async def test_conv_2_a_candidate_is_the_models_whatever_role_it_says(
    service: Service, role: str, stream: bool
) -> None:
    """CASE-HIST-1: sent back under another role, every later request of the session would be refused."""
    odd = chunk({"text": "Hi."}, finish="STOP")
    odd["candidates"][0]["content"]["role"] = role
    service.scripts = [Reply(odd)]
    model = api_model(service)
    config = RunConfig(streaming_mode="sse" if stream else "none")
    async with Runner.in_memory(LlmAgent(name="helper", model=model), settings=Settings()) as runner:
        for message in ("one", "two"):
            await runner.ask(message, user_id="u", session_id="s", config=config)
    await model.close()
    assert [content["role"] for content in service.received[-1].body["contents"]] == ["user", "model", "user"]


@STREAMS
@pytest.mark.parametrize("odd", [{}, {"text": ""}, {"thought": True}, {"functionCall": {}}, {"hologram": {"a": 1}}])
async def test_mod_2_agg_3_agg_13_what_says_nothing_is_left_out_streamed_or_not(
    service: Service, odd: dict[str, Any], stream: bool
) -> None:
    service.always = Reply(chunk(odd, {"text": "Hi."}, odd, finish="STOP"))
    *_, whole = await responses_of(api_model(service), stream=stream)
    assert whole.content is not None
    assert [part.text for part in whole.content.parts] == ["Hi."]


@STREAMS
async def test_err_1_half_a_character_becomes_the_replacement_character(stream: bool) -> None:
    async with raw_server() as server:
        server.says(said(b'{"text":"a\\ud800b \\ud83d\\ude00"}'), stream=stream)
        service = Service()
        service.url = server.url
        *_, whole = await responses_of(api_model(service), stream=stream)
    assert whole.text == "a\ufffdb \U0001f600"


# --- keys and options -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["s3cret\n", "s3\ncret", "s3cret\u00fc", " s3cret", "s3 cret"])
async def test_err_1_a_key_that_no_header_can_carry_is_said_to_be_so(
    service: Service, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line break at the end of a key that came from a file; no network is looked at, nothing is tried again."""
    errors = [await failure(service.url, api_key=key)]
    monkeypatch.setenv("GEMINI_API_KEY", key)
    errors.append(await failure(service.url, api_key=None))
    for error in errors:
        assert (error.kind, error.retryable) == ("auth", False)
        assert "key" in str(error)
        assert "s3" not in "".join(traceback.format_exception(error))
    assert not service.received


@STREAMS
@pytest.mark.parametrize("value", ["s3cret\n", "s3cret\u00fc", " s3cret"])
async def test_err_1_a_header_that_cannot_be_sent_is_refused_and_not_quoted(
    service: Service, value: str, stream: bool
) -> None:
    error = await failure(service.url, headers={"x-token": value}, stream=stream)
    assert (error.kind, error.retryable, error.code) == ("invalid_request", False, "unsendable_header")
    assert "s3cret" not in "".join(traceback.format_exception(error)), "not even in what a log or a span shows of it"


@pytest.mark.parametrize("options", [{"nonsense": 1}, {"headers": "no"}])
async def test_err_1_options_the_sdk_does_not_take_are_not_called_a_missing_key(
    service: Service, options: dict[str, Any]
) -> None:
    error = await failure(service.url, http_options=options)
    assert (error.kind, error.retryable) == ("invalid_request", False)
    assert "http_options" in str(error)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": 0},
        {"timeout": -1},
        {"headers": {"x-a": 5}},
        {"http_options": 5},
    ],
)
def test_gem_1_options_of_a_wrong_kind_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        GeminiModel("gemini-2.5-flash", api_key="k", **options)


def test_sdk_15_clients_are_shared_by_the_objects_they_were_made_of() -> None:
    """Two objects may have one id, one after the other."""
    kept = {"headers": {"x-a": "1"}}
    first = ClientConfig(vertexai=False, http_options=kept)
    assert first.key() == ClientConfig(vertexai=False, http_options=kept).key()
    assert first.key() != ClientConfig(vertexai=False, http_options=dict(kept)).key()


def test_sdk_15_one_model_in_one_loop_after_another_keeps_no_connection(service: Service) -> None:
    model = api_model(service)

    async def ask() -> str:
        async for response in model.generate(asking()):
            return response.text
        return ""

    assert [asyncio.run(ask()) for _ in range(5)] == ["Hello."] * 5
    assert CLIENTS.count() == 0
    gc.collect()  # a connection that was left open would be warned about, which fails the test
    assert service.received[0].headers["x-goog-api-key"] == [KEY]


@STREAMS
async def test_err_1_a_client_that_its_owner_closed_is_said_to_be_so(service: Service, stream: bool) -> None:
    client = httpx2.AsyncClient(verify=False)
    await client.aclose()
    error = await failure(service.url, http_client=client, http_options=None, stream=stream)
    assert (error.kind, error.retryable) == ("connection", False)
    assert "closed by its owner" in str(error)
