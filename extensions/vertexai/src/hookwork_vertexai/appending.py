"""Appending: one at a time for each session, and never twice (services VTX-12, VTX-13, SES-19)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple

from hookwork.errors import EventConflictError
from hookwork.platform import random, sleep
from hookwork.records.event import Event
from hookwork.records.session import Session, split_state
from hookwork_vertexai.api import Api, ApiError, typed
from hookwork_vertexai.envelopes import Entered
from hookwork_vertexai.listing import newest_events
from hookwork_vertexai.loaded import LoadedCache, LoadedSession, end_of, extend, follow, latest, merged
from hookwork_vertexai.reading import Reader, Target

#: Seconds before an append whose fate is unknown is looked for, and sent once more when it is not there.
LOOK_AFTER = 1.0
#: How many of the newest events are looked through for it.
LOOKED_THROUGH = 100


class Appended(NamedTuple):
    """The session that holds an event, its place there, and whether it was stored just now."""

    loaded: LoadedSession
    place: int
    fresh: bool


class Appender:
    """Appends to the sessions of a service.

    An append that was begun is carried on when its caller is cancelled, so that the session is known to hold the event
    or not; whoever uses the session next waits for it.
    """

    def __init__(self, api: Api, cache: LoadedCache, reader: Reader) -> None:
        self._api = api
        self._cache = cache
        self._reader = reader
        self._running: set[asyncio.Task[Any]] = set()

    async def append(
        self, target: Target, loaded: LoadedSession, event: Event, entered: Entered, *, redelivery: bool
    ) -> Appended:
        """Store an event."""
        work = self._append(target, loaded, event, entered, redelivery)
        found: Appended = await asyncio.shield(self._started(work))
        return found

    def _started(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be gone

    async def finish(self) -> None:
        """Wait for appends that are under way."""
        if self._running:
            await asyncio.wait(set(self._running))

    async def _append(
        self, target: Target, loaded: LoadedSession, event: Event, entered: Entered, redelivery: bool
    ) -> Appended:
        async with self._cache.lock(target.name):
            loaded = latest(loaded)
            if not loaded.alive:
                raise target.missing()
            # What was begun in another process, or has failed half-way here, may be stored already.
            if loaded.unclear or (redelivery and entered.event.id not in loaded.positions):
                current = await self._reader.current(target)
                if current.created != loaded.created:
                    raise target.missing()
                loaded = current
            place = loaded.positions.get(entered.event.id)
            if place is None:
                return Appended(loaded, await self._store(target, loaded, entered), fresh=True)
            if not redelivery:
                _check_same(loaded.log.events[place], event, entered.event)
            return Appended(loaded, place, fresh=False)

    async def _store(self, target: Target, loaded: LoadedSession, entered: Entered) -> int:
        order = max(entered.micros, loaded.last_mark + 1)
        try:
            await self._send(target, entered.event.id, entered.request(order))
        except ApiError as error:
            if error.unclear:
                loaded.unclear.add(entered.event.id)
            if error.status == 404:
                self._cache.drop(target.name)
            raise typed(error, missing=target.missing()) from error
        place = len(loaded.marks)
        loaded.add(entered.stored(order))
        loaded.apply(entered.event)
        return place

    async def _send(self, target: Target, id: str, body: dict[str, Any]) -> None:
        """Send once; when nobody knows whether that was carried out, look first and send at most once more."""
        for attempt in (1, 2):
            try:
                await self._api.request("POST", f"{target.name}:appendEvent", body=body)
                return
            except ApiError as error:
                if error.code == "malformed":
                    return  # it was accepted; the answer holds nothing
                if not error.unclear:
                    raise
                await sleep(LOOK_AFTER * (0.5 + random()))
                if await self._is_stored(target, id, error):
                    return
                if attempt == 2:
                    raise

    async def _is_stored(self, target: Target, id: str, error: ApiError) -> bool:
        """Whether the service holds an event; it knows ids only as a part of ``rawEvent``."""
        try:
            newest = await newest_events(
                self._api, target.name, first_page=LOOKED_THROUGH, enough=lambda found: len(found) >= LOOKED_THROUGH
            )
        except ApiError:
            raise error from None  # still unknown: what failed first is what the caller should hear of
        return any(stored.event.id == id for stored in newest.events)


def _check_same(known: Event, event: Event, entered: Event) -> None:
    """Raise EventConflictError when an id is taken by another event; a time that was unset is no difference."""
    if not event.timestamp:
        entered = entered.replace(timestamp=known.timestamp)
    if entered != known:
        raise EventConflictError(
            f"the session holds another event of id {known.id!r}; a different event needs a new id"
        )


def show_appended(session: Session, appended: Appended, event: Event) -> Event:
    """Let a handle show an event that was appended, and all before it; the stored event.

    Several tasks may get here in another order than they appended; a handle that is further already stays there.
    """
    loaded, place, fresh = appended
    if isinstance(session.backend, LoadedSession):
        follow(session, session.backend)
    stored = loaded.log.events[place]
    before = end_of(session)
    if place >= before:
        _take_state(session, loaded, before, place + 1)
        extend(session, loaded, place + 1)
        session.last_update_time = loaded.time_at(place + 1)
        session.revision = loaded.revision_at(place + 1)
    if fresh or place >= before:
        session.written_keys.update(stored.actions.state_delta)
        for key, value in event.actions.state_delta.items():
            if key.startswith("temp:"):
                session.temp_state[key] = value
    return stored


def _take_state(session: Session, loaded: LoadedSession, before: int, end: int) -> None:
    """The state as of ``end``: what is known now at the newest event, else the handle's own and the deltas since."""
    if end == len(loaded.marks):
        session.session_state = loaded.own_state
        session.app_state, session.user_state = loaded.app_state, loaded.user_state
        return
    for event in loaded.log.events[before:end]:
        app, user, own = split_state(event.actions.state_delta)
        session.app_state = merged(session.app_state, app)
        session.user_state = merged(session.user_state, user)
        session.session_state = merged(session.session_state, own)
