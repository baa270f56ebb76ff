"""Sessions in Vertex AI Agent Engine (services §5)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hookwork.errors import (
    BackendError,
    SessionNotFoundError,
    UnsupportedOperationError,
    ValidationError,
)
from hookwork.records.event import Event, frozen_delta
from hookwork.records.frozen import thaw
from hookwork.records.session import Session
from hookwork.services import SessionCapabilities, SessionService
from hookwork_vertexai.api import Api, ApiError, typed
from hookwork_vertexai.appending import Appender, show_appended
from hookwork_vertexai.creating import create, delete, expiry, session_body, wanted_id
from hookwork_vertexai.envelopes import enter
from hookwork_vertexai.filters import Filters
from hookwork_vertexai.identity import TokenSource, identity_of
from hookwork_vertexai.listing import PAGE, pages, quoted
from hookwork_vertexai.loaded import (
    LoadedCache,
    LoadedSession,
    LooseSession,
    SelectedLog,
    SessionRow,
    end_of,
    extend,
    follow,
)
from hookwork_vertexai.names import (
    SESSION_ID,
    base_url_of,
    check_texts,
    checked_engine,
    checked_place,
    engine_of,
    is_session_id,
    short_session_id,
)
from hookwork_vertexai.reading import Reader, Target
from hookwork_vertexai.windows import with_calls
from hookwork_vertexai.wire import check_state

if TYPE_CHECKING:
    import httpx


class VertexAiSessionService(SessionService):
    """Sessions of an Agent Engine instance. One event loop for each service.

    Args:
        project, location: of the instance; both None in express mode, with ``api_key``.
        engine: the instance's number; it keeps the sessions of every app. None: the app's name says which (VTX-2).
        base_url: scheme and host in place of Google's.
        credentials: of google-auth; None: those of the environment.
        token_source: a plain or async function that gives an access token, in place of ``credentials``.
        api_key: of an express-mode account, in place of both.
        client: the connections to use; not closed with the service. None: ones of our own.
        timeout: seconds to wait for an answer.
        ttl: seconds after which new sessions expire, unless `create_session` is told otherwise; None: the service's
            own time, a year. The service takes no less than a day.
        cache_sessions: how many sessions' logs are kept when no handle holds them (LOG-7).

    Raises:
        ValidationError: an option has no valid value.
    """

    capabilities = SessionCapabilities(
        user_provided_session_id=True,
        server_assigned_event_id=False,
        detects_stale=False,
        session_id_pattern=SESSION_ID,
        supports_user_state_read=False,
    )

    def __init__(
        self,
        project: str | None = None,
        location: str | None = None,
        engine: str | None = None,
        *,
        base_url: str | None = None,
        credentials: Any = None,
        token_source: TokenSource | None = None,
        api_key: str | None = None,
        client: httpx.AsyncClient | None = None,
        timeout: float = 60.0,
        ttl: float | None = None,
        cache_sessions: int = 256,
    ) -> None:
        if type(cache_sessions) is not int or cache_sessions < 0:
            raise ValidationError(f"cache_sessions must be a whole number from 0, not {cache_sessions!r}")
        expiry(ttl, None)
        self.ttl = ttl
        identity = identity_of(credentials, token_source, api_key)
        self.place = checked_place(project, location, express=api_key is not None)
        self.engine = None if engine is None else checked_engine(engine)
        self._api = Api(base_url_of(base_url, self.place), identity, timeout=timeout, client=client)
        self._cache = LoadedCache(cache_sessions)
        self._reader = Reader(self, self._api, self._cache)
        self._appender = Appender(self._api, self._cache, self._reader)
        self._closed = False

    # --- creating and deleting ----------------------------------------------------------------------------------------

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str | None = None,
        state: Mapping[str, Any] | None = None,
        display_name: str | None = None,
        labels: Mapping[str, str] | None = None,
        ttl: float | None = None,
        expire_time: datetime | None = None,
    ) -> Session:
        """See `SessionService.create_session`. ``temp:`` keys of ``state`` stay on the returned handle only.

        Args:
            display_name, labels: kept with the session, for lists in the console.
            ttl: seconds until it expires; not together with ``expire_time``, an aware datetime.

        Raises:
            SessionAlreadyExistsError: the id is taken.
            ValidationError: the id has other than 1 to 63 lower-case letters, digits and dashes, or an option or a
                state value is not valid.
        """
        self._check_open()
        engine = self._engine(app_name, user_id=user_id)
        id = wanted_id(session_id, engine)
        initial = frozen_delta(state)
        kept = {key: thaw(value) for key, value in initial.items() if not key.startswith("temp:")}
        check_state(kept)
        if ttl is None and expire_time is None:
            ttl = self.ttl
        body = session_body(user_id, kept, display_name=display_name, labels=labels, ttl=ttl, expire_time=expire_time)
        target = Target(app_name, user_id, id, f"{engine}/sessions/{id}")
        async with self._cache.lock(target.name) if id else nullcontext():
            name, row = await create(self._api, self._reader, target, engine, body)
            loaded = self._reader.created(name, row)
        handle = loaded.handle(app_name, 0)
        handle.temp_state = {key: value for key, value in initial.items() if key.startswith("temp:")}
        return handle

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """See `SessionService.delete_session`. Raises SessionOwnershipError for another user's session."""
        self._check_open()
        try:
            target = self._target(app_name, user_id, session_id)
            async with self._cache.lock(target.name):
                await self._reader.row(target)  # whose it is
                await delete(self._api, target)
                self._cache.drop(target.name)
        except SessionNotFoundError:
            return

    # --- reading ------------------------------------------------------------------------------------------------------

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
        """See `SessionService.get_session`. ``tail`` is not combined with the other two.

        Raises SessionOwnershipError when the session belongs to another user. The log is loaded whole at the first
        read, unless ``num_recent_events`` or ``after`` ask for less.
        """
        self._check_open()
        filters = Filters(num_recent_events, after, tail)
        target = self._target(app_name, user_id, session_id)
        async with self._cache.lock(target.name):
            if filters.none or (filters.few and self._cache.get(target.name) is None):
                return await filters.on_service(self._reader, self, target)
            loaded = await self._reader.current(target)
            return filters.on_loaded(loaded, app_name)

    async def refresh(self, session: Session) -> int:
        """See `SessionService.refresh`. ``temp:`` keys stay."""
        backend = await self._backend(session)
        target = self._target_of(session)
        async with self._cache.lock(target.name):
            if not backend.alive:
                raise target.missing()
            loaded = await self._reader.current(target)
            if loaded.created != backend.created:
                raise target.missing()
        return self._shown_to_the_end(session, backend, loaded)

    @staticmethod
    def _shown_to_the_end(session: Session, backend: LoadedSession, loaded: LoadedSession) -> int:
        before = session.length
        follow(session, backend)
        session.written_keys.clear()
        end = len(loaded.marks)
        if end_of(session) <= end:
            extend(session, loaded, end)
        session.session_state = loaded.own_state
        session.app_state, session.user_state = loaded.app_state, loaded.user_state
        session.last_update_time, session.revision = loaded.time_at(end), loaded.revision_at(end)
        return session.length - before

    async def load_earlier(self, session: Session, count: int) -> int:
        """See `SessionService.load_earlier`. A handle that shows a selection shows every event of its range after."""
        if type(count) is not int or count < 0:
            raise ValidationError(f"count must be a whole number from 0, not {count!r}", path="count")
        loaded = follow(session, await self._backend(session))
        log, end = session.log, end_of(session)
        first = log.first if isinstance(log, SelectedLog) else log.offset + session.start
        start = with_calls(loaded.log, max(0, first - count), end)
        added = end - start - session.length
        session.log, session.start, session.length = loaded.log, start, end - start
        return added

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> list[Session]:
        """See `SessionService.list_sessions`. The update times are the service's own (VTX-12)."""
        self._check_open()
        engine = self._engine(app_name, **({} if user_id is None else {"user_id": user_id}))
        params: dict[str, Any] = {"pageSize": PAGE}
        if user_id is not None:
            params["filter"] = f"user_id={quoted(user_id)}"
        rows: dict[str, SessionRow] = {}
        try:
            async with aclosing(pages(self._api, f"{engine}/sessions", "sessions", params)) as stream:
                async for page in stream:
                    rows.update((row.id, row) for row in map(SessionRow, page))
        except ApiError as error:
            raise typed(error) from error
        # The filter is not trusted: what it let through by mistake is somebody else's (TRAP-15).
        wanted = [row for row in rows.values() if row.user_id and (user_id is None or row.user_id == user_id)]
        wanted.sort(key=lambda row: (row.updated, row.user_id, row.id))
        return [self._listed(row, app_name, f"{engine}/sessions/{row.id}") for row in wanted]

    def _listed(self, row: SessionRow, app_name: str, name: str) -> Session:
        loose = LooseSession(self, name, row.created)
        return loose.handle(app_name, row, [], missing=row.updated != row.created, user_id=str(row.user_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> Mapping[str, Any]:
        """Not supported: Agent Engine shows the state of a user only as a part of a session's."""
        raise UnsupportedOperationError("Agent Engine gives no state of a user without a session; read one of theirs")

    # --- appending ----------------------------------------------------------------------------------------------------

    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        """See `SessionService.append_event`. Agent Engine cannot tell that another process appended meanwhile."""
        if not isinstance(event, Event):
            raise ValidationError(f"event must be an Event, not {type(event).__name__}", path="event")
        if event.partial:
            return event
        self._check_ours(session)
        self._check_open()
        entered = enter(event)
        loaded = await self._backend(session)
        target = self._target_of(session)
        appended = await self._appender.append(target, loaded, event, entered, redelivery=redelivery)
        return show_appended(session, appended, event)

    async def flush(self) -> None:
        """See `SessionService.flush`: every request that is on its way has been answered."""
        await self._appender.finish()

    # --- what the operations share ------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise BackendError("the Vertex AI session service is closed; make a new one", code="closed")

    def _engine(self, app_name: str, **ids: Any) -> str:
        check_texts(app_name=app_name, **ids)
        return engine_of(app_name, self.place, self.engine)

    def _target(self, app_name: str, user_id: str, session_id: str) -> Target:
        """What a caller asks for. An id that the service cannot hold is not there; it never gets into a URL."""
        engine = self._engine(app_name, user_id=user_id, session_id=session_id)
        id = short_session_id(session_id, engine)
        target = Target(app_name, user_id, id, f"{engine}/sessions/{id}")
        if not is_session_id(id):
            raise target.missing()
        return target

    @staticmethod
    def _target_of(session: Session) -> Target:
        return Target(session.app_name, session.user_id, session.id, session.backend.name)

    def _check_ours(self, session: Any) -> None:
        backend = session.backend if isinstance(session, Session) else None
        if isinstance(backend, LoadedSession | LooseSession) and backend.owner is self:
            return
        if isinstance(session, Session):
            raise ValidationError(
                f"session {session.id!r} was not opened by this service; get it from the service you append to",
                path="session",
            )
        raise ValidationError(f"session must be a Session, not {type(session).__name__}", path="session")

    async def _backend(self, session: Session) -> LoadedSession:
        """The loaded session behind a handle of this service. Raises SessionNotFoundError when it is gone."""
        self._check_ours(session)
        self._check_open()
        backend: LoadedSession | LooseSession = session.backend
        target = self._target_of(session)
        if isinstance(backend, LooseSession):
            async with self._cache.lock(target.name):
                loaded = await self._reader.current(target)
            if loaded.created != backend.created:
                raise target.missing()
            if session.backend is backend:
                _adopt(session, backend, loaded)
            backend = session.backend
            assert isinstance(backend, LoadedSession)
        if not backend.alive:
            raise target.missing()
        return backend

    async def close(self) -> None:
        """Finish appends that are under way and close the connections; later calls raise."""
        self._closed = True
        await self._appender.finish()
        await self._api.close()


def _adopt(session: Session, loose: LooseSession, loaded: LoadedSession) -> None:
    """Give a handle its place in the log: where its last event stands, or behind all that is stored."""
    shown = list(session.events)
    session.backend = loaded
    if not shown:
        end = len(loaded.marks)
        session.log, session.start, session.length = loaded.log, end, 0
        session.revision = loaded.revision_at(end)
        return
    first, last = loaded.positions.get(shown[0].id, 0), loaded.positions.get(loose.last_id, len(shown) - 1)
    if last - first + 1 == len(shown):
        session.log, session.start, session.length = loaded.log, first, len(shown)
    else:
        missing = last + 1 - len(shown)
        session.log, session.start, session.length = SelectedLog(shown, first=first, missing=missing), 0, len(shown)
