"""What a layout knows: its columns, its times, and the statements of the paths that all databases share.

Statements are written with ``?`` for a parameter; a database whose driver wants another mark rewrites them once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from hookwork.errors import BackendError, ValidationError
from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict
from hookwork_database.documents import state_document, state_of_document
from hookwork_database.keys import SessionKey
from hookwork_database.loaded import StoredEvent
from hookwork_database.moments import epoch_of_micros
from hookwork_database.sealing import MARK, Sealing, check_unsealed, is_sealed, without_key

#: More rows than any session has, for a LIMIT that does not limit.
EVERYTHING = 2**62

_OF_ROW = "app_name = ? AND user_id = ? AND id = ?"
_OF_SESSION = "app_name = ? AND user_id = ? AND session_id = ?"


class Layout(ABC):
    """One table layout in one dialect.

    Attributes:
        name: for errors and the doctor.
        tie: the column that orders events of one time.
        payload: the columns that hold what an event says, in the order of `encode`.
        dropped_fields: event fields the layout has no column for.
    """

    name: str
    tie: str = "id"
    payload: tuple[str, ...]
    dropped_fields: frozenset[str] = frozenset()
    #: What a SELECT needs behind it to lock its rows.
    lock: str = ""
    #: The open in one statement, where a dialect has one (`servers.snapshots`).
    snapshot: str = ""
    #: Whether `put_app` and `put_user` merge what they are given into the row and give the result back.
    merges: bool = False
    #: A condition that the document of an event holds a key under ``actions``, where a layout can ask so; and its own
    #: time in epoch seconds. They find where a summary's window begins without reading the log (services LOG-8).
    says: Callable[[str], str] | None = None
    exact_time: str = ""
    #: Seals what is stored, where the service has a cipher (services BEY-16); ``seals``: whether the layout can.
    sealing: Sealing | None = None
    seals: bool = False
    #: A statement that gives the tie of the row inserted last; None when the event id is the tie.
    last_tie: str | None = None

    def __init__(self) -> None:
        self._write_reads()
        self._write_sessions()
        self._write_appends()

    def _write_reads(self) -> None:
        """The statements that read a log."""
        tie = self.tie
        order, back = f"ORDER BY timestamp, {tie}", f"ORDER BY timestamp DESC, {tie} DESC"
        columns = f"SELECT timestamp, {tie}, id, {', '.join(self.payload)} FROM events WHERE {_OF_SESSION}"
        behind = f"timestamp >= ? AND (timestamp > ? OR {tie} > ?)"
        before = f"timestamp <= ? AND (timestamp < ? OR {tie} < ?)"
        self.event = f"{columns} AND id = ?"
        self.behind = f"{columns} AND {behind} {order}"
        self.behind_page = f"{self.behind} LIMIT ?"
        self.newest = f"{columns} {back} LIMIT ?"
        self.before = f"{columns} AND {before} {back} LIMIT ?"
        self.before_down_to = f"{columns} AND {before} AND timestamp >= ? {back}"
        self.since = f"{columns} AND timestamp >= ? {order}"
        self.after = f"{columns} AND timestamp > ? {order}"
        self.first_of_invocation = (
            f"SELECT timestamp FROM events WHERE {_OF_SESSION} AND invocation_id = ? AND {before} {order} LIMIT 1"
        )
        self.count = f"SELECT COUNT(*) FROM events WHERE {_OF_SESSION}"
        self.count_from = f"{self.count} AND timestamp >= ? AND (timestamp > ? OR {tie} >= ?)"
        self.last_of_all = f"SELECT timestamp, {tie} FROM events WHERE {_OF_SESSION} {back} LIMIT 1"
        if self.says:
            compacts, exact = self.says("compaction"), self.exact_time
            self.compactions = f"{columns} AND {compacts} {back}"
            self.rewinds = (
                f"SELECT 1 FROM events WHERE {_OF_SESSION} AND {self.says('rewind_before_invocation_id')} LIMIT 1"
            )
            self.uncovered = (
                f"SELECT timestamp, {tie} FROM events WHERE {_OF_SESSION} AND {before} AND NOT ({compacts}) "
                f"AND ({exact} < ? OR {exact} > ? OR {exact} >= ?) {order} LIMIT 1"
            )

    def _write_sessions(self) -> None:
        """The statements about sessions as a whole."""
        lock = self.lock
        newest = (
            "(SELECT e.id FROM events e WHERE e.app_name = s.app_name AND e.user_id = s.user_id "
            f"AND e.session_id = s.id ORDER BY e.timestamp DESC, e.{self.tie} DESC LIMIT 1)"
        )
        twins = (
            "(SELECT COUNT(*) FROM events t WHERE t.app_name = s.app_name AND t.user_id = s.user_id "
            "AND t.session_id = s.id AND t.timestamp = s.update_time)"
        )
        #: create_time, update_time, state, app state, user state, id of the newest event, events at the update time.
        self.open = (
            f"SELECT s.create_time, s.update_time, s.state, a.state, u.state, {newest}, {twins} FROM sessions s "
            "LEFT JOIN app_states a ON a.app_name = s.app_name "
            "LEFT JOIN user_states u ON u.app_name = s.app_name AND u.user_id = s.user_id "
            "WHERE s.app_name = ? AND s.user_id = ? AND s.id = ?"
        )
        self.row = f"SELECT create_time, update_time, state FROM sessions WHERE {_OF_ROW}{lock}"
        self.app_state = "SELECT state FROM app_states WHERE app_name = ?"
        self.user_state = "SELECT state FROM user_states WHERE app_name = ? AND user_id = ?"
        self.lock_app, self.lock_user = self.app_state + lock, self.user_state + lock
        self.list_all = self._list("s.app_name = ?")
        self.list_user = self._list("s.app_name = ? AND s.user_id = ?")
        self.page_all = self._page("s.app_name = ?")
        self.page_user = self._page("s.app_name = ? AND s.user_id = ?")
        self.delete_events = f"DELETE FROM events WHERE {_OF_SESSION}"
        self.delete_row = f"DELETE FROM sessions WHERE {_OF_ROW}"
        # Byte by byte too: under a loose collation the keys of others are equal (spec DBL-2).
        exact = f"{self.bytewise('app_name')} = ? AND {self.bytewise('user_id')} = ?"
        of_user = f"WHERE app_name = ? AND user_id = ? AND {exact}"
        self.user_rows = f"SELECT id FROM sessions {of_user}{lock}"
        self.delete_user_events = f"DELETE FROM events {of_user}"
        self.delete_user_rows = f"DELETE FROM sessions {of_user}"
        self.delete_user_state = f"DELETE FROM user_states {of_user}"
        self.insert_row = (
            "INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?)"
        )

    def _write_appends(self) -> None:
        """The statements that write an event and what goes with it."""
        self.update_row = f"UPDATE sessions SET update_time = ? WHERE {_OF_ROW}"
        self.update_state = f"UPDATE sessions SET update_time = ?, state = ? WHERE {_OF_ROW}"
        self.ensure_app = self.upsert("app_states", ("app_name",), replace=False)
        self.ensure_user = self.upsert("user_states", ("app_name", "user_id"), replace=False)
        self.put_app = self.upsert("app_states", ("app_name",), replace=True)
        self.put_user = self.upsert("user_states", ("app_name", "user_id"), replace=True)
        self.rewrite_app = "UPDATE app_states SET state = ?, update_time = ? WHERE app_name = ?"
        self.rewrite_user = "UPDATE user_states SET state = ?, update_time = ? WHERE app_name = ? AND user_id = ?"
        unchanged = (
            f"WHERE {_OF_ROW} AND update_time = ? AND create_time = ? AND NOT EXISTS "
            f"(SELECT 1 FROM events WHERE {_OF_SESSION} AND timestamp = ? AND id <> ?)"
        )
        self.fast_row = f"UPDATE sessions SET update_time = ? {unchanged}"
        self.fast_state = f"UPDATE sessions SET update_time = ?, state = ? {unchanged}"
        self.delete_event = f"DELETE FROM events WHERE {_OF_SESSION} AND id = ?"
        filled = ("app_name", "user_id", "session_id", "id", "invocation_id", "timestamp", *self.payload_columns())
        self.insert_event = f"INSERT INTO events ({', '.join(filled)}) VALUES ({', '.join('?' * len(filled))})"

    def rewrite(self, change: Callable[[str], str]) -> None:
        """Change the text of every statement, as a driver wants its parameters."""
        for name, value in list(vars(self).items()):
            if isinstance(value, str) and " " in value:
                setattr(self, name, change(value))

    def payload_columns(self) -> tuple[str, ...]:
        """The columns that `encode` fills; ``id``, ``invocation_id`` and the key are written apart."""
        return tuple(column for column in self.payload if column != "invocation_id")

    def upsert(self, table: str, key: tuple[str, ...], *, replace: bool) -> str:
        """Insert a shared state row; a row that is there is replaced or left alone."""
        columns = (*key, "state", "update_time")
        action = "UPDATE SET state = excluded.state, update_time = excluded.update_time" if replace else "NOTHING"
        return (
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
            f"ON CONFLICT ({', '.join(key)}) DO {action}"
        )

    def _list(self, where: str) -> str:
        return (
            "SELECT s.app_name, s.user_id, s.id, s.create_time, s.update_time, s.state, u.state, "
            "EXISTS (SELECT 1 FROM events e WHERE e.app_name = s.app_name AND e.user_id = s.user_id "
            "AND e.session_id = s.id) "
            "FROM sessions s LEFT JOIN user_states u ON u.app_name = s.app_name AND u.user_id = s.user_id "
            f"WHERE {where}"
        )

    def _page(self, where: str) -> str:
        """A list behind a place, in the order of services SES-9."""
        user, id = self.bytewise("s.user_id"), self.bytewise("s.id")
        behind = f"s.update_time > ? OR (s.update_time = ? AND ({user} > ? OR ({user} = ? AND {id} > ?)))"
        return f"{self._list(where)} AND ({behind}) ORDER BY s.update_time, {user}, {id} LIMIT ?"

    # --- what differs -------------------------------------------------------------------------------------------------

    def storable(self, event: Event) -> Event:
        """The event without what the layout drops, so that it is shown live as a reader will find it."""
        if not self.dropped_fields:
            return event
        blank = Event()
        lost = {name: getattr(blank, name) for name in self.dropped_fields}
        if all(getattr(event, name) == value for name, value in lost.items()):
            return event
        return event.replace(**lost)

    @abstractmethod
    def encode(self, event: Event) -> tuple[Any, ...]:
        """The payload columns of an event, as `payload_columns` names them. Raises ValidationError."""

    @abstractmethod
    def decode(self, columns: tuple[Any, ...], id: str) -> Event:
        """The event of the `payload` columns of a row. Raises ValidationError, ValueError or TypeError."""

    def stored_event(self, row: Any) -> Event:
        """The event of a row that starts with timestamp, tie and id; an unset time is the column's."""
        event = self.decode(tuple(row[3:]), row[2])
        return event if event.timestamp else event.replace(timestamp=epoch_of_micros(self.micros(row[0])))

    @abstractmethod
    def time(self, micros: int) -> Any:
        """A time as the driver takes it."""

    @abstractmethod
    def micros(self, raw: Any) -> int:
        """A time as the driver gives it, in microseconds. Raises ValueError or TypeError for anything else."""

    def bytewise(self, column: str) -> str:
        """A text column as it has to be written to be ordered by code points."""
        return column

    def marked(self, raw: Any) -> Any:
        """A time as the driver gives it, in a form that JSON keeps exactly; `unmarked` is the way back."""
        return raw if isinstance(raw, str | float) else self.micros(raw)

    def unmarked(self, mark: Any) -> Any:
        """See `marked`."""
        return self.time(mark) if type(mark) is int else mark

    def seal(self, columns: tuple[Any, ...], event: Event) -> tuple[Any, ...]:
        """What `encode` gave, as it is stored."""
        return columns

    def encode_state(self, state: Any) -> Any:
        """A ``state`` column. Raises ValidationError for a value that would be taken for a sealed one."""
        if self.sealing is not None:
            return state_document(self.sealing.state(state))
        text = state_document(state)
        if MARK in text:
            check_unsealed(state)
        return text

    def state(self, column: Any, where: str) -> FrozenDict:
        """The map of a ``state`` column. Raises BackendError; ``where`` names the row."""
        found = state_of_document(column, where)
        if self.sealing is not None:
            return self.sealing.opened_state(found, where)
        if found and (type(column) is not str or MARK in column) and any(map(is_sealed, found.values())):
            raise without_key(where)
        return found

    # --- rows ---------------------------------------------------------------------------------------------------------

    def stored(self, row: Any, key: SessionKey) -> StoredEvent:
        """The event of a row that starts with timestamp, tie and id.

        Raises:
            BackendError: the row cannot be read; its table and key are named (services DB-21).
        """
        raw, tie, id = row[0], row[1], row[2]
        try:
            return StoredEvent(self.stored_event(row), self.micros(raw), raw, tie)
        except (ValidationError, ValueError, TypeError) as error:
            raise BackendError(
                f"table events: event {id!r} of session {key.id!r} (user {key.user_id!r}, app {key.app_name!r}) cannot "
                f"be read: {error}",
                code="broken_row",
            ) from error

    def session_state(self, column: Any, key: SessionKey) -> FrozenDict:
        """The map of a ``sessions.state`` column. Raises BackendError."""
        return self.state(column, f"table sessions: {key.id!r} of user {key.user_id!r}, app {key.app_name!r}")

    def session_micros(self, raw: Any, key: SessionKey) -> int:
        """A time of a session row. Raises BackendError."""
        try:
            return self.micros(raw)
        except (ValueError, TypeError) as error:
            raise BackendError(
                f"table sessions: a time of {key.id!r} of user {key.user_id!r}, app {key.app_name!r} cannot be read: "
                f"{error}",
                code="broken_row",
            ) from error
