"""Errors of google-genai as ModelError (models GEM-10, ERR-1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookwork.errors import ModelError
from hookwork_modelkit import model_error, refusal
from hookwork_modelkit.retry_after import seconds_of

_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
#: How the SDK says that a backend lacks a parameter.
_LACKING = re.compile(r"^([A-Za-z_]\w*) parameter is (?:only supported|not supported)")


def translate(provider: str, model: str, error: Exception, *, started: bool) -> ModelError | None:
    """The ModelError of an exception of the SDK; None for one that is not the SDK's own."""
    from google.genai.errors import APIError, UnknownApiResponseError

    if isinstance(error, APIError):
        return _answered(provider, model, error, started)
    body = unread_message(error)
    if body is not None:
        fault = body.get("error")
        name = fault.get("status") if isinstance(fault, Mapping) else None
        return model_error(provider, model, code=name, started=started)
    if isinstance(error, UnknownApiResponseError):
        return model_error(provider, model, kind="invalid_response", retryable=False, started=started)
    if type(error) is ValueError and not started:
        found = _LACKING.match(str(error))
        detail = f"this backend does not take {found[1]!r}" if found else "the SDK refuses the request; see the cause"
        return refusal(provider, model, detail)
    return None


def unread_message(error: Exception) -> Mapping[str, Any] | None:
    """The message over which google-genai (3.6.1) stumbled while it took it for an error; None for other errors.

    The SDK compares the message's ``code`` with numbers before it looks whether there is one, so a message of a kind
    it does not know, and an error without a number, end in a TypeError that does not say what was received.
    """
    trace = error.__traceback__ if isinstance(error, TypeError) else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_name not in ("raise_error", "raise_error_async"):
        return None
    received = trace.tb_frame.f_locals.get("response_json")
    return received if isinstance(received, Mapping) else None


def _answered(provider: str, model: str, error: Any, started: bool) -> ModelError:
    headers = getattr(getattr(error, "response", None), "headers", None)
    status = error.code if isinstance(error.code, int) else None
    return model_error(
        provider,
        model,
        status=status,
        code=error.status,
        headers=dict(headers) if headers else None,
        retry_after=_retry_delay(error.details),
        started=started,
    )


def _retry_delay(details: Any) -> float | None:
    """Seconds that the error body asks to wait (google.rpc.RetryInfo)."""
    body = details.get("error", details) if isinstance(details, Mapping) else None
    entries = body.get("details") if isinstance(body, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("@type") == _RETRY_INFO:
            return seconds_of(entry.get("retryDelay"))
    return None


def unusable_client(provider: str, model: str, error: Exception, *, vertexai: bool) -> ModelError:
    """The error for a client that cannot be made: no key, no credentials, no project."""
    remedy = (
        "set GOOGLE_CLOUD_PROJECT and Application Default Credentials, or give project, location and credentials"
        if vertexai
        else "set GOOGLE_API_KEY or GEMINI_API_KEY, give api_key, or use Vertex AI (GOOGLE_GENAI_USE_ENTERPRISE=true)"
    )
    failed = model_error(provider, model, kind="auth", retryable=False, detail=f"no usable credentials: {remedy}")
    failed.__cause__ = error
    return failed
