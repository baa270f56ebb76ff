"""What SQLite's errors mean (services GEN-6, DB-12)."""

from __future__ import annotations

import sqlite3

from hookwork.errors import BackendError

#: Primary result code → (code, what it means, whether the same call may succeed later).
_MEANINGS = {
    sqlite3.SQLITE_BUSY: ("locked", "another connection holds the write lock", True),
    sqlite3.SQLITE_LOCKED: ("locked", "another connection holds the write lock", True),
    sqlite3.SQLITE_FULL: ("disk_full", "the disk is full; free some space and append again", False),
    sqlite3.SQLITE_READONLY: (
        "read_only",
        "the file cannot be written; look at its and its folder's permissions",
        False,
    ),
    sqlite3.SQLITE_CANTOPEN: ("cannot_open", "the file cannot be opened; look at its folder and permissions", False),
    sqlite3.SQLITE_CORRUPT: ("corrupt", "the file is damaged; restore it from a backup", False),
    sqlite3.SQLITE_NOTADB: ("not_a_database", "the file is no SQLite database; name another one", False),
    sqlite3.SQLITE_IOERR: ("io", "reading or writing the file failed", False),
    sqlite3.SQLITE_TOOBIG: ("too_big", "a value is longer than SQLite allows", False),
}


def backend_error(error: sqlite3.Error, where: str) -> BackendError:
    """The error that callers see; ``where`` names the database."""
    number = getattr(error, "sqlite_errorcode", None)
    code, meaning, retryable = _MEANINGS.get(
        (number or 0) & 0xFF, (getattr(error, "sqlite_errorname", "") or "sqlite", "SQLite refused", False)
    )
    found = BackendError(f"{where}: {meaning} ({error})", code=code, retryable=retryable)
    found.__cause__ = error
    return found
