"""Memory in one SQLite file (services §6.1, §6.2a)."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, NamedTuple

from hookwork.errors import BackendError, ValidationError
from hookwork.platform import new_uuid, timestamp
from hookwork.records.codec import dump_json, load
from hookwork.records.content import Content
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.services import MemoryEntry, MemoryService
from hookwork_database.keys import checked_id
from hookwork_database.memory.tables import prepare, texts_of
from hookwork_database.memory.words import Query, search_text
from hookwork_database.moments import micros_of_epoch, moment_of
from hookwork_database.sqlite.connecting import Connector
from hookwork_database.sqlite.worker import Worker

#: Puts candidates into another order, the best first; what it leaves out is not found.
Ranker = Callable[[str, list[MemoryEntry]], Sequence[MemoryEntry] | Awaitable[Sequence[MemoryEntry]]]

#: The session id under which google-adk keeps what belongs to no session; single memories stand there too.
_NO_SESSION = "__unknown_session_id__"
#: How many rows are looked at more closely, the best by bm25 first.
_CANDIDATES = 1000

_COLUMNS = "m.id, m.session_id, m.event_id, m.author, m.timestamp, m.content_json"
_PLACE = (
    "(SELECT MIN(f.id) FROM memory_events f WHERE f.app_name = m.app_name AND f.user_id = m.user_id "
    "AND f.session_id = m.session_id)"
)
_BY_INDEX = (
    f"SELECT {_COLUMNS}, {_PLACE} FROM memory_events_fts JOIN memory_events m ON m.id = memory_events_fts.rowid "
    "WHERE m.app_name = ? AND m.user_id = ? AND memory_events_fts MATCH ? "
    "ORDER BY bm25(memory_events_fts), m.timestamp DESC LIMIT ?"
)
_INSIDE = "instr(m.search_text, ?) > 0"
_PUT = (
    "INSERT INTO memory_events (id, app_name, user_id, session_id, event_id, author, timestamp, content_json, "
    "search_text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (app_name, user_id, session_id, event_id) DO UPDATE "
    "SET author = excluded.author, timestamp = excluded.timestamp, content_json = excluded.content_json, "
    "search_text = excluded.search_text"
)


class _Row(NamedTuple):
    """One remembered entry as it is stored."""

    event_id: str
    author: str
    timestamp: float
    content_json: str
    search_text: str


class SqliteMemoryService(MemoryService):
    """Memory that finds by words and survives the process; a file of google-adk's SQLite memory opens too.

    Args:
        connector: the file.
        max_results: most entries that a search gives, from 1.
        ranker: puts the entries that fit into another order (`embeddings.EmbeddingRanker`, say); gets the query and up
            to 1000 entries, may be async. The first ``max_results`` of what it returns are given.
        candidates: what a ranker is given: ``matching``, the entries that fit by words, or ``all``: behind these the
            others of the app and user too, the newest first.

    Raises:
        ValidationError: ``max_results`` is not a whole number from 1, or ``candidates`` neither word.
    """

    def __init__(
        self,
        connector: Connector,
        *,
        max_results: int = 10,
        ranker: Ranker | None = None,
        candidates: Literal["matching", "all"] = "matching",
    ) -> None:
        if type(max_results) is not int or max_results < 1:
            raise ValidationError(f"max_results must be a whole number from 1, not {max_results!r}")
        if candidates not in ("matching", "all"):
            raise ValidationError(f"candidates must be 'matching' or 'all', not {candidates!r}")
        self.max_results = max_results
        self._all = candidates == "all" and ranker is not None
        self._ranker = ranker
        self._where = connector.where
        self._writer = Worker(connector, connector.where, writes=True)
        self._reader = self._writer if connector.in_memory else Worker(connector, connector.where, writes=False)
        self._prepared = False
        self._closed = False

    async def _open(self) -> None:
        if self._closed:
            raise BackendError("the SQLite memory service is closed; make a new one", code="closed")
        if not self._prepared:
            where = self._where
            await self._writer.call(lambda db: prepare(db, where))
            self._prepared = True

    # --- adding -------------------------------------------------------------------------------------------------------

    async def add_session_to_memory(self, session: Session) -> None:
        """See `MemoryService.add_session_to_memory`. What a rewind hides is not remembered.

        A handle that shows only the newest events replaces these; what was remembered of the older ones stays.
        """
        await self._open()
        if not isinstance(session, Session):
            raise ValidationError(f"session must be a Session, not {type(session).__name__}", path="session")
        rows = [row for event in session.live_events if (row := _row_of(event)) is not None]
        shown = None if session.complete else {event.id for event in session.events}
        scope = (session.app_name, session.user_id, session.id)
        await self._writer.call(lambda db: _replace(db, scope, rows, shown))

    async def add_events_to_memory(
        self, *, app_name: str, user_id: str, events: Sequence[Event], session_id: str = "", flush: bool = False
    ) -> None:
        """See `MemoryService.add_events_to_memory`. They are found at once, whether flushed or not."""
        _check_scope(app_name, user_id)
        await self._open()
        rows = [row for event in events if (row := _row_of(event)) is not None]
        scope = (app_name, user_id, session_id or _NO_SESSION)
        if rows:
            await self._writer.call(lambda db: _put(db, scope, rows))

    async def add_memory(self, *, app_name: str, user_id: str, entries: list[MemoryEntry]) -> None:
        """See `MemoryService.add_memory`. An entry of an id that was added before takes its place."""
        _check_scope(app_name, user_id)
        await self._open()
        rows = []
        for entry in entries:
            text = search_text(texts_of(entry.content))
            if not text or entry.content is None:
                raise ValidationError("a memory needs content with text", path="entries")
            at = entry.timestamp.timestamp() if entry.timestamp is not None else timestamp()
            content = dump_json(entry.content, "snake").decode()
            rows.append(_Row(entry.id or new_uuid(), entry.author, round(at, 6), content, text))
        scope = (app_name, user_id, _NO_SESSION)
        await self._writer.call(lambda db: _put(db, scope, rows))

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """See `MemoryService.delete_memory`. An absent one is no error; a session's entry returns with the session."""
        _check_scope(app_name, user_id)
        await self._open()
        sql = "DELETE FROM memory_events WHERE app_name = ? AND user_id = ? AND event_id = ?"
        await self._writer.call(lambda db: db.execute(sql, (app_name, user_id, memory_id)).fetchall())

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """See `MemoryService.delete_user`."""
        _check_scope(app_name, user_id)
        await self._open()
        sql = "DELETE FROM memory_events WHERE app_name = ? AND user_id = ? RETURNING id"
        return len(await self._writer.call(lambda db: db.execute(sql, (app_name, user_id)).fetchall()))

    # --- finding ------------------------------------------------------------------------------------------------------

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        """See `MemoryService.search_memory`. ``score`` is the sum of MEM-9; a ranker's order replaces its order."""
        _check_scope(app_name, user_id)
        if not isinstance(query, str):
            raise ValidationError(f"query must be text, not {type(query).__name__}", path="query")
        await self._open()
        wanted = Query(query)
        if not wanted:
            return []
        limit = None if self._ranker is not None else self.max_results
        found = await self._reader.call(lambda db: _search(db, app_name, user_id, wanted, limit))
        if self._all:
            found += await self._reader.call(lambda db: _others(db, app_name, user_id, found))
        if self._ranker is None:
            return found
        ranked: Any = self._ranker(query, found)
        if inspect.isawaitable(ranked):
            ranked = await ranked
        return list(ranked)[: self.max_results]

    async def close(self) -> None:
        """Let go of the file; later calls raise."""
        if self._closed:
            return
        self._closed = True
        await self._reader.close()
        if self._writer is not self._reader:
            await self._writer.close()


def _check_scope(app_name: Any, user_id: Any) -> None:
    checked_id("app_name", app_name)
    checked_id("user_id", user_id)


def _row_of(event: Event) -> _Row | None:
    """What is remembered of an event; None when it says nothing in words (MEM-6)."""
    text = search_text(texts_of(event.content))
    if not text or event.content is None:
        return None
    content = dump_json(event.content, "snake").decode()
    return _Row(event.id or new_uuid(), event.author, event.timestamp or timestamp(), content, text)


def _replace(db: sqlite3.Connection, scope: tuple[str, str, str], rows: list[_Row], shown: set[str] | None) -> None:
    """Put a session's rows in place of those it had (of the shown events only, for a partial handle).

    The session keeps its place among the others, which is that of its first row.
    """
    of_session = "WHERE app_name = ? AND user_id = ? AND session_id = ?"
    old = dict(db.execute(f"SELECT event_id, id FROM memory_events {of_session}", scope))
    kept = {row.event_id for row in rows}
    for event_id in old:
        if event_id not in kept and (shown is None or event_id in shown):
            db.execute(f"DELETE FROM memory_events {of_session} AND event_id = ?", (*scope, event_id))
    place = min(old.values(), default=None)
    left = db.execute(f"SELECT 1 FROM memory_events {of_session} LIMIT 1", scope).fetchone()
    _put(db, scope, rows, None if left else place)


def _put(db: sqlite3.Connection, scope: tuple[str, str, str], rows: list[_Row], place: int | None = None) -> None:
    for row in rows:
        db.execute(_PUT, (place, *scope, *row))
        place = None


def _search(db: sqlite3.Connection, app_name: str, user_id: str, query: Query, limit: int | None) -> list[MemoryEntry]:
    """The entries that fit, best first (MEM-9): by score, then by the sessions' age, then in the order of events."""
    if query.inside:
        inside = " OR ".join([_INSIDE] * len(query.inside))
        sql = (
            f"SELECT {_COLUMNS}, {_PLACE} FROM memory_events m WHERE m.app_name = ? AND m.user_id = ? AND (m.id IN "
            f"(SELECT rowid FROM memory_events_fts WHERE memory_events_fts MATCH ?) OR {inside}) "
            "ORDER BY m.timestamp DESC LIMIT ?"
        )
        rows = db.execute(sql, (app_name, user_id, query.match, *query.inside, _CANDIDATES)).fetchall()
    else:
        rows = db.execute(_BY_INDEX, (app_name, user_id, query.match, _CANDIDATES)).fetchall()
    hits = []
    for id, session_id, event_id, author, at, content_json, place in rows:
        content = load(Content, content_json)
        score = query.score(texts_of(content))
        if score:
            hits.append((-score, place, id, _entry(session_id, event_id, author, at, content, score)))
    hits.sort(key=lambda hit: hit[:3])
    return [hit[3] for hit in hits[:limit]]


def _others(db: sqlite3.Connection, app_name: str, user_id: str, found: list[MemoryEntry]) -> list[MemoryEntry]:
    """The newest entries that are not among those found, up to the number that a ranker is given."""
    of_user = "m.app_name = ? AND m.user_id = ?"
    sql = f"SELECT {_COLUMNS} FROM memory_events m WHERE {of_user} ORDER BY m.timestamp DESC LIMIT ?"
    rows = db.execute(sql, (app_name, user_id, _CANDIDATES)).fetchall()
    known = {(entry.session_id, entry.id) for entry in found}
    others = [
        _entry(session_id, event_id, author, at, load(Content, content_json), 0.0)
        for _, session_id, event_id, author, at, content_json in rows
    ]
    return [entry for entry in others if (entry.session_id, entry.id) not in known][: _CANDIDATES - len(found)]


def _entry(session_id: str, event_id: str, author: str, at: float, content: Content, score: float) -> MemoryEntry:
    return MemoryEntry(
        id=event_id,
        content=content,
        author=author,
        timestamp=moment_of(micros_of_epoch(at)),
        score=score,
        session_id="" if session_id == _NO_SESSION else session_id,
    )
