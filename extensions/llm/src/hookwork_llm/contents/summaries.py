"""Which summaries of a history stand: a wider one takes the place of those whose events it stands for (CMP-3, CMP-11).

What a record stands for is fixed when it is stored: the events in front of it, inside its span, that it does not
exclude. So a record that was replaced once is replaced for good, and only what stands has to be kept (`Survivors`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from hookwork.records.content import Content
from hookwork.records.event import Event, EventCompaction
from hookwork_llm.contents.visibility import sees_branch

#: (invocation id, timestamp): how a record names an event that it excludes.
Key = tuple[str, float]


def summary_of(record: EventCompaction) -> Content | None:
    """The summary as a model content, None when it has no text to show (CMP-8)."""
    content = record.compacted_content
    if content is None:
        return None
    parts = [part for part in content.parts if part.text and not part.text.isspace() and not part.thought]
    return Content(role="model", parts=parts) if parts else None


def excluded_keys(record: EventCompaction) -> frozenset[Key]:
    """The events inside its span that a record does not stand for."""
    return frozenset((event.invocation_id, event.timestamp) for event in record.excluded_events)


class Summary:
    """A compaction record with a text to show. ``position``: of its event."""

    __slots__ = ("_by_time", "content", "end", "excluded", "position", "start")

    def __init__(self, position: int, record: EventCompaction, content: Content) -> None:
        self.position = position
        self.start = record.start_timestamp
        self.end = record.end_timestamp
        self.excluded = excluded_keys(record)
        self.content = content
        self._by_time: list[tuple[float, str]] | None = None

    def excluded_within(self, start: float, end: float) -> Iterable[Key]:
        """What it excludes of a span of time, in the order of time."""
        if self._by_time is None:
            self._by_time = sorted((at, invocation) for invocation, at in self.excluded)
        by_time = self._by_time
        for i in range(bisect_left(by_time, (start, "")), len(by_time)):
            at, invocation = by_time[i]
            if at > end:
                return
            yield invocation, at


def visible_summaries(
    events: Sequence[Event], positions: Iterable[int], *, branch: str, scope: str
) -> Iterable[Summary]:
    """The records among ``positions`` that an agent of this branch and scope may be shown."""
    for position in positions:
        event = events[position]
        record = event.actions.compaction
        if record is not None and event.isolation_scope == scope and sees_branch(branch, event.branch):
            content = summary_of(record)
            if content is not None:
                yield Summary(position, record, content)


class Places:
    """The first position of every event, by how records name it; made when asked for and carried on."""

    __slots__ = ("_first", "_known")

    def __init__(self) -> None:
        self._first: dict[Key, int] = {}
        self._known = 0

    def of(self, key: Key, events: Sequence[Event]) -> int:
        """-1 for one that is not among ``events``, which only grow from call to call."""
        first = self._first
        for position in range(self._known, len(events)):
            event = events[position]
            first.setdefault((event.invocation_id, event.timestamp), position)
        self._known = len(events)
        return first.get(key, -1)


class _Replacing:
    """Whether one record stands for all events of another, over one history."""

    __slots__ = ("_earliest_behind", "_events", "_places")

    def __init__(self, events: Sequence[Event], places: Places | None = None) -> None:
        self._events = events
        self._places = places if places is not None else Places()
        self._earliest_behind: list[float] | None = None

    def __call__(self, wider: Summary, narrower: Summary) -> bool:
        if wider.end < narrower.end:
            return False
        for key in wider.excluded_within(narrower.start, narrower.end):
            if key not in narrower.excluded and self._place(key) < narrower.position:
                return False
        return wider.position >= narrower.position or not self._came_between(wider, narrower)

    def _place(self, key: Key) -> int:
        """The first position of an event; -1 for one that is not loaded."""
        return self._places.of(key, self._events)

    def _came_between(self, wider: Summary, narrower: Summary) -> bool:
        """Whether the narrower, later record stands for an event that the wider one could not know yet."""
        if self._earliest_behind is None:
            times = [event.timestamp for event in self._events]
            self._earliest_behind = list(accumulate(reversed(times), min))[::-1]
        if self._earliest_behind[wider.position] > narrower.end:
            return False
        for position in range(wider.position, narrower.position):
            event = self._events[position]
            at = event.timestamp
            inside = narrower.start <= at <= narrower.end and event.actions.compaction is None
            if inside and (event.invocation_id, at) not in narrower.excluded:
                return True
        return False


def standing_summaries(
    summaries: Iterable[Summary], events: Sequence[Event], places: Places | None = None
) -> list[Summary]:
    """The records without those that a wider one, or a later one of the same span, stands for; starts ascend.

    Cost: O(records * log(records) + what they exclude), as a pair is told apart by its first difference; records whose
    spans overlap are compared pairwise.
    """
    kept: list[Summary] = []
    reaching: list[Summary] = []  # of those, the ones that do not end before the record at hand begins
    replaces = _Replacing(events, places)
    for summary in sorted(summaries, key=lambda summary: (summary.start, -summary.end, -summary.position)):
        reaching = [other for other in reaching if other.end >= summary.start]
        if not any(replaces(other, summary) for other in reaching):
            kept.append(summary)
            reaching.append(summary)
    return kept


class Survivors:
    """The standing summaries that one branch and scope sees, kept with the log and carried on by what is appended.

    ``seen``: all records among the events taken in last, standing or not.
    """

    __slots__ = ("_places", "position", "seen", "summaries")

    def __init__(self) -> None:
        self.position = 0
        self.summaries: list[Summary] = []
        self.seen: list[Summary] = []
        self._places = Places()

    def extend(self, events: Sequence[Event], positions: Iterable[int], *, branch: str, scope: str) -> None:
        """Take in further events; ``positions`` ascend."""
        self.seen = list(visible_summaries(events, positions, branch=branch, scope=scope))
        if self.seen:
            self.summaries = standing_summaries([*self.summaries, *self.seen], events, self._places)
        self.position = len(events)
