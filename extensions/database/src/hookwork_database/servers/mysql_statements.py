"""The layout in MariaDB and MySQL and the statements of its hot paths (spec DBP-5, DBP-7)."""

from __future__ import annotations

from functools import cache
from typing import Any

from hookwork_database.keys import SessionKey
from hookwork_database.layouts.adk import DocumentLayout
from hookwork_database.moments import micros_of, naive_of
from hookwork_database.reading import Known
from hookwork_database.servers.snapshots import known_place

_EVENTS = "app_name = ? AND user_id = ? AND session_id = ?"
_ROW = "app_name = ? AND user_id = ? AND id = ?"

#: The open of one session in one statement (DBP-7): see `snapshots.snapshot_of` for its rows. Parameters: `opening`.
SNAPSHOT = f"""
WITH s AS (
  SELECT create_time, update_time, state,
    (SELECT id FROM events WHERE {_EVENTS} ORDER BY timestamp DESC, id DESC LIMIT 1) AS last_id,
    (SELECT COUNT(*) FROM events e WHERE {_EVENTS} AND e.timestamp = sessions.update_time) AS twins
  FROM sessions WHERE {_ROW}
), c AS (
  SELECT NOT (create_time <=> ? AND update_time <=> ? AND COALESCE(last_id, '') = ? AND twins = ?) AS changed FROM s
)
SELECT 0 AS kind, s.create_time AS t, s.last_id AS id, s.update_time AS t2,
  IF(c.changed, s.state, NULL) AS data, a.state AS app, u.state AS usr, s.twins AS twins,
  IF(c.changed, (SELECT COUNT(*) FROM events WHERE {_EVENTS}), NULL) AS number, NULL AS inv
FROM s CROSS JOIN c
LEFT JOIN app_states a ON a.app_name = ?
LEFT JOIN user_states u ON u.app_name = ? AND u.user_id = ?
UNION ALL
SELECT 1, e.timestamp, e.id, NULL, e.event_data, NULL, NULL, NULL, NULL, e.invocation_id
FROM c CROSS JOIN events e
WHERE c.changed AND {_EVENTS} AND e.timestamp >= ? AND (e.timestamp > ? OR e.id > ?)
ORDER BY 1, 2, 3
"""


def formatted(sql: str) -> str:
    """``?`` marks as the driver's ``%s``."""
    return sql.replace("?", "%s")


class MySqlLayout(DocumentLayout):
    """google-adk's schema version 1 in MySQL and MariaDB: LONGTEXT, and DATETIME(6) in UTC."""

    name = "google-adk version 1"
    lock = " FOR UPDATE"
    # Plus nought makes a number of what is JSON in one of the two servers and text in the other.
    exact_time = "CASE WHEN JSON_VALID(event_data) THEN JSON_EXTRACT(event_data, '$.timestamp') + 0e0 ELSE -1e13 END"

    def __init__(self) -> None:
        super().__init__()
        self.snapshot = SNAPSHOT
        self.rewrite(formatted)

    def says(self, key: str) -> str:
        # Looking for the text first spares the most documents from being parsed.
        return (
            f"(LOCATE('\"{key}\":', event_data) > 0 AND CASE WHEN JSON_VALID(event_data) "
            f"THEN JSON_EXTRACT(event_data, '$.actions.{key}') IS NOT NULL ELSE TRUE END)"
        )

    def upsert(self, table: str, key: tuple[str, ...], *, replace: bool) -> str:
        columns = (*key, "state", "update_time")
        values = f"INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        if not replace:  # not INSERT IGNORE: the driver logs its warnings, and it takes a value that does not fit
            return f"INSERT {values} ON DUPLICATE KEY UPDATE {key[0]} = {table}.{key[0]}"
        return f"INSERT {values} ON DUPLICATE KEY UPDATE state = VALUES(state), update_time = VALUES(update_time)"

    def bytewise(self, column: str) -> str:
        return f"CAST({column} AS BINARY)"

    def time(self, micros: int) -> Any:
        return naive_of(micros)

    def micros(self, raw: Any) -> int:
        return micros_of(raw)


@cache
def append_block(own: bool, app: bool, user: bool) -> str:
    """The append of one event as a compound block of MariaDB, in the lock order session, app, user (services DB-12).

    A shared state is written whole when it still is what the writer knows, else the block does nothing (as when the
    session's row is not what the writer knows), and the append is done in full.
    """
    state = ", state = ?" if own else ""
    steps = [
        f"UPDATE sessions SET update_time = ?{state} WHERE {_ROW} AND update_time = ? AND create_time = ? "
        f"AND NOT EXISTS (SELECT 1 FROM events WHERE {_EVENTS} AND timestamp = ? AND id <> ?); "
        "SET done = ROW_COUNT(); "
    ]
    for wanted, table, key in (
        (app, "app_states", "app_name = ?"),
        (user, "user_states", "app_name = ? AND user_id = ?"),
    ):
        if wanted:
            steps.append(
                f"IF done = 1 THEN UPDATE {table} SET state = ?, update_time = ? WHERE {key} AND BINARY state = ?; "
                "SET done = ROW_COUNT(); END IF; "
            )
    steps.append(
        "IF done = 1 THEN INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data) "
        "VALUES (?, ?, ?, ?, ?, ?, ?); COMMIT; ELSE ROLLBACK; END IF; SELECT done; "
    )
    return formatted(
        "BEGIN NOT ATOMIC DECLARE done INT DEFAULT 0; "
        "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END; "
        f"START TRANSACTION; {''.join(steps)}END"
    )


def opening(key: SessionKey, known: Known | None) -> tuple[Any, ...]:
    """The parameters of `SNAPSHOT`."""
    raw, tie = known_place(known)
    marker: tuple[Any, ...] = (None, None, "", -1)
    if known is not None:
        marker = (known.marker.created_raw, known.marker.updated_raw, known.marker.last_id, known.marker.twins)
    return (*key, *key, *key, *marker, *key, key[0], key[0], key[1], *key, raw, raw, tie)
