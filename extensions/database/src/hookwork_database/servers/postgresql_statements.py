"""The layout in PostgreSQL and the statements of its hot paths (spec DBP-5, DBP-7)."""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any

from hookwork_database.layouts.adk import DocumentLayout
from hookwork_database.moments import micros_of, naive_of
from hookwork_database.reading import Known
from hookwork_database.servers.snapshots import known_place


def numbered(sql: str) -> str:
    """``?`` marks as ``$1``, ``$2`` …"""
    number = count(1)
    return "".join(piece if piece != "?" else f"${next(number)}" for piece in _pieces(sql))


def _pieces(sql: str) -> list[str]:
    pieces: list[str] = []
    for piece in sql.split("?"):
        pieces += [piece, "?"]
    return pieces[:-1]


class PostgresLayout(DocumentLayout):
    """google-adk's schema version 1 in PostgreSQL: JSONB, and times without a zone, in UTC."""

    name = "google-adk version 1"
    lock = " FOR UPDATE"
    merges = True
    exact_time = "(event_data ->> 'timestamp')::float8"

    def __init__(self) -> None:
        super().__init__()
        self.snapshot = SNAPSHOT
        self.rewrite(numbered)

    def says(self, key: str) -> str:
        return f"(event_data -> 'actions' -> '{key}') IS NOT NULL"

    def upsert(self, table: str, key: tuple[str, ...], *, replace: bool) -> str:
        sql = super().upsert(table, key, replace=replace)
        if not replace:
            return sql
        return sql.replace("state = excluded.state", f"state = {table}.state || excluded.state") + " RETURNING state"

    def bytewise(self, column: str) -> str:
        return f'{column} COLLATE "C"'

    def time(self, micros: int) -> Any:
        return naive_of(micros)

    def micros(self, raw: Any) -> int:
        return micros_of(raw)


_KEY = "app_name = $1 AND user_id = $2 AND {id} = $3"
_ROW, _EVENTS = _KEY.format(id="id"), _KEY.format(id="session_id")

#: A session, the shared states and the events behind a known one, in one statement and so in one snapshot (DBP-7).
#: $4 … $7 are the known marker, $8 and $9 the place of the newest known event; without one every event comes. The first
#: row is the session; state, count and events are left out while the marker holds.
SNAPSHOT = f"""
WITH s AS (
  SELECT create_time, update_time, state,
    (SELECT id FROM events WHERE {_EVENTS} ORDER BY timestamp DESC, id DESC LIMIT 1) AS last_id,
    (SELECT COUNT(*) FROM events e WHERE {_EVENTS} AND e.timestamp = sessions.update_time) AS twins
  FROM sessions WHERE {_ROW}
), c AS (
  SELECT (create_time, update_time, COALESCE(last_id, ''), twins)
    IS DISTINCT FROM ($4::timestamp, $5::timestamp, $6::text, $7::bigint) AS changed FROM s
)
SELECT 0 AS kind, s.create_time AS t, s.last_id AS id, s.update_time AS t2,
  CASE WHEN c.changed THEN s.state END AS data, a.state AS app, u.state AS usr, s.twins AS twins,
  CASE WHEN c.changed THEN (SELECT COUNT(*) FROM events WHERE {_EVENTS}) END AS number, NULL AS inv
FROM s CROSS JOIN c
LEFT JOIN app_states a ON a.app_name = $1
LEFT JOIN user_states u ON u.app_name = $1 AND u.user_id = $2
UNION ALL
SELECT 1, e.timestamp, e.id, NULL, e.event_data, NULL, NULL, NULL, NULL, e.invocation_id
FROM c CROSS JOIN events e
WHERE c.changed AND {_EVENTS} AND e.timestamp >= $8 AND (e.timestamp > $8 OR e.id > $9)
ORDER BY 1, 2, 3
"""


@cache
def append_statement(own: bool, app: bool, user: bool) -> str:
    """The append of one event as a chain of CTEs: session, app, user, event; each needs the one before it, which gives
    the order of the locks (spec DBP-5, services DB-12).

    Parameters: the key, the known update and create times, the newest known id, the new mark, event id, invocation id,
    event data, then the parts of the delta that are there. It gives one row: sessions updated, app and user state.
    """
    number = count(11)
    set_state = f", state = state || ${next(number)}::jsonb" if own else ""
    ctes = [
        f"s AS (UPDATE sessions SET update_time = $7{set_state} WHERE {_ROW} AND update_time = $4 AND create_time = $5 "
        f"AND NOT EXISTS (SELECT 1 FROM events WHERE {_EVENTS} AND timestamp = $4 AND id <> $6) RETURNING 1)"
    ]
    before = "s"
    if app:
        ctes.append(
            f"a AS (INSERT INTO app_states (app_name, state, update_time) SELECT $1, ${next(number)}::jsonb, $7 FROM "
            f"{before} ON CONFLICT (app_name) DO UPDATE SET state = app_states.state || excluded.state, "
            "update_time = excluded.update_time RETURNING state)"
        )
        before = "a"
    if user:
        ctes.append(
            f"u AS (INSERT INTO user_states (app_name, user_id, state, update_time) SELECT $1, $2, "
            f"${next(number)}::jsonb, $7 FROM {before} ON CONFLICT (app_name, user_id) DO UPDATE SET "
            "state = user_states.state || excluded.state, update_time = excluded.update_time RETURNING state)"
        )
        before = "u"
    ctes.append(
        "e AS (INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data) "
        f"SELECT $1, $2, $3, $8, $9, $7, $10::jsonb FROM {before} RETURNING 1)"
    )
    app_state = "(SELECT state FROM a)" if app else "NULL"
    user_state = "(SELECT state FROM u)" if user else "NULL"
    return f"WITH {', '.join(ctes)} SELECT (SELECT COUNT(*) FROM e), {app_state}, {user_state}"


def known_parameters(known: Known | None) -> tuple[Any, ...]:
    """What the parameters $4 … $9 of `SNAPSHOT` are."""
    if known is None:
        return None, None, "", -1, *known_place(known)
    marker = known.marker
    return marker.created_raw, marker.updated_raw, marker.last_id, marker.twins, *known_place(known)
