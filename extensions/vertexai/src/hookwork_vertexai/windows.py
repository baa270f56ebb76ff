"""Windows of a history that make a valid prompt (services LOG-8, LOG-9).

In a window stands the call of every response in it, and it begins where an invocation begins. What has to be known
about a log for that is kept with the log and taken further as the log grows.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import cast

from hookwork.records.event import EventCompaction
from hookwork.records.session import EventLog, live_positions

_SLOT = "vertexai.windows"


class _Marks:
    """Of a log's first ``known`` events: where each invocation begins, and where each call id is raised."""

    __slots__ = ("begins", "known", "raised")

    def __init__(self) -> None:
        self.known = 0
        self.begins: dict[str, int] = {}
        self.raised: dict[str, list[int]] = {}


def _marks(log: EventLog) -> _Marks:
    marks = cast("_Marks", log.slots.setdefault(_SLOT, _Marks()))
    for place in range(marks.known, len(log.events)):
        event = log.events[place]
        marks.begins.setdefault(event.invocation_id, place)
        for call in event.function_calls:
            if call.id:
                marks.raised.setdefault(call.id, []).append(place)
    marks.known = len(log.events)
    return marks


def with_calls(log: EventLog, start: int, end: int) -> int:
    """The nearest place at or before ``start`` from which every response up to ``end`` has its call in front of it."""
    marks = _marks(log)
    place = end
    while place > start:
        place -= 1
        for response in log.events[place].function_responses:
            callers = marks.raised.get(response.id or "", [])
            before = bisect_left(callers, place)
            if before:
                start = min(start, callers[before - 1])
    return start


def whole_turns(log: EventLog, start: int, end: int) -> int:
    """As `with_calls`, and the first event of the window is the first of its invocation."""
    while start < end:
        begin = min(start, _marks(log).begins[log.events[start].invocation_id])
        begin = with_calls(log, begin, end)
        if begin == start:
            break
        start = begin
    return start


def since_summary(log: EventLog) -> int:
    """Where ``tail="summary"`` has to reach back to, pairs and invocations not yet looked at.

    That is the newest live summary that no wider one makes superfluous, or the first event before it that this summary
    does not speak for; the beginning when there is none.
    """
    events = log.events
    found = [(place, record) for place in live_positions(events) if (record := events[place].actions.compaction)]
    for place, record in reversed(found):
        if not any(_wider(other, record) for elsewhere, other in found if elsewhere != place):
            break
    else:
        return 0
    left_out = {(one.invocation_id, one.timestamp) for one in record.excluded_events}
    for earlier in range(place):
        event = events[earlier]
        spoken_for = (
            record.start_timestamp <= event.timestamp <= record.end_timestamp
            and (event.invocation_id, event.timestamp) not in left_out
        )
        if event.actions.compaction is None and not spoken_for:
            return earlier
    return place


def _wider(one: EventCompaction, other: EventCompaction) -> bool:
    begins_earlier = one.start_timestamp < other.start_timestamp
    ends_later = one.end_timestamp > other.end_timestamp
    return (begins_earlier and one.end_timestamp >= other.end_timestamp) or (
        ends_later and one.start_timestamp <= other.start_timestamp
    )
