"""Which layout a SQLite file has, by its columns, and the tables of a new one (services DB-8, DB-10)."""

from __future__ import annotations

import sqlite3

from hookwork.errors import ConfigurationError
from hookwork_database.layouts.adk import INVOCATION_END, INVOCATION_INDEX, AdkLayout, AdkSqliteLayout
from hookwork_database.layouts.adk_go import AdkGoLayout
from hookwork_database.layouts.base import Layout
from hookwork_database.layouts.versions import check_version

_TABLES = (
    "CREATE TABLE IF NOT EXISTS adk_internal_metadata ("
    '"key" VARCHAR(128) NOT NULL, value VARCHAR(256) NOT NULL, PRIMARY KEY ("key"))',
    "CREATE TABLE IF NOT EXISTS sessions ("
    "app_name VARCHAR(128) NOT NULL, user_id VARCHAR(128) NOT NULL, id VARCHAR(128) NOT NULL, state TEXT NOT NULL, "
    "create_time DATETIME NOT NULL, update_time DATETIME NOT NULL, PRIMARY KEY (app_name, user_id, id))",
    "CREATE TABLE IF NOT EXISTS events ("
    "id VARCHAR(128) NOT NULL, app_name VARCHAR(128) NOT NULL, user_id VARCHAR(128) NOT NULL, "
    "session_id VARCHAR(128) NOT NULL, invocation_id VARCHAR(256) NOT NULL, timestamp DATETIME NOT NULL, "
    "event_data TEXT, PRIMARY KEY (id, app_name, user_id, session_id), "
    "FOREIGN KEY(app_name, user_id, session_id) REFERENCES sessions (app_name, user_id, id) ON DELETE CASCADE)",
    "CREATE INDEX IF NOT EXISTS idx_events_app_user_session_ts_id ON events "
    "(app_name, user_id, session_id, timestamp DESC, id DESC)",
    # Not google-adk's, which does not mind it: without it a cold tail looks through the whole session for the place
    # where its first invocation begins. It costs an append 2 % of its time and 20 bytes.
    f"CREATE INDEX IF NOT EXISTS {INVOCATION_INDEX} ON events ({INVOCATION_END})",
    "CREATE TABLE IF NOT EXISTS app_states ("
    "app_name VARCHAR(128) NOT NULL, state TEXT NOT NULL, "
    "update_time DATETIME NOT NULL, PRIMARY KEY (app_name))",
    "CREATE TABLE IF NOT EXISTS user_states ("
    "app_name VARCHAR(128) NOT NULL, user_id VARCHAR(128) NOT NULL, state TEXT NOT NULL, "
    "update_time DATETIME NOT NULL, PRIMARY KEY (app_name, user_id))",
    "INSERT OR IGNORE INTO adk_internal_metadata (\"key\", value) VALUES ('schema_version', '1')",
)


def create_tables(db: sqlite3.Connection) -> None:
    """Create what is absent of the version 1 layout. Runs inside a transaction, so of two processes one waits."""
    for statement in _TABLES:
        db.execute(statement)


def layout_of(db: sqlite3.Connection, where: str, *, create: bool, pickles: str | None = None) -> Layout:
    """The layout of a database; its tables are created when there are none and that is wanted.

    ``pickles`` is the time zone of a version 0 file that may be opened for reading.

    Raises:
        ConfigurationError: no tables and none may be made, or tables nobody may write to.
    """
    columns = {row[1]: str(row[2]).upper() for row in db.execute("PRAGMA table_info(events)")}
    if not columns:
        if not create:
            raise ConfigurationError(
                f"{where} holds no sessions; call create_schema() on the service once, or make it with "
                "create_schema=True"
            )
        create_tables(db)
        return AdkLayout(indexed=True)
    if "event_data" in columns:
        return _document_layout(db, where, columns)
    if "actions" in columns:
        return _column_layout(db, where, columns, pickles)
    raise ConfigurationError(
        f"{where}: the table events has the columns {', '.join(columns)}, which no known layout has; name another file"
    )


def _document_layout(db: sqlite3.Connection, where: str, columns: dict[str, str]) -> Layout:
    if columns.get("timestamp") == "REAL":
        return AdkSqliteLayout()
    if db.execute("PRAGMA table_info(adk_internal_metadata)").fetchall():
        check_version(db.execute("SELECT value FROM adk_internal_metadata WHERE \"key\" = 'schema_version'"), where)
    indexes = {row[1] for row in db.execute("PRAGMA index_list(events)")}
    return AdkLayout(indexed=INVOCATION_INDEX in indexes)


def _column_layout(db: sqlite3.Connection, where: str, columns: dict[str, str], pickles: str | None) -> Layout:
    """ADK-Go's tables, or google-adk's version 0, which differ in what ``actions`` holds (services DB-8, ADKDB-7)."""
    row = db.execute("SELECT actions FROM events WHERE actions IS NOT NULL LIMIT 1").fetchone()
    start = row[0][:1] if row is not None and row[0] else None
    if start in (b"{", "{") or (start is None and "routes_json" in columns):
        return AdkGoLayout()
    if pickles is not None:
        from hookwork_database.layouts.pickled import PickledLayout

        return PickledLayout(pickles)
    raise ConfigurationError(
        f"{where} is of google-adk's version 0, whose events hold pickles; it is read by the migration only: "
        "hookwork migrate SOURCE TARGET --allow-pickles"
    )
