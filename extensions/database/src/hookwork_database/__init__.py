"""Sessions in SQL databases: SQLite, PostgreSQL, MySQL and MariaDB."""

from __future__ import annotations

from hookwork_database.service import DatabaseSessionService
from hookwork_database.sqlite.connecting import Connector
from hookwork_database.sqlite.store import SqliteStore


def sqlite_sessions(path: str, **options: object) -> DatabaseSessionService:
    return DatabaseSessionService(SqliteStore(Connector(path)), **options)  # type: ignore[arg-type]
