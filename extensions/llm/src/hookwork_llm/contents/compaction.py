"""Summaries in place of the events they cover (core CMP-3, CMP-11)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

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
    records = _surviving(list(_visible_records(events, positions, branch, scope)))
    if not records:
        return plan
    starts = [record.start for record in records]
    ends = [record.end for record in records]
    for position in positions:
        event = events[position]
        if event.isolation_scope != scope or event.actions.compaction is not None:
            continue
        if not sees_branch(branch, event.branch):
            continue
        at = event.timestamp
        for record in records[bisect_left(ends, at) : bisect_right(starts, at)]:
            if position < record.position and (event.invocation_id, at) not in record.excluded:
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


def _visible_records(events: Sequence[Event], positions: Sequence[int], branch: str, scope: str) -> Iterator[_Record]:
    for position in positions:
        event = events[position]
        record = event.actions.compaction
        if record is not None and event.isolation_scope == scope and sees_branch(branch, event.branch):
            summary = summary_of(record)
            if summary is not None:
                yield _Record(position, record, summary)


def _surviving(records: list[_Record]) -> list[_Record]:
    """The records without those that a wider one, or a later one of the same span, covers; starts and ends ascend."""
    kept: list[_Record] = []
    for record in sorted(records, key=lambda record: (record.start, -record.end, -record.position)):
        if not kept or record.end > kept[-1].end:
            kept.append(record)
    return kept


def _place_of(record: _Record, events: Sequence[Event], positions: Sequence[int]) -> int:
    """Where a summary stands whose events are not loaded: before the first event that is no older than its span."""
    for position in positions:
        if position >= record.position:
            break
        if events[position].timestamp >= record.start and events[position].actions.compaction is None:
            return position
    return record.position
