"""What went wrong with a live connection (models LIVE-10, ERR-1, SDK-8)."""

from __future__ import annotations

from hookwork.errors import HookworkError, LiveConnectionClosed, ModelError, ValidationError
from hookwork_gemini.errors import translate, unread_message
from hookwork_modelkit import model_error, transport_error

#: Close codes with which a server refuses what it was asked to set up: a wrong setting, an unknown model.
_REFUSING = frozenset({1003, 1007, 1008})
NO_CLOSE_FRAME = 1006


def closed(provider: str, model: str, code: int) -> LiveConnectionClosed:
    """The error of a line that ended without our asking."""
    return LiveConnectionClosed(
        f"{provider} {model!r}: the live connection was closed (code {code})",
        close_code=code,
        provider=provider,
        model=model,
    )


def opening_error(provider: str, model: str, error: Exception) -> ModelError | None:
    """The error of a connection that could not be opened; None: a fault of the program."""
    answer = getattr(error, "response", None)
    status = getattr(answer, "status_code", None)
    if _is(error, "InvalidStatus") and isinstance(status, int):
        return model_error(provider, model, status=status, headers=dict(getattr(answer, "headers", {})))
    code = close_code_of(error)
    if code is not None:
        if code in _REFUSING:
            return model_error(
                provider,
                model,
                code=str(code),
                kind="invalid_request",
                retryable=False,
                detail="the server refused to set up the live connection; check model name and settings, see the cause",
            )
        return model_error(provider, model, code=str(code), kind="connection", retryable=True)
    return _other(provider, model, error, started=False)


def running_error(provider: str, model: str, error: Exception) -> Exception:
    """The error of an open connection: `LiveConnectionClosed` when the line is gone."""
    if isinstance(error, HookworkError) and not isinstance(error, ValidationError):
        return error
    code = close_code_of(error)
    if code is not None:
        return closed(provider, model, code)
    return _other(provider, model, error, started=True) or error


def close_code_of(error: Exception) -> int | None:
    """The WebSocket close code of an error of the SDK or of its WebSocket library; None: the line did not end."""
    if _is(error, "ConnectionClosed"):
        received = getattr(error, "rcvd", None)
        return received.code if received is not None else NO_CLOSE_FRAME
    code = getattr(error, "code", None)
    if _is(error, "APIError") and isinstance(code, int) and 1000 <= code < 5000:
        return code
    if isinstance(error, ConnectionError | EOFError):
        return NO_CLOSE_FRAME
    return None


def is_unknown_message(error: Exception) -> bool:
    """Whether the SDK stumbled over a message of a kind it does not know."""
    received = unread_message(error)
    return received is not None and "error" not in received


def _other(provider: str, model: str, error: Exception, *, started: bool) -> ModelError | None:
    failed = translate(provider, model, error, started=started, answered=started) or transport_error(
        provider, model, error, started=started
    )
    if failed is None and started and isinstance(error, ValueError):
        failed = model_error(provider, model, kind="invalid_response", retryable=False, started=True)
    return failed


def _is(error: Exception, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(error).__mro__)
