"""Failures (models ERR-1…3, OAI-38, SDK-9, SDK-11; CASE-MODEL-3)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import openai
import pytest
from tests.openai.asking import KEY, ask, asked, chat_model_on, model_on, texts, whole
from tests.openai.server import Json, Raw, Reply, Service, Sse
from tests.openai.wire import chat_stream, chunk, created, message, response, stream, text_delta

from hookwork import ModelRequest
from hookwork.errors import ModelError
from hookwork.platform import use_random, use_sleep
from hookwork_openai import OpenAIModel


def problem(code: str | None = None, text: str = "Something is wrong.", kind: str = "some_error") -> dict[str, Any]:
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


async def failure(model: OpenAIModel, request: ModelRequest | None = None, *, stream: bool = False) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model, request, stream=stream)
    return caught.value


@pytest.mark.parametrize(
    ("status", "code", "kind", "retryable"),
    [
        (429, "rate_limit_exceeded", "rate_limit", True),
        (429, "insufficient_quota", "rate_limit", False),
        (500, None, "unavailable", True),
        (502, None, "unavailable", True),
        (503, None, "unavailable", True),
        (504, None, "unavailable", True),
        (529, None, "unavailable", True),
        (408, None, "timeout", True),
        (401, "invalid_api_key", "auth", False),
        (403, None, "auth", False),
        (400, None, "invalid_request", False),
        (404, "model_not_found", "invalid_request", False),
        (413, None, "invalid_request", False),
        (422, None, "invalid_request", False),
    ],
)
async def test_err_1_statuses(service: Service, status: int, code: str | None, kind: str, retryable: bool) -> None:
    headers = {"x-request-id": "req_1", "retry-after": "7"}
    for model in (model_on(service), chat_model_on(service, "gpt-5.2")):
        for streamed in (False, True):
            service.answers(Json(problem(code), status, headers))
            error = await failure(model, stream=streamed)
            assert (error.kind, error.retryable, error.status_code) == (kind, retryable, status)
            assert (error.code, error.request_id, error.retry_after) == (code or "some_error", "req_1", 7.0)
            assert (error.provider, error.model, error.after_first_chunk) == ("openai", "gpt-5.2", False)
            assert isinstance(error.__cause__, openai.APIStatusError)
            assert str(status) in str(error)


async def test_oai_38_the_sdk_does_not_retry(service: Service) -> None:
    """T-21."""
    service.answers(Json(problem(), 500), Json(problem(), 429))
    await failure(model_on(service))
    await failure(model_on(service), stream=True)
    assert len(service.sent) == 2


async def test_err_1_the_text_shows_no_secret(service: Service) -> None:
    quoted = problem("invalid_api_key", f"Incorrect API key provided: {KEY}.")
    service.answers(
        Json(quoted, 401), Sse([created(), {"type": "error", "code": "x", "message": f"{KEY} Bearer abc.def"}])
    )
    for streamed in (False, True):
        error = await failure(model_on(service), asked("my prompt"), stream=streamed)
        for secret in (KEY, "abc.def", "my prompt", service.base_url):
            assert secret not in str(error)


async def test_err_1_a_key_of_any_form_is_left_out_of_what_the_service_says(service: Service) -> None:
    service.answers(Sse([{"type": "error", "code": "x", "message": "the key 0123abcd is wrong"}]))
    error = await failure(model_on(service, api_key="0123abcd"), stream=True)
    assert "0123abcd" not in str(error)
    assert "the key [key] is wrong" in str(error)


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1]  # bound, so nobody else takes it; not listening, so it refuses


async def test_err_1_no_connection(closed_port: int) -> None:
    model = OpenAIModel("gpt-5.2", api_key=KEY, base_url=f"http://127.0.0.1:{closed_port}/v1", api="responses")
    for streamed in (False, True):
        error = await failure(model, stream=streamed)
        assert (error.kind, error.retryable, error.status_code) == ("connection", True, None)
        assert isinstance(error.__cause__, openai.APIConnectionError)
    await model.close()


async def test_err_1_no_answer_in_time(service: Service) -> None:
    service.answers(Sse([], hangs=True))
    error = await failure(model_on(service, timeout=0.2), stream=True)
    assert (error.kind, error.retryable, error.after_first_chunk) == ("timeout", True, False)


async def test_err_1_no_further_event_in_time(service: Service) -> None:
    import httpx2

    async def late(request: httpx2.Request) -> httpx2.Response:
        async def body() -> AsyncIterator[bytes]:
            yield b"".join(Sse([created(), text_delta("a")]).frames())
            raise httpx2.ReadTimeout("late", request=request)

        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(late)) as http:
        error = await failure(model_on(service, http_client=http), stream=True)
    assert (error.kind, error.retryable, error.after_first_chunk) == ("timeout", True, True)


async def test_err_1_a_stray_cancellation_of_the_sdk_is_a_lost_connection(service: Service) -> None:
    """CASE-TOOL-7."""
    import httpx2

    async def cancelled(request: httpx2.Request) -> httpx2.Response:
        raise asyncio.CancelledError

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(cancelled)) as http:
        error = await failure(model_on(service, http_client=http))
    assert (error.kind, error.retryable) == ("connection", True)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("chat", [False, True])
async def test_case_model_3_a_stream_that_breaks_is_not_an_answer(service: Service, chat: bool) -> None:
    events = [chunk({"content": "half"})] if chat else [created(), text_delta("half")]
    service.answers(Sse(events, breaks=True))
    model = chat_model_on(service, retry=True) if chat else model_on(service, retry=True)
    async with aclosing(model.generate(asked(), stream=True)) as responses:
        assert (await anext(responses)).partial
        with pytest.raises(ModelError) as caught:
            await anext(responses)
    error = caught.value
    assert (error.kind, error.retryable, error.after_first_chunk) == ("stream", True, True)
    assert (error.provider, error.model, error.__cause__ is not None) == ("openai", model.name, True)
    assert len(service.sent) == 1, "nothing is tried again after the first chunk"


async def test_case_model_3_busy_and_then_well(service: Service) -> None:
    """ERR-2: three requests, one answer, no doubled partials; the service's wish counts when it is longer."""
    busy = Json(problem("rate_limit_exceeded"), 429, {"Retry-After": "9"})
    service.answers(busy, Json(problem(), 503), Sse(stream(message("Hello"))))
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with use_sleep(sleep), use_random(lambda: 0.5):
        responses = await ask(model_on(service, retry={"attempts": 3}), stream=True)
    assert texts(responses) == ["Hel", "lo", "Hello"]
    assert (len(service.sent), waits) == (3, [9.0, 1.0])


async def test_case_model_3_without_retries_the_error_goes_up(service: Service) -> None:
    service.answers(Json(problem("rate_limit_exceeded"), 429))
    error = await failure(model_on(service))
    assert (error.status_code, error.retryable, len(service.sent)) == (429, True, 1)


async def test_err_2_what_cannot_be_retried_is_not(service: Service) -> None:
    service.answers(Json(problem("insufficient_quota"), 429))
    assert (await failure(model_on(service, retry=5))).retryable is False
    assert len(service.sent) == 1


async def test_agg_31_an_empty_stream_is_an_error(service: Service) -> None:
    service.answers(Sse([]), Sse([], done=True))
    for model in (model_on(service), chat_model_on(service, accept_unterminated=True)):
        error = await failure(model, stream=True)
        assert (error.kind, error.retryable) == ("stream", True)


async def test_events_that_are_no_json(service: Service) -> None:
    service.answers(Sse(["{broken"]), Sse(["[1, 2]"]))
    error = await failure(model_on(service), stream=True)
    assert (error.kind, error.__cause__ is not None) == ("invalid_response", True)
    assert (await failure(model_on(service), stream=True)).kind == "stream", "an event that is no object is none"


LATIN = '{"type": "\xff"}'.encode("latin-1")
STRANGE: dict[str, Reply] = {
    "html in place of a stream": Raw("<html>data: {}</html>", kind="text/html"),
    "no utf-8 in a stream": Raw(b"data: " + LATIN + b"\n\n", kind="text/event-stream"),
    "no utf-8 in json": Raw(LATIN, kind="application/json"),
    "half json": Raw('{"id": "resp_1", "output": [', kind="application/json"),
    "half an event": Raw('data: {"type": "response.out', kind="text/event-stream"),
    "an error with status 200": Json({"error": {"code": "server_error", "message": "x"}}),
    "nothing": Raw("", kind="application/json"),
    "no content": Raw("", 204),
    "an endless redirect": Json({}, 307, {"location": "responses"}),
    "a status from elsewhere": Json({"error": {"message": "x"}}, 599),
    "a teapot": Raw("short and stout", 418),
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("streamed", [False, True])
async def test_err_1_strange_answers(service: Service, name: str, streamed: bool) -> None:
    for model in (model_on(service), chat_model_on(service)):
        service.respond = lambda sent: STRANGE[name]
        error = await failure(model, stream=streamed)
        assert error.kind in ("invalid_request", "invalid_response", "stream", "connection", "unavailable")
        assert error.provider == "openai"


async def test_sdk_9_without_a_key_the_first_call_says_what_to_do() -> None:
    model = OpenAIModel("gpt-5.2")  # REG-8: needs none to be made
    error = await failure(model)
    assert (error.kind, error.retryable) == ("auth", False)
    assert "OPENAI_API_KEY" in str(error)


async def test_sdk_9_a_compatible_server_needs_no_key(service: Service) -> None:
    service.answers(Sse(chat_stream("a"), named=False, done=True))
    model = OpenAIModel("m", base_url=service.base_url)
    assert (await whole(model, stream=True)).text == "a"
    assert "authorization" not in service.sent[0].headers


async def test_sdk_9_a_key_may_be_asked_for_per_request(service: Service) -> None:
    service.answers(Json(response(message("a"))), Json(response(message("a"))))
    keys = iter(["first", "second"])

    async def key() -> str:
        return next(keys)

    model = model_on(service, api_key=key)
    await whole(model)
    await whole(model)
    assert [sent.headers["authorization"] for sent in service.sent] == ["Bearer first", "Bearer second"]


async def test_an_administrators_key_in_the_environment_is_never_sent(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
    service.answers(Json(response(message("a"))), Json(response(message("a"))))
    for model in (model_on(service), OpenAIModel("m", base_url=service.base_url, api="responses")):
        await whole(model)
    assert not any("sk-admin" in value for sent in service.sent for value in sent.headers.values())


async def test_sdk_9_a_key_function_that_gives_none(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")

    async def key() -> str:
        return ""

    error = await failure(model_on(service, api_key=key))
    assert (error.kind, error.retryable, service.sent) == ("auth", False, [])


@pytest.mark.parametrize("key", ["sk-\u20ac-0123", "sk-01\n23"])
async def test_a_key_that_no_header_can_carry_is_not_quoted(service: Service, key: str) -> None:
    error = await failure(model_on(service, api_key=key))
    assert (error.kind, error.__cause__, service.sent) == ("auth", None, [])
    assert key not in str(error)


async def test_a_key_may_have_blanks_around_it(service: Service) -> None:
    """As a file of secrets gives it, with a newline at its end."""
    service.answers(Json(response(message("a"))))
    await whole(model_on(service, api_key=f" {KEY}\n"))
    assert service.sent[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_path_that_is_missing_is_guessed(service: Service) -> None:
    service.answers(Json({"detail": "Not Found"}, 404))
    error = await failure(OpenAIModel("m", base_url=service.base_url))
    assert "base_url that ends in /v1" in str(error)


async def test_sdk_9_wrong_client_options_are_named() -> None:
    error = await failure(OpenAIModel("gpt-5.2", api_key=KEY, client_options={"no_such_option": 1}))
    assert (error.kind, error.code) == ("invalid_request", "client_options")
    assert "no_such_option" in str(error)
