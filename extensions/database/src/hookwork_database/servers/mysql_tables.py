"""What tables that somebody else made in MySQL or MariaDB can and cannot keep (spec DBL-2, DBL-3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hookwork.errors import BackendError, ConfigurationError
from hookwork_database.keys import SessionKey

COLUMNS = (
    "SELECT table_name, column_name, column_type, collation_name FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND table_name IN ('sessions', 'events', 'app_states', 'user_states')"
)
_KEYS = ("app_name", "user_id", "session_id", "id")

#: The keys under which a database answers to a key: of the session, of the app's and of the user's state.
STORED_KEYS = (
    "SELECT (SELECT CONCAT_WS(CHAR(0), app_name, user_id, id) FROM sessions "
    "WHERE app_name = %s AND user_id = %s AND id = %s), "
    "(SELECT app_name FROM app_states WHERE app_name = %s), "
    "(SELECT CONCAT_WS(CHAR(0), app_name, user_id) FROM user_states WHERE app_name = %s AND user_id = %s)"
)


def stored_keys_parameters(key: SessionKey) -> tuple[str, ...]:
    """The parameters of `STORED_KEYS`."""
    return (*key, key.app_name, key.app_name, key.user_id)


def check_columns(columns: Iterable[Any], where: str) -> None:
    """Refuse tables that lose microseconds or cut documents, with the statements that repair them.

    Raises:
        ConfigurationError: see above; nothing has been written.
    """
    repairs: dict[str, list[str]] = {}
    for table, column, kind, _ in columns:
        wanted = None
        if kind.startswith("datetime") and kind != "datetime(6)":
            wanted = "DATETIME(6) NOT NULL"
        elif column in ("state", "event_data") and kind in ("text", "mediumtext", "tinytext"):
            wanted = "LONGTEXT" if column == "event_data" else "LONGTEXT NOT NULL"
        if wanted is not None:
            repairs.setdefault(table, []).append(f"MODIFY `{column}` {wanted}")
    if repairs:
        statements = [f"ALTER TABLE {table} {', '.join(changes)};" for table, changes in sorted(repairs.items())]
        raise ConfigurationError(
            f"{where}: these tables lose microseconds or cut long documents; nothing is written to them. Repair them "
            "first:\n" + "\n".join(statements)
        )


def are_loose(columns: Iterable[Any]) -> bool:
    """Whether ids that differ in case or in trailing blanks are one to the database."""
    return any(column in _KEYS and not str(collation).endswith("_bin") for _, column, _, collation in columns)


def is_stored_exactly(key: SessionKey, row: Any, where: str) -> bool:
    """Whether the session that answers to a key is the one that was asked for; False too when there is none.

    Raises:
        BackendError: the state of another app or user would be taken for this one's.
    """
    session, app, user = row
    if app not in (None, key.app_name) or user not in (None, f"{key.app_name}\0{key.user_id}"):
        raise BackendError(
            f"{where}: to these tables, user {key.user_id!r} of app {key.app_name!r} is one with another whose name "
            "differs in case, accents or trailing blanks; give the columns app_name, user_id, session_id and id a "
            "binary collation (utf8mb4_nopad_bin on MariaDB, utf8mb4_0900_bin on MySQL), or copy the sessions with "
            "hookwork migrate",
            code="collation",
        )
    return bool(session == "\0".join(key))
