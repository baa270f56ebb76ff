"""Windows over a log that make a valid prompt (services LOG-8, LOG-9).

A window may not begin between a call and its response, and begins where an invocation begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from hookwork.records.event import Event, EventCompaction
from hookwork.records.session import live_positions


class WindowIndex:
    """Where invocations begin and where calls stand, for the first ``length`` events of a log."""

    __slots__ = ("calls", "firsts", "length")

    def __init__(self) -> None:
        self.length = 0
        #: invocation id → position of its first event.
        self.firsts: dict[str, int] = {}
        #: call id → positions of the events that raise it, ascending.
        self.calls: dict[str, list[int]] = {}

    def extend(self, events: Sequence[Event]) -> None:
        """Take in the events behind those known."""
        for position in range(self.length, len(events)):
            event = events[position]
            self.firsts.setdefault(event.invocation_id, position)
            for call in event.function_calls:
                if call.id:
                    self.calls.setdefault(call.id, []).append(position)
        self.length = len(events)

    def close_pairs(self, events: Sequence[Event], start: int, end: int) -> int:
        """The nearest start at or before ``start`` with the call of every response in the window (rule b)."""
        position = end - 1
        while position >= start:
            for response in events[position].function_responses:
                positions = self.calls.get(response.id or "")
                if positions:
                    before = bisect_left(positions, position)
                    if before:
                        start = min(start, positions[before - 1])
            position -= 1
        return start

    def close(self, events: Sequence[Event], start: int, end: int) -> int:
        """`close_pairs`, and the window starts with the first event of an invocation (rules b and c)."""
        scanned = end
        while start < end:
            first = self.firsts[events[start].invocation_id]
            closed = self.close_pairs(events, min(start, first), scanned)
            if closed == start:
                break
            scanned = start = closed
        return start


def summary_start(events: Sequence[Event]) -> int:
    """The start of ``tail="summary"`` before rules b and c: the newest record and all that its span leaves out."""
    records = [
        (position, compaction)
        for position in live_positions(events)
        if (compaction := events[position].actions.compaction) is not None
    ]
    for position, compaction in reversed(records):
        if not any(_subsumes(other, compaction) for at, other in records if at != position):
            start = position
            break
    else:
        return 0
    excluded = {(item.invocation_id, item.timestamp) for item in compaction.excluded_events}
    for earlier in range(start):
        event = events[earlier]
        if event.actions.compaction is not None:
            continue  # older summaries: subsumed, or loaded with the events that stand around them
        covered = compaction.start_timestamp <= event.timestamp <= compaction.end_timestamp
        if not covered or (event.invocation_id, event.timestamp) in excluded:
            return earlier
    return start


def _subsumes(other: EventCompaction, compaction: EventCompaction) -> bool:
    """Whether ``other`` covers the whole span and more."""
    spans = (other.start_timestamp, other.end_timestamp), (compaction.start_timestamp, compaction.end_timestamp)
    return spans[0] != spans[1] and spans[0][0] <= spans[1][0] and spans[0][1] >= spans[1][1]
