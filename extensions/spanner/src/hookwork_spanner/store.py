"""Sessions in a Spanner database: plans in threads, an append as one batch and its commit (services DB-11, DB-22)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from hookwork.errors import BackendError
from hookwork.records.frozen import FrozenDict
from hookwork_database.layouts.base import Layout
from hookwork_database.layouts.versions import VERSION, check_event_columns, check_version
from hookwork_database.plans import Plan, carried_out
from hookwork_database.servers.fast import shared_writes
from hookwork_database.servers.store import RemoteStore
from hookwork_database.writing import Appended, AppendRequest
from hookwork_spanner.connecting import EngineDatabase
from hookwork_spanner.faults import backend_error
from hookwork_spanner.layout import SpannerLayout, schema_statements

T = TypeVar("T")
Statement = tuple[str, tuple[Any, ...]]

#: gRPC statuses of a batch that mean that the store is not what the writer knows: the event is there already, or its
#: session is gone (the foreign key); the append in full finds out which.
_ALREADY_EXISTS, _FAILED_PRECONDITION = 6, 9


class _NotAsKnown(Exception):
    """The batch did not find what the writer knows; nothing of it is kept."""


class _Failed(Exception):
    """A statement's error on its way out of the client's transaction, which it makes roll back."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class SpannerStore(RemoteStore):
    """Sessions in a Spanner database.

    Args:
        make_engine: gives an engine of sqlalchemy-spanner. owned: whether the engine ends with the store.
        where: names the database in errors.
        create: whether absent tables are created at first use.
        pool_size: most calls at once, each in a thread of its own.
        statement_timeout: milliseconds a statement may take; 0 is the client's own limit.
    """

    def __init__(
        self,
        make_engine: Callable[[], Any],
        where: str,
        *,
        owned: bool,
        create: bool = False,
        pool_size: int = 10,
        statement_timeout: int = 0,
    ) -> None:
        self._threads = ThreadPoolExecutor(pool_size, thread_name_prefix="hookwork-spanner")
        self._options = {"timeout": statement_timeout / 1000} if statement_timeout else {}
        super().__init__(EngineDatabase(make_engine, owned=owned, run=self._run), where, create=create)

    async def close(self) -> None:
        """See `Store.close`."""
        await super().close()
        self._threads.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        """The result of blocking work. When the caller is cancelled it is carried out all the same (GEN-5)."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # --- tables -------------------------------------------------------------------------------------------------------

    async def _found_layout(self, connection: Any) -> Layout | None:
        layout = SpannerLayout()
        columns = await self._fetch(connection, layout.columns, ("events",))
        if not columns:
            return None
        check_event_columns((row[0] for row in columns), self._where, "Spanner")
        if await self._fetch(connection, layout.columns, ("adk_internal_metadata",)):
            check_version(await self._fetch(connection, layout.version, ("schema_version",)), self._where)
        return layout

    async def _create_tables(self, connection: Any) -> None:
        put_version = SpannerLayout().put_version

        def plan() -> Plan[None]:
            yield put_version, ("schema_version", VERSION)

        await self._run(lambda: connection.update_ddl(list(schema_statements())).result())
        await self._transaction(connection, plan(), reading=False)

    # --- carrying out -------------------------------------------------------------------------------------------------

    def _backend_error(self, error: Exception) -> BackendError | None:
        return backend_error(error, self._where)

    async def _fetch(self, connection: Any, sql: str, parameters: tuple[Any, ...]) -> Any:
        def read() -> Any:
            with connection.snapshot() as snapshot:
                return self._rows(snapshot, sql, parameters)

        return await self._run(read)

    async def _transaction(self, connection: Any, plan: Plan[T], *, reading: bool) -> T:
        def read() -> T:
            with connection.snapshot(multi_use=True) as snapshot:
                return carried_out(plan, lambda sql, parameters: self._rows(snapshot, sql, parameters))

        def write() -> T:
            return _in_transaction(
                connection,
                lambda transaction: carried_out(plan, lambda sql, given: self._rows(transaction, sql, given)),
            )

        return await self._run(read if reading else write)

    def _rows(self, reader: Any, sql: str, parameters: tuple[Any, ...]) -> Sequence[Any]:
        """The rows of a statement; one that writes has none, and is not done before they are asked for."""
        values, types = _typed(parameters)
        return list(reader.execute_sql(sql, params=values, param_types=types, **self._options))

    async def _append_fast(self, connection: Any, request: AppendRequest) -> Appended | None:
        """Two round trips: a batch that begins the transaction, and the commit."""
        layout: SpannerLayout = self._layout
        raw = layout.time(request.mark)
        after: dict[str, tuple[Any, FrozenDict]] = {}
        statements = [_row_update(layout, request, raw)]
        for shared in shared_writes(layout, request):
            sql = layout.replace_app if shared.scope == "app" else layout.replace_user
            statements.append((sql, (shared.column, raw, *shared.key, shared.known)))
            after[shared.scope] = shared.column, shared.state
        event = request.entered.event
        filled = (*request.key, event.id, event.invocation_id, raw, *request.entered.data)
        statements.append((layout.insert_event, filled))
        try:
            await self._run(
                lambda: _in_transaction(connection, lambda transaction: self._batch(transaction, statements))
            )
        except _NotAsKnown:
            return None
        return Appended(request.mark, raw, event.id, None, after.get("app"), after.get("user"))

    def _batch(self, transaction: Any, statements: list[Statement]) -> None:
        from google.api_core.exceptions import from_grpc_status

        described = [(sql, *_typed(parameters)) for sql, parameters in statements]
        status, counts = transaction.batch_update(described, **self._options)
        if status.code in (_ALREADY_EXISTS, _FAILED_PRECONDITION):
            raise _NotAsKnown(status.message)
        if status.code:
            raise from_grpc_status(status.code, status.message)  # type: ignore[no-untyped-call]
        if any(count != 1 for count in counts):
            raise _NotAsKnown("a row was not as the writer knew it")


def _row_update(layout: SpannerLayout, request: AppendRequest, raw: Any) -> Statement:
    """The session's row, where it is what the writer knows (spec DBP-4)."""
    marker, key = request.known.marker, request.key
    unchanged = (*key, marker.updated_raw, marker.created_raw, *key, marker.updated_raw, marker.last_id)
    if request.state is None:
        return layout.fast_row, (raw, *unchanged)
    return layout.fast_state, (raw, layout.encode_state(request.state), *unchanged)


def _in_transaction(database: Any, work: Callable[[Any], T]) -> T:
    """The result of work in a transaction, tried once: the service's own retries wait in the loop (services DB-12).

    The client rolls back for any error but those of its own calls, behind which the locks would stay until Spanner
    itself drops them; hence both are done here.
    """
    from google.api_core.exceptions import Aborted, GoogleAPICallError

    begun: list[Any] = []

    def guarded(transaction: Any) -> T:
        begun.append(transaction)
        try:
            return work(transaction)
        except GoogleAPICallError as error:
            raise _Failed(error) from error

    try:
        return database.run_in_transaction(guarded, timeout_secs=0)  # type: ignore[no-any-return]
    except _Failed as failed:
        raise failed.error from None
    except Aborted:
        raise
    except GoogleAPICallError:
        with suppress(GoogleAPICallError):  # the commit's own error is the one to tell
            begun[-1].rollback()
        raise


def _typed(parameters: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters by name, and their types."""
    from datetime import datetime

    from google.cloud.spanner_v1 import param_types

    kinds = {str: param_types.STRING, int: param_types.INT64}
    values = {f"p{number}": value for number, value in enumerate(parameters, 1)}
    types = {
        name: param_types.TIMESTAMP if isinstance(value, datetime) else kinds[type(value)]
        for name, value in values.items()
    }
    return values, types
