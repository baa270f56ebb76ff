"""What the stores of databases behind a network share: tasks for appends, transactions for plans, lent connections."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hookwork.errors import BackendError, ConfigurationError, HookworkError
from hookwork.records.frozen import FrozenDict
from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import Layout
from hookwork_database.plans import Created, Listed, Plan, create_session, delete_session, list_sessions
from hookwork_database.reading import Known, Snapshot, Want, read_session
from hookwork_database.servers.pool import Connections
from hookwork_database.store import Done, Store
from hookwork_database.writing import Appended, AppendRequest, Outcome, append_fully

T = TypeVar("T")


class RemoteStore(Store):
    """A database behind a network. Subclasses know a driver, and how it carries out a transaction.

    Args:
        pool: where connections come from.
        where: names the database in errors, without user and password.
        create: whether absent tables are created at first use.
    """

    def __init__(self, pool: Connections, where: str, *, create: bool) -> None:
        self._pool = pool
        self._where = where
        self._create = create
        self._layout: Any = None
        self._appending: set[asyncio.Task[None]] = set()

    # --- what a driver does -------------------------------------------------------------------------------------------

    @abstractmethod
    async def _fetch(self, connection: Any, sql: str, parameters: tuple[Any, ...]) -> Any:
        """The rows of a statement."""

    @abstractmethod
    async def _transaction(self, connection: Any, plan: Plan[T], *, reading: bool) -> T:
        """Carry out a plan in a transaction: of one snapshot for reading, else READ COMMITTED or stricter (DBP-6)."""

    @abstractmethod
    def _backend_error(self, error: Exception) -> BackendError | None:
        """What a driver's or the network's error means; None when it is neither's."""

    @abstractmethod
    async def _found_layout(self, connection: Any) -> Layout | None:
        """The layout of the tables that are there; None when there are none. Raises ConfigurationError."""

    @abstractmethod
    async def _create_tables(self, connection: Any) -> None:
        """Create the version 1 tables where they are absent."""

    @abstractmethod
    async def _append_fast(self, connection: Any, request: AppendRequest) -> Appended | None:
        """Append in the fewest round trips; None, and nothing is stored, when it is not as the writer knows it."""

    # --- the operations -----------------------------------------------------------------------------------------------

    async def open(self) -> Layout:
        """See `Store.open`."""
        if self._layout is None:
            async with self._lent() as connection:
                layout = await self._found_layout(connection)
                if layout is None and self._create:
                    await self._create_tables(connection)
                    layout = await self._found_layout(connection)
            if layout is None:
                raise ConfigurationError(
                    f"{self._where} holds no sessions; call create_schema() on the service once, or put "
                    "create_schema=true into its URL"
                )
            self._layout = layout
        return self._layout  # type: ignore[no-any-return]

    async def create_schema(self) -> None:
        """See `Store.create_schema`."""
        async with self._lent() as connection:
            await self._create_tables(connection)

    async def create(
        self, key: SessionKey, micros: int, app: Mapping[str, Any], user: Mapping[str, Any], own: Mapping[str, Any]
    ) -> Created | None:
        """See `Store.create`."""
        layout = await self.open()
        try:
            return await self._in_transaction(create_session(layout, key, micros, app, user, own), reading=False)
        except BackendError as error:
            if error.code == "duplicate":
                return None
            raise

    async def read(self, key: SessionKey, known: Known | None, want: Want) -> Snapshot | None:
        """See `Store.read`."""
        layout = await self.open()
        return await self._in_transaction(read_session(layout, key, known, want), reading=True)

    async def list(self, app_name: str, user_id: str | None) -> list[Listed]:
        """See `Store.list`."""
        layout = await self.open()
        return await self._in_transaction(list_sessions(layout, app_name, user_id), reading=True)

    async def delete(self, key: SessionKey) -> None:
        """See `Store.delete`."""
        layout = await self.open()
        await self._in_transaction(delete_session(layout, key), reading=False)

    async def user_state(self, app_name: str, user_id: str) -> FrozenDict:
        """See `Store.user_state`."""
        layout = await self.open()
        async with self._lent() as connection:
            rows = await self._fetch(connection, layout.user_state, (app_name, user_id))
        return layout.state(rows[0][0] if rows else None, f"table user_states: user {user_id!r}")

    async def carry(self, plan: Callable[[Layout], Plan[T]], *, reading: bool) -> T:
        """See `Store.carry`."""
        return await self._in_transaction(plan(await self.open()), reading=reading)

    def append(self, request: AppendRequest, done: Done) -> None:
        """See `Store.append`. The task is the store's own: a caller that goes away does not stop it."""
        task = asyncio.get_running_loop().create_task(self._append(request, done))
        self._appending.add(task)
        task.add_done_callback(self._appending.discard)

    async def _append(self, request: AppendRequest, done: Done) -> None:
        try:
            async with self._lent() as connection:
                outcome: Outcome | None = None
                if not request.more:
                    outcome = await self._append_fast(connection, request)
                if outcome is None:
                    plan = append_fully(self._layout, request)
                    outcome = await self._transaction(connection, plan, reading=False)
        except BaseException as error:
            done(None, error)
            if not isinstance(error, Exception):
                raise
        else:
            done(outcome, None)

    async def close(self) -> None:
        """See `Store.close`."""
        if self._appending:
            await asyncio.wait(list(self._appending))
        await self._pool.close()

    # --- carrying out -------------------------------------------------------------------------------------------------

    def _lent(self) -> _Lent:
        return _Lent(self)

    async def _in_transaction(self, plan: Plan[T], *, reading: bool) -> T:
        async with self._lent() as connection:
            return await self._transaction(connection, plan, reading=reading)


class _Lent:
    """A lent connection; a driver's errors leave as `BackendError`."""

    __slots__ = ("_lending", "_store")

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._lending: Any = None

    async def __aenter__(self) -> Any:
        self._lending = self._store._pool.connection()
        try:
            return await self._lending.__aenter__()
        except Exception as error:
            raise self._translated(error) from error

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self._lending.__aexit__(kind, error, trace)
        if isinstance(error, Exception):
            better = self._translated(error)
            if better is not error:
                raise better from error

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, HookworkError):
            return error
        found = self._store._backend_error(error)
        return error if found is None else found


class ServerStore(RemoteStore):
    """One whose transactions are begun and ended by statements."""

    @abstractmethod
    async def _begin(self, connection: Any, *, reading: bool) -> None:
        """Start a transaction: of one snapshot for reading, else READ COMMITTED (spec DBP-6)."""

    @abstractmethod
    async def _end(self, connection: Any, *, commit: bool) -> None:
        """End it."""

    async def _transaction(self, connection: Any, plan: Plan[T], *, reading: bool) -> T:
        """Carry out a plan in a transaction of its own."""
        await self._begin(connection, reading=reading)
        try:
            result = await self._carried_out(connection, plan)
        except Exception:
            await self._end(connection, commit=False)
            raise
        await self._end(connection, commit=True)
        return result

    async def _carried_out(self, connection: Any, plan: Plan[T]) -> T:
        try:
            statement = next(plan)
            while True:
                statement = plan.send(await self._fetch(connection, *statement))
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
