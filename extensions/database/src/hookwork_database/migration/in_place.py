"""Migrating a SQLite file in place: the copy takes the file's name, the file is kept beside it (services BEY-9)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hookwork.errors import BackendError, ConfigurationError
from hookwork.urls import redact_url
from hookwork_database.migration.copying import Report, migrate
from hookwork_database.opening import dialect_of
from hookwork_database.options import split_url, sqlite_path

#: What the file that was, and the copy while it is made, have behind their names.
KEPT, COPY = ".before-migration", ".migrating"
#: What SQLite puts beside a file.
_BESIDE = ("", "-wal", "-shm")


async def migrate_in_place(source: str, **options: Any) -> Report:
    """Copy a SQLite file's sessions into a fresh one, which takes its place when every session is in it.

    The file is locked against writers meanwhile, and kept under its name and `KEPT`. When something cannot be copied
    nothing is replaced.

    Args:
        source: the URL. options: those of `migrate`.

    Raises:
        ConfigurationError: not a file of SQLite, absent, or an earlier one is kept there still.
        BackendError: somebody else writes to it.
    """
    path = _file_of(source)
    kept, copy = path.with_name(path.name + KEPT), path.with_name(path.name + COPY)
    if kept.exists():
        raise ConfigurationError(f"{str(kept)!r} is there from an earlier migration; move or remove it")
    _remove(copy)
    query = source.partition("?")[2]
    target = f"sqlite:///{copy}" + (f"?{query}" if query else "")
    try:
        with _locked(path):
            report = await migrate(source, target, **options)
            if not report.rejected:
                _replace(path, copy, kept)
    finally:
        _remove(copy)
    return report


def _file_of(source: str) -> Path:
    if dialect_of(source) != "sqlite":
        raise ConfigurationError(
            f"{redact_url(source)!r} is no SQLite file; on a server name a fresh database as the TARGET"
        )
    found = sqlite_path(source, split_url(source)[1])
    path = Path(found)
    if found == ":memory:" or not path.exists():
        raise ConfigurationError(f"there is no file {found!r} to migrate")
    return path


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Nobody else writes to the file meanwhile; reading goes on."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise BackendError(
                f"{str(path)!r} is being written to ({error}); stop the program that uses it, then migrate",
                code="locked",
                retryable=True,
            ) from error
        yield
        db.execute("ROLLBACK")


def _replace(path: Path, copy: Path, kept: Path) -> None:
    """Of the file and what stands beside it, which keeps what was not moved into it yet; the new one comes last."""
    for beside in _BESIDE[::-1]:
        if (old := Path(f"{path}{beside}")).exists():
            os.replace(old, f"{kept}{beside}")
    os.replace(copy, path)


def _remove(copy: Path) -> None:
    for beside in _BESIDE:
        Path(f"{copy}{beside}").unlink(missing_ok=True)
