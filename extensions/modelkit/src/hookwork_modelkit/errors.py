"""One error for every failed call, whoever the provider is (models ERR-1).

The text of an error names provider, model, kind, status and the provider's code, and what to do. It never quotes the
provider's own message: that may repeat the prompt, a key or an address. The SDK's exception is kept as ``__cause__``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hookwork.errors import ModelError
from hookwork_modelkit.retry_after import retry_after_of


class _Kind(NamedTuple):
    kind: str
    retryable: bool


_RATE = _Kind("rate_limit", True)
_UNAVAILABLE = _Kind("unavailable", True)
_TIMEOUT = _Kind("timeout", True)
_CONNECTION = _Kind("connection", True)
_AUTH = _Kind("auth", False)
_REQUEST = _Kind("invalid_request", False)
_RESPONSE = _Kind("invalid_response", False)

_BY_STATUS = {
    **dict.fromkeys((400, 404, 413, 422), _REQUEST),
    **dict.fromkeys((401, 403), _AUTH),
    **dict.fromkeys((408,), _TIMEOUT),
    **dict.fromkeys((429,), _RATE),
    **dict.fromkeys((500, 502, 503, 504, 529), _UNAVAILABLE),
}

#: What a provider calls an error where no HTTP status came with it: in a stream, or in a failed response.
_BY_CODE = {
    **dict.fromkeys(("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", "RATE_LIMIT_ERROR"), _RATE),
    **dict.fromkeys(("UNAVAILABLE", "INTERNAL", "SERVER_ERROR", "OVERLOADED_ERROR", "ABORTED"), _UNAVAILABLE),
    **dict.fromkeys(("SLOW_DOWN", "SERVICE_UNAVAILABLE", "INTERNAL_ERROR", "API_ERROR"), _UNAVAILABLE),
    **dict.fromkeys(("DEADLINE_EXCEEDED", "TIMEOUT", "VECTOR_STORE_TIMEOUT"), _TIMEOUT),
    **dict.fromkeys(("UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_API_KEY", "AUTHENTICATION_ERROR"), _AUTH),
    **dict.fromkeys(("INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "OUT_OF_RANGE"), _REQUEST),
    **dict.fromkeys(("INVALID_PROMPT", "INVALID_REQUEST_ERROR", "MODEL_NOT_FOUND"), _REQUEST),
    **dict.fromkeys(("CONTEXT_LENGTH_EXCEEDED", "UNIMPLEMENTED"), _REQUEST),
}

#: Out of money or quota: waiting does not help.
_SPENT = frozenset({"INSUFFICIENT_QUOTA", "BILLING_HARD_LIMIT_REACHED", "BILLING_NOT_ACTIVE", "QUOTA_EXCEEDED"})

#: Names of exception classes, those of httpx, httpx2, aiohttp, requests, websockets, openai and the standard library
#: alike: an adapter need not import the library its SDK happens to use (models SDK-1).
_TIMEOUTS = frozenset(
    {"TimeoutError", "TimeoutException", "APITimeoutError", "ConnectTimeout", "ReadTimeout", "WriteTimeout",
     "PoolTimeout", "Timeout", "ServerTimeoutError"}
)  # fmt: skip
_CONNECTIONS = frozenset(
    {"TransportError", "NetworkError", "ProtocolError", "RemoteProtocolError", "LocalProtocolError", "ConnectError",
     "ReadError", "WriteError", "CloseError", "ProxyError", "APIConnectionError", "ConnectionError", "ConnectionClosed",
     "ClientConnectionError", "ClientPayloadError", "SSLError", "gaierror", "herror", "StreamError", "EOFError",
     "IncompleteReadError", "RequestError", "InvalidHandshake"}
)  # fmt: skip
_UNREADABLE = frozenset(
    {"DecodingError", "JSONDecodeError", "UnicodeDecodeError", "DecodeError", "ValidationError",
     "UnknownApiResponseError", "APIResponseValidationError"}
)  # fmt: skip
_CREDENTIALS = frozenset({"GoogleAuthError", "DefaultCredentialsError", "RefreshError"})

#: The code of a request that cannot be written down, because of its key or headers.
UNSENDABLE = "unsendable_header"

_REMEDIES = {
    "rate_limit": "wait, lower the rate, or set a retry policy",
    "unavailable": "try again later, or set a retry policy",
    "timeout": "try again, or allow more time",
    "connection": "check network and base URL, then try again",
    "stream": "try again",
    "auth": "check the key or credentials, and what they may do",
    "invalid_request": "check model name, settings and contents",
    "invalid_response": "the answer could not be understood",
}


def classify(status: int | None, code: str = "") -> tuple[str, bool]:
    """(kind, retryable) by the table of ERR-1.

    Args:
        status: HTTP status; None when the error came in a body or a stream.
        code: the provider's own name for it, in any case.
    """
    name = code.upper()
    found = _BY_STATUS.get(status) if status is not None else _BY_CODE.get(name)
    if found is None:
        if status is None:
            found = _RATE if name in _SPENT else _Kind("invalid_response", False)
        elif status >= 500:
            found = _Kind("unavailable", status not in (501, 505))
        else:
            found = _REQUEST if status >= 400 else _RESPONSE
    return found.kind, found.retryable and name not in _SPENT


def model_error(
    provider: str,
    model: str,
    *,
    status: int | None = None,
    code: str | None = "",
    headers: Mapping[str, str] | None = None,
    retry_after: float | None = None,
    request_id: str = "",
    kind: str = "",
    retryable: bool | None = None,
    detail: str = "",
    started: bool = False,
) -> ModelError:
    """The ModelError of an answer that says "no".

    Args:
        provider, model: who was asked.
        status: HTTP status, None when there was none.
        code: the provider's code, ``RESOURCE_EXHAUSTED``, ``insufficient_quota`` …
        headers: of the response; read for ``Retry-After`` and the request id.
        retry_after: seconds, where the body said so; wins over the headers.
        kind, retryable: instead of what the table says.
        detail: a sentence of our own for the text. Never a text of the provider or of a user.
        started: responses had come before it (``after_first_chunk``).
    """
    code = _word(code)
    known, may_retry = classify(status, code)
    kind = kind or known
    may_retry = may_retry if retryable is None else retryable
    lowered = {str(name).lower(): value for name, value in (headers or {}).items()}
    if retry_after is None:
        retry_after = retry_after_of(lowered)
    request_id = request_id or str(
        lowered.get("x-request-id") or lowered.get("request-id") or lowered.get("x-goog-request-id") or ""
    )
    facts = ", ".join(text for text in (f"HTTP {status}" if status else "", code) if text)
    what = detail or _REMEDIES.get(kind, "see the cause")
    return ModelError(
        f"{provider or 'model'} {model!r}: {kind}{f' ({facts})' if facts else ''}; {what}",
        provider=provider,
        model=model,
        kind=kind,
        status_code=status,
        code=code,
        retryable=may_retry,
        retry_after=retry_after,
        after_first_chunk=started,
        request_id=request_id,
    )


def refusal(provider: str, model: str, detail: str, *, code: str = "") -> ModelError:
    """An ``invalid_request`` found before any network call. ``detail``: what is wrong and what to do, in our words."""
    return model_error(provider, model, code=code, kind="invalid_request", retryable=False, detail=detail)


def transport_error(provider: str, model: str, error: BaseException, *, started: bool = False) -> ModelError | None:
    """The ModelError of an exception that the network or a decoder raised, told by the names of its classes.

    None: it is none of these, so it is a fault of the program and goes up as it is. Once responses have come
    (``started``) a lost connection is of kind ``stream``. The caller chains the cause.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _CREDENTIALS:
        if "TransportError" in names or getattr(error, "retryable", False):  # no answer to a request for a token
            return model_error(provider, model, kind="connection", retryable=True, started=started)
        return model_error(provider, model, kind="auth", retryable=False, started=started)
    if not started and is_unsendable(error):
        return refusal(
            provider,
            model,
            "the key or a header holds what no header may hold: a line break, a blank at an end, or no ASCII; mend it",
            code=UNSENDABLE,
        )
    if names & _TIMEOUTS:
        return model_error(provider, model, kind="timeout", retryable=True, started=started)
    if names & _UNREADABLE:
        return model_error(provider, model, kind="invalid_response", retryable=False, started=started)
    if type(error) is RuntimeError and "client has been closed" in str(error):
        detail = "its HTTP client was closed by its owner; give the model one that stays open"
        kind = "stream" if started else "connection"
        return model_error(provider, model, kind=kind, retryable=False, started=started, detail=detail)
    if names & _CONNECTIONS or type(error) is OSError:  # not its subclasses: a missing file is no lost connection
        kind = "stream" if started else "connection"
        return model_error(provider, model, kind=kind, retryable=True, started=started)
    return None


def is_unsendable(error: BaseException) -> bool:
    """Whether a request could not even be written: trying again would not help, nor looking at the network.

    SDKs wrap what their HTTP library says, so the causes are looked at too.
    """
    known: BaseException | None = error
    while known is not None:
        names = {kind.__name__ for kind in type(known).__mro__}
        if isinstance(known, UnicodeEncodeError):
            return True
        if "LocalProtocolError" in names and str(known).startswith("Illegal header"):
            return True
        known = known.__cause__
    return False


def _word(code: Any) -> str:
    """A provider's code as it may be shown: one word. A sentence in its place is no code."""
    text = str(code) if code is not None else ""
    return text if text.replace("_", "").replace("-", "").replace(".", "").isalnum() and len(text) <= 80 else ""
