"""Failures of the service as ModelErrors (models ERR-1, OAI-27, OAI-38).

Exceptions of the SDK are told by their attributes, so this module works without importing it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookwork.errors import ModelError
from hookwork_modelkit.errors import classify, model_error, transport_error
from hookwork_openai.call import Call

_LONGEST = 300
_KEY = re.compile(r"\b(?:sk|sess|pk|rk)-[\w*.-]+|\bBearer\s+\S+", re.IGNORECASE)
_REMEDIES = {"rate_limit": "wait, or set a retry policy", "unavailable": "try again later"}


def sdk_error(call: Call, error: Exception, started: bool) -> ModelError | None:
    """The ModelError of an exception of the SDK; None for one that is not its own.

    Args:
        started: responses had come before it.
    """
    status = getattr(error, "status_code", None)
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(status, int) and "APIStatusError" in names:
        code = _code(error)
        headers = getattr(getattr(error, "response", None), "headers", None)
        lost = status == 404 and not call.official
        detail = (
            "there is no such model, or no such path: most servers want a base_url that ends in /v1" if lost else ""
        )
        return model_error(
            call.provider, call.model, status=status, code=code, headers=headers, detail=detail, started=started
        )
    if isinstance(error, RuntimeError) and "client has been closed" in str(error):
        detail = "its HTTP client was closed by its owner"
        return model_error(call.provider, call.model, kind="connection", detail=detail, started=started)
    if "APIConnectionError" in names or "APIResponseValidationError" in names:
        return transport_error(call.provider, call.model, error, started=started)
    if "APIError" in names:  # an error object inside a stream
        body = getattr(error, "body", None)
        return service_error(call, body if isinstance(body, Mapping) else {}, started=started)
    return None


def service_error(call: Call, error: Mapping[str, Any], *, started: bool, kind: str = "") -> ModelError:
    """The ModelError of an error object that came with an answer of status 200.

    Args:
        error: ``{code, message, type}``; some gateways put an HTTP status into ``code``.
        kind: instead of what the code says.
    """
    raw = error.get("code")
    status = int(raw) if isinstance(raw, int) or (isinstance(raw, str) and raw.isdigit()) else None
    code = "" if status is not None else str(raw or error.get("type") or "")
    known, retryable = classify(status if status is None or status >= 400 else None, code)
    message = error.get("message")
    said = f": {_shown(call, message)}" if isinstance(message, str) and message.strip() else ""
    failed = model_error(
        call.provider,
        call.model,
        code=code,
        kind=kind or known,
        retryable=retryable,
        detail=f"the service reported a failure{said}; {_REMEDIES.get(known, 'see what it says')}",
        started=started,
    )
    failed.status_code = status
    return failed


def _code(error: Exception) -> str:
    code = getattr(error, "code", None)
    if isinstance(code, str) and code and not code.isdigit():
        return code
    kind = getattr(error, "type", None)
    return kind if isinstance(kind, str) else ""


def _shown(call: Call, message: str) -> str:
    """A message of the service, in one line, without the key or anything that looks like one."""
    key = call.options.key()
    if isinstance(key, str):
        message = message.replace(key, "[key]")
    line = " ".join(_KEY.sub("[key]", message).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
