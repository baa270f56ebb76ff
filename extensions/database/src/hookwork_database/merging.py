"""What a read found, worked into what is known: one log per session, however many reads and appends cross.

A snapshot may arrive after an append that the store carried out later. Both are prefixes of one append-only order, so
events are put at their absolute positions and nothing is taken twice; only a history that was changed in front of its
end (a foreign writer with a slow clock, services DB-23) begins a log anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from hookwork.records.session import Session
from hookwork_database.keys import SessionKey
from hookwork_database.loaded import LoadedCache, LoadedSession, SelectedLog, StoredEvent, end_of, extend
from hookwork_database.reading import Known, Snapshot
from hookwork_database.writing import Foreign


def work_in(
    owner: object,
    cache: LoadedCache,
    key: SessionKey,
    loaded: LoadedSession | None,
    known: Known | None,
    snapshot: Snapshot,
) -> LoadedSession:
    """The loaded session with a snapshot's news in it.

    Raises:
        LookupError: what was known when the read began has been begun anew since; read again.
    """
    if loaded is not None and loaded.created != snapshot.created:
        loaded.alive = False  # deleted and made again by somebody else
        loaded = None
    if loaded is not None:
        if snapshot.fresh:
            fits = _fit(loaded, snapshot.offset, snapshot.events)
        else:
            assert known is not None, "a snapshot that is not fresh adds to what was known"
            fits = _fit(loaded, known.offset - len(snapshot.earlier), snapshot.earlier) and _fit(
                loaded, known.end, snapshot.newer
            )
        if fits:
            _take_marker(loaded, snapshot)
            return loaded
    if not snapshot.fresh:
        raise LookupError(key)
    fresh = _new(owner, key, snapshot)
    if loaded is not None:
        loaded.successor = fresh
    cache.put(fresh)
    return fresh


def _fit(loaded: LoadedSession, offset: int, events: Sequence[StoredEvent]) -> bool:
    """Put events at their positions; False, and nothing is changed, when they contradict what is known."""
    if not events:
        return offset <= loaded.end
    first, end = loaded.log.offset, loaded.end
    behind = offset + len(events)
    if offset > end or behind < first:
        return False  # a gap between
    known = loaded.log.events
    for position in (offset, behind - 1, end - 1):
        in_both = first <= position < end and offset <= position < behind
        if in_both and known[position - first].id != events[position - offset].event.id:
            return False
    if first == end and offset < end <= behind and events[end - 1 - offset].event.id != loaded.marker.last_id:
        return False  # nothing is loaded, but the newest stored event is known
    if offset < first:
        loaded.add_in_front(list(events[: first - offset]))
    for stored in events[max(0, end - offset) :]:
        loaded.add(stored)
    return True


def _take_marker(loaded: LoadedSession, snapshot: Snapshot) -> None:
    """Row, state and shared states, unless appends of this process are ahead of the snapshot."""
    if snapshot.end < loaded.end:
        return
    loaded.marker = snapshot.marker
    if snapshot.state is not None:
        loaded.state = snapshot.state
    loaded.app, loaded.user = snapshot.app, snapshot.user


def _new(owner: object, key: SessionKey, snapshot: Snapshot) -> LoadedSession:
    loaded = LoadedSession(owner, key, snapshot.created, snapshot.marker, snapshot.offset)
    for stored in snapshot.events:
        loaded.add(stored)
    if snapshot.last is not None:
        loaded.last, loaded.last_micros = snapshot.last[:2], snapshot.last[2]
    assert snapshot.state is not None, "a fresh snapshot has the state"
    loaded.state, loaded.app, loaded.user = snapshot.state, snapshot.app, snapshot.user
    return loaded


def take_foreign(owner: object, cache: LoadedCache, loaded: LoadedSession, foreign: Foreign) -> LoadedSession:
    """The loaded session with what others stored in it; a new one when they changed history in front."""
    if foreign.whole:
        fresh = LoadedSession(owner, loaded.key, loaded.created, foreign.marker)
        for stored in foreign.events:
            fresh.add(stored)
        fresh.app, fresh.user = loaded.app, loaded.user
        fresh.busy, fresh.waiting = loaded.busy, loaded.waiting
        loaded.successor = fresh
        cache.put(fresh)
        loaded = fresh
    else:
        for stored in foreign.events:
            if stored.event.id not in loaded.positions:
                loaded.add(stored)
        loaded.marker = foreign.marker
    loaded.state = foreign.state
    return loaded


def latest(loaded: LoadedSession) -> LoadedSession:
    """The one that holds now."""
    while loaded.successor is not None:
        loaded = loaded.successor
    return loaded


def follow(session: Session, loaded: LoadedSession) -> LoadedSession:
    """Bring a handle of a log that was begun anew over to the present one: it shows all it showed, and what is new."""
    if loaded.successor is None:
        return loaded
    complete, shown = session.complete, {event.id for event in session.events}
    loaded = latest(loaded)
    places = [place for place, event in enumerate(loaded.log.events) if event.id in shown]
    end = places[-1] + 1 if places else len(loaded.log.events)
    first = 0 if complete else places[0] if places else end
    session.log, session.start, session.length, session.backend = loaded.log, first, end - first, loaded
    return loaded


def show(session: Session, loaded: LoadedSession, end: int) -> int:
    """Let a handle show events up to ``end``; how many were added."""
    before = end_of(session)
    if end > before:
        extend(session, loaded, end)
        return end - before
    return 0


def first_shown(session: Session) -> int:
    """The absolute position of the first event a handle shows."""
    return session.log.first if isinstance(session.log, SelectedLog) else session.log.offset + session.start
