"""Sessions in SQLite, PostgreSQL, MySQL and MariaDB; memory in SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_database.memory.service import SqliteMemoryService
    from hookwork_database.opening import memory_service, session_service
    from hookwork_database.sealing import Cipher, SealError, cipher_of_keys
    from hookwork_database.service import DatabaseSessionService

_HOMES = {
    "Cipher": "hookwork_database.sealing",
    "DatabaseSessionService": "hookwork_database.service",
    "SealError": "hookwork_database.sealing",
    "SqliteMemoryService": "hookwork_database.memory.service",
    "cipher_of_keys": "hookwork_database.sealing",
    "memory_service": "hookwork_database.opening",
    "session_service": "hookwork_database.opening",
}

__all__ = [
    "Cipher",
    "DatabaseSessionService",
    "SealError",
    "SqliteMemoryService",
    "cipher_of_keys",
    "memory_service",
    "session_service",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value
