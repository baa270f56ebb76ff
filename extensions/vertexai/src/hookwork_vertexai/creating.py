"""Making and removing sessions: what is sent, and what the operation comes to (services VTX-3, VTX-7, VTX-11)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hookwork.errors import BackendError, SessionAlreadyExistsError, ValidationError
from hookwork_vertexai.api import Api, ApiError, typed
from hookwork_vertexai.loaded import SessionRow
from hookwork_vertexai.names import is_session_id, last_segment, short_session_id
from hookwork_vertexai.operations import finished
from hookwork_vertexai.reading import Reader, Target
from hookwork_vertexai.wire import micros_of, rfc3339


def wanted_id(session_id: Any, engine: str) -> str:
    """The id that a caller chose, ``""`` for none. Raises ValidationError for one that the service cannot hold."""
    if session_id is None:
        return ""
    if not isinstance(session_id, str):
        raise ValidationError(f"session_id must be text, not {type(session_id).__name__}", path="session_id")
    id = short_session_id(session_id, engine)
    if id and not is_session_id(id):
        raise ValidationError(
            f"session id {id!r}: Agent Engine takes 1 to 63 of the characters a-z, 0-9 and '-', with a letter or "
            "digit first and last; leave it out to get one made",
            path="session_id",
        )
    return id


def session_body(
    user_id: str,
    state: Mapping[str, Any],
    *,
    display_name: str | None,
    labels: Mapping[str, str] | None,
    ttl: float | None,
    expire_time: datetime | None,
) -> dict[str, Any]:
    """The Session that is sent. Raises ValidationError for a wrong expiry."""
    more = {"sessionState": state or None, "displayName": display_name, "labels": dict(labels or {}) or None}
    more |= expiry(ttl, expire_time)
    return {"userId": user_id, **{name: value for name, value in more.items() if value is not None}}


def expiry(ttl: Any, expire_time: Any) -> dict[str, Any]:
    """``ttl`` or ``expireTime`` of the request (services BEY-5). Raises ValidationError."""
    if ttl is not None and expire_time is not None:
        raise ValidationError("give ttl or expire_time, not both", path="ttl")
    if ttl is not None:
        if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl < 1e12:
            raise ValidationError(f"ttl must be a positive number of seconds, not {ttl!r}", path="ttl")
        return {"ttl": f"{ttl:.9f}".rstrip("0").rstrip(".") + "s"}
    if expire_time is not None:
        if not isinstance(expire_time, datetime) or expire_time.tzinfo is None:
            raise ValidationError("expire_time must be an aware datetime; add tzinfo=UTC", path="expire_time")
        return {"expireTime": rfc3339(micros_of(expire_time))}
    return {}


async def create(api: Api, reader: Reader, target: Target, engine: str, body: dict[str, Any]) -> tuple[str, SessionRow]:
    """Make a session and wait for it; its resource name, and the session with the state that others share.

    Raises:
        SessionAlreadyExistsError: the id is taken.
    """
    params = {"sessionId": target.id} if target.id else None
    try:
        operation = await api.request("POST", f"{engine}/sessions", body=body, params=params)
        made = await finished(api, operation)
    except ApiError as error:
        if error.status == 409 or (error.status == 400 and "already exists" in str(error)):
            raise SessionAlreadyExistsError(
                f"session {target.id!r} exists already in {engine}; use get_session, or leave session_id out to "
                "get a fresh one"
            ) from error
        raise typed(error) from error
    id = last_segment(made.get("name")) or _session_of(operation.get("name")) or target.id
    if not is_session_id(id):
        raise BackendError("Vertex AI: the answer names no session", code="malformed")
    name = f"{engine}/sessions/{id}"
    # The answer of the operation has only what was sent; the state that is shared comes with the session.
    row = await reader.row(target._replace(id=id, name=name))
    return name, row


async def delete(api: Api, target: Target) -> None:
    """Remove a session and wait until it is gone; one that is gone already is no error."""
    try:
        await finished(api, await api.request("DELETE", target.name))
    except ApiError as error:
        if error.status != 404:
            raise typed(error) from error


def _session_of(name: Any) -> str:
    """The session id in the name of a create operation, ``…/sessions/<id>/operations/<operation>`` (VTX-7)."""
    session, found, _ = name.rpartition("/operations/") if isinstance(name, str) else ("", "", "")
    return session.rpartition("/sessions/")[2] if found and "/sessions/" in session else ""
