"""google-adk's schema version 1 in Spanner's GoogleSQL: STRING(MAX), TIMESTAMP with a zone (services §4.2, DB-24)."""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any

from hookwork_database.layouts.adk import DocumentLayout
from hookwork_database.moments import micros_of, moment_of

#: What sqlalchemy-spanner calls its dialect.
DIALECT = "spanner+spanner"


def named(sql: str) -> str:
    """``?`` marks as ``@p1``, ``@p2`` …"""
    number = count(1)
    first, *rest = sql.split("?")
    return first + "".join(f"@p{next(number)}{piece}" for piece in rest)


class SpannerLayout(DocumentLayout):
    """The statements, in Spanner's words where they differ from those of the other databases."""

    name = "google-adk version 1"
    lock = " FOR UPDATE"

    def __init__(self) -> None:
        super().__init__()
        self.replace_app = "UPDATE app_states SET state = ?, update_time = ? WHERE app_name = ? AND state = ?"
        self.replace_user = (
            "UPDATE user_states SET state = ?, update_time = ? WHERE app_name = ? AND user_id = ? AND state = ?"
        )
        self.columns = (
            "SELECT column_name, spanner_type FROM information_schema.columns "
            "WHERE table_schema = '' AND table_name = ? ORDER BY ordinal_position"
        )
        self.version = "SELECT value FROM adk_internal_metadata WHERE key = ?"
        self.put_version = "INSERT OR IGNORE INTO adk_internal_metadata (key, value) VALUES (?, ?)"
        self.rewrite(named)

    def upsert(self, table: str, key: tuple[str, ...], *, replace: bool) -> str:
        columns = (*key, "state", "update_time")
        action = "UPDATE" if replace else "IGNORE"
        return f"INSERT OR {action} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"

    def marked(self, raw: Any) -> Any:
        """Spanner keeps nanoseconds, which other writers may have set: its text form has them."""
        return raw.rfc3339()

    def unmarked(self, mark: Any) -> Any:
        if type(mark) is int:
            return self.time(mark)
        from google.api_core.datetime_helpers import DatetimeWithNanoseconds

        return DatetimeWithNanoseconds.from_rfc3339(str(mark))  # type: ignore[no-untyped-call]

    def time(self, micros: int) -> Any:
        return moment_of(micros)

    def micros(self, raw: Any) -> int:
        return micros_of(raw)


@cache
def schema_statements() -> tuple[str, ...]:
    """The DDL of the tables, compiled by sqlalchemy-spanner; each creates only what is absent (services DB-10)."""
    from hookwork_database.tables import statements_for

    return tuple(" ".join(statement.split()) for statement in statements_for(DIALECT))
