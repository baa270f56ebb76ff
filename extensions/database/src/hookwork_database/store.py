"""What the session service asks of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hookwork.records.frozen import FrozenDict
from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import Layout
from hookwork_database.plans import Created, Listed, Plan
from hookwork_database.reading import Known, Snapshot, Want
from hookwork_database.writing import AppendRequest, Outcome

T = TypeVar("T")

#: Called in the event loop with the outcome of an append, or with the error that prevented it.
Done = Callable[[Outcome | None, BaseException | None], None]


class Store(ABC):
    """A database. Every method raises `BackendError` for a driver's failure, with the driver's error as its cause."""

    @abstractmethod
    async def open(self) -> Layout:
        """Connect, find out the layout, create it where that is wanted and absent; repeated calls are cheap."""

    @abstractmethod
    async def create_schema(self) -> None:
        """Create the tables of google-adk's version 1 where they are absent; two processes may do so at once."""

    @abstractmethod
    async def create(
        self, key: SessionKey, micros: int, app: Mapping[str, Any], user: Mapping[str, Any], own: Mapping[str, Any]
    ) -> Created | None:
        """Insert a session; None when its id is taken."""

    @abstractmethod
    async def read(self, key: SessionKey, known: Known | None, want: Want) -> Snapshot | None:
        """Read a session in one snapshot; None when there is none."""

    @abstractmethod
    def append(self, request: AppendRequest, done: Done) -> None:
        """Store an event and call ``done`` in the loop, whatever becomes of the task that waits (services GEN-5)."""

    @abstractmethod
    async def list(self, app_name: str, user_id: str | None) -> list[Listed]:
        """The sessions of an app, or of one of its users."""

    @abstractmethod
    async def delete(self, key: SessionKey) -> None:
        """Remove a session and its events."""

    @abstractmethod
    async def user_state(self, app_name: str, user_id: str) -> FrozenDict:
        """A user's shared state."""

    @abstractmethod
    async def carry(self, plan: Callable[[Layout], Plan[T]], *, reading: bool) -> T:
        """Carry out a plan in a transaction of its own; ``reading``: in one snapshot, and nothing is written."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is under way and let go of the database."""
