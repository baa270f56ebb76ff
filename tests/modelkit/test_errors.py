"""One error family: models ERR-1, and what it never says."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from hookwork.platform import use_clock
from hookwork_modelkit import model_error, refusal, transport_error
from hookwork_modelkit.errors import UNSENDABLE

TABLE = [
    (429, "", "rate_limit", True),
    (429, "insufficient_quota", "rate_limit", False),
    (429, "billing_hard_limit_reached", "rate_limit", False),
    *[(status, "", "unavailable", True) for status in (500, 502, 503, 504, 529)],
    (408, "", "timeout", True),
    (401, "", "auth", False),
    (403, "PERMISSION_DENIED", "auth", False),
    *[(status, "", "invalid_request", False) for status in (400, 404, 413, 422)],
    (None, "RESOURCE_EXHAUSTED", "rate_limit", True),
    (None, "server_error", "unavailable", True),
    (None, "insufficient_quota", "rate_limit", False),
    (None, "something_new", "invalid_response", False),
    (302, "", "invalid_response", False),
    (418, "", "invalid_request", False),
    (501, "", "unavailable", False),
]


@pytest.mark.parametrize(("status", "code", "kind", "retryable"), TABLE)
def test_err_1_the_kind_follows_from_status_and_code(status: int | None, code: str, kind: str, retryable: bool) -> None:
    error = model_error("gcp.gemini", "m", status=status, code=code)
    assert (error.kind, error.retryable) == (kind, retryable)
    assert (error.provider, error.model, error.status_code, error.code) == ("gcp.gemini", "m", status, code)


def test_err_1_the_text_names_provider_model_kind_and_status_and_what_to_do() -> None:
    text = str(model_error("openai", "gpt-5.2", status=401, code="invalid_api_key"))
    assert (
        text == "openai 'gpt-5.2': auth (HTTP 401, invalid_api_key); check the key or credentials, and what they may do"
    )


def test_err_1_no_header_query_or_sentence_reaches_the_text() -> None:
    error = model_error(
        "p",
        "m",
        status=400,
        code="Incorrect key sk-secret given",
        headers={"Authorization": "Bearer sk-secret", "X-Request-Id": "r1", "set-cookie": "sk-secret"},
    )
    assert "sk-secret" not in str(error)
    assert "sk-secret" not in repr(vars(error))
    assert error.request_id == "r1"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"Retry-After": "Mon, 05 Jan 2026 00:00:30 GMT"}, 30.0),
        ({"Retry-After": "Mon, 05 Jan 2026 00:00:30 -0000"}, 30.0),
        ({"Retry-After": "Mon, 05 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_err_1_retry_after_is_read_in_every_form(headers: dict[str, str] | None, seconds: float | None) -> None:
    with use_clock(lambda: datetime(2026, 1, 5, tzinfo=UTC)):
        assert model_error("p", "m", status=429, headers=headers).retry_after == seconds


def test_err_1_a_body_that_says_how_long_wins() -> None:
    assert model_error("p", "m", status=429, headers={"retry-after": "7"}, retry_after=3.5).retry_after == 3.5


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (httpx.ConnectError("x"), "connection", True),
        (httpx.ReadError("x"), "connection", True),
        (httpx.RemoteProtocolError("x"), "connection", True),
        (httpx.ReadTimeout("x"), "timeout", True),
        (httpx.PoolTimeout("x"), "timeout", True),
        (httpx.DecodingError("x"), "invalid_response", False),
        (TimeoutError(), "timeout", True),
        (ConnectionResetError(), "connection", True),
        (ssl.SSLError("x"), "connection", True),
        (OSError(101, "unreachable"), "connection", True),
        (asyncio.IncompleteReadError(b"", 3), "connection", True),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "x"), "invalid_response", False),
    ],
)
def test_err_1_network_and_decoder_errors_are_told_by_name(error: Exception, kind: str, retryable: bool) -> None:
    failed = transport_error("p", "m", error)
    assert failed is not None
    assert (failed.kind, failed.retryable, failed.after_first_chunk) == (kind, retryable, False)


def test_err_1_httpx2_errors_are_known_as_well() -> None:
    """SDK-1: which library a client uses does not matter."""
    httpx2 = pytest.importorskip("httpx2")
    failed = transport_error("p", "m", httpx2.ConnectTimeout("x"))
    assert failed is not None
    assert failed.kind == "timeout"


@pytest.mark.parametrize(
    ("name", "retryable", "kind"),
    [
        ("DefaultCredentialsError", False, "auth"),
        ("RefreshError", False, "auth"),
        ("RefreshError", True, "connection"),
        ("TransportError", False, "connection"),
    ],
)
def test_err_1_credentials_are_wrong_or_could_not_be_fetched(name: str, retryable: bool, kind: str) -> None:
    from google.auth import exceptions

    failed = transport_error("p", "m", getattr(exceptions, name)("secret", retryable=retryable))
    assert failed is not None
    assert (failed.kind, failed.retryable) == (kind, kind == "connection")
    assert "secret" not in str(failed)


def test_err_1_a_connection_lost_after_a_response_is_a_broken_stream() -> None:
    failed = transport_error("p", "m", httpx.ReadError("x"), started=True)
    assert failed is not None
    assert (failed.kind, failed.retryable, failed.after_first_chunk) == ("stream", True, True)


@pytest.mark.parametrize("error", [KeyError("x"), FileNotFoundError("x"), AssertionError()])
def test_err_1_a_fault_of_the_program_is_none_of_the_networks(error: Exception) -> None:
    assert transport_error("p", "m", error) is None


def test_err_1_a_refusal_is_an_invalid_request_that_says_why() -> None:
    error: Any = refusal("p", "m", "top_k is not supported; leave it out", code="unsupported_top_k")
    assert (error.kind, error.retryable, error.code) == ("invalid_request", False, "unsupported_top_k")
    assert "top_k is not supported" in str(error)


class LocalProtocolError(Exception):
    """As httpx and httpx2 name it."""


class APIConnectionError(Exception):
    """As openai names it."""


@pytest.mark.parametrize("wrapped", [False, True])
def test_err_1_a_header_that_cannot_be_written_is_no_lost_connection(wrapped: bool) -> None:
    """Its text quotes the header, which may be the key: it is told by a code, so that nobody chains it."""
    error: Exception = LocalProtocolError("Illegal header value b's3cret\\n'")
    if wrapped:
        outer = APIConnectionError("Connection error.")
        outer.__cause__ = error
        error = outer
    failed = transport_error("acme", "m", error)
    assert failed is not None
    assert (failed.kind, failed.retryable, failed.code) == ("invalid_request", False, UNSENDABLE)
    assert "s3cret" not in str(failed)
    other = transport_error("acme", "m", LocalProtocolError("connection is closed"))
    assert other is not None
    assert other.kind == "connection"
    assert transport_error("acme", "m", KeyError("x")) is None
