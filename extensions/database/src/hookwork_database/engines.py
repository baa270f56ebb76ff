"""Engines of SQLAlchemy as the way to a database: used as they are, and never closed (services DB-4, spec DBP-14)."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hookwork.errors import ConfigurationError
from hookwork_database.sqlite.connecting import Connector
from hookwork_database.store import Store


def store_of_engine(engine: Any, *, create_schema: bool) -> Store:
    """The store of a SQLAlchemy engine.

    Args:
        engine: an `Engine` on SQLite (in memory: with ``poolclass=StaticPool``), or an `AsyncEngine` on SQLite
            (aiosqlite, a file), PostgreSQL (asyncpg), MySQL or MariaDB (asyncmy).
        create_schema: whether absent tables are created at first use.

    Raises:
        ConfigurationError: another kind of engine, or one whose driver cannot be used.
    """
    dialect, driver = getattr(engine, "dialect", None), getattr(engine, "driver", "")
    if dialect is None or not hasattr(engine, "raw_connection"):
        raise ConfigurationError(f"a database is named by a URL or a SQLAlchemy engine, not {type(engine).__name__}")
    if dialect.name == "sqlite":
        from hookwork_database.sqlite.store import SqliteStore

        return SqliteStore(_sqlite_connector(engine), create=create_schema)
    if not dialect.is_async:
        raise ConfigurationError(
            f"the engine's driver {driver!r} blocks the event loop; use create_async_engine with asyncpg or asyncmy"
        )
    where = f"the engine {engine.url.render_as_string(hide_password=True)!r}"
    if driver == "asyncpg":
        from hookwork_database.servers.postgresql import PostgresStore

        return PostgresStore("", create=create_schema, connections=EngineConnections(engine), where=where)
    if driver == "asyncmy":
        from hookwork_database.servers.mysql import MySqlStore

        return MySqlStore("", create=create_schema, connections=AutocommitConnections(engine), where=where)
    raise ConfigurationError(f"{where} uses {driver!r}; the drivers that can be used are asyncpg and asyncmy")


def _sqlite_connector(engine: Any) -> Connector:
    path = engine.url.database or ":memory:"
    if path != ":memory:":
        # Connections of the engine's own pool belong to the threads or tasks that take them; the writing and the
        # reading thread open the same file by themselves.
        return Connector(path)
    if getattr(engine.dialect, "is_async", False) or type(engine.pool).__name__ != "StaticPool":
        raise ConfigurationError(
            "a SQLite engine in memory must share one connection: create_engine('sqlite://', poolclass=StaticPool, "
            "connect_args={'check_same_thread': False})"
        )
    return SharedConnector(engine)


class SharedConnector(Connector):
    """The one connection of an engine in memory. It goes back to the engine as it was."""

    def __init__(self, engine: Any) -> None:
        super().__init__(":memory:")
        self._engine = engine
        self._borrowed: Any = None
        self._level: Any = None

    def connect(self) -> sqlite3.Connection:
        """Borrow it."""
        self._borrowed = self._engine.raw_connection()
        db: sqlite3.Connection = self._borrowed.driver_connection
        self._level, db.isolation_level = db.isolation_level, None
        db.execute("PRAGMA foreign_keys=ON")
        return db

    def disconnect(self, db: sqlite3.Connection) -> None:
        """Give it back."""
        db.isolation_level = self._level
        self._borrowed.close()


class EngineConnections:
    """Driver connections that an async engine's pool lends."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend one; the engine's pool decides what becomes of it."""
        from sqlalchemy.util import greenlet_spawn

        lent = await self._engine.raw_connection()
        try:
            yield lent.driver_connection
        finally:
            await greenlet_spawn(lent.close)

    async def close(self) -> None:
        """The engine is its owner's to close."""


class AutocommitConnections(EngineConnections):
    """The same for asyncmy, which SQLAlchemy keeps in a transaction of its own."""

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend one in autocommit and READ COMMITTED; it goes back as it came."""
        async with super().connection() as connection:
            await connection.autocommit(True)
            try:
                yield connection
            finally:
                if connection.connected:
                    await connection.autocommit(False)
