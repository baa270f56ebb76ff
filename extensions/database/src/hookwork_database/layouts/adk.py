"""The layouts of google-adk: version 1, which Hookwork creates, and its SQLite service's (services §4.2)."""

from __future__ import annotations

from typing import Any

from hookwork.records.event import Event
from hookwork_database.documents import event_document, event_of_document
from hookwork_database.layouts.base import Layout
from hookwork_database.moments import epoch_of_micros, micros_of_epoch, micros_of_text, text_of


class DocumentLayout(Layout):
    """Events as one JSON document each, in ``event_data``."""

    payload = ("invocation_id", "event_data")

    def encode(self, event: Event) -> tuple[Any, ...]:
        return (event_document(event),)

    def decode(self, columns: tuple[Any, ...], id: str) -> Event:
        return event_of_document(columns[1], id=id, invocation_id=columns[0])


class SqliteDocumentLayout(DocumentLayout):
    """The same in SQLite, which keeps off an index whose column has a plus in front."""

    exact_time = "json_extract(event_data, '$.timestamp')"

    def says(self, key: str) -> str:
        return f"instr(event_data, '\"{key}\":') > 0"

    def unranged(self, condition: str) -> str:
        return condition.replace("timestamp", "+timestamp")


class AdkLayout(SqliteDocumentLayout):
    """google-adk's schema version 1 in SQLite: times are naive UTC text (services ADKDB-1 … 5)."""

    name = "google-adk version 1"

    def time(self, micros: int) -> Any:
        return text_of(micros)

    def micros(self, raw: Any) -> int:
        return micros_of_text(raw)


class AdkSqliteLayout(SqliteDocumentLayout):
    """The one of google-adk's ``SqliteSessionService``: times are REAL epoch seconds (services ADKDB-8)."""

    name = "google-adk SQLite"
    tie = "rowid"
    last_tie = "SELECT last_insert_rowid()"

    def time(self, micros: int) -> Any:
        return epoch_of_micros(micros)

    def micros(self, raw: Any) -> int:
        return micros_of_epoch(float(raw))
