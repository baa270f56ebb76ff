"""The way to a Spanner database: sqlalchemy-spanner's engine, of which the client below is used (spec DBP-1).

The DB-API layer between the two parses every statement and remembers every row for its own replays, which costs more
than a whole append; the plans of hookwork-database need neither, so they run on the client's sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from hookwork.errors import ConfigurationError


class Place(NamedTuple):
    """A database, by the three names that find it."""

    project: str
    instance: str
    database: str


def engine_of(place: Place) -> Any:
    """A SQLAlchemy engine on a database; nothing is connected.

    Raises:
        ConfigurationError: sqlalchemy-spanner is not installed.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.engine.url import URL
    from sqlalchemy.exc import NoSuchModuleError
    from sqlalchemy.pool import NullPool

    from hookwork_spanner.layout import DIALECT

    path = f"projects/{place.project}/instances/{place.instance}/databases/{place.database}"
    try:
        return create_engine(URL.create(DIALECT, database=path), poolclass=NullPool)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigurationError(
            "sessions on Spanner need sqlalchemy-spanner; install it with: pip install hookwork-spanner"
        ) from error


class EngineDatabase:
    """The client's database behind an engine, connected at first use.

    Args:
        make_engine: gives one of sqlalchemy-spanner; asked at first use, in a thread, since that imports the client.
        owned: whether it ends with the service; a given one does not (services DB-4).
        run: carries blocking work out in a thread.
    """

    def __init__(self, make_engine: Callable[[], Any], *, owned: bool, run: Callable[[Callable[[], Any]], Any]) -> None:
        self._make_engine = make_engine
        self._engine: Any = None
        self._owned = owned
        self._run = run
        self._connection: Any = None
        self._connecting = asyncio.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend the database; any number of tasks may have it at once."""
        if self._connection is None:
            async with self._connecting:
                if self._connection is None:
                    self._connection = await self._run(self._connect)
        yield self._connection.database

    def _connect(self) -> Any:
        """A DB-API connection of our own: giving one back makes the engine reset it, which has nothing to reset."""
        self._engine = self._engine or self._make_engine()
        lent = self._engine.raw_connection()
        connection = lent.driver_connection
        lent.detach()
        return connection

    async def close(self) -> None:
        """End the connection, and the engine when it is ours."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._run(connection.close)
        if self._owned and self._engine is not None:
            await self._run(self._engine.dispose)
