"""PostgreSQL on asyncpg: one statement in autocommit is an append, one is an open (spec DBP-5 … DBP-7)."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from urllib.parse import urlencode

from hookwork.errors import BackendError, ConfigurationError
from hookwork.records.deleted import is_deleting
from hookwork.urls import redact_url
from hookwork_database.keys import MAX_ID, MAX_INVOCATION_ID, SessionKey
from hookwork_database.layouts.base import Layout
from hookwork_database.layouts.versions import check_event_columns, check_version
from hookwork_database.reading import Known, Snapshot, Want
from hookwork_database.servers.fast import parts_of
from hookwork_database.servers.pool import Connections, Pool
from hookwork_database.servers.postgresql_statements import PostgresLayout, append_statement, known_parameters
from hookwork_database.servers.snapshots import can_be_one_statement, decoded
from hookwork_database.servers.store import ServerStore
from hookwork_database.writing import Appended, AppendRequest

#: SQLSTATE → (code, meaning, whether the same call may succeed later).
_MEANINGS = {
    "40001": ("serialization", "a concurrent transaction came first", True),
    "40P01": ("deadlock", "two transactions waited for each other", True),
    "55P03": ("locked", "another transaction holds the row", True),
    "23505": ("duplicate", "the key is taken", False),
    "22001": ("too_long", "a value is too long for its column", False),
    "57014": ("timeout", "the statement took longer than statement_timeout", False),
    "57P01": ("connection", "the server ended the connection", True),
    "57P03": ("connection", "the server is starting up or shutting down", True),
    "53300": ("too_many_connections", "the server takes no more connections", True),
    "53100": ("disk_full", "the server's disk is full", False),
    "25006": ("read_only", "the server takes no writes; name the primary", False),
    "28P01": ("auth", "user or password is wrong", False),
    "28000": ("auth", "the server refuses this user", False),
    "3D000": ("no_database", "there is no such database; create it first", False),
    "42501": ("auth", "the user may not do this", False),
}


class PostgresStore(ServerStore):
    """Sessions in PostgreSQL.

    Args:
        body: what stands in the URL between scheme and query. driver_options: what of the query is asyncpg's.
        pool_size: most connections. pool_timeout: seconds to wait for one. connect_timeout: seconds to open one.
        statement_timeout: milliseconds a statement may take; 0 is no limit.
        create: whether absent tables are created at first use.
        connections: where connections come from in place of a pool of the store's own; then ``where`` names them.
    """

    def __init__(
        self,
        body: str,
        *,
        driver_options: list[tuple[str, str]] | None = None,
        pool_size: int = 10,
        pool_timeout: int = 30,
        connect_timeout: int = 10,
        statement_timeout: int = 0,
        create: bool = False,
        connections: Connections | None = None,
        where: str = "",
    ) -> None:
        where = where or f"PostgreSQL {redact_url(f'postgresql:{body}')!r}"
        options = list(driver_options or ())
        if statement_timeout:
            options.append(("statement_timeout", str(statement_timeout)))
        self._dsn = f"postgresql:{body}" + (f"?{urlencode(options)}" if options else "")
        self._connect_timeout = connect_timeout
        pool = Pool(self._connect, _disconnect, _abandon, _is_sound, where, size=pool_size, timeout=pool_timeout)
        super().__init__(connections or pool, where, create=create)
        self._narrow: dict[str, int] = {}

    async def _connect(self) -> Any:
        try:
            asyncpg: Any = import_module("asyncpg")
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                "sessions in PostgreSQL need asyncpg; install it with: pip install 'hookwork-database[postgresql]'"
            ) from error
        return await asyncpg.connect(self._dsn, timeout=self._connect_timeout)

    # --- the driver ---------------------------------------------------------------------------------------------------

    async def _fetch(self, connection: Any, sql: str, parameters: tuple[Any, ...]) -> Any:
        return await connection.fetch(sql, *parameters)

    async def _begin(self, connection: Any, *, reading: bool) -> None:
        level = "REPEATABLE READ READ ONLY" if reading else "READ COMMITTED"
        await connection.execute(f"BEGIN ISOLATION LEVEL {level}")

    async def _end(self, connection: Any, *, commit: bool) -> None:
        if not connection.is_closed():
            await connection.execute("COMMIT" if commit else "ROLLBACK")

    def _backend_error(self, error: Exception) -> BackendError | None:
        state = getattr(error, "sqlstate", None)
        if state is not None:
            code, meaning, retryable = _MEANINGS.get(state, (state, "PostgreSQL refused", state.startswith("08")))
            return BackendError(f"{self._where}: {meaning} ({error})", code=code, retryable=retryable)
        if isinstance(error, OSError | TimeoutError) or type(error).__module__.startswith("asyncpg"):
            return BackendError(
                f"{self._where}: the server cannot be reached ({error})", code="connection", retryable=True
            )
        return None

    async def _found_layout(self, connection: Any) -> Layout | None:
        rows = await connection.fetch(
            "SELECT column_name, character_maximum_length FROM information_schema.columns "
            "WHERE table_name = 'events' AND table_schema = current_schema()"
        )
        columns = {row[0]: row[1] for row in rows}
        wanted = {"id": MAX_ID, "invocation_id": MAX_INVOCATION_ID}
        self._narrow = {name: columns[name] for name, width in wanted.items() if (columns.get(name) or width) < width}
        if not columns:
            return None
        check_event_columns(columns, self._where, "PostgreSQL")
        versions = await connection.fetch(
            "SELECT to_regclass('adk_internal_metadata') IS NOT NULL AS known",
        )
        if versions[0][0]:
            found = await connection.fetch("SELECT value FROM adk_internal_metadata WHERE key = 'schema_version'")
            check_version(found, self._where)
        return PostgresLayout()

    async def _create_tables(self, connection: Any) -> None:
        from hookwork_database.tables import statements_for

        async with connection.transaction():
            # CREATE … IF NOT EXISTS alone fails when two run it at once; of two starters one waits here (DB-10).
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('hookwork_database.schema'))")
            for statement in statements_for("postgresql"):
                await connection.execute(statement)
            await connection.execute(
                "INSERT INTO adk_internal_metadata (key, value) VALUES ('schema_version', '1') ON CONFLICT DO NOTHING"
            )

    # --- the hot paths ------------------------------------------------------------------------------------------------

    async def read(self, key: SessionKey, known: Known | None, want: Want) -> Snapshot | None:
        """See `Store.read`: one statement, unless more is wanted in front of the known events."""
        if not can_be_one_statement(known, want):
            return await super().read(key, known, want)
        layout = await self.open()
        async with self._lent() as connection:
            rows = await connection.fetch(layout.snapshot, *key, *known_parameters(known))
        if not rows:
            return None
        snapshot = await decoded(layout, key, known, rows)
        return snapshot if snapshot is not None else await super().read(key, known, want)

    async def _append_fast(self, connection: Any, request: AppendRequest) -> Appended | None:
        if is_deleting(request.entered.event):
            return None  # a merge of JSONB cannot take keys away
        layout = self._layout
        key, entered, marker = request.key, request.entered, request.known.marker
        event, raw = entered.event, layout.time(request.mark)
        for column, width in self._narrow.items():
            self._check_width(column, width, getattr(event, column))
        deltas = [layout.encode_state(part) for part in (entered.own, entered.app, entered.user) if part]
        parameters = (marker.updated_raw, marker.created_raw, marker.last_id, raw, event.id, event.invocation_id)
        try:
            sql = append_statement(*parts_of(entered))
            row = await connection.fetchrow(sql, *key, *parameters, *entered.data, *deltas)
        except Exception as error:
            if getattr(error, "sqlstate", None) != "23505":
                raise
            return None
        if row is None or not row[0]:
            return None
        app = (row[1], layout.state(row[1], "table app_states")) if entered.app else None
        user = (row[2], layout.state(row[2], "table user_states")) if entered.user else None
        return Appended(request.mark, raw, event.id, None, app, user)

    def _check_width(self, column: str, width: int, value: str) -> None:
        """Refuse what an older table's column cannot hold: the server's own refusal does not say which (DB-25)."""
        if len(value) > width:
            enough = MAX_ID if column == "id" else MAX_INVOCATION_ID
            raise BackendError(
                f"{self._where}: column events.{column} holds {width} characters, and the event's has {len(value)}; "
                f"widen it: ALTER TABLE events ALTER {column} TYPE VARCHAR({enough})",
                code="too_long",
            )


async def _disconnect(connection: Any) -> None:
    try:
        await connection.close(timeout=5)
    except (OSError, TimeoutError):
        connection.terminate()  # the server is gone; so is the connection


def _abandon(connection: Any) -> None:
    connection.terminate()


def _is_sound(connection: Any, error: BaseException) -> bool:
    """A refusal leaves the connection as it was; a cancellation or a lost line does not."""
    return isinstance(error, Exception) and not connection.is_closed() and not connection.is_in_transaction()
