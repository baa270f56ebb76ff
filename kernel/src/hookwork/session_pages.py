"""Pages of a list of sessions: where one ends and what names that place (services SES-9, BEY-12, BEY-14)."""

from __future__ import annotations

from binascii import Error as BinasciiError
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.errors import SessionNotFoundError, ValidationError
from hookwork.platform import now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookwork.records.session import Session
    from hookwork.services import SessionPage, SessionService


def checked_count(name: str, number: Any) -> int:
    """A whole number from 1 as it is. Raises ValidationError for anything else."""
    if type(number) is not int or number < 1:
        raise ValidationError(f"{name} must be a whole number from 1, not {number!r}", path=name)
    return number


def token_of(time: Any, user_id: str, session_id: str) -> str:
    """The token of the place behind a session; ``time`` is its update time in whatever form a service orders by."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(msgspec.json.encode([time, user_id, session_id])).decode().rstrip("=")


def place_of(token: str, kind: Any) -> tuple[Any, str, str]:
    """Update time, user and session id that a token names.

    Args:
        kind: of the time.

    Raises:
        ValidationError: the token is not one of `token_of` with a time of this kind.
    """
    from base64 import urlsafe_b64decode

    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return msgspec.json.decode(raw, type=tuple[kind, str, str])
    except (TypeError, ValueError, BinasciiError, msgspec.MsgspecError):
        raise ValidationError("page_token is none that this service gave", path="page_token") from None


def page_of(sessions: Sequence[Session], limit: int, token: str | None) -> SessionPage:
    """A page of sessions that are all there, in the order of SES-9. Raises ValidationError."""
    from hookwork.services import SessionPage

    checked_count("limit", limit)
    start = 0
    if token is not None:
        place = place_of(token, int)
        start = next((i for i, session in enumerate(sessions) if _key(session) > place), len(sessions))
    found = list(sessions[start : start + limit])
    more = start + limit < len(sessions)
    return SessionPage(found, token_of(*_key(found[-1])) if more else None)


async def purge(service: SessionService, app_name: str, user_id: str | None, unused_for: Any) -> int:
    """See `SessionService.purge_sessions`."""
    if isinstance(unused_for, bool) or not isinstance(unused_for, int | float) or not 0 <= unused_for < 1e10:
        raise ValidationError(f"unused_for must be a number of seconds from 0, not {unused_for!r}", path="unused_for")
    limit = now() - timedelta(seconds=unused_for)
    removed, token, more = 0, None, True
    while more:
        page = await service.list_session_page(app_name=app_name, user_id=user_id, page_token=token)
        for session in page.sessions:
            if session.last_update_time >= limit:
                return removed
            removed += await _removed_if_old(service, session, limit)
        token = page.next_page_token
        more = token is not None
    return removed


async def _removed_if_old(service: SessionService, session: Session, limit: datetime) -> bool:
    app_name, user_id, id = session.app_name, session.user_id, session.id
    try:
        found = await service.get_session(app_name=app_name, user_id=user_id, session_id=id, num_recent_events=0)
    except SessionNotFoundError:  # somebody else removed it
        return False
    if found.last_update_time >= limit:
        return False
    await service.delete_session(app_name=app_name, user_id=user_id, session_id=id)
    return True


def _key(session: Session) -> tuple[int, str, str]:
    """Microseconds, user, id: what the list is ordered by."""
    return round(session.last_update_time.timestamp() * 1e6), session.user_id, session.id
