"""Which events are summarised next (core CMP-4, CMP-5, CMP-6, B-13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

import msgspec

from hookwork_llm.compaction.links import Links
from hookwork_llm.compaction.timeline import Lane, Timeline, open_scopes

#: A summary of one event is hardly shorter than the event.
MIN_EVENTS = 2

#: So many summaries of one lane stand side by side; the window after them carries them on in one. Without that a
#: conversation without end would have a prompt without end, only more slowly.
MAX_SUMMARIES = 8

#: Characters that an event makes in the summarizer's transcript.
Measure = Callable[[int], int]


class Window(msgspec.Struct, frozen=True):
    """Events to summarise: positions in one lane. ``seeds``: positions of summaries that the new one supersedes."""

    lane: Lane
    positions: tuple[int, ...]
    seeds: tuple[int, ...] = ()


# --- sliding window ---------------------------------------------------------------------------------------------------


def sliding_window(timeline: Timeline, *, interval: int, overlap: int, fit: Fit | None = None) -> Window | None:
    """The window of whole invocations that is due, None when none is (CMP-4).

    Lanes are asked in the order of their oldest event that is in no summary. Of scopes, only those whose task is still
    open: nobody is shown a finished one again.
    """
    if len(_invocations(timeline, timeline.uncovered)) < interval:  # the usual case, told without a look at the lanes
        return None
    due = [
        (lane, fresh)
        for lane, fresh in timeline.lanes(timeline.uncovered).items()
        if len(_invocations(timeline, fresh)) >= interval
    ]
    if due and any(lane[1] for lane, _ in due):
        speaking = open_scopes(timeline.session)
        due = [(lane, fresh) for lane, fresh in due if not lane[1] or lane[1] in speaking]
    if not due:
        return None
    links = Links(timeline)
    if fit is not None:
        links.blocked.update(fit.too_large(position for _, fresh in due for position in fresh))
    for lane, fresh in due:
        search = _Sliding(timeline, links, lane, fresh, interval=interval, overlap=overlap)
        found = search.find()
        if found and fit is not None:
            found = fit.cut(found, partial(search.best, least=1))
        if found:
            return Window(lane, tuple(found), _merged(timeline, lane, found, fit))
    return None


def _merged(timeline: Timeline, lane: Lane, found: Sequence[int], fit: Fit | None) -> tuple[int, ...]:
    """The lane's earlier summaries, once there are too many of them and the summarizer can take them as well."""
    seeds = seeds_of(timeline, lane, found)
    if len(seeds) < MAX_SUMMARIES or (fit is not None and not fit.takes([*seeds, *found])):
        return ()
    return tuple(seeds)


class _Sliding:
    """The search in one lane."""

    def __init__(
        self, timeline: Timeline, links: Links, lane: Lane, fresh: Sequence[int], *, interval: int, overlap: int
    ) -> None:
        self.timeline = timeline
        self.links = links
        self.lane = lane
        self.fresh = fresh
        self.is_fresh = frozenset(fresh)
        self.interval = interval
        self.overlap = overlap

    def find(self) -> list[int]:
        """The due window's positions, empty when no stretch can be summarised now."""
        found = self._within(self.fresh, self.interval)
        if found:
            return found
        reachable = fresh = self._in_reach()
        while len(invocations := _invocations(self.timeline, fresh)) >= max(1, (self.interval + 1) // 2):
            found = self._within(fresh, self.interval)
            if found:
                return found
            fresh = [p for p in fresh if self.timeline.events[p].invocation_id != invocations[0]]
        # Invocations that were resumed by turns hang together: no window of `interval` of them parts nothing.
        total, count = len(_invocations(self.timeline, reachable)), self.interval
        while not found and self.interval <= count < total:
            count *= 2
            found = self._within(reachable, count)
        return found

    def _within(self, fresh: Sequence[int], count: int) -> list[int]:
        """What can be summarised of the first ``count`` invocations of these events and their overlap."""
        return self.best(self._between(fresh[0], self._behind(fresh, count)), prefer_head=True)

    def _in_reach(self) -> list[int]:
        """The fresh events of stretches that are worth a summary.

        Invocations that wait for an answer, and what is left of them, would otherwise fill up the interval for ever.
        """
        sequence = self.timeline.in_lane(self.lane, self.fresh[0])
        runs = (sequence[begin:end] for begin, end in self.links.runs(self.lane, sequence))
        return [p for run in runs if self._is_worth(run, MIN_EVENTS) for p in run if p in self.is_fresh]

    def _behind(self, fresh: Sequence[int], count: int) -> int:
        """The first position behind the window: behind the last event of the first ``count`` invocations."""
        events = self.timeline.events
        invocations = _invocations(self.timeline, fresh)
        if len(invocations) <= count:
            return fresh[-1] + 1
        following = next(p for p in fresh if events[p].invocation_id == invocations[count])
        return max(p for p in fresh if p < following) + 1

    def _between(self, first: int, behind: int) -> list[int]:
        """The lane's events from ``overlap`` invocations in front of the one at ``first`` up to ``behind``."""
        return self.timeline.in_lane(self.lane, self._overlap_begin_in_lane(first), behind)

    def _overlap_begin_in_lane(self, first: int) -> int:
        """`_overlap_begin` with the whole lane in front of ``first``."""
        if not self.overlap:
            return first
        this = self.timeline.events[first].invocation_id
        begins = self.timeline.begins_newest_first(self.lane)
        earlier = [p for _, p in islice((b for b in begins if b[1] < first and b[0] != this), self.overlap)]
        return earlier[-1] if earlier else first

    def _overlap_begin(self, first: int, sequence: Sequence[int]) -> int:
        events = self.timeline.events
        this = events[first].invocation_id
        begins: dict[str, int] = {}
        for position in sequence:
            if position < first:
                begins.setdefault(events[position].invocation_id, position)
        begins.pop(this, None)
        if not self.overlap or not begins:
            return first
        return list(begins.values())[-self.overlap :][0]

    def best(self, sequence: Sequence[int], *, prefer_head: bool = False, least: int = MIN_EVENTS) -> list[int]:
        """The longest stretch worth a summary, or the one at the head if it is wanted and worth one."""
        runs = self.links.runs(self.lane, sequence)
        worth = [run for run in runs if self._is_worth(sequence[run[0] : run[1]], least)]
        if not worth:
            return []
        if prefer_head and worth[0][0] == 0:
            return list(sequence[: worth[0][1]])
        begin, end = max(worth, key=lambda run: self._count(sequence[run[0] : run[1]]))
        return self._trimmed(sequence[begin:end])

    def _trimmed(self, stretch: Sequence[int]) -> list[int]:
        """A stretch behind something blocked, without what lies further back than its own overlap."""
        first = next(p for p in stretch if p in self.is_fresh)
        begin = self._overlap_begin(first, stretch)
        kept = [p for p in stretch if p >= begin]
        if len(kept) == len(stretch):
            return kept
        runs = [run for run in self.links.runs(self.lane, kept) if self._count(kept[run[0] : run[1]])]
        if not runs:
            return list(stretch)
        low, high = max(runs, key=lambda run: self._count(kept[run[0] : run[1]]))
        return kept[low:high]

    def _count(self, stretch: Iterable[int]) -> int:
        return sum(1 for position in stretch if position in self.is_fresh)

    def _is_worth(self, stretch: Sequence[int], least: int) -> bool:
        """Whether a stretch is worth a summary: a few events, and not just the beginning of what still grows (B-13)."""
        fresh = [position for position in stretch if position in self.is_fresh]
        if len(fresh) < least:
            return False
        return (
            not self.timeline.ends_lane(stretch[-1])
            or len(_invocations(self.timeline, fresh)) >= (self.interval + 1) // 2
        )


def _invocations(timeline: Timeline, positions: Iterable[int]) -> list[str]:
    """Invocation ids in the order of their first event."""
    events = timeline.events
    return list(dict.fromkeys(events[position].invocation_id for position in positions))


# --- tail retention ---------------------------------------------------------------------------------------------------


def tail_window(
    timeline: Timeline,
    *,
    visible: Callable[[Lane], bool],
    retention: int,
    question: int | None,
    measure: Measure,
    fit: Fit | None = None,
) -> Window | None:
    """Everything that is in no summary but the newest events and the question being answered (CMP-5).

    Args:
        visible: whether the agent is shown a lane.
        retention: newest visible events that stay.
        question: position of the invocation's first event, which stays too.
        measure: characters of an event; among several lanes the one with most to summarise is taken.
    """
    events = timeline.events
    shown = [p for p in timeline.live if events[p].actions.compaction is None and visible(timeline.lane(p))]
    kept = set(shown[-retention:])
    if question is not None:
        kept.add(question)
    within = frozenset(shown)
    lanes = timeline.lanes(p for p in timeline.uncovered if p in within and p not in kept)
    if not lanes:
        return None
    links = Links(timeline)
    if fit is not None:
        links.blocked.update(fit.too_large(position for sequence in lanes.values() for position in sequence))
    best: Window | None = None
    most = 0
    for lane, sequence in lanes.items():
        found = _longest(links, lane, sequence, prefer_head=True)
        if found and fit is not None:
            taken = sum(map(fit.measure, seeds_of(timeline, lane, found)))
            found = fit.cut(found, partial(_longest, links, lane), beside=taken)
        size = sum(map(measure, found))
        if size > most:
            best, most = Window(lane, tuple(found), tuple(seeds_of(timeline, lane, found))), size
    return best


def _longest(links: Links, lane: Lane, sequence: Sequence[int], *, prefer_head: bool = False) -> list[int]:
    runs = links.runs(lane, sequence)
    if not runs:
        return []
    begin, end = runs[0]
    if not prefer_head or begin or end < MIN_EVENTS:
        begin, end = max(runs, key=lambda run: run[1] - run[0])
    return list(sequence[begin:end])


def seeds_of(timeline: Timeline, lane: Lane, window: Sequence[int]) -> list[int]:
    """Positions of the lane's summaries that a summary of ``window`` carries on.

    These are the ones that begin no later than the window ends and that no wider one has superseded.
    """
    events = timeline.events
    if not window:
        return []
    end = max(events[position].timestamp for position in window)
    found = []
    for position in timeline.standing(lane):
        compaction = events[position].actions.compaction
        if compaction is not None and compaction.start_timestamp <= end:
            found.append(position)
    return found


# --- what a summarizer can take ---------------------------------------------------------------------------------------


class Fit:
    """Cuts windows to what a summarizer can take in one go: otherwise one long window would fail for ever."""

    def __init__(self, limit: int, measure: Measure) -> None:
        self.limit = limit
        self.measure = measure

    def too_large(self, positions: Iterable[int]) -> Iterator[int]:
        """Those of the positions that do not fit even alone."""
        return (position for position in positions if self.measure(position) > self.limit)

    def takes(self, positions: Iterable[int]) -> bool:
        """Whether all of these fit."""
        return sum(map(self.measure, positions)) <= self.limit

    def cut(
        self, window: Sequence[int], best: Callable[[Sequence[int]], Sequence[int]], *, beside: int = 0
    ) -> list[int]:
        """The longest beginning of the window that fits and parts nothing; empty when there is none.

        ``best`` picks what can be summarised of a part; ``beside``: characters that come on top.
        """
        rest = self.limit - beside
        found = list(window)
        while found:
            size = 0
            for i, position in enumerate(found):
                size += self.measure(position)
                if size > rest:
                    found = list(best(found[:i]))
                    break
            else:
                break
        return found
