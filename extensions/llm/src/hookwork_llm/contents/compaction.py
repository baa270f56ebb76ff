"""Summaries in place of the events they cover (core CMP-3, CMP-11)."""

from __future__ import annotations

from collections.abc import Sequence

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
    is left out.
    """
    plan = CompactionPlan()
    records: list[tuple[int, EventCompaction, Content]] = []
    for position in positions:
        event = events[position]
        record = event.actions.compaction
        if record is None or event.isolation_scope != scope or not sees_branch(branch, event.branch):
            continue
        summary = summary_of(record)
        if summary is not None:
            records.append((position, record, summary))
    for i, (position, record, summary) in enumerate(records):
        if any(_replaces(other, record, later=j > i) for j, (_, other, _) in enumerate(records) if j != i):
            continue
        excluded = {(event.invocation_id, event.timestamp) for event in record.excluded_events}
        place = first_covered = -1
        for at in positions:
            event = events[at]
            if at >= position:
                break
            if event.timestamp < record.start_timestamp or event.actions.compaction is not None:
                continue
            place = at if place < 0 else place
            if event.timestamp > record.end_timestamp or (event.invocation_id, event.timestamp) in excluded:
                continue
            if event.isolation_scope == scope and sees_branch(branch, event.branch):
                plan.covered.add(at)
                first_covered = at if first_covered < 0 else first_covered
        if first_covered >= 0:
            place = first_covered
        elif not whole:
            continue
        plan.summaries.setdefault(position if place < 0 else place, []).append(summary)
    return plan


def _replaces(other: EventCompaction, record: EventCompaction, *, later: bool) -> bool:
    """Whether ``other`` covers all that ``record`` covers and is wider, or the same and later."""
    if other.start_timestamp > record.start_timestamp or other.end_timestamp < record.end_timestamp:
        return False
    same = other.start_timestamp == record.start_timestamp and other.end_timestamp == record.end_timestamp
    return later if same else True
