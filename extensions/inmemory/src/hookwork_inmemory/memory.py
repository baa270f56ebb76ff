"""Memory in the process (services §6.1, §6.2). No method awaits anything, so a search never sees half a session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hookwork.errors import BackendError, ValidationError
from hookwork.platform import new_uuid, now
from hookwork.records.content import Content
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.services import MemoryEntry, MemoryService
from hookwork_inmemory.words import IndexedText, Query

#: One remembered entry and its words.
_Remembered = tuple[MemoryEntry, IndexedText]


class InMemoryMemoryService(MemoryService):
    """Memory that lives as long as the process and finds by words.

    Args:
        max_results: most entries that a search gives, from 1.

    Raises:
        ValidationError: ``max_results`` is not a whole number from 1.
    """

    def __init__(self, max_results: int = 10) -> None:
        if type(max_results) is not int or max_results < 1:
            raise ValidationError(f"max_results must be a whole number from 1, not {max_results!r}")
        self.max_results = max_results
        #: (app, user) → session id → its entries; a single memory stands under a place of its own.
        self._scopes: dict[tuple[str, str], dict[str | tuple[str], list[_Remembered]]] = {}
        self._closed = False

    async def add_session_to_memory(self, session: Session) -> None:
        """See `MemoryService.add_session_to_memory`. What a rewind hides is not remembered.

        A handle that shows only the newest events (``complete`` is False) replaces these; what was remembered of the
        older ones stays.
        """
        self._check_open()
        if not isinstance(session, Session):
            raise ValidationError(f"session must be a Session, not {type(session).__name__}", path="session")
        entries = [
            remembered for event in session.live_events if (remembered := _remember(event, session.id)) is not None
        ]
        scope = self._scopes.setdefault((session.app_name, session.user_id), {})
        if not session.complete:
            shown = {event.id for event in session.events}
            entries = [old for old in scope.get(session.id, ()) if old[0].id not in shown] + entries
        # A session taken in before keeps its place in the dict, and so in the order of equal scores (MEM-9).
        scope[session.id] = entries

    async def add_events_to_memory(
        self, *, app_name: str, user_id: str, events: Sequence[Event], session_id: str = "", flush: bool = False
    ) -> None:
        """See `MemoryService.add_events_to_memory`. They are found at once, whether flushed or not."""
        self._check_open()
        _check_scope(app_name, user_id)
        fresh = [remembered for event in events if (remembered := _remember(event, session_id)) is not None]
        if not fresh:
            return
        scope = self._scopes.setdefault((app_name, user_id), {})
        entries = {remembered[0].id: remembered for remembered in scope.get(session_id, ())}
        entries.update((remembered[0].id, remembered) for remembered in fresh)
        scope[session_id] = list(entries.values())

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        """See `MemoryService.search_memory`. ``score`` is the sum of MEM-9."""
        self._check_open()
        _check_scope(app_name, user_id)
        if not isinstance(query, str):
            raise ValidationError(f"query must be text, not {type(query).__name__}", path="query")
        wanted = Query(query)
        scope = self._scopes.get((app_name, user_id))
        if not wanted or not scope:
            return []
        hits = [
            (score, entry) for entries in scope.values() for entry, text in entries if (score := wanted.score(text)) > 0
        ]
        hits.sort(key=lambda hit: -hit[0])  # stable: ties stay in the order of adding
        return [entry.replace(score=score) for score, entry in hits[: self.max_results]]

    async def add_memory(self, *, app_name: str, user_id: str, entries: list[MemoryEntry]) -> None:
        """See `MemoryService.add_memory`. An entry of an id that was added before takes its place."""
        self._check_open()
        _check_scope(app_name, user_id)
        fresh: dict[str | tuple[str], list[_Remembered]] = {}
        for entry in entries:
            texts = _texts(entry.content)
            if not texts:
                raise ValidationError("a memory needs content with text", path="entries")
            kept = entry.replace(id=entry.id or new_uuid(), timestamp=entry.timestamp or now(), score=None)
            fresh[(kept.id,)] = [(kept, IndexedText(texts))]
        self._scopes.setdefault((app_name, user_id), {}).update(fresh)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """See `MemoryService.delete_memory`. An absent one is no error; a session's entry returns with the session."""
        self._check_open()
        _check_scope(app_name, user_id)
        scope = self._scopes.get((app_name, user_id), {})
        scope.pop((memory_id,), None)
        for place, entries in scope.items():
            scope[place] = [remembered for remembered in entries if remembered[0].id != memory_id]

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """See `MemoryService.delete_user`."""
        self._check_open()
        _check_scope(app_name, user_id)
        return sum(len(entries) for entries in self._scopes.pop((app_name, user_id), {}).values())

    async def close(self) -> None:
        """Forget everything; later calls raise."""
        self._closed = True
        self._scopes.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise BackendError("the in-memory memory service is closed; make a new one", code="closed")


def _check_scope(app_name: str, user_id: str) -> None:
    for name, value in (("app_name", app_name), ("user_id", user_id)):
        if not isinstance(value, str) or not value:
            raise ValidationError(f"{name} must be non-empty text", path=name)


def _texts(content: Content | None) -> list[str]:
    """The texts that count: not thoughts, not other kinds of parts (MEM-6)."""
    return [part.text for part in content.parts if part.text and not part.thought] if content is not None else []


def _remember(event: Event, session_id: str) -> _Remembered | None:
    text = IndexedText(_texts(event.content))
    if not text.words:
        return None
    moment = datetime.fromtimestamp(event.timestamp, UTC) if event.timestamp else now()
    entry = MemoryEntry(
        id=event.id or new_uuid(),
        content=event.content,
        author=event.author,
        timestamp=moment,
        custom_metadata=event.custom_metadata,
        session_id=session_id,
    )
    return entry, text
