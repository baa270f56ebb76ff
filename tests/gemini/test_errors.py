"""What a failed call raises: models ERR-1, ERR-2, GEM-10, MOD-4, MOD-8, CASE-MODEL-3."""

from __future__ import annotations

import socket
from contextlib import aclosing
from typing import Any

import pytest
from tests.gemini.making import api_model, responses_of, vertex_model, whole_of
from tests.gemini.service import KEY, Failure, Reply, Service, chunk, error_body

from hookwork.errors import ModelError
from hookwork.platform import use_random, use_sleep
from hookwork_modelkit import RetryPolicy

GOOD = Reply(chunk({"text": "good "}), chunk({"text": "answer"}, finish="STOP"))


async def failure_of(service: Service, *, stream: bool = False, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await responses_of(api_model(service, **options), stream=stream)
    return caught.value


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "name", "kind", "retryable"),
    [
        (400, "INVALID_ARGUMENT", "invalid_request", False),
        (401, "UNAUTHENTICATED", "auth", False),
        (403, "PERMISSION_DENIED", "auth", False),
        (404, "NOT_FOUND", "invalid_request", False),
        (408, "DEADLINE_EXCEEDED", "timeout", True),
        (429, "RESOURCE_EXHAUSTED", "rate_limit", True),
        (500, "INTERNAL", "unavailable", True),
        (503, "UNAVAILABLE", "unavailable", True),
        (504, "DEADLINE_EXCEEDED", "unavailable", True),
    ],
)
async def test_gem_10_an_error_of_the_api(
    service: Service, status: int, name: str, kind: str, retryable: bool, stream: bool
) -> None:
    service.always = Failure(status, error_body(status, name, f"the key {KEY} and the prompt"))
    error = await failure_of(service, stream=stream)
    assert (error.kind, error.retryable, error.status_code, error.code) == (kind, retryable, status, name)
    assert (error.provider, error.model, error.after_first_chunk) == ("gcp.gemini", "gemini-2.5-flash", False)
    assert type(error.__cause__).__name__ in ("ClientError", "ServerError")
    assert KEY not in str(error)
    assert "prompt" not in str(error)
    assert len(service.received) == 1, "the SDK must not retry by itself"


async def test_gem_10_an_error_that_is_no_json(service: Service) -> None:
    """ECO-GEN-3: a proxy's page of HTML."""
    service.always = Failure(502, b"<html>Bad Gateway</html>", content_type="text/html")
    error = await failure_of(service)
    assert (error.kind, error.status_code, error.code) == ("unavailable", 502, "")
    assert "html" not in str(error)


async def test_gem_10_how_long_to_wait_is_read_from_header_and_body(service: Service) -> None:
    service.always = Failure(429, error_body(429, "RESOURCE_EXHAUSTED"), (("Retry-After", "7"),))
    assert (await failure_of(service)).retry_after == 7.0
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}
    service.always = Failure(429, error_body(429, "RESOURCE_EXHAUSTED", "x", {"@type": "other"}, info))
    assert (await failure_of(service, stream=True)).retry_after == 3.5


async def test_err_1_an_answer_that_cannot_be_read(service: Service) -> None:
    service.always = Reply(chunk({"text": "a"}), pieces=lambda data: [b'data: {"candidates": [}\r\n\r\n'])
    error = await failure_of(service, stream=True)
    assert (error.kind, error.retryable, error.after_first_chunk) == ("invalid_response", False, False)


async def test_err_1_nobody_listens(service: Service) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        error = await failure_of(service, base_url=f"http://127.0.0.1:{free.getsockname()[1]}")
    assert (error.kind, error.retryable) == ("connection", True)


async def test_err_1_a_time_limit(service: Service) -> None:
    service.always = Reply(hangs=True)
    error = await failure_of(service, stream=True, timeout=0.05)
    assert (error.kind, error.retryable) == ("timeout", True)


async def test_err_1_an_empty_stream(service: Service) -> None:
    """AGG-31."""
    service.always = Reply()
    error = await failure_of(service, stream=True)
    assert (error.kind, error.retryable) == ("stream", True)


async def test_err_1_an_error_inside_a_stream(service: Service) -> None:
    body = error_body(503, "UNAVAILABLE", "busy")
    service.always = Reply(chunk({"text": "half"}), body)
    model = api_model(service)
    async with aclosing(model.generate(_request(), stream=True)) as responses:
        assert (await anext(responses)).text == "half"
        with pytest.raises(ModelError) as caught:
            await anext(responses)
    assert (caught.value.kind, caught.value.code, caught.value.after_first_chunk) == (
        "unavailable",
        "UNAVAILABLE",
        True,
    )
    await model.close()


def _request() -> Any:
    from tests.gemini.making import asking

    return asking()


async def test_mod_4_what_came_before_a_break_is_not_made_whole(service: Service) -> None:
    """CASE-MODEL-3: typed, retryable, with its cause; no silent retry after the first chunk."""
    service.always = Reply(chunk({"text": "half"}), breaks=True)
    model = api_model(service, retry=True)
    seen = []
    with pytest.raises(ModelError) as caught:  # noqa: PT012 - what came before the error is looked at
        async with aclosing(model.generate(_request(), stream=True)) as responses:
            async for response in responses:
                seen.append(response)
    assert [(response.text, response.partial) for response in seen] == [("half", True)]
    error = caught.value
    assert (error.kind, error.retryable, error.after_first_chunk) == ("stream", True, True)
    assert (error.provider, error.model) == ("gcp.gemini", "gemini-2.5-flash")
    assert error.__cause__ is not None
    assert len(service.received) == 1
    await model.close()


async def test_err_2_a_busy_provider_is_asked_again_when_that_is_wanted(service: Service) -> None:
    """CASE-MODEL-3: three requests, one answer, no doubled partials."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    service.scripts = [
        Failure(429, error_body(429, "RESOURCE_EXHAUSTED"), (("Retry-After", "0"),)),
        Failure(503, error_body(503, "UNAVAILABLE")),
        GOOD,
    ]
    with use_sleep(sleep), use_random(lambda: 1.0):
        responses = await responses_of(api_model(service, retry=RetryPolicy()), stream=True)
    assert [response.text for response in responses] == ["good ", "answer", "good answer"]
    assert [bool(response.partial) for response in responses] == [True, True, False]
    assert len(service.received) == 3
    assert waits == [1.0, 2.0]
    assert service.received[0].body == service.received[2].body


async def test_err_2_without_a_policy_one_request_is_made(service: Service) -> None:
    service.scripts = [Failure(429, error_body(429, "RESOURCE_EXHAUSTED")), GOOD]
    error = await failure_of(service)
    assert (error.status_code, error.kind) == (429, "rate_limit")
    assert len(service.received) == 1


async def test_err_2_retries_that_the_caller_asks_of_the_sdk_are_off_too(service: Service) -> None:
    """GEM-11, SDK-5, T-21: never two layers of retries."""
    from tests.gemini.making import asking

    service.scripts = [Failure(503, error_body(503, "UNAVAILABLE")), GOOD]
    options = {"retry_options": {"attempts": 3, "initial_delay": 0.0}}
    with pytest.raises(ModelError):
        await responses_of(api_model(service, http_options=options), asking(http_options=options))
    assert len(service.received) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("vertex", [False, True])
async def test_mod_8_what_the_service_refuses_is_a_response(service: Service, stream: bool, vertex: bool) -> None:
    """CONV-4, CONV-6, T-1: a blocked prompt, streamed or not."""
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "no"}
    service.always = Reply({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4}})
    make = vertex_model if vertex else api_model
    whole = await whole_of(make(service), stream=stream)
    assert (whole.content, whole.error_code, whole.error_message) == (None, "PROHIBITED_CONTENT", "no")
    assert whole.usage_metadata is not None
    assert whole.usage_metadata.prompt_token_count == 4


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("vertex", [False, True])
async def test_mod_8_a_safety_stop_is_a_response(service: Service, stream: bool, vertex: bool) -> None:
    """CONV-3. For the Gemini API the SDK (3.6.1) leaves the message out of what it parses."""
    service.always = Reply({"candidates": [{"finishReason": "SAFETY", "finishMessage": "no"}]})
    whole = await whole_of((vertex_model if vertex else api_model)(service), stream=stream)
    assert (whole.content, whole.error_code, whole.error_message) == (None, "SAFETY", "no" if vertex else None)
