"""Provider hooks of hookwork-database: what the URLs of SQL databases stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry
    from hookwork.services import MemoryService, SessionService

_SCHEMES = frozenset({"sqlite", "postgresql", "postgres", "mysql", "mariadb"})


def _dialect(url: str) -> str:
    """The scheme without a driver suffix, ``""`` when it is not one of ours."""
    scheme = url.partition(":")[0].partition("+")[0].lower()
    return scheme if scheme in _SCHEMES and ":" in url else ""


@hookimpl
def create_session_service(url: str, settings: dict[str, Any]) -> SessionService | None:
    """Sessions in a database; the options are in the README."""
    if not _dialect(url):
        return None
    from hookwork_database.opening import session_service

    return session_service(url, settings=settings)


@hookimpl
def create_memory_service(url: str, settings: dict[str, Any]) -> MemoryService | None:
    """Memory in a SQLite file; options ``max_results``, ``synchronous``, ``busy_timeout``."""
    if _dialect(url) != "sqlite":
        return None
    from hookwork_database.opening import memory_service

    return memory_service(url, settings=settings)


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """``hookwork migrate``."""
    cli.add("migrate", "Copy sessions into a fresh database.", "hookwork_database.migration.command:command")
