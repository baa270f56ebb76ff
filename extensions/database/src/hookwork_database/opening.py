"""From a URL or an engine to a service. Nothing is connected here (services URL-8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hookwork.errors import ConfigurationError
from hookwork.urls import redact_url
from hookwork_database.options import read_options, split_url, sqlite_path
from hookwork_database.sealing import cipher_of_variable
from hookwork_database.service import DatabaseSessionService
from hookwork_database.store import Store

if TYPE_CHECKING:
    from hookwork_database.memory.service import SqliteMemoryService

#: Driver suffixes that block the event loop, and what to write instead (services URL-4).
_BLOCKING = {
    "postgresql+psycopg2": "postgresql+asyncpg",
    "postgresql+pg8000": "postgresql+asyncpg",
    "mysql+pymysql": "mysql+asyncmy",
    "mysql+mysqldb": "mysql+asyncmy",
    "mariadb+pymysql": "mariadb+asyncmy",
    "mariadb+mysqldb": "mariadb+asyncmy",
    "mariadb+mariadbconnector": "mariadb+asyncmy",
}
_SUFFIXES = {
    "sqlite": ("", "aiosqlite", "pysqlite"),
    "postgresql": ("", "asyncpg", "psycopg"),
    "mysql": ("", "asyncmy", "aiomysql"),
    "mariadb": ("", "asyncmy", "aiomysql"),
}
#: Options of the service; the others belong to the store.
_OF_SERVICE = ("foreign_appends", "cache_sessions", "key_variable")


def dialect_of(url: str) -> str:
    """The dialect of a URL, ``postgres`` being ``postgresql``; a driver suffix that fits is cut off.

    Raises:
        ConfigurationError: another database, or a driver that blocks.
    """
    scheme, _, _ = split_url(url)
    dialect, _, suffix = scheme.partition("+")
    dialect = "postgresql" if dialect == "postgres" else dialect
    if f"{dialect}+{suffix}" in _BLOCKING:
        better = _BLOCKING[f"{dialect}+{suffix}"]
        raise ConfigurationError(f"{redact_url(url)!r}: driver {suffix!r} blocks the event loop; write {better}://…")
    if dialect not in _SUFFIXES or suffix not in _SUFFIXES[dialect]:
        raise ConfigurationError(
            f"{redact_url(url)!r}: sessions live in sqlite, postgresql, mysql or mariadb; leave the driver out"
        )
    return dialect


def session_service(url: str, *, settings: Mapping[str, Any] | None = None) -> DatabaseSessionService:
    """The session service of a database URL.

    Args:
        url: e.g. ``sqlite:///sessions.db``, ``postgresql://user:password@host/database``; its query holds options.
        settings: options too, from ``[tool.hookwork.database]``; those of the URL win.

    Raises:
        ConfigurationError: the URL or an option is wrong.
    """
    return DatabaseSessionService(store_of(url, settings=settings), **service_options(url, settings))


def service_options(url: str, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of a service that its URL, or the settings, give, and that are not its database's.

    Raises:
        ConfigurationError: an option is wrong, or the variable that ``key_variable`` names holds no keys.
    """
    dialect = dialect_of(url)
    _, _, query = split_url(url)
    options, _ = read_options(url, query, settings, dialect, "sessions", strict=dialect == "sqlite")
    found = {name: options[name] for name in _OF_SERVICE if name in options}
    variable = found.pop("key_variable", None)
    return found if variable is None else {**found, "cipher": cipher_of_variable(variable)}


def _check_port(url: str, body: str) -> None:
    """The drivers would raise a bare ValueError, with the whole URL in it or at the first statement only."""
    parts = urlsplit(f"x:{body}")
    if "," in parts.netloc:  # several hosts, as PostgreSQL allows
        return
    try:
        _ = parts.port
    except ValueError as error:
        raise ConfigurationError(f"{redact_url(url)!r}: the port is no number from 0 to 65535") from error


def store_of(url: str, *, settings: Mapping[str, Any] | None = None, create_schema: bool | None = None) -> Store:
    """The database of a URL, without a service around it.

    Args:
        create_schema: whether absent tables are created; None: as the URL or the settings say, else on SQLite only.

    Raises:
        ConfigurationError: the URL or an option is wrong.
    """
    dialect = dialect_of(url)
    _, body, query = split_url(url)
    if dialect != "sqlite":
        _check_port(url, body)
    options, rest = read_options(url, query, settings, dialect, "sessions", strict=dialect == "sqlite")
    for name in _OF_SERVICE:
        options.pop(name, None)
    asked = options.pop("create_schema", None)
    create = create_schema if create_schema is not None else asked if asked is not None else dialect == "sqlite"
    if dialect == "sqlite":
        from hookwork_database.sqlite.connecting import Connector
        from hookwork_database.sqlite.store import SqliteStore

        return SqliteStore(Connector(sqlite_path(url, body), **options), create=create)
    if dialect == "postgresql":
        from hookwork_database.servers.postgresql import PostgresStore

        return PostgresStore(body, driver_options=rest, create=create, **options)
    from hookwork_database.servers.mysql import MySqlStore

    return MySqlStore(body, driver_options=rest, create=create, **options)


def memory_service(url: str, *, settings: Mapping[str, Any] | None = None) -> SqliteMemoryService:
    """The memory service of a ``sqlite:`` URL.

    Raises:
        ConfigurationError: another database, or the URL or an option is wrong.
    """
    from hookwork_database.memory.service import SqliteMemoryService
    from hookwork_database.sqlite.connecting import Connector

    dialect = dialect_of(url)
    if dialect != "sqlite":
        raise ConfigurationError(
            f"{redact_url(url)!r}: memory lives in SQLite only; write sqlite:///memory.db, or memory: for the process"
        )
    _, body, query = split_url(url)
    options, _ = read_options(url, query, settings, dialect, "memory", strict=True)
    if not options.pop("unsealed", False) and (settings or {}).get("key_variable"):
        raise ConfigurationError(
            f"{redact_url(url)!r}: sessions are sealed (key_variable), and memory in SQLite cannot be: it is searched "
            "by its words. Write memory: for memory in the process, or add the option unsealed=true to keep it in plain"
        )
    own: dict[str, Any] = {name: options.pop(name) for name in ("max_results", "candidates") if name in options}
    if options.pop("ranker", "none") == "embeddings":
        from hookwork_database.memory.embeddings import EmbeddingRanker

        own["ranker"] = EmbeddingRanker()
    return SqliteMemoryService(Connector(sqlite_path(url, body), **options), **own)
