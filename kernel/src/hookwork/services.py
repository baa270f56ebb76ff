"""The contracts of sessions, artifacts and memory (services §2, §6, §7).

All operations are async and keyword-only, except `append_event(session, event)` and
`add_session_to_memory(session)`. A service is safe for concurrent use by many tasks of one event loop; `close` is
idempotent and use after it raises. Services raise only the errors of `hookwork.errors` (services GEN-6).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from hookwork.errors import UnsupportedOperationError
from hookwork.records.base import Record
from hookwork.records.content import Content, Part
from hookwork.records.event import Event
from hookwork.records.session import Session


class SessionCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a session backend can do; the conformance suite adapts on these, never on a name (SES-23)."""

    user_provided_session_id: bool = True
    server_assigned_event_id: bool = False
    detects_stale: bool = True
    session_id_pattern: str | None = None
    dropped_event_fields: frozenset[str] = frozenset()
    max_id_length: int | None = None
    supports_user_state_read: bool = True


class SessionPage(NamedTuple):
    """Some sessions of a list; ``next_page_token`` asks for those behind them, None at the end."""

    sessions: list[Session]
    next_page_token: str | None


class SessionService(ABC):
    """Stores sessions: an append-only log of events and the state that their deltas made."""

    capabilities: SessionCapabilities = SessionCapabilities()

    @abstractmethod
    async def create_session(
        self, *, app_name: str, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None
    ) -> Session:
        """A new session without events; a missing or blank id is made up. Raises SessionAlreadyExistsError."""

    @abstractmethod
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        num_recent_events: int | None = None,
        after: float | datetime | None = None,
        tail: int | str | None = None,
    ) -> Session:
        """A new handle on a session. Raises SessionNotFoundError.

        ``num_recent_events``: the newest n exactly (0: none). ``after``: events with a timestamp at or after it
        (epoch seconds or an aware datetime), filtered before the newest n are taken. ``tail``: at least n events, with
        call and response pairs whole and from the start of an invocation, or ``"summary"`` (LOG-8).
        """

    @abstractmethod
    async def refresh(self, session: Session) -> int:
        """Bring a handle up to date; how many events were added. Raises SessionNotFoundError."""

    async def load_earlier(self, session: Session, count: int) -> int:
        """Put older events in front of a partial handle; how many were added."""
        return 0

    @abstractmethod
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> list[Session]:
        """Handles without events, by last update time, user, id; all users of the app when none is given."""

    async def list_session_page(
        self, *, app_name: str, user_id: str | None = None, limit: int = 100, page_token: str | None = None
    ) -> SessionPage:
        """Some of `list_sessions` in its order: at most ``limit`` (from 1) behind the place a token names (BEY-12).

        A session that is used meanwhile moves to the end: it may come twice, and none is missed. A service overrides
        this where it can read a page without reading all.

        Raises:
            ValidationError: ``limit`` is no whole number from 1, or the token is none of this service's.
        """
        from hookwork.session_pages import page_of

        return page_of(await self.list_sessions(app_name=app_name, user_id=user_id), limit, page_token)

    async def stream_events(
        self, *, app_name: str, user_id: str, session_id: str, page_size: int = 500
    ) -> AsyncGenerator[Event, None]:
        """The events of a session from the first on, as they are read; who stops early closes it (``aclosing``).

        A service overrides this where it can read on page by page, so that no long session is ever held as a whole.
        What is appended meanwhile may come or not.

        Args:
            page_size: events read at once, from 1.

        Raises:
            SessionNotFoundError: before the first event.
            ValidationError: ``page_size`` is no whole number from 1.
        """
        from hookwork.session_pages import checked_count

        checked_count("page_size", page_size)
        session = await self.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        for event in session.events:
            yield event

    @abstractmethod
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session and its events; app and user state stay. An absent one is no error."""

    async def purge_sessions(self, *, app_name: str, user_id: str | None = None, unused_for: float) -> int:
        """Remove the sessions that were not used for so many seconds, the oldest first; how many (BEY-14).

        Each is looked at once more before it goes: one that was used meanwhile stays. App and user state stay.

        Raises:
            ValidationError: ``unused_for`` is no number from 0.
        """
        from hookwork.session_pages import purge

        return await purge(self, app_name, user_id, unused_for)

    @abstractmethod
    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        """Store an event and apply its state delta; the stored event (SES-11 … SES-22).

        A partial event is returned as it is and not stored. After any failure nothing is stored and the handle is
        unchanged. ``redelivery``: an event of that id is returned uncompared (SES-19).

        Raises:
            SessionNotFoundError: the session is gone.
            StaleSessionError: foreign events touched a key this handle wrote or the event writes.
            EventConflictError: the id is taken by another event.
            ValidationError: not this service's handle, or a value no store can hold.
        """

    async def close(self) -> None:
        """Free what the service holds."""


class MemoryEntry(Record):
    """One remembered piece (MEM-3). ``timestamp`` is aware UTC."""

    id: str = ""
    content: Content | None = None
    author: str = ""
    timestamp: datetime | None = None
    custom_metadata: dict[str, Any] | None = None
    score: float | None = None
    session_id: str = ""


class MemoryService(ABC):
    """Remembers sessions per (app, user) and finds them by words or meaning."""

    @abstractmethod
    async def add_session_to_memory(self, session: Session) -> None:
        """Take a session in; a repeat replaces its earlier contribution (MEM-1)."""

    @abstractmethod
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        """Entries of this app and user that fit the query, best first; empty when none."""

    async def add_memory(self, *, app_name: str, user_id: str, entries: list[MemoryEntry]) -> None:
        """Take single entries in, where the backend can."""
        raise UnsupportedOperationError(f"{type(self).__name__} cannot take single memories; add a session instead")

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """Forget one entry, where the backend can."""
        raise UnsupportedOperationError(f"{type(self).__name__} cannot delete single memories")

    async def close(self) -> None:
        """Free what the service holds."""


class ArtifactVersion(Record):
    """What is known of one stored version (ART-10). ``create_time`` is aware UTC."""

    version: int = 0
    canonical_uri: str = ""
    custom_metadata: dict[str, Any] | None = None
    create_time: datetime | None = None
    mime_type: str | None = None


class ArtifactService(ABC):
    """Versioned files. Names starting ``user:`` belong to the user, all others to the session (ART-6).

    ``first_version`` is the number of a file's first version. ``version=None`` means the latest (0 too, unless the
    numbering starts at 0); a negative one is refused.
    """

    first_version: int = 1
    #: Whether `open_artifact` and `save_artifact_stream` work (ART-16): they never hold a whole file in memory.
    streaming: bool = False

    @abstractmethod
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        filename: str,
        artifact: Part,
        custom_metadata: Mapping[str, Any] | None = None,
        save_id: str | None = None,
    ) -> int:
        """Store a text or inline-data part as the next version and return its number.

        ``save_id`` is an idempotency key: a repeat gives the same version (ART-15).
        """

    @abstractmethod
    async def load_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> Part:
        """The stored part. Raises ArtifactNotFoundError."""

    @abstractmethod
    async def list_artifacts(self, *, app_name: str, user_id: str, session_id: str) -> list[str]:
        """Names of this session and of its user, unique, by code point."""

    @abstractmethod
    async def delete_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> None:
        """Remove one version, or all; an absent one is no error."""

    @abstractmethod
    async def list_versions(self, *, app_name: str, user_id: str, session_id: str, filename: str) -> list[int]:
        """Ascending. Raises ArtifactNotFoundError."""

    @abstractmethod
    async def get_artifact_version(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> ArtifactVersion:
        """What is known of a version. Raises ArtifactNotFoundError."""

    async def prune_artifacts(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        filename: str | None = None,
        keep_versions: int = 0,
        max_age: float = 0,
    ) -> int:
        """Remove older versions of a file, or of all files of a session and its user; how many were removed (BEY-14).

        Args:
            keep_versions: how many of the newest stay; 0: all. The newest always does.
            max_age: seconds after which an older version goes; 0: never.

        Raises:
            ValidationError: a number is negative, or no number.
        """
        from hookwork.artifact_retention import Retention, prune_file

        retention = Retention.checked(keep_versions, max_age)
        scope = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        names = [filename] if filename is not None else await self.list_artifacts(**scope)
        return sum([await prune_file(self, {**scope, "filename": name}, retention) for name in names])

    async def open_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> tuple[ArtifactVersion, AsyncGenerator[bytes, None]]:
        """What is known of a version, and its bytes in chunks, where the backend can (ART-16).

        Nothing is held open before the first chunk is asked for; who stops early closes the stream (``aclosing``).
        Raises ArtifactNotFoundError.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot stream; use load_artifact")

    async def save_artifact_stream(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        filename: str,
        source: AsyncIterable[bytes],
        mime_type: str | None = None,
        display_name: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        save_id: str | None = None,
    ) -> int:
        """Store bytes that come in chunks as the next version, where the backend can, and return its number (ART-16).

        ``mime_type``: guessed from the file name when absent. A source that raises leaves no version; its error is
        raised. ``save_id`` as for `save_artifact`.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot stream; use save_artifact")

    async def close(self) -> None:
        """Free what the service holds."""
