"""Which events make a valid prompt: windows that cut no call from its response (services LOG-8, LOG-9)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from hookwork.records.event import Event, EventCompaction
from hookwork.records.session import EventLog, live_positions

_SLOT = "database.windows"


class WindowIndex:
    """Where in a list of events calls stand and invocations begin; taken further as the list grows."""

    __slots__ = ("_calls", "_length", "firsts")

    def __init__(self) -> None:
        self._length = 0
        self._calls: dict[str, list[int]] = {}
        #: invocation id → index of its first event.
        self.firsts: dict[str, int] = {}

    def extend(self, events: Sequence[Event]) -> None:
        """Take in the events behind those known."""
        for index in range(self._length, len(events)):
            event = events[index]
            self.firsts.setdefault(event.invocation_id, index)
            for call in event.function_calls:
                if call.id:
                    self._calls.setdefault(call.id, []).append(index)
        self._length = len(events)

    def caller(self, call_id: str, index: int) -> int | None:
        """The last event before ``index`` that raises the call."""
        found = self._calls.get(call_id, ())
        place = bisect_left(found, index)
        return found[place - 1] if place else None


def index_of(log: EventLog) -> WindowIndex:
    """The index of a log, brought up to date; kept with the log."""
    index: Any = log.slots.get(_SLOT)
    if index is None:
        index = log.slots[_SLOT] = WindowIndex()
    index.extend(log.events)
    return index  # type: ignore[no-any-return]


def pairs_closed(events: Sequence[Event], index: WindowIndex, start: int, end: int) -> tuple[int, bool]:
    """The nearest start at or before ``start`` with the call of every response in the window.

    Returns:
        The start, and whether every call was found among ``events``; if not, it may stand in front of them.
    """
    found_all = True
    place = end - 1
    while place >= start:
        for response in events[place].function_responses:
            if response.id:
                caller = index.caller(response.id, place)
                if caller is None:
                    found_all = False
                elif caller < start:
                    start = caller
        place -= 1
    return start, found_all


def window_closed(events: Sequence[Event], index: WindowIndex, start: int, end: int) -> tuple[int, bool]:
    """`pairs_closed`, and the window starts with the first known event of an invocation."""
    found_all = True
    looked_at = end
    while start < looked_at:
        begin = min(start, index.firsts[events[start].invocation_id])
        closed, found = pairs_closed(events, index, begin, looked_at)
        found_all = found_all and found
        looked_at = start
        start = closed
    return start, found_all


def summary_start(events: Sequence[Event]) -> int:
    """Where ``tail="summary"`` begins, before pairs and invocations are made whole.

    That is the newest live compaction record that no other subsumes, or the first event in front of it that its span
    does not cover, whichever comes first; 0 without a record.
    """
    live = [index for index in live_positions(events) if events[index].actions.compaction is not None]
    newest = newest_compaction([events[index] for index in live])
    if newest is None:
        return 0
    index = live[newest]
    record = events[index].actions.compaction
    assert record is not None, "it is a record"
    left_out = {(excluded.invocation_id, excluded.timestamp) for excluded in record.excluded_events}
    for earlier, event in enumerate(events[:index]):
        if event.actions.compaction is not None:
            continue
        inside = record.start_timestamp <= event.timestamp <= record.end_timestamp
        if not inside or (event.invocation_id, event.timestamp) in left_out:
            return earlier
    return index


def newest_compaction(events: Sequence[Event]) -> int | None:
    """The place, among events, of the newest compaction record that no other subsumes; None when there is none."""
    records = [(place, event.actions.compaction) for place, event in enumerate(events) if event.actions.compaction]
    for place, record in reversed(records):
        if record is not None and not any(
            _is_wider(other, record) for at, other in records if at != place and other is not None
        ):
            return place
    return None


def _is_wider(other: EventCompaction, record: EventCompaction) -> bool:
    if (other.start_timestamp, other.end_timestamp) == (record.start_timestamp, record.end_timestamp):
        return False
    return other.start_timestamp <= record.start_timestamp and other.end_timestamp >= record.end_timestamp
