"""The tables of google-adk's schema version 1 on every dialect, as SQLAlchemy Core describes them (services §4.2)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, DateTime, ForeignKeyConstraint, Index, MetaData, String, Table, Text, desc, text
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from hookwork_database.keys import MAX_ID, MAX_INVOCATION_ID
from hookwork_database.layouts.adk import INVOCATION_END, INVOCATION_INDEX

#: Key columns compare byte by byte on MySQL and MariaDB: under their default collations ``Alice``, ``alice`` and
#: ``alice `` would be one user (spec DBL-2).
_BINARY = {"mysql": "utf8mb4_0900_bin", "mariadb": "utf8mb4_nopad_bin"}


def _text(length: int, dialect: str) -> Any:
    collation = _BINARY.get(dialect)
    if collation is None:
        return String(length)
    return mysql.VARCHAR(length, charset="utf8mb4", collation=collation)


def _json(dialect: str) -> Any:
    if dialect == "postgresql":
        return postgresql.JSONB()
    return mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin") if dialect in _BINARY else Text()


def _time(dialect: str) -> Any:
    return mysql.DATETIME(fsp=6) if dialect in _BINARY else DateTime()


def tables_for(dialect: str) -> MetaData:
    """The tables on ``sqlite``, ``postgresql``, ``mysql`` or ``mariadb``."""
    metadata = MetaData()

    def key(name: str) -> Any:
        return Column(name, _text(MAX_ID, dialect), primary_key=True)

    def state() -> Any:
        return Column("state", _json(dialect), nullable=False)

    def time(name: str) -> Any:
        return Column(name, _time(dialect), nullable=False)

    Table(
        "adk_internal_metadata",
        metadata,
        key("key"),
        Column("value", _text(MAX_INVOCATION_ID, dialect), nullable=False),
    )
    Table(
        "sessions",
        metadata,
        key("app_name"),
        key("user_id"),
        key("id"),
        state(),
        time("create_time"),
        time("update_time"),
    )
    events = Table(
        "events",
        metadata,
        key("id"),
        key("app_name"),
        key("user_id"),
        key("session_id"),
        Column("invocation_id", _text(MAX_INVOCATION_ID, dialect), nullable=False),
        time("timestamp"),
        Column("event_data", _json(dialect), nullable=True),
        ForeignKeyConstraint(
            ["app_name", "user_id", "session_id"],
            ["sessions.app_name", "sessions.user_id", "sessions.id"],
            ondelete="CASCADE",
        ),
        Index(
            "idx_events_app_user_session_ts_id",
            "app_name",
            "user_id",
            "session_id",
            desc("timestamp"),
            desc("id"),
        ),
    )
    if dialect == "sqlite":
        # Why, `sqlite.schema` says; the servers look a session through in the time that a question takes to reach them.
        Index(INVOCATION_INDEX, text(INVOCATION_END), _table=events)
    Table("app_states", metadata, key("app_name"), state(), time("update_time"))
    Table("user_states", metadata, key("app_name"), key("user_id"), state(), time("update_time"))
    return metadata


def statements_for(dialect: str) -> list[str]:
    """The statements that create what is absent; each may be repeated, except that an index of MySQL may exist."""
    from sqlalchemy.engine.url import URL

    compiler = URL.create(dialect).get_dialect()()
    found: list[str] = []
    for table in tables_for(dialect).sorted_tables:
        found.append(str(CreateTable(table, if_not_exists=True).compile(dialect=compiler)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            found.append(str(CreateIndex(index, if_not_exists=True).compile(dialect=compiler)))
    return found
