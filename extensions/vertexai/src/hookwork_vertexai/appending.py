"""Appending: one at a time for each session, and never twice (services VTX-12, VTX-13, SES-19)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from hookwork.errors import EventConflictError
from hookwork.platform import random, sleep
from hookwork.records.deleted import DELETED, delta_of
from hookwork.records.event import Event
from hookwork.records.session import Session, split_state
from hookwork_vertexai.api import LONGEST_WAIT, NEVER, Api, ApiError, typed
from hookwork_vertexai.envelopes import Entered
from hookwork_vertexai.listing import newest_events
from hookwork_vertexai.loaded import LoadedCache, LoadedSession, end_of, extend, follow, latest, merged
from hookwork_vertexai.reading import Reader, Target

#: Seconds before an append whose fate is unknown is looked for, and sent once more when it is not there.
LOOK_AFTER = 1.0
#: Seconds to wait for the quota when the service does not say how long.
QUOTA_WAIT = 1.0
#: How many of the newest events are looked through for it.
LOOKED_THROUGH = 100


class Appended(NamedTuple):
    """The session that holds an event, its place there, and whether it was stored just now."""

    loaded: LoadedSession
    place: int
    fresh: bool


class Sending:
    """An event on its way to the service. ``abandoned``: its caller was cancelled, so it is not sent again."""

    __slots__ = ("abandoned",)

    def __init__(self) -> None:
        self.abandoned = False


class Appender:
    """Appends to the sessions of a service, to each one after the other.

    A request that is on its way is waited for even when the caller is cancelled, so that the session is known to hold
    the event or not; whoever uses the session next waits for it too. One that waits for its turn is given up.
    """

    def __init__(self, api: Api, cache: LoadedCache, reader: Reader) -> None:
        self._api = api
        self._cache = cache
        self._reader = reader
        self._running: set[asyncio.Task[int]] = set()

    async def append(
        self, target: Target, loaded: LoadedSession, event: Event, entered: Entered, *, redelivery: bool
    ) -> Appended:
        """Store an event."""
        lock = self._cache.lock(target.name)
        sending = Sending()
        async with _handed_over(lock) as keep:
            loaded = await self._current(target, latest(loaded), entered.event.id, redelivery)
            place = loaded.positions.get(entered.event.id)
            if place is not None:
                if not redelivery:
                    _check_same(loaded.log.events[place], event, entered.event)
                return Appended(loaded, place, fresh=False)
            task = asyncio.get_running_loop().create_task(self._store(target, loaded, entered, sending))
            self._running.add(task)
            task.add_done_callback(self._ended)
            keep(task)
        try:
            return Appended(loaded, await asyncio.shield(task), fresh=True)
        except asyncio.CancelledError:
            sending.abandoned = True
            raise

    def _ended(self, task: asyncio.Task[int]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be gone

    async def finish(self) -> None:
        """Wait for appends that are under way."""
        if self._running:
            await asyncio.wait(set(self._running))

    async def _current(self, target: Target, loaded: LoadedSession, id: str, redelivery: bool) -> LoadedSession:
        """The session, read again where it may hold the event: stored by another process, or by an attempt of ours
        that has failed half-way."""
        if not loaded.alive:
            raise target.missing()
        if loaded.unclear or (redelivery and id not in loaded.positions):
            current = await self._reader.current(target)
            if current.created != loaded.created:
                raise target.missing()
            return current
        return loaded

    async def _store(self, target: Target, loaded: LoadedSession, entered: Entered, sending: Sending) -> int:
        order = max(entered.micros, loaded.last_mark + 1)
        try:
            await self._send(target, entered.event.id, entered.request(order), sending)
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

    async def _send(self, target: Target, id: str, body: dict[str, Any], sending: Sending) -> None:
        """Send an event, and at most once more: when the quota refused it, or when nobody knew and it is not there."""
        try:
            await self._request(target, body)
        except ApiError as error:
            if error.unclear:
                await sleep(LOOK_AFTER * (0.5 + random()))
                if await self._is_stored(target, id, error):
                    return
            else:
                wait = QUOTA_WAIT if error.retry_after is None else error.retry_after
                if error.status != 429 or wait > LONGEST_WAIT:
                    raise
                await sleep(wait)
            if sending.abandoned:
                raise
        else:
            return
        try:
            await self._request(target, body)
        except ApiError as error:
            if not error.unclear:
                raise
            await sleep(LOOK_AFTER * (0.5 + random()))
            if not await self._is_stored(target, id, error):
                raise

    async def _request(self, target: Target, body: dict[str, Any]) -> None:
        try:
            await self._api.request("POST", f"{target.name}:appendEvent", body=body, retries=NEVER)
        except ApiError as error:
            if error.code != "malformed":  # it was accepted; the answer holds nothing
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


@asynccontextmanager
async def _handed_over(lock: asyncio.Lock) -> AsyncIterator[Callable[[asyncio.Task[Any]], None]]:
    """Hold a lock, or let a task hold it until that is done."""
    await lock.acquire()
    kept: list[asyncio.Task[Any]] = []
    try:
        yield kept.append
    finally:
        if kept:
            kept[0].add_done_callback(lambda _: lock.release())
        else:
            lock.release()


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
        for key, value in delta_of(event).items():
            if not key.startswith("temp:"):
                continue
            if value is DELETED:
                session.temp_state.pop(key, None)
            else:
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
