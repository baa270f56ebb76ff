"""Summaries in place of the events they cover (core CMP-3, CMP-11)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from hookwork.records.content import Content
from hookwork.records.event import Event, EventCompaction
from hookwork_llm.contents.visibility import sees_branch


class CompactionPlan:
    """``covered``: positions of events that vanish. ``summaries``: position → what is shown in front of that event."""

    __slots__ = ("covered", "summaries")

    def __init__(self) -> None:
        self.covered: set[int] = set()
        self.summaries: dict[int, list[Content]] = {}


def summary_of(record: EventCompaction) -> Content | None:
    """The summary as a model content, None when it has no text to show (CMP-8)."""
    content = record.compacted_content
    if content is None:
        return None
    parts = [part for part in content.parts if part.text and not part.text.isspace() and not part.thought]
    return Content(role="model", parts=parts) if parts else None


def plan_compaction(
    events: Sequence[Event], positions: Sequence[int], *, branch: str, scope: str, whole: bool = True
) -> CompactionPlan:
    """What the visible compaction records among ``positions`` cover, and where their summaries stand.

    With ``whole`` unset (a prompt that begins in the middle of the history) a record that covers none of these events
    is left out. Cost: O((events + records) * log(records)).
    """
    plan = CompactionPlan()
    records = _surviving(list(_visible_records(events, positions, branch, scope)), events)
    if not records:
        return plan
    starts = [record.start for record in records]
    reach = list(accumulate((record.end for record in records), max))  # newest end among a record and those before it
    for position in positions:
        event = events[position]
        if event.isolation_scope != scope or event.actions.compaction is not None:
            continue
        if not sees_branch(branch, event.branch):
            continue
        at = event.timestamp
        i = bisect_right(starts, at) - 1
        while i >= 0 and reach[i] >= at:
            record = records[i]
            i -= 1
            if record.end >= at and position < record.position and (event.invocation_id, at) not in record.excluded:
                plan.covered.add(position)
                record.first = position if record.first < 0 else record.first
    for record in sorted(records, key=lambda record: record.position):
        if record.first < 0 and not whole:
            continue
        place = record.first if record.first >= 0 else _place_of(record, events, positions)
        plan.summaries.setdefault(place, []).append(record.summary)
    return plan


class _Record:
    """A compaction record with its summary; ``first`` is the position of the first event that it covers, or -1."""

    __slots__ = ("end", "excluded", "first", "position", "start", "summary")

    def __init__(self, position: int, record: EventCompaction, summary: Content) -> None:
        self.position = position
        self.start = record.start_timestamp
        self.end = record.end_timestamp
        self.excluded = {(event.invocation_id, event.timestamp) for event in record.excluded_events}
        self.summary = summary
        self.first = -1

    def left_out_of(self, other: _Record) -> list[tuple[str, float]]:
        """What this record excludes and ``other`` does not, of the span of ``other``."""
        return [key for key in self.excluded if other.start <= key[1] <= other.end and key not in other.excluded]


def _visible_records(events: Sequence[Event], positions: Sequence[int], branch: str, scope: str) -> Iterator[_Record]:
    for position in positions:
        event = events[position]
        record = event.actions.compaction
        if record is not None and event.isolation_scope == scope and sees_branch(branch, event.branch):
            summary = summary_of(record)
            if summary is not None:
                yield _Record(position, record, summary)


def _surviving(records: list[_Record], events: Sequence[Event]) -> list[_Record]:
    """The records without those that a wider one, or a later one of the same span, covers; starts ascend.

    Covers: stands for all of its events. One that leaves out an event of the narrower record does not replace it, or
    that event would come back.
    """
    kept: list[_Record] = []
    reaching: list[_Record] = []  # of those, the ones that do not end before the record at hand begins
    places: dict[tuple[str, float], int] = {}

    def replaces(wider: _Record, narrower: _Record) -> bool:
        if wider.end < narrower.end:
            return False
        left_out = wider.left_out_of(narrower)
        if left_out and not places:
            for position, event in enumerate(events):
                places.setdefault((event.invocation_id, event.timestamp), position)
        # What came after the narrower record is none of its events, whatever its time says.
        return all(places.get(key, -1) >= narrower.position for key in left_out)

    for record in sorted(records, key=lambda record: (record.start, -record.end, -record.position)):
        reaching = [other for other in reaching if other.end >= record.start]
        if not any(replaces(other, record) for other in reaching):
            kept.append(record)
            reaching.append(record)
    return kept


def _place_of(record: _Record, events: Sequence[Event], positions: Sequence[int]) -> int:
    """Where a summary stands whose events are not loaded: before the first event that is no older than its span."""
    for position in positions:
        if position >= record.position:
            break
        if events[position].timestamp >= record.start and events[position].actions.compaction is None:
            return position
    return record.position
