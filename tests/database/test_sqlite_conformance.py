"""The SQLite store passes the session suite (services §8.1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.database.forgetful import Forgetful

import hookwork_database.sqlite.store as store_module
from hookwork.services import SessionService
from hookwork_database import DatabaseSessionService, session_service
from hookwork_database.sqlite.connecting import Connector
from hookwork_database.sqlite.store import SqliteStore
from hookwork_testkit.suites import SessionServiceSuite


@contextmanager
def failing(name: str) -> Iterator[None]:
    """Let one step of the append raise inside the writing thread."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(f"{name} failed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, name, fail)
        yield


@contextmanager
def failing_at(number: int) -> Iterator[None]:
    """Let a batch fail at its statement of that number, from 1."""
    said = itertools.count(1)
    execute = store_module._execute

    def counted(db: Any) -> Any:
        carried_out = execute(db)

        def run(sql: str, parameters: tuple[Any, ...]) -> Any:
            if next(said) == number:
                raise OSError(f"statement {number} failed")
            return carried_out(sql, parameters)

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "_execute", counted)
        yield


class TestInMemory(SessionServiceSuite):
    """``sqlite://``: one shared connection (services DB-20)."""

    async def make_service(self) -> SessionService:
        return session_service("sqlite://")

    async def make_refusing_service(self) -> SessionService:
        return session_service("sqlite:///:memory:?foreign_appends=refuse")


class TestFile(SessionServiceSuite):
    """A file, with everything at its defaults."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.files = (tmp_path / f"{number}.db" for number in itertools.count())
        self.paths: dict[SessionService, Path] = {}

    def build(self, path: Path, **options: Any) -> DatabaseSessionService:
        return DatabaseSessionService(SqliteStore(Connector(str(path))), **options)

    async def make_service(self) -> SessionService:
        path = next(self.files)
        service = self.build(path)
        self.paths[service] = path
        return service

    async def make_service_again(self, service: SessionService) -> SessionService:
        return self.build(self.paths[service])

    async def make_refusing_service(self) -> SessionService:
        return self.build(next(self.files), foreign_appends="refuse")

    def append_faults(self, service: SessionService) -> Mapping[str, Callable[[], AbstractContextManager[object]]]:
        """Before the write, after the event is in, and at the shared state (CS-27)."""
        names = ("append", "Appended", "merge_app")
        return {name: lambda name=name: failing(name) for name in names}  # type: ignore[misc]

    def batch_faults(self, service: SessionService) -> Mapping[str, Callable[[], AbstractContextManager[object]]]:
        """At each statement of the transaction: row, ids, events behind, shared state, events, row (BEY-11)."""
        return {f"statement {number}": partial(failing_at, number) for number in range(1, 11)}


class TestProcesses(TestFile):
    """Every handle is a process of its own: what others stored is always found by the database."""

    def build(self, path: Path, **options: Any) -> DatabaseSessionService:
        return Forgetful(SqliteStore(Connector(str(path))), **options)
