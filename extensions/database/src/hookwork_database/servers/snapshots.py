"""The open in one statement: when it does, and what its rows say (spec DBP-7).

The first row is the session: create time ``t``, newest event ``id``, update time ``t2``, state ``data``, shared states
``app`` and ``usr``, ``twins``, and the ``number`` of stored events; state and number are null while the known marker
holds. The rows behind it are events: time, id, invocation ``inv`` and document ``data``.
"""

from __future__ import annotations

import asyncio
from typing import Any

from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import Layout
from hookwork_database.loaded import Marker
from hookwork_database.moments import FIRST, naive_of
from hookwork_database.plans import shared_state
from hookwork_database.reading import Known, Snapshot, Want

#: From how many rows on they are decoded outside of the event loop: about 3 ms of work.
_MANY = 300
#: A time before every event.
NO_TIME = naive_of(FIRST)
# Places of the columns in a row.
_T, _ID, _T2, _DATA, _APP, _USR, _TWINS, _NUMBER, _INV = range(1, 10)


def can_be_one_statement(known: Known | None, want: Want) -> bool:
    """Whether nothing is wanted in front of the known events, or all is wanted and nothing known."""
    if known is None or not (known.loaded or known.whole or want.kind == "last"):
        return want.kind == "all"
    return known.whole or (want.kind == "last" and want.number <= known.loaded)


def known_place(known: Known | None) -> tuple[Any, Any]:
    """The place behind which events are wanted."""
    return known.last if known is not None and known.last is not None else (NO_TIME, "")


async def decoded(layout: Layout, key: SessionKey, known: Known | None, rows: Any) -> Snapshot | None:
    """`snapshot_of`, in a thread when it takes long enough for others to notice (spec DBP-12)."""
    if len(rows) > _MANY:
        return await asyncio.to_thread(snapshot_of, layout, key, known, rows)
    return snapshot_of(layout, key, known, rows)


def snapshot_of(layout: Layout, key: SessionKey, known: Known | None, rows: Any) -> Snapshot | None:
    """What the rows say; None when history was changed in front of what is known, or another session has the id."""
    first = rows[0]
    created, updated = layout.session_micros(first[_T], key), layout.session_micros(first[_T2], key)
    marker = Marker(first[_T], first[_T2], updated, first[_ID] or "", first[_TWINS])
    app = shared_state(layout, first[_APP], known.app if known else None, f"table app_states: app {key.app_name!r}")
    user = shared_state(layout, first[_USR], known.user if known else None, f"table user_states: user {key.user_id!r}")
    if first[_NUMBER] is None:
        assert known is not None, "nothing is left out when nothing was known"
        return Snapshot(created, marker, app, user, None, False, 0, [], [], [], known.end, None, None)
    state = layout.session_state(first[_DATA], key)
    events = [layout.stored((row[_T], row[_ID], row[_ID], row[_INV], row[_DATA]), key) for row in rows[1:]]
    if known is not None:
        if known.created != created or first[_NUMBER] != known.end + len(events):
            return None
        end = known.end + len(events)
        return Snapshot(created, marker, app, user, state, False, 0, [], [], events, end, None, None)
    last = (events[-1].raw, events[-1].tie, events[-1].micros) if events else None
    return Snapshot(created, marker, app, user, state, True, 0, events, [], [], len(events), None, last)
