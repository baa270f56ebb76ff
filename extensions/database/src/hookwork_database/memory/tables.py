"""The tables of google-adk's SQLite memory (services FTS-1) and how a file of its is taken over."""

from __future__ import annotations

import sqlite3

from hookwork.errors import ConfigurationError
from hookwork.records.codec import load
from hookwork.records.content import Content
from hookwork_database.memory.words import search_text

_TABLES = (
    "CREATE TABLE IF NOT EXISTS adk_memory_metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS memory_events (id INTEGER PRIMARY KEY AUTOINCREMENT, app_name TEXT NOT NULL, "
    "user_id TEXT NOT NULL, session_id TEXT NOT NULL, event_id TEXT NOT NULL, author TEXT NOT NULL, "
    "timestamp REAL NOT NULL, content_json TEXT NOT NULL, search_text TEXT NOT NULL, "
    "UNIQUE(app_name, user_id, session_id, event_id))",
    "CREATE INDEX IF NOT EXISTS idx_memory_events_scope ON memory_events(app_name, user_id, timestamp DESC)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS memory_events_fts USING fts5("
    "search_text, content='memory_events', content_rowid='id', tokenize='unicode61')",
    "CREATE TRIGGER IF NOT EXISTS memory_events_ai AFTER INSERT ON memory_events BEGIN "
    "INSERT INTO memory_events_fts(rowid, search_text) VALUES (new.id, new.search_text); END",
    "CREATE TRIGGER IF NOT EXISTS memory_events_ad AFTER DELETE ON memory_events BEGIN "
    "INSERT INTO memory_events_fts(memory_events_fts, rowid, search_text) "
    "VALUES ('delete', old.id, old.search_text); END",
    "CREATE TRIGGER IF NOT EXISTS memory_events_au AFTER UPDATE OF search_text ON memory_events BEGIN "
    "INSERT INTO memory_events_fts(memory_events_fts, rowid, search_text) "
    "VALUES ('delete', old.id, old.search_text); "
    "INSERT INTO memory_events_fts(rowid, search_text) VALUES (new.id, new.search_text); END",
    "INSERT OR IGNORE INTO adk_memory_metadata (key, value) VALUES ('schema_version', '1')",
)
#: Key of the metadata: up to which row the index holds the words of this package.
_INDEXED = "hookwork_indexed_to"


def prepare(db: sqlite3.Connection, where: str) -> None:
    """Create what is absent, and index rows that google-adk wrote as this package searches. Runs in a transaction.

    Raises:
        ConfigurationError: another schema version, or a SQLite without FTS5.
    """
    had_index = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_events_fts'").fetchone() is not None
    try:
        for statement in _TABLES:
            db.execute(statement)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        raise ConfigurationError(f"{where}: this Python's SQLite has no FTS5, which memory in SQLite needs") from error
    version = db.execute("SELECT value FROM adk_memory_metadata WHERE key = 'schema_version'").fetchone()[0]
    if version != "1":
        raise ConfigurationError(
            f"{where} says memory schema version {version!r}; this release reads and writes version '1'"
        )
    if not had_index:
        db.execute("INSERT INTO memory_events_fts(memory_events_fts) VALUES ('rebuild')")
    _index_others(db)


def _index_others(db: sqlite3.Connection) -> None:
    row = db.execute("SELECT value FROM adk_memory_metadata WHERE key = ?", (_INDEXED,)).fetchone()
    done = int(row[0]) if row is not None else 0
    newest = db.execute("SELECT MAX(id) FROM memory_events").fetchone()[0] or 0
    if newest <= done:
        return
    rows = db.execute("SELECT id, content_json, search_text FROM memory_events WHERE id > ?", (done,)).fetchall()
    for id, content_json, indexed in rows:
        wanted = search_text(texts_of(load(Content, content_json)))
        if wanted != indexed:
            db.execute("UPDATE memory_events SET search_text = ? WHERE id = ?", (wanted, id))
    db.execute("INSERT OR REPLACE INTO adk_memory_metadata (key, value) VALUES (?, ?)", (_INDEXED, str(newest)))


def texts_of(content: Content | None) -> list[str]:
    """The texts that count: not thoughts, not other kinds of parts (MEM-6)."""
    return [part.text for part in content.parts if part.text and not part.thought] if content is not None else []
