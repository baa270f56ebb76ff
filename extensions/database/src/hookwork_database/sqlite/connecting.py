"""Connections to one SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from hookwork.errors import BackendError


class Connector:
    """Makes the connections of a store, each in the thread that will use it.

    Args:
        path: the file; ``:memory:`` is a database of its own that lives as long as the service.
        synchronous: ``normal`` keeps a file whole through anything and what was stored through a crash of the process;
            ``full`` keeps it through a loss of power as well, and costs about twice (spec DBP-3).
        busy_timeout: milliseconds to wait for another process's write.
        read_only: open the file for reading; it must exist, and nothing of it changes.
        make: gives a connection in place of opening the path (an engine's, say).
    """

    def __init__(
        self,
        path: str,
        *,
        synchronous: str = "normal",
        busy_timeout: int = 5000,
        read_only: bool = False,
        make: Callable[[], sqlite3.Connection] | None = None,
    ) -> None:
        self.path = path
        self.in_memory = path in ("", ":memory:")
        self.where = "SQLite in memory" if self.in_memory else f"SQLite file {path!r}"
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._read_only = read_only
        self._make = make

    def connect(self) -> sqlite3.Connection:
        """A connection with its pragmas set. Raises BackendError when the folder is absent."""
        if not self.in_memory and self._make is None:
            folder = Path(self.path).absolute().parent
            if not folder.is_dir():
                raise BackendError(f"{self.where}: there is no folder {str(folder)!r}; make it first", code="no_folder")
        db = self._make() if self._make is not None else self._opened()
        try:
            return self._prepared(db)
        except sqlite3.Error:
            db.close()
            raise

    def _prepared(self, db: sqlite3.Connection) -> sqlite3.Connection:
        db.isolation_level = None
        db.execute(f"PRAGMA busy_timeout={int(self._busy_timeout)}")
        if self._read_only:
            return db
        try:
            if not self.in_memory:
                db.execute("PRAGMA journal_mode=WAL").fetchall()
                db.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
            # A file that cannot be written can still be read, in the mode it has.
        db.execute(f"PRAGMA synchronous={'FULL' if self._synchronous == 'full' else 'NORMAL'}")
        db.execute("PRAGMA foreign_keys=ON")
        return db

    def disconnect(self, db: sqlite3.Connection) -> None:
        """End a connection; the last one of a file moves the write-ahead log into it."""
        db.close()

    def _opened(self) -> sqlite3.Connection:
        if not self._read_only:
            return sqlite3.connect(self.path, check_same_thread=False)
        uri = f"{Path(self.path).absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, check_same_thread=False)
