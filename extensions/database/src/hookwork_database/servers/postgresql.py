"""PostgreSQL on asyncpg: one statement in autocommit is an append, one is an open (spec DBP-5 … DBP-7)."""

from __future__ import annotations

from importlib import import_module
from itertools import count
from typing import Any
from urllib.parse import urlencode

from hookwork.errors import BackendError, ConfigurationError
from hookwork.urls import redact_url
from hookwork_database.documents import state_of_document
from hookwork_database.keys import MAX_ID, MAX_INVOCATION_ID, SessionKey
from hookwork_database.layouts.adk import DocumentLayout
from hookwork_database.layouts.base import Layout
from hookwork_database.moments import micros_of, naive_of
from hookwork_database.reading import Known, Snapshot, Want
from hookwork_database.servers.pool import Connections, Pool
from hookwork_database.servers.snapshots import can_be_one_statement, decoded, known_place
from hookwork_database.servers.store import ServerStore
from hookwork_database.writing import Appended, AppendRequest, Outcome, append_fully

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


def numbered(sql: str) -> str:
    """``?`` marks as ``$1``, ``$2`` …"""
    number = count(1)
    return "".join(piece if piece != "?" else f"${next(number)}" for piece in _pieces(sql))


def _pieces(sql: str) -> list[str]:
    pieces: list[str] = []
    for piece in sql.split("?"):
        pieces += [piece, "?"]
    return pieces[:-1]


class PostgresLayout(DocumentLayout):
    """google-adk's schema version 1 in PostgreSQL: JSONB, and times without a zone, in UTC."""

    name = "google-adk version 1"
    lock = " FOR UPDATE"
    merges = True

    def __init__(self) -> None:
        super().__init__()
        self.snapshot = _SNAPSHOT
        self.rewrite(numbered)

    def upsert(self, table: str, key: tuple[str, ...], *, replace: bool) -> str:
        sql = super().upsert(table, key, replace=replace)
        if not replace:
            return sql
        return sql.replace("state = excluded.state", f"state = {table}.state || excluded.state") + " RETURNING state"

    def time(self, micros: int) -> Any:
        return naive_of(micros)

    def micros(self, raw: Any) -> int:
        return micros_of(raw)


_KEY = "app_name = $1 AND user_id = $2 AND {id} = $3"
_ROW, _EVENTS = _KEY.format(id="id"), _KEY.format(id="session_id")

#: A session, the shared states and the events behind a known one, in one statement and so in one snapshot (DBP-7).
#: $4 … $7 are the known marker, $8 and $9 the place of the newest known event; without one every event comes. The first
#: row is the session; state, count and events are left out while the marker holds.
_SNAPSHOT = f"""
WITH s AS (
  SELECT create_time, update_time, state,
    (SELECT id FROM events WHERE {_EVENTS} ORDER BY timestamp DESC, id DESC LIMIT 1) AS last_id,
    (SELECT COUNT(*) FROM events e WHERE {_EVENTS} AND e.timestamp = sessions.update_time) AS twins
  FROM sessions WHERE {_ROW}
), c AS (
  SELECT (create_time, update_time, COALESCE(last_id, ''), twins)
    IS DISTINCT FROM ($4::timestamp, $5::timestamp, $6::text, $7::bigint) AS changed FROM s
)
SELECT 0 AS kind, s.create_time AS t, s.last_id AS id, s.update_time AS t2,
  CASE WHEN c.changed THEN s.state END AS data, a.state AS app, u.state AS usr, s.twins AS twins,
  CASE WHEN c.changed THEN (SELECT COUNT(*) FROM events WHERE {_EVENTS}) END AS number, NULL AS inv
FROM s CROSS JOIN c
LEFT JOIN app_states a ON a.app_name = $1
LEFT JOIN user_states u ON u.app_name = $1 AND u.user_id = $2
UNION ALL
SELECT 1, e.timestamp, e.id, NULL, e.event_data, NULL, NULL, NULL, NULL, e.invocation_id
FROM c CROSS JOIN events e
WHERE c.changed AND {_EVENTS} AND e.timestamp >= $8 AND (e.timestamp > $8 OR e.id > $9)
ORDER BY 1, 2, 3
"""


def append_statement(own: bool, app: bool, user: bool) -> str:
    """The append of one event as a chain of CTEs: session, app, user, event; each needs the one before it, which gives
    the order of the locks (spec DBP-5, services DB-12).

    Parameters: the key, the known update and create times, the newest known id, the new mark, event id, invocation id,
    event data, then the parts of the delta that are there. It gives one row: sessions updated, app and user state.
    """
    number = count(11)
    set_state = f", state = state || ${next(number)}::jsonb" if own else ""
    ctes = [
        f"s AS (UPDATE sessions SET update_time = $7{set_state} WHERE {_ROW} AND update_time = $4 AND create_time = $5 "
        f"AND NOT EXISTS (SELECT 1 FROM events WHERE {_EVENTS} AND timestamp = $4 AND id <> $6) RETURNING 1)"
    ]
    before = "s"
    if app:
        ctes.append(
            f"a AS (INSERT INTO app_states (app_name, state, update_time) SELECT $1, ${next(number)}::jsonb, $7 FROM "
            f"{before} ON CONFLICT (app_name) DO UPDATE SET state = app_states.state || excluded.state, "
            "update_time = excluded.update_time RETURNING state)"
        )
        before = "a"
    if user:
        ctes.append(
            f"u AS (INSERT INTO user_states (app_name, user_id, state, update_time) SELECT $1, $2, "
            f"${next(number)}::jsonb, $7 FROM {before} ON CONFLICT (app_name, user_id) DO UPDATE SET "
            "state = user_states.state || excluded.state, update_time = excluded.update_time RETURNING state)"
        )
        before = "u"
    ctes.append(
        "e AS (INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data) "
        f"SELECT $1, $2, $3, $8, $9, $7, $10::jsonb FROM {before} RETURNING 1)"
    )
    app_state = "(SELECT state FROM a)" if app else "NULL"
    user_state = "(SELECT state FROM u)" if user else "NULL"
    return f"WITH {', '.join(ctes)} SELECT (SELECT COUNT(*) FROM e), {app_state}, {user_state}"


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
        self._appends: dict[tuple[bool, bool, bool], str] = {}
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
        if "event_data" not in columns:
            raise ConfigurationError(
                f"{self._where}: the table events has the columns {', '.join(columns)}; in PostgreSQL only "
                "google-adk's version 1 can be opened. Copy older sessions with hookwork migrate"
            )
        versions = await connection.fetch(
            "SELECT to_regclass('adk_internal_metadata') IS NOT NULL AS known",
        )
        if versions[0][0]:
            found = await connection.fetch("SELECT value FROM adk_internal_metadata WHERE key = 'schema_version'")
            if found and found[0][0] != "1":
                raise ConfigurationError(
                    f"{self._where} says schema version {found[0][0]!r}; this release reads and writes version '1'"
                )
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
            rows = await connection.fetch(layout.snapshot, *key, *_known_parameters(known))
        if not rows:
            return None
        snapshot = await decoded(layout, key, known, rows)
        return snapshot if snapshot is not None else await super().read(key, known, want)

    async def _append_at_once(self, connection: Any, request: AppendRequest) -> Outcome:
        layout = self._layout
        key, entered, marker = request.key, request.entered, request.known.marker
        parts = (bool(entered.own), bool(entered.app), bool(entered.user))
        sql = self._appends.get(parts)
        if sql is None:
            sql = self._appends[parts] = append_statement(*parts)
        event, raw = entered.event, layout.time(request.mark)
        for column, width in self._narrow.items():
            self._check_width(column, width, getattr(event, column))
        deltas = [layout.encode_state(part) for part in (entered.own, entered.app, entered.user) if part]
        parameters = (marker.updated_raw, marker.created_raw, marker.last_id, raw, event.id, event.invocation_id)
        try:
            row = await connection.fetchrow(sql, *key, *parameters, *entered.data, *deltas)
        except Exception as error:
            if getattr(error, "sqlstate", None) != "23505":
                raise
            row = None
        if row is None or not row[0]:
            return await self._transaction(connection, append_fully(layout, request), reading=False)
        app = (row[1], state_of_document(row[1], "table app_states")) if entered.app else None
        user = (row[2], state_of_document(row[2], "table user_states")) if entered.user else None
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


def _known_parameters(known: Known | None) -> tuple[Any, ...]:
    """$4 … $9 of `_SNAPSHOT`."""
    if known is None:
        return None, None, "", -1, *known_place(known)
    marker = known.marker
    return marker.created_raw, marker.updated_raw, marker.last_id, marker.twins, *known_place(known)


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
