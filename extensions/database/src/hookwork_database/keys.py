"""Who a session belongs to, and which ids a database can hold (services EVT-1, DB-11)."""

from __future__ import annotations

from typing import Any, NamedTuple

from hookwork.errors import SessionNotFoundError, ValidationError
from hookwork.records.text import clean

#: Longest id, in characters: the width of the key columns of the google-adk layout (services §4.2).
MAX_ID = 128
#: Longest invocation id, in characters.
MAX_INVOCATION_ID = 256


class SessionKey(NamedTuple):
    """What identifies a session."""

    app_name: str
    user_id: str
    id: str


def not_found(key: SessionKey) -> SessionNotFoundError:
    """The error of an absent session."""
    return SessionNotFoundError(
        f"no session {key.id!r} of user {key.user_id!r} in app {key.app_name!r}; create it with create_session"
    )


def checked_id(name: str, value: Any, longest: int = MAX_ID) -> str:
    """``value`` when it can be an id.

    Raises:
        ValidationError: not text, blank, longer than ``longest``, or with NUL or a lone surrogate in it.
    """
    if not isinstance(value, str) or not value.strip():
        raise ValidationError(f"{name} must be non-empty text", path=name)
    if len(value) > longest:
        raise ValidationError(f"{name} has {len(value)} characters; a database keeps at most {longest}", path=name)
    if clean(value) is not value:
        raise ValidationError(f"{name} holds NUL or a lone surrogate, which no database keeps", path=name)
    return value


def checked_key(app_name: Any, user_id: Any, session_id: Any) -> SessionKey:
    """The key of a stored session; blanks around the session id do not count (services SES-1)."""
    checked_id("app_name", app_name)
    checked_id("user_id", user_id)
    if isinstance(session_id, str):
        session_id = session_id.strip()
    return SessionKey(app_name, user_id, checked_id("session_id", session_id))
