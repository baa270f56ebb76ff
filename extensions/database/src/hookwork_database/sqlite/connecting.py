"""Connections to one SQLite database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from hookwork.errors import BackendError

#: Bytes of write-ahead log between two checkpoints (`store`), which a durable append then overwrites in place.
_LOG_SIZE = 4 << 20


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
        if self._synchronous == "full" and not self.in_memory and self._make is None:
            self._fill_log(db)
        db.execute("PRAGMA foreign_keys=ON")
        return db

    def _fill_log(self, db: sqlite3.Connection) -> None:
        """Give the write-ahead log its length at once: syncing a file that grows costs thirty times as much.

        Zeros are no frames to SQLite. They are written behind the log's end, while the writer's lock is held, so that
        nobody else's frames can be there.
        """
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return  # somebody writes, or nobody may: then it grows as it does
        try:
            with Path(f"{self.path}-wal").open("ab") as log:
                missing = _LOG_SIZE - log.tell()
                if missing > 0:
                    log.write(bytes(missing))
                    log.flush()
                    os.fsync(log.fileno())
        except OSError:
            pass  # no room or no right: appends will tell when it matters
        finally:
            db.execute("ROLLBACK")

    def disconnect(self, db: sqlite3.Connection) -> None:
        """End a connection; the last one of a file moves the write-ahead log into it."""
        db.close()

    def _opened(self) -> sqlite3.Connection:
        if not self._read_only:
            return sqlite3.connect(self.path, check_same_thread=False)
        uri = f"{Path(self.path).absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, check_same_thread=False)
