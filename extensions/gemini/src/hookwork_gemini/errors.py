"""Errors of google-genai as ModelError (models GEM-10, ERR-1)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hookwork.errors import ModelError
from hookwork_gemini.strictness import lacking_parameter
from hookwork_modelkit import model_error, refusal, transport_error
from hookwork_modelkit.retry_after import seconds_of

_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
#: What a quota may be called to be shown in an error: nothing that a service could put a secret or a prompt into.
_PLAIN = re.compile(r"[\w./-]{1,120}")

_NO_CREDENTIALS = (
    "set GOOGLE_CLOUD_PROJECT and Application Default Credentials, or give project, location and credentials"
)
_NO_KEY = "set GOOGLE_API_KEY or GEMINI_API_KEY, give api_key, or use Vertex AI (GOOGLE_GENAI_USE_ENTERPRISE=true)"


def translate(
    provider: str, model: str, error: Exception, *, started: bool, answered: bool = False
) -> ModelError | None:
    """The ModelError of an exception of the SDK; None for one that is not the SDK's own.

    Args:
        started: responses came before it. answered: an HTTP response came before it, so what is wrong is the answer.
    """
    from google.auth.exceptions import DefaultCredentialsError
    from google.genai.errors import APIError, UnknownApiResponseError

    if isinstance(error, APIError):
        return _answered(provider, model, error, started)
    of_interaction = _of_interaction(provider, model, error, started)
    if of_interaction is not None:
        return of_interaction
    if isinstance(error, DefaultCredentialsError):
        return unusable_client(provider, model, error, vertexai=True, has_key=False)
    body = unread_message(error)
    if body is not None:
        return _of_body(provider, model, body, started)
    if isinstance(error, UnknownApiResponseError) or (answered and _is_of_the_sdk(provider, model, error)):
        return model_error(provider, model, kind="invalid_response", retryable=False, started=started)
    if type(error) is ValueError and not started:
        name = lacking_parameter(error)
        detail = f"this backend does not take {name!r}" if name else "the SDK refuses the request; see the cause"
        return refusal(provider, model, detail)
    return None


def _of_interaction(provider: str, model: str, error: Exception, started: bool) -> ModelError | None:
    """The ModelError of an exception of the SDK's Interactions client, told by names: its classes are not public."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "ContinuationInterruptedError" in names and error.__cause__ is not None:
        cause = error.__cause__
        known = translate(provider, model, cause, started=True) if isinstance(cause, Exception) else None
        return known or transport_error(provider, model, cause, started=True)
    if "GeminiNextGenAPIClientError" not in names or "APIConnectionError" in names:
        return None  # a lost connection is known by its name
    body, status = getattr(error, "body", None), getattr(error, "status_code", None)
    fault = _fault_in(body)
    code = fault.get("status") or fault.get("code")
    number = status if isinstance(status, int) and status >= 400 else None
    headers = getattr(getattr(error, "response", None), "headers", None)
    return model_error(
        provider,
        model,
        status=number,
        code=str(code) if isinstance(code, str) else "",
        kind="auth" if is_bad_key(body) else "",
        headers=dict(headers) if headers else None,
        started=started,
        **_limits(body, number),
    )


def _fault_in(body: Any) -> Mapping[str, Any]:
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    fault = body.get("error") if isinstance(body, Mapping) else None
    return fault if isinstance(fault, Mapping) else {}


def _is_of_the_sdk(provider: str, model: str, error: Exception) -> bool:
    """Whether the SDK stumbled over an answer, in whatever way: it reads it without a look at its form."""
    if transport_error(provider, model, error) is not None:
        return False
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] in ("google", "pydantic"):
            return True
        trace = trace.tb_next
    return False


def no_response(provider: str, model: str, received: Sequence[Any]) -> ModelError:
    """The error for an answer without a single field of the API: that of its body if it holds one (CONV, ERR-1).

    The SDK looks at the HTTP status alone, so an error behind a 200, as proxies send it, would be an empty answer.
    """
    body: Any = None
    with suppress(Exception):  # a stream's body is not kept, and what cannot be read says nothing
        body = json.loads(received[-1].content)
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if isinstance(body, Mapping) and body.get("error"):
        return _of_body(provider, model, body, started=False)
    return model_error(
        provider, model, kind="invalid_response", retryable=False, detail="what answered does not speak the Gemini API"
    )


def _of_body(provider: str, model: str, body: Mapping[str, Any], started: bool) -> ModelError:
    fault = body.get("error")
    if not isinstance(fault, Mapping):
        return model_error(provider, model, started=started)
    number = fault.get("code")
    return model_error(
        provider,
        model,
        status=number if isinstance(number, int) and number >= 400 else None,
        code=fault.get("status"),
        kind="auth" if is_bad_key(fault) else "",
        started=started,
        **_limits(body, number),
    )


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
        kind="auth" if is_bad_key(error.details) else "",
        headers=dict(headers) if headers else None,
        started=started,
        **_limits(error.details, status),
    )


def is_bad_key(details: Any) -> bool:
    """Whether an error is about the key: the Gemini API answers a wrong one with 400 and an ErrorInfo."""
    return any(
        entry.get("@type") == _ERROR_INFO and str(entry.get("reason")).startswith("API_KEY_")
        for entry in _entries(details)
    )


def _retry_delay(details: Any) -> float | None:
    """Seconds that the error body asks to wait (google.rpc.RetryInfo)."""
    for entry in _entries(details):
        if entry.get("@type") == _RETRY_INFO:
            return seconds_of(entry.get("retryDelay"))
    return None


def _limits(details: Any, status: Any) -> dict[str, Any]:
    """What an error says about waiting: how long, which quota is used up, and what to do (models Beyond: clear 429)."""
    after = _retry_delay(details)
    found: dict[str, Any] = {"retry_after": after}
    if status != 429:
        return found
    quotas = list(dict.fromkeys(_quotas(details)))
    daily = any("PerDay" in quota for quota in quotas)
    told = f"the quota {', '.join(quotas)} is used up" if quotas else "too many requests, or the quota is used up"
    if daily:
        found["retryable"] = False
        found["detail"] = f"{told} for today; ask for a higher one, or use another model or project"
        return found
    wait = f"wait {after:g} s" if after is not None else "wait"
    found["detail"] = (
        f"{told}; {wait}, lower the rate, set a retry policy (retry=True), ask for a higher quota, or use another model"
    )
    return found


def _quotas(details: Any) -> Iterator[str]:
    """Names of the quotas that an error says are used up (google.rpc.QuotaFailure); only what is a plain name."""
    for entry in _entries(details):
        violations = entry.get("violations") if entry.get("@type") == _QUOTA_FAILURE else None
        for violation in violations if isinstance(violations, list) else ():
            name = violation.get("quotaId") or violation.get("quotaMetric") if isinstance(violation, Mapping) else None
            if isinstance(name, str) and _PLAIN.fullmatch(name):
                yield name


def _entries(details: Any) -> Iterator[Mapping[str, Any]]:
    """The details of a google.rpc.Status, of it or of the body around it."""
    if isinstance(details, list) and len(details) == 1:
        details = details[0]  # so a streamed call is refused
    body = details.get("error", details) if isinstance(details, Mapping) else None
    entries = body.get("details") if isinstance(body, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping):
            yield entry


def unusable_client(provider: str, model: str, error: Exception, *, vertexai: bool, has_key: bool) -> ModelError:
    """The error for a client that cannot be made: no key, no credentials, no project; or options of a wrong form."""
    if isinstance(error, ValueError) and has_key:
        detail = (
            "the SDK cannot be set up with these options; check http_options, base_url and environment, see the cause"
        )
        failed = refusal(provider, model, detail)
    else:
        remedy = _NO_CREDENTIALS if vertexai else _NO_KEY
        failed = model_error(provider, model, kind="auth", retryable=False, detail=f"no usable credentials: {remedy}")
    failed.__cause__ = error
    return failed


def unusable_key(provider: str, model: str) -> ModelError:
    """The error for a key that no header can carry; it is not quoted."""
    return model_error(
        provider,
        model,
        kind="auth",
        retryable=False,
        detail="the API key holds a blank, a line break or another character that no key has; set it anew",
    )
