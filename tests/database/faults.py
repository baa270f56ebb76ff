"""Failures at each step of an append on a server (services CS-27, BEY-11): nothing of it may be stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count
from typing import Any

import pytest

from hookwork_database.servers.store import ServerStore

Faults = Mapping[str, Callable[[], AbstractContextManager[object]]]


@contextmanager
def _fast_path_fails(store: type[ServerStore]) -> Iterator[None]:
    async def fail(*_: object) -> None:
        raise ValueError("the fast path failed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_append_fast", fail)
        yield


@contextmanager
def _statement_fails(store: type[ServerStore], number: int) -> Iterator[None]:
    """The append goes the full way, and fails at its statement of that number, from 1."""
    said = count(1)
    fetch = store._fetch

    async def counted(self: Any, connection: Any, sql: str, parameters: tuple[Any, ...]) -> Any:
        begins = sql.split()[0] in ("START", "SET", "COMMIT", "ROLLBACK")
        if not begins and next(said) == number:
            raise ValueError(f"statement {number} failed")
        return await fetch(self, connection, sql, parameters)

    async def never(*_: object) -> None:
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_append_fast", never)
        patch.setattr(store, "_fetch", counted)
        yield


@contextmanager
def _commit_fails(store: type[ServerStore], hang_up: Callable[[Any], None]) -> Iterator[None]:
    """All statements are through, and the line is cut before the commit."""

    async def never(*_: object) -> None:
        return None

    end = store._end

    async def fail(self: Any, connection: Any, *, commit: bool) -> None:
        if not commit:
            await end(self, connection, commit=False)
            return
        hang_up(connection)
        raise ValueError("no commit")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_append_fast", never)
        patch.setattr(store, "_end", fail)
        yield


def faults_of(store: type[ServerStore], hang_up: Callable[[Any], None], *, statements: int) -> Faults:
    """The fast path, each statement of the full one, and the commit.

    Args:
        hang_up: cuts a connection of the driver. statements: how many the full append has.
    """
    return {
        "fast path": partial(_fast_path_fails, store),
        **batch_faults_of(store, hang_up, statements=statements),
    }


def batch_faults_of(store: type[ServerStore], hang_up: Callable[[Any], None], *, statements: int) -> Faults:
    """Each statement of a batch, which always goes the full way, and the commit."""
    return {
        **{f"statement {n}": partial(_statement_fails, store, n) for n in range(1, statements + 1)},
        "commit": partial(_commit_fails, store, hang_up),
    }
