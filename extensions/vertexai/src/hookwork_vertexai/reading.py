"""Reading sessions: the row and the events at once, and working them into what is known (services VTX-8, LOG-5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookwork.errors import SessionNotFoundError, SessionOwnershipError
from hookwork_vertexai.api import Api, ApiError, typed
from hookwork_vertexai.envelopes import StoredEvent
from hookwork_vertexai.listing import Newest, events_since, newest_events
from hookwork_vertexai.loaded import LoadedCache, LoadedSession, SessionRow
from hookwork_vertexai.together import both
from hookwork_vertexai.wire import FIRST

#: How far behind the newest known event a refresh looks, in events and in microseconds: a writer whose clock is slow
#: stores in front of events that are known already (TRAP-32).
OVERLAP_EVENTS = 25
OVERLAP_MICROS = 60_000_000


class Target(NamedTuple):
    """A session that is asked for."""

    app_name: str
    user_id: str
    id: str
    name: str

    def missing(self) -> SessionNotFoundError:
        """The error when there is none."""
        return SessionNotFoundError(
            f"no session {self.id!r} of user {self.user_id!r} in app {self.app_name!r}; create it with create_session"
        )

    def foreign(self) -> SessionOwnershipError:
        """The error when it belongs to somebody else."""
        return SessionOwnershipError(f"session {self.id!r} in app {self.app_name!r} belongs to another user")


class Reader:
    """Reads the sessions of a service.

    Every method is called with the lock of the session held, so nothing that this process stores comes in between.
    """

    def __init__(self, owner: object, api: Api, cache: LoadedCache) -> None:
        self._owner = owner
        self._api = api
        self._cache = cache

    def known(self, target: Target, row: SessionRow) -> LoadedSession | None:
        """What is loaded of a session that was just looked at, if anything."""
        known = self._cache.get(target.name)
        return known if known is not None and known.created == row.created else None

    async def row(self, target: Target) -> SessionRow:
        """The session alone. Raises SessionNotFoundError, SessionOwnershipError."""
        try:
            row = SessionRow(await self._api.get(target.name))
        except ApiError as error:
            raise self._gone(target, error) from error
        if row.user_id != target.user_id:
            raise target.foreign()
        return row

    def _gone(self, target: Target, error: ApiError) -> Exception:
        if error.status == 404:
            self._cache.drop(target.name)
        return typed(error, missing=target.missing())

    async def _listed(self, target: Target, since: int | None = None) -> list[StoredEvent]:
        try:
            return await events_since(self._api, target.name, since)
        except ApiError as error:
            raise typed(error, missing=target.missing()) from error

    async def since(self, target: Target, micros: int) -> tuple[SessionRow, list[StoredEvent]]:
        """The session and the events whose envelope is not older than that."""
        return await both(self.row(target), self._listed(target, micros))

    async def newest(self, target: Target, count: int) -> tuple[SessionRow, Newest]:
        """The session and its newest ``count`` events, from 1 (VTX-9)."""
        row, newest = await both(self.row(target), self._newest(target, count))
        return row, Newest(newest.events[-count:], newest.all_of_them and len(newest.events) <= count)

    async def _newest(self, target: Target, count: int) -> Newest:
        try:
            return await newest_events(
                self._api, target.name, first_page=count, enough=lambda found: len(found) >= count
            )
        except ApiError as error:
            raise typed(error, missing=target.missing()) from error

    async def current(self, target: Target) -> LoadedSession:
        """The session, loaded whole and up to date."""
        known = self._cache.get(target.name)
        if known is None or not known.alive:
            return await self._load(target)
        row, newest = await both(self.row(target), self._behind(target, known))
        if row.created != known.created:
            self._cache.drop(target.name)
            return await self._load(target)
        fresh = [stored for stored in newest if stored.event.id not in known.positions]
        known.unclear.clear()
        if fresh and fresh[0].micros <= known.last_mark:
            return await self._load(target)  # something was stored in front of what we know
        if fresh and not _reflects(row, fresh):
            row = await self.row(target)
        for stored in fresh:
            known.add(stored)
        known.take_state(row)
        return known

    async def _behind(self, target: Target, known: LoadedSession) -> list[StoredEvent]:
        """The events that are new, and some before them."""
        try:
            newest = await newest_events(
                self._api,
                target.name,
                first_page=OVERLAP_EVENTS,
                enough=lambda found: not known.positions.keys().isdisjoint(found),
                since=max(known.last_mark - OVERLAP_MICROS, FIRST * 1_000_000) if known.marks else None,
            )
        except ApiError as error:
            raise typed(error, missing=target.missing()) from error
        return newest.events

    async def _load(self, target: Target) -> LoadedSession:
        """Read everything; what was known before is continued when it is a beginning of that, else replaced."""
        row, events = await both(self.row(target), self._listed(target))
        if events and not _reflects(row, events[-1:]):
            row = await self.row(target)
        known = self._cache.get(target.name)
        if known is not None and known.created != row.created:
            self._cache.drop(target.name)
            known = None
        if known is None or not _begins_with(events, known):
            loaded = LoadedSession(self._owner, target.name, row)
            if known is not None:
                known.successor = loaded
        else:
            loaded = known
        for stored in events[len(loaded.marks) :]:
            loaded.add(stored)
        loaded.take_state(row)
        loaded.unclear.clear()
        self._cache.put(loaded)
        return loaded

    def created(self, name: str, row: SessionRow) -> LoadedSession:
        """A session that was just made."""
        self._cache.drop(name)
        loaded = LoadedSession(self._owner, name, row)
        self._cache.put(loaded)
        return loaded


def _begins_with(events: Sequence[StoredEvent], known: LoadedSession) -> bool:
    if len(events) < len(known.marks):
        return False
    return all(known.positions.get(events[place].event.id) == place for place in range(len(known.marks)))


def _reflects(row: SessionRow, fresh: Sequence[StoredEvent]) -> bool:
    """Whether the state shows what these events, the newest ones, wrote: row and events are two requests (CS-33)."""
    written: dict[str, object] = {}
    for stored in fresh:
        written.update(stored.event.actions.state_delta)
    own = row.own_state
    return all(
        value is None or own.get(key) == value  # a server may leave None out (STA-7)
        for key, value in written.items()
        if not key.startswith(("app:", "user:", "temp:"))
    )
