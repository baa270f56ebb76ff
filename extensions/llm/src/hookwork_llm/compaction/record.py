"""The event that holds a summary (core CMP-3, CMP-7, CMP-8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hookwork.errors import CompactionError
from hookwork.platform import new_uuid
from hookwork.records.content import Content, Part
from hookwork.records.event import (
    Event,
    EventActions,
    EventCompaction,
    ExcludedEvent,
    is_compaction,
    is_rewind,
    new_event,
)
from hookwork.records.metadata import UsageMetadata
from hookwork_llm.compaction.timeline import Coverage, Timeline
from hookwork_llm.compaction.windows import Window

if TYPE_CHECKING:
    from hookwork.records.session import Session


class Span(msgspec.Struct, frozen=True):
    """What a summary will stand for: inclusive bounds in epoch seconds, and what lies in between and is not in it."""

    start: float
    end: float
    excluded: tuple[ExcludedEvent, ...]


def span_of(timeline: Timeline, window: Window) -> Span:
    """The span of a window and its seeds."""
    events = timeline.events
    times = [events[position].timestamp for position in window.positions]
    start, end = min(times), max(times)
    seeds = [events[position] for position in window.seeds]
    for seed in seeds:
        compaction = seed.actions.compaction
        assert compaction is not None
        start, end = min(start, compaction.start_timestamp), max(end, compaction.end_timestamp)
    inside = set(window.positions)
    covered = [(at, Coverage(seed)) for at, seed in zip(window.seeds, seeds, strict=True)]
    excluded = []
    for position in timeline.near(start, end):
        event = events[position]
        if position in inside or not start <= event.timestamp <= end or is_compaction(event):
            continue
        if event.isolation_scope != window.lane[1]:
            continue  # a record is honoured in its own scope only
        if any(position < at and event in coverage for at, coverage in covered):
            continue
        excluded.append(ExcludedEvent(invocation_id=event.invocation_id, timestamp=event.timestamp))
    return Span(start, end, tuple(excluded))


def clean_summary(content: Content | None) -> Content:
    """Only the text of a summary, as a model's; no thoughts, calls, files or signatures (CMP-8).

    Raises:
        CompactionError: nothing is left.
    """
    parts = [] if content is None else [Part(text=part.text) for part in content.parts if _is_plain_text(part)]
    if not parts:
        raise CompactionError("the summary has no text; the history stays as it is")
    return Content(role="model", parts=parts)


def _is_plain_text(part: Part) -> bool:
    text = part.text
    if part.thought or text is None or not text or text.isspace():
        return False
    return part.replace(thought=None, thought_signature=None, part_metadata=None) == Part(text=text)


def compaction_event(window: Window, span: Span, summary: Content, usage: UsageMetadata | None) -> Event:
    """The event; its content is empty, so nobody takes it for something that was said."""
    branch, scope = window.lane
    compaction = EventCompaction(
        start_timestamp=span.start,
        end_timestamp=span.end,
        compacted_content=summary,
        excluded_events=span.excluded,
    )
    return new_event(
        f"e-{new_uuid()}",
        author="user",
        branch=branch,
        isolation_scope=scope,
        usage_metadata=usage,
        actions=EventActions(compaction=compaction),
    )


def still_holds(timeline: Timeline, window: Window, span: Span, fresh: Session) -> bool:
    """Whether nothing happened meanwhile that a summary of the window would hide or contradict (CMP-7).

    ``fresh`` is the session as it is stored now. What may not have come since the window was chosen: an event inside
    the span, another summary of events of the window, a rewind.
    """
    known = timeline.end - fresh.log.offset - fresh.start
    later: Sequence[Event] = fresh.events[max(known, 0) :]
    window_events = [timeline.events[position] for position in window.positions]
    for event in later:
        if is_rewind(event):
            return False
        if is_compaction(event):
            covered = Coverage(event)
            if any(one in covered for one in window_events):
                return False
        elif event.isolation_scope == window.lane[1] and span.start <= event.timestamp <= span.end:
            return False
    return known >= 0 and len(fresh.events) >= known
