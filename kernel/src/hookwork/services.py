"""The contracts of sessions, artifacts and memory (services §2, §6, §7).

All operations are async and keyword-only, except `append_event(session, event)`, `append_events(session, events)` and
`add_session_to_memory(session)`. A service is safe for concurrent use by many tasks of one event loop; `close` is
idempotent and use after it raises. Services raise only the errors of `hookwork.errors` (services GEN-6).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from hookwork.errors import ArtifactNotFoundError, UnsupportedOperationError, ValidationError
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
    #: Whether a deleted state key is absent after a reload (BEY-13); else it reads as None.
    deletes_state: bool = False
    #: Whether `append_events` stores all or none (BEY-11); else each event is appended by itself.
    atomic_batches: bool = False
    #: Whether `delete_user` erases the state of a user too (BEY-14); else it raises when the sessions are gone.
    erases_users: bool = False


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

    async def get_user_state(self, *, app_name: str, user_id: str) -> Mapping[str, Any]:
        """The ``user:`` state of a user without a session, keys without prefix; empty for an unknown user (BEY-1).

        Raises:
            UnsupportedOperationError: the backend cannot (``capabilities.supports_user_state_read`` is False).
        """
        raise UnsupportedOperationError(
            f"{type(self).__name__} gives no state of a user without a session; read one of theirs"
        )

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """Erase the sessions of a user and the user's state; how many sessions (BEY-14). App state stays.

        A second call finds nothing and is no error. A service overrides this where it can erase the state too
        (``capabilities.erases_users``).

        Raises:
            PartlyErasedError: the sessions are gone, and state of the user is, or may be, still there.
        """
        from hookwork.errors import PartlyErasedError

        sessions = await self.list_sessions(app_name=app_name, user_id=user_id)
        for session in sessions:
            await self.delete_session(app_name=app_name, user_id=user_id, session_id=session.id)
        if sessions and not any(session.user_state for session in sessions):
            return len(sessions)
        kept = f"state of the user (user: keys), which {type(self).__name__} cannot delete"
        raise PartlyErasedError(
            f"user {user_id!r} in app {app_name!r}", erased={"sessions": len(sessions)}, kept=[kept]
        )

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

    async def append_events(self, session: Session, events: Sequence[Event]) -> list[Event]:
        """Store events that belong together, in order: all or none of them where ``capabilities.atomic_batches``.

        Partial events pass through. Repeating a batch that was stored changes nothing (SES-19). A service that cannot
        do better appends one after the other: after an error the first ones may be stored, and repeating the whole
        call stores the rest.

        Raises:
            EventConflictError: some of the events are stored already and others not, or with other content.
            ValidationError: two events of one id, and what `append_event` refuses.
            SessionNotFoundError, StaleSessionError: as `append_event`.
        """
        check_batch(events)
        return [await self.append_event(session, event) for event in events]

    async def flush(self) -> None:
        """Wait until what was handed in is stored (BEY-9); `close` does so too. Nothing to do for most services."""

    async def close(self) -> None:
        """Free what the service holds."""


def check_batch(events: Sequence[Event]) -> None:
    """Raise `ValidationError` unless these are events, no two of them with one id."""
    seen: set[str] = set()
    for number, event in enumerate(events):
        if not isinstance(event, Event):
            raise ValidationError(f"events[{number}] must be an Event, not {type(event).__name__}", path="events")
        if event.id and event.id in seen:
            raise ValidationError(f"two of the events have the id {event.id!r}; each needs its own", path="events")
        seen.add(event.id)


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

    async def add_events_to_memory(
        self, *, app_name: str, user_id: str, events: Sequence[Event], session_id: str = "", flush: bool = False
    ) -> None:
        """Take events in as they come, where the backend can; what was taken in before stays (BEY-6).

        Args:
            session_id: what the events belong to; in it an event of an id that was taken in takes its place.
            flush: a service that gathers events makes memories of them now; with no events too.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} takes whole sessions only; use add_session_to_memory")

    async def add_memory(self, *, app_name: str, user_id: str, entries: list[MemoryEntry]) -> None:
        """Take single entries in, where the backend can."""
        raise UnsupportedOperationError(f"{type(self).__name__} cannot take single memories; add a session instead")

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """Forget one entry, where the backend can."""
        raise UnsupportedOperationError(f"{type(self).__name__} cannot delete single memories")

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """Forget everything of a user, where the backend can; how many entries (BEY-14). Nothing there is no error."""
        raise UnsupportedOperationError(f"{type(self).__name__} cannot delete the memories of a user")

    async def close(self) -> None:
        """Free what the service holds."""


class ArtifactVersion(Record):
    """What is known of one stored version (ART-10). ``create_time`` is aware UTC.

    Attributes:
        sha256: of its bytes, in hexadecimal (BEY-17); None where another kit wrote it without one, and for a version
            that only names a file.
        file_uri: what such a version names: another artifact (``artifact://…``), or a file elsewhere (BEY-7).
    """

    version: int = 0
    canonical_uri: str = ""
    custom_metadata: dict[str, Any] | None = None
    create_time: datetime | None = None
    mime_type: str | None = None
    sha256: str | None = None
    file_uri: str | None = None


class ArtifactService(ABC):
    """Versioned files. Names starting ``user:`` belong to the user, all others to the session (ART-6).

    ``first_version`` is the number of a file's first version. ``version=None`` means the latest (0 too, unless the
    numbering starts at 0); a negative one is refused.
    """

    first_version: int = 1
    #: Whether `open_artifact` and `save_artifact_stream` work (ART-16): they never hold a whole file in memory.
    streaming: bool = False
    #: Whether `save_artifact` takes ``file_data`` parts, references to other artifacts among them (BEY-7).
    references: bool = False

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
        reuse_identical: bool = False,
    ) -> int:
        """Store a part with text, inline data or the URI of a file as the next version and return its number.

        A ``file_data`` part with an ``artifact://`` URI stands for a version of another file of this session or user:
        loading it gives what that one holds (BEY-7). Any other URI is given back as it is.

        Args:
            save_id: an idempotency key: a repeat gives the same version (ART-15).
            reuse_identical: when the latest version is the same in content, type, name and metadata, its number is
                given and nothing is written (BEY-17).

        Raises:
            ArtifactReferenceError: a reference is malformed, out of scope, circular or too deep.
            ArtifactNotFoundError: it points to a version that is not there.
        """

    @abstractmethod
    async def load_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> Part:
        """The stored part; of a reference, the one it stands for.

        Raises:
            ArtifactNotFoundError: no such version, or what it stands for is gone.
            ArtifactReferenceError: its references cannot be followed.
        """

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

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, session_id: str, filename: str
    ) -> list[ArtifactVersion]:
        """What is known of each version, ascending; a service overrides this where it can look at all in one go.

        Raises:
            ArtifactNotFoundError: there is none.
        """
        where = {"app_name": app_name, "user_id": user_id, "session_id": session_id, "filename": filename}
        found = []
        for version in await self.list_versions(**where):
            try:
                found.append(await self.get_artifact_version(**where, version=version))
            except ArtifactNotFoundError:  # removed since it was listed
                continue
        return found

    async def artifact_url(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        filename: str,
        version: int | None = None,
        expires_in: float | None = None,
    ) -> str:
        """A URL from which others fetch the bytes of a version, where the backend has such (BEY-7).

        Args:
            expires_in: seconds for which the URL lets in everybody who has it (a signed URL); None: a URL that lets in
                only those who may read the store anyhow (an authenticated URL, or that of a local file).

        Raises:
            ArtifactNotFoundError: no such version.
            UnsupportedOperationError: the backend has no URLs, or none of that kind.
            ValidationError: ``expires_in`` is no time that the backend can grant.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} has no URLs for others; use load_artifact")

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
        reuse_identical: bool = False,
    ) -> int:
        """Store bytes that come in chunks as the next version, where the backend can, and return its number (ART-16).

        ``mime_type``: guessed from the file name when absent. A source that raises leaves no version; its error is
        raised. ``save_id`` and ``reuse_identical`` as for `save_artifact`.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot stream; use save_artifact")

    async def delete_user(self, *, app_name: str, user_id: str, session_ids: Iterable[str] = ()) -> int:
        """Erase the files of a user, all versions; how many files (BEY-14). Nothing there is no error.

        A service overrides this where it finds the files of sessions without being told which there are.

        Args:
            session_ids: of the user's sessions.
        """
        scope: dict[str, Any] = {"app_name": app_name, "user_id": user_id}
        gone = 0
        # Files of the user are shown with any session, one that does not exist included.
        for session_id in ("-", *session_ids):
            try:
                names = await self.list_artifacts(**scope, session_id=session_id)
            except ValidationError:
                continue  # a session of such an id has no files
            for name in names:
                await self.delete_artifact(**scope, session_id=session_id, filename=name)
            gone += len(names)
        return gone

    async def close(self) -> None:
        """Free what the service holds."""
