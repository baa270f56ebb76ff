"""Sessions in a SQL database (services §2, §4; spec DBP)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal

from msgspec.structs import replace

from hookwork.errors import BackendError, SessionAlreadyExistsError, ValidationError
from hookwork.platform import new_uuid, timestamp
from hookwork.records.event import Event, frozen_delta
from hookwork.records.session import EventLog, Session, split_state
from hookwork.services import SessionCapabilities, SessionPage, SessionService, check_batch
from hookwork.session_pages import checked_count, place_of, token_of
from hookwork_database.appending import Appends, Job
from hookwork_database.filters import Filters
from hookwork_database.keys import MAX_ID, SessionKey, checked_id, checked_key, not_found
from hookwork_database.layouts.base import Layout
from hookwork_database.loaded import LoadedCache, LoadedSession, StoredEvent, end_of
from hookwork_database.merging import first_shown, follow, latest, show, work_in
from hookwork_database.moments import micros_of_epoch, moment_of
from hookwork_database.plans import LIST_START, Listed, delete_user, events_behind, list_page
from hookwork_database.reading import NOTHING, Snapshot, Want, known_of
from hookwork_database.retries import RETRIES, back_off
from hookwork_database.sealing import Cipher, use_cipher
from hookwork_database.store import Store
from hookwork_database.windows import index_of, pairs_closed

_CAPABILITIES = SessionCapabilities(max_id_length=MAX_ID, deletes_state=True, atomic_batches=True, erases_users=True)


class DatabaseSessionService(SessionService):
    """Sessions in SQLite, PostgreSQL, MySQL or MariaDB.

    Args:
        database: a URL (``sqlite:///sessions.db``, ``postgresql://user:password@host/database``), a SQLAlchemy engine,
            which is used as it is and not closed, or a `Store`.
        create_schema: whether absent tables are created at first use; None: on SQLite only, unless the URL says so.
        foreign_appends: ``absorb`` takes in events that others stored meanwhile, as long as they touch no state key
            that this handle wrote or is about to write; ``refuse`` makes every such event stale (services SES-18).
            None: as the URL says, else ``absorb``.
        cache_sessions: of how many recently used sessions the logs are kept; 0 keeps none (services LOG-7). None: as
            the URL says, else 256.
        cipher: seals what events say and what state holds (`cipher_of_keys`, or a ``Fernet`` of the library
            ``cryptography``). None: as the URL says, else nothing is sealed (services BEY-16).

    Raises:
        ValidationError: an option has no valid value.
        ConfigurationError: the URL or the engine cannot be used.
    """

    def __init__(
        self,
        database: str | Store | Any,
        *,
        create_schema: bool | None = None,
        foreign_appends: Literal["absorb", "refuse"] | None = None,
        cache_sessions: int | None = None,
        cipher: Cipher | None = None,
    ) -> None:
        asked = _asked(database)
        self._cipher: Cipher | None = cipher if cipher is not None else asked.get("cipher")
        foreign_appends = foreign_appends or asked.get("foreign_appends", "absorb")
        cache_sessions = asked.get("cache_sessions", 256) if cache_sessions is None else cache_sessions
        if foreign_appends not in ("absorb", "refuse"):
            raise ValidationError(f"foreign_appends must be 'absorb' or 'refuse', not {foreign_appends!r}")
        if type(cache_sessions) is not int or cache_sessions < 0:
            raise ValidationError(f"cache_sessions must be a whole number from 0, not {cache_sessions!r}")
        self.foreign_appends = foreign_appends
        store = self._store = database if isinstance(database, Store) else _store(database, create_schema)
        self._cache = LoadedCache(cache_sessions)
        self._appends = Appends(self, store, self._cache, refuse=foreign_appends == "refuse")
        self._layout: Layout | None = None
        self._last_created = 0
        self._closed = False
        self.capabilities = _CAPABILITIES

    # --- opening ------------------------------------------------------------------------------------------------------

    async def open(self) -> Layout:
        """Connect and find out the layout; done by every operation, and by `hookwork doctor`.

        Raises:
            ConfigurationError: there are no tables, or of a layout that cannot be written.
            BackendError: the database cannot be reached.
        """
        if self._closed:
            raise BackendError("the database session service is closed; make a new one", code="closed")
        layout = self._layout
        if layout is None:
            layout = await self._retried(self._store.open)
            use_cipher(layout, self._cipher)
            self._layout = layout
            if layout.dropped_fields:
                self.capabilities = replace(_CAPABILITIES, dropped_event_fields=layout.dropped_fields)
        return layout

    async def create_schema(self) -> None:
        """Create the tables where they are absent; two processes may do so at once (services DB-4, DB-10)."""
        if self._closed:
            raise BackendError("the database session service is closed; make a new one", code="closed")
        await self._retried(self._store.create_schema)

    async def _retried(self, attempt: Any, *arguments: Any) -> Any:
        for tried in range(RETRIES):
            try:
                return await attempt(*arguments)
            except BackendError as error:
                if not error.retryable:
                    raise
            await back_off(tried)
        return await attempt(*arguments)

    # --- creating and reading -----------------------------------------------------------------------------------------

    async def create_session(
        self, *, app_name: str, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None
    ) -> Session:
        """See `SessionService.create_session`. ``temp:`` keys of ``state`` stay on the returned handle only."""
        if session_id is not None and not isinstance(session_id, str):
            raise ValidationError(f"session_id must be text, not {type(session_id).__name__}", path="session_id")
        key = checked_key(app_name, user_id, (session_id or "").strip() or new_uuid())
        initial = frozen_delta(state)
        app, user, own = split_state(initial)
        await self.open()
        micros = self._creation_time()
        created = await self._retried(self._store.create, key, micros, app, user, own)
        if created is None:
            raise SessionAlreadyExistsError(
                f"session {key.id!r} of user {user_id!r} in app {app_name!r} exists already; "
                "use get_session, or leave session_id out to get a fresh one"
            )
        loaded = LoadedSession(self, key, micros, created.marker)
        loaded.state = frozen_delta(own)
        loaded.app, loaded.user = created.app, created.user
        self._cache.put(loaded)
        handle = loaded.handle(0, 0, loaded.state)
        handle.temp_state = {key: value for key, value in initial.items() if key.startswith("temp:")}
        return handle

    def _creation_time(self) -> int:
        """Now, a little later for each session made at one moment: it tells a session from one deleted just before."""
        micros = micros_of_epoch(timestamp())
        if self._last_created - 1_000_000 < micros <= self._last_created:
            micros = self._last_created + 1
        self._last_created = micros
        return micros

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        num_recent_events: int | None = None,
        after: float | datetime | None = None,
        tail: int | str | None = None,
    ) -> Session:
        """See `SessionService.get_session`. ``tail`` is not combined with the other two."""
        key = checked_key(app_name, user_id, session_id)
        filters = Filters(num_recent_events, after, tail)
        loaded, snapshot, state = await self._read(key, filters.want)
        return filters.handle(loaded, snapshot, state)

    async def _read(
        self, key: SessionKey, want: Want, loaded: LoadedSession | None = None
    ) -> tuple[LoadedSession, Snapshot, Any]:
        """Read a session and work it into what is known; the state is the one of the snapshot.

        ``loaded`` is what a handle knows; without one it is what the cache knows, then or when the answer arrives.
        """
        await self.open()
        given = loaded
        while True:
            loaded = latest(given) if given is not None else self._cache.get(key)
            known = known_of(loaded) if loaded is not None else None
            snapshot = await self._retried(self._store.read, key, known, want)
            if snapshot is None:
                if loaded is not None:
                    loaded.alive = False
                    if self._cache.get(key) is loaded:
                        self._cache.drop(key)
                raise not_found(key)
            state = snapshot.state if snapshot.state is not None else known.state if known is not None else None
            loaded = latest(given) if given is not None else self._cache.get(key)
            try:
                return work_in(self, self._cache, key, loaded, known, snapshot), snapshot, state
            except LookupError:
                continue

    async def refresh(self, session: Session) -> int:
        """See `SessionService.refresh`. ``temp:`` keys stay."""
        loaded = await self._backend(session)
        found, snapshot, state = await self._read(loaded.key, NOTHING, loaded)
        if found.created != loaded.created:
            raise not_found(loaded.key)
        loaded = follow(session, loaded)
        session.written_keys.clear()
        if snapshot.end < end_of(session):
            return 0
        added = show(session, loaded, snapshot.end)
        self._give(session, loaded, snapshot, state)
        return added

    def _give(self, session: Session, loaded: LoadedSession, snapshot: Snapshot, state: Any) -> None:
        session.session_state = state
        session.app_state, session.user_state = snapshot.app[1], snapshot.user[1]
        session.last_update_time = moment_of(snapshot.marker.updated)
        session.revision = loaded.revision_at(snapshot.end)

    async def load_earlier(self, session: Session, count: int) -> int:
        """See `SessionService.load_earlier`. A handle that shows a selection shows every event of its range after."""
        if type(count) is not int or count < 0:
            raise ValidationError(f"count must be a whole number from 0, not {count!r}", path="count")
        loaded = await self._backend(session)
        wanted = max(0, first_shown(session) - count)
        if loaded.log.offset:
            await self._read(loaded.key, Want("from", wanted), loaded)
            loaded = follow(session, loaded)
        log, end = loaded.log, end_of(session)
        start, _ = pairs_closed(log.events, index_of(log), max(0, wanted - log.offset), end - log.offset)
        added = end - log.offset - start - session.length
        session.log, session.start, session.length = log, start, end - log.offset - start
        return added

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> list[Session]:
        """See `SessionService.list_sessions`."""
        checked_id("app_name", app_name)
        if user_id is not None:
            checked_id("user_id", user_id)
        await self.open()
        found: list[Listed] = await self._retried(self._store.list, app_name, user_id)
        return [self._listed(listed) for listed in found]

    async def list_session_page(
        self, *, app_name: str, user_id: str | None = None, limit: int = 100, page_token: str | None = None
    ) -> SessionPage:
        """See `SessionService.list_session_page`. The database finds the page; nothing in front of it is read."""
        checked_id("app_name", app_name)
        if user_id is not None:
            checked_id("user_id", user_id)
        checked_count("limit", limit)
        place = LIST_START if page_token is None else place_of(page_token, int | float | str)
        await self.open()
        found, behind = await self._retried(
            partial(self._store.carry, reading=True),
            lambda layout: list_page(layout, app_name, user_id, place, limit),
        )
        return SessionPage([self._listed(listed) for listed in found], None if behind is None else token_of(*behind))

    async def stream_events(
        self, *, app_name: str, user_id: str, session_id: str, page_size: int = 500
    ) -> AsyncGenerator[Event, None]:
        """See `SessionService.stream_events`. One page of events is held at a time, and none of them is kept."""
        key = checked_key(app_name, user_id, session_id)
        checked_count("page_size", page_size)
        await self.open()
        if await self._retried(self._store.read, key, None, NOTHING) is None:
            raise not_found(key)
        read = partial(self._store.carry, reading=True)
        place: tuple[Any, Any] | None = None
        more = True
        while more:
            found: list[StoredEvent] = await self._retried(
                read, lambda layout, place=place: events_behind(layout, key, place, page_size)
            )
            more = len(found) == page_size
            for stored in found:
                yield stored.event
            if found:
                place = found[-1].raw, found[-1].tie

    def _listed(self, listed: Listed) -> Session:
        """A handle without events. Where its log ends is found out when it is first used."""
        return Session(
            app_name=listed.key.app_name,
            user_id=listed.key.user_id,
            id=listed.key.id,
            log=EventLog(offset=int(listed.has_events)),
            session_state=listed.state,
            app_state=listed.app[1],
            user_state=listed.user[1],
            last_update_time=moment_of(listed.marker.updated),
            revision=f"{listed.created:x}.{listed.marker.updated:x}.?",
            backend=ListedSession(self, listed),
        )

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """See `SessionService.delete_session`."""
        key = checked_key(app_name, user_id, session_id)
        await self.open()
        await self._retried(self._store.delete, key)
        gone = self._cache.drop(key)
        if gone is not None:
            gone.alive = False

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """See `SessionService.delete_user`. One transaction."""
        checked_id("app_name", app_name)
        checked_id("user_id", user_id)
        await self.open()
        keys: list[SessionKey] = await self._retried(
            partial(self._store.carry, reading=False), lambda layout: delete_user(layout, app_name, user_id)
        )
        for key in keys:
            gone = self._cache.drop(key)
            if gone is not None:
                gone.alive = False
        return len(keys)

    async def get_user_state(self, *, app_name: str, user_id: str) -> Mapping[str, Any]:
        """The ``user:`` state of a user, keys without prefix; empty for an unknown user."""
        checked_id("app_name", app_name)
        checked_id("user_id", user_id)
        await self.open()
        found: Mapping[str, Any] = await self._retried(self._store.user_state, app_name, user_id)
        return found

    # --- appending ----------------------------------------------------------------------------------------------------

    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        """See `SessionService.append_event`."""
        if not isinstance(event, Event):
            raise ValidationError(f"event must be an Event, not {type(event).__name__}", path="event")
        if event.partial:
            return event
        loaded = await self._backend(session)
        layout = self._layout or await self.open()
        job = Job(session, event, layout, redelivery=redelivery)
        self._appends.submit(loaded, job)
        stored: Event = await job.future
        return stored

    async def append_events(self, session: Session, events: Sequence[Event]) -> list[Event]:
        """See `SessionService.append_events`: one transaction, all or none."""
        check_batch(events)
        whole = [event for event in events if not event.partial]
        if not whole:
            return list(events)
        loaded = await self._backend(session)
        layout = self._layout or await self.open()
        job = Job(session, whole[0], layout, redelivery=False, more=whole[1:])
        self._appends.submit(loaded, job)
        answer = await job.future
        stored = iter(answer if job.more else [answer])
        return [event if event.partial else next(stored) for event in events]

    async def flush(self) -> None:
        """See `SessionService.flush`: every append that was handed in is committed, or has failed."""
        await self._appends.finish()

    async def _backend(self, session: Session) -> LoadedSession:
        """The loaded session behind a handle of this service."""
        backend = session.backend if isinstance(session, Session) else None
        if isinstance(backend, LoadedSession) and backend.owner is self:
            if not backend.alive:
                if self._closed:
                    await self.open()
                raise not_found(backend.key)
            return follow(session, backend) if backend.successor is not None else backend
        if isinstance(backend, ListedSession) and backend.owner is self:
            return await self._adopt(session, backend)
        if isinstance(session, Session):
            raise ValidationError(
                f"session {session.id!r} was not opened by this service; get it from the service you append to",
                path="session",
            )
        raise ValidationError(f"session must be a Session, not {type(session).__name__}", path="session")

    async def _adopt(self, session: Session, backend: ListedSession) -> LoadedSession:
        """Give a handle of a list its place: behind the events that were stored when the list was read."""
        listed = backend.listed
        loaded, snapshot, _ = await self._read(listed.key, Want("listed", listed.marker.updated))
        if loaded.created != listed.created:
            raise not_found(listed.key)
        place = snapshot.end
        while place > loaded.log.offset and loaded.marks[place - loaded.log.offset - 1] > listed.marker.updated:
            place -= 1
        session.log, session.start, session.length = loaded.log, place - loaded.log.offset, 0
        session.revision = loaded.revision_at(place)
        session.backend = loaded
        return loaded

    # --- keeping ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Finish appends that are under way and let go of the database; later calls raise."""
        if self._closed:
            return
        self._closed = True
        await self._appends.finish()
        await self._store.close()
        self._cache.clear()


def _asked(database: Any) -> dict[str, Any]:
    """The options of a URL that are the service's."""
    if not isinstance(database, str):
        return {}
    from hookwork_database.opening import service_options

    return service_options(database)


def _store(database: Any, create_schema: bool | None) -> Store:
    if isinstance(database, str):
        from hookwork_database.opening import store_of

        return store_of(database, create_schema=create_schema)
    from hookwork_database.engines import store_of_engine

    on_sqlite = getattr(getattr(database, "dialect", None), "name", "") == "sqlite"
    return store_of_engine(database, create_schema=on_sqlite if create_schema is None else create_schema)


class ListedSession:
    """The backend of a handle that a list gave: it has not been opened."""

    __slots__ = ("listed", "owner")

    def __init__(self, owner: DatabaseSessionService, listed: Listed) -> None:
        self.owner = owner
        self.listed = listed
