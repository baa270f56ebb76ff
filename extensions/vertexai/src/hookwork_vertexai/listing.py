"""Lists of the API, page after page (services VTX-6, VTX-9)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

from hookwork.errors import BackendError
from hookwork_vertexai.api import Api
from hookwork_vertexai.envelopes import StoredEvent, stored_event
from hookwork_vertexai.wire import rfc3339

#: Most items of a page that the service gives.
PAGE = 100


def quoted(value: str) -> str:
    """A value for a filter: nothing in it can end the literal (TRAP-15)."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


async def pages(api: Api, name: str, items: str, params: dict[str, Any]) -> AsyncGenerator[list[dict[str, Any]], None]:
    """The pages of a list; ``items`` is the key its items stand under."""
    asked = dict(params)
    while True:
        answer = await api.get(name, asked)
        found = answer.get(items)
        yield [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
        token = _next_token(answer, asked)
        if not token:
            return
        asked["pageToken"] = token


async def events_since(api: Api, session: str, micros: int | None = None) -> list[StoredEvent]:
    """The events of a session, ascending; with ``micros`` those whose envelope has that time or a later one."""
    params: dict[str, Any] = {"pageSize": PAGE}
    if micros is not None:
        params["filter"] = f"timestamp>={quoted(rfc3339(micros))}"
    found: dict[str, StoredEvent] = {}
    async with aclosing(pages(api, f"{session}/events", "sessionEvents", params)) as stream:
        async for page in stream:
            _take(found, page)
    return list(found.values())


class Newest(NamedTuple):
    """The newest events, ascending. ``all_of_them``: no older one is stored, or none that the filter lets through."""

    events: list[StoredEvent]
    all_of_them: bool


async def newest_events(
    api: Api,
    session: str,
    *,
    first_page: int,
    enough: Callable[[dict[str, StoredEvent]], bool],
    since: int | None = None,
) -> Newest:
    """The newest events, as many pages as it takes.

    Args:
        first_page: how many the first page holds; the others hold `PAGE`.
        enough: whether these, by id, newest first, are enough.
        since: microseconds; events with an older envelope are not asked for.
    """
    params: dict[str, Any] = {"orderBy": "timestamp desc", "pageSize": min(first_page, PAGE)}
    if since is not None:
        params["filter"] = f"timestamp>={quoted(rfc3339(since))}"
    found: dict[str, StoredEvent] = {}
    while True:
        answer = await api.get(f"{session}/events", params)
        page = answer.get("sessionEvents")
        _take(found, [item for item in page if isinstance(item, dict)] if isinstance(page, list) else [])
        token = _next_token(answer, params)
        if not token or enough(found):
            return Newest(list(found.values())[::-1], not token)
        params = {**params, "pageToken": token}


def _next_token(answer: dict[str, Any], asked: dict[str, Any]) -> Any:
    """The token of the next page; one that leads nowhere would be followed for ever."""
    token = answer.get("nextPageToken")
    if token and token == asked.get("pageToken"):
        raise BackendError("Vertex AI: a page of a list names itself as the next one", code="malformed")
    return token


def _take(found: dict[str, StoredEvent], page: list[dict[str, Any]]) -> None:
    """Take the events of a page in; one that was stored twice, by a resent append, counts once (VTX-12)."""
    for item in page:
        stored = stored_event(item)
        found.setdefault(stored.event.id, stored)
