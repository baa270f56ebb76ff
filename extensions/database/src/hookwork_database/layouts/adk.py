"""The layouts of google-adk: version 1, which Hookwork creates, and its SQLite service's (services §4.2)."""

from __future__ import annotations

from typing import Any

from hookwork.errors import ValidationError
from hookwork.records.event import Event
from hookwork_database.documents import event_document, event_of_document
from hookwork_database.layouts.base import Layout
from hookwork_database.moments import epoch_of_micros, micros_of_epoch, micros_of_text, text_of
from hookwork_database.sealing import MARK, sealed_token, without_key


class DocumentLayout(Layout):
    """Events as one JSON document each, in ``event_data``."""

    payload = ("invocation_id", "event_data")
    seals = True

    def encode(self, event: Event) -> tuple[Any, ...]:
        return (event_document(event),)

    def seal(self, columns: tuple[Any, ...], event: Event) -> tuple[Any, ...]:
        return columns if self.sealing is None else (self.sealing.event(columns[0], event),)

    def decode(self, columns: tuple[Any, ...], id: str) -> Event:
        data = columns[1] if self.sealing is None else self.sealing.opened_event(columns[1], id)
        try:
            event = event_of_document(data, id=id, invocation_id=columns[0])
        except ValidationError:
            if self.sealing is None and sealed_token(data) is not None:  # its mark for queries has another type
                raise without_key(f"event {id!r}") from None
            raise
        if event.extra is not None and MARK in event.extra:
            raise without_key(f"event {id!r}")
        return event


#: An index that only files of our own have: google-adk's layout finds an invocation by looking through its session. The
#: end of the id is enough and takes a third of the room.
INVOCATION_INDEX = "idx_hookwork_events_invocation"
INVOCATION_END = "substr(invocation_id, -8)"


class SqliteDocumentLayout(DocumentLayout):
    """The same in SQLite.

    Args:
        indexed: the file has the index `INVOCATION_INDEX`.
    """

    # A document with a NaN, as google-adk writes it, is none to SQLite: its time is then before every span.
    exact_time = "CASE WHEN json_valid(event_data) THEN json_extract(event_data, '$.timestamp') ELSE -1e13 END"

    def __init__(self, *, indexed: bool = False) -> None:
        super().__init__()
        if indexed:
            # A plus keeps a column's own index out of the choice (SQLite takes three columns of one for the better),
            # and the id from being put in place of the column that the index is on.
            self.first_of_invocation = (
                "SELECT timestamp FROM events WHERE +app_name = ?1 AND +user_id = ?2 AND +session_id = ?3 "
                f"AND {INVOCATION_END} = substr(?4, -8) AND +invocation_id = ?4 "
                f"AND +timestamp <= ?5 AND (timestamp < ?6 OR {self.tie} < ?7) ORDER BY +timestamp, {self.tie} LIMIT 1"
            )

    def says(self, key: str) -> str:
        # Looking for the text first spares the most documents from being parsed.
        return (
            f"(instr(event_data, '\"{key}\":') > 0 AND CASE WHEN json_valid(event_data) "
            f"THEN json_extract(event_data, '$.actions.{key}') IS NOT NULL ELSE 1 END)"
        )


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
