"""What the fast paths of the servers share: which parts an append has, and shared states that are written whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hookwork.records.deleted import applied
from hookwork.records.frozen import FrozenDict
from hookwork_database.entered import Entered
from hookwork_database.layouts.base import Layout
from hookwork_database.writing import AppendRequest


class Parts(NamedTuple):
    """Which scopes of state an append touches; its statement depends on nothing else."""

    own: bool
    app: bool
    user: bool


def parts_of(entered: Entered) -> Parts:
    """The parts of an event's delta that are there (services DB-22)."""
    return Parts(bool(entered.own), bool(entered.app), bool(entered.user))


class SharedWrite(NamedTuple):
    """A shared state as it is to be written, where the row still is what the writer knows.

    Attributes:
        scope: ``app`` or ``user``.
        key: the key of its row.
        known: the column as the writer knows it; ``""``, which no row holds, when there was none.
        column, state: the column as it will be, and the map it stands for.
    """

    scope: str
    key: tuple[str, ...]
    known: Any
    column: Any
    state: FrozenDict


def shared_writes(layout: Layout, request: AppendRequest) -> Iterator[SharedWrite]:
    """The shared states that an append changes, in the order of the locks: app, user (services DB-12).

    For databases that cannot merge JSON in a statement: the whole row is replaced on condition that it is unchanged.
    """
    entered, known, key = request.entered, request.known, request.key
    for scope, delta, (column, state), row in (
        ("app", entered.app, known.app, key[:1]),
        ("user", entered.user, known.user, key[:2]),
    ):
        if delta:
            merged = layout.encode_state(applied(state, delta))
            after = layout.state(merged, f"the new {scope} state")
            yield SharedWrite(scope, row, column if column is not None else "", merged, after)
