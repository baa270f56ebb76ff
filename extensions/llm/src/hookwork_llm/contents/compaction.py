"""Summaries in place of the events they cover (core CMP-3, CMP-11)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from hookwork.records.content import Content
from hookwork.records.event import Event
from hookwork_llm.contents.summaries import Summary, standing_summaries, visible_summaries
from hookwork_llm.contents.visibility import sees_branch


class CompactionPlan:
    """``covered``: positions of events that vanish. ``summaries``: position → what is shown in front of that event."""

    __slots__ = ("covered", "summaries")

    def __init__(self) -> None:
        self.covered: set[int] = set()
        self.summaries: dict[int, list[Content]] = {}


def plan_compaction(
    events: Sequence[Event],
    positions: Sequence[int],
    *,
    branch: str,
    scope: str,
    whole: bool = True,
) -> CompactionPlan:
    """What the visible compaction records among ``positions`` cover, and where their summaries stand.

    With ``whole`` unset (a prompt that begins in the middle of the history) a record that covers none of these events
    is left out. Cost: O(events * log(records)) besides that of `standing_summaries`; an event in the span of several
    records is looked up in each of them.
    """
    plan = CompactionPlan()
    standing = standing_summaries(visible_summaries(events, positions, branch=branch, scope=scope), events)
    if not standing:
        return plan
    first = _cover(plan, events, positions, standing, branch=branch, scope=scope)
    for record in sorted(standing, key=lambda record: record.position):
        place = first.get(record.position)
        if place is None:
            if not whole:
                continue
            place = place_of(record, events, positions)
        plan.summaries.setdefault(place, []).append(record.content)
    return plan


def _cover(
    plan: CompactionPlan,
    events: Sequence[Event],
    positions: Sequence[int],
    standing: Sequence[Summary],
    *,
    branch: str,
    scope: str,
) -> dict[int, int]:
    """Note the covered events in the plan; record's position → the first event that it covers."""
    first: dict[int, int] = {}
    starts = [record.start for record in standing]
    reach = list(accumulate((record.end for record in standing), max))  # newest end among a record and those before it
    for position in positions:
        event = events[position]
        if event.isolation_scope != scope or event.actions.compaction is not None:
            continue
        if not sees_branch(branch, event.branch):
            continue
        at = event.timestamp
        i = bisect_right(starts, at) - 1
        while i >= 0 and reach[i] >= at:
            record = standing[i]
            i -= 1
            if record.end >= at and position < record.position and (event.invocation_id, at) not in record.excluded:
                plan.covered.add(position)
                first.setdefault(record.position, position)
    return first


def place_of(record: Summary, events: Sequence[Event], positions: Sequence[int]) -> int:
    """Where a summary stands whose events are not loaded: before the first event that is no older than its span."""
    for position in positions:
        if position >= record.position:
            break
        if events[position].timestamp >= record.start and events[position].actions.compaction is None:
            return position
    return record.position
