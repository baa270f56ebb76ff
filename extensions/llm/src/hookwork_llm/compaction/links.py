"""What a window must not part: calls and their responses, approvals and their answers, events of one moment (CMP-6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from hookwork.records.history import Call, HistoryIndex
from hookwork_llm.compaction.timeline import Lane, Timeline


def free_runs(sequence: Sequence[int], links: Iterable[Sequence[int]], blocked: Iterable[int]) -> list[tuple[int, int]]:
    """The longest stretches of ``sequence`` that part no link and hold nothing blocked.

    Args:
        sequence: positions, ascending.
        links: positions that belong together; one that has members outside of ``sequence`` blocks those inside.
        blocked: positions that no stretch may hold.

    Returns:
        Index ranges (begin, end) into ``sequence``, end exclusive, in order; none is empty. Cost: O(n) for each round
        in which a link turns out to be cut, one or two as a rule.
    """
    index = {position: i for i, position in enumerate(sequence)}
    barred = [False] * len(sequence)
    for position in blocked:
        if position in index:
            barred[index[position]] = True
    groups: list[list[int]] = []
    for link in links:
        inside = [index[position] for position in link if position in index]
        if len(inside) < len(link):
            for i in inside:
                barred[i] = True
        elif len(inside) > 1:
            groups.append(inside)
    while groups:
        before = list(accumulate(barred, initial=0))  # bars in front of each index
        whole = []
        for group in groups:
            low, high = min(group), max(group)
            if before[low] == before[high + 1]:
                whole.append(group)
            else:
                for i in group:
                    barred[i] = True
        if len(whole) == len(groups):
            break
        groups = whole
    return list(_stretches(barred))


def _stretches(barred: Sequence[bool]) -> Iterator[tuple[int, int]]:
    begin = 0
    for i, bar in enumerate(barred):
        if bar:
            if i > begin:
                yield begin, i
            begin = i + 1
    if len(barred) > begin:
        yield begin, len(barred)


class Links:
    """The links of a timeline and what is blocked in it, one per search for a window."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.blocked: set[int] = set()
        self._links: list[list[int]] = []
        history = timeline.session.history()
        delegated = {id(call) for call in history.open_delegations()} if timeline.session.log.has_scopes else set()
        for call in history.calls:
            self._take(call, history, waits=id(call) in delegated)

    def _take(self, call: Call, history: HistoryIndex, *, waits: bool) -> None:
        answers = [response.position for response in call.responses]
        request = call.request
        together = {call.position, *answers}
        if request is not None:
            together.add(request.position)
        if len(together) > 1:
            self._links.append(sorted(together))
        answered = any(not response.placeholder for response in call.responses)
        if waits or call.is_open or (not answered and not is_lost(call, history)):
            self.blocked.add(call.position)
            self.blocked.update(together)

    def _collisions(self, nearby: Iterable[int]) -> Iterator[int]:
        """Events that a record cannot tell from one of another lane: same invocation, same moment."""
        timeline = self._timeline
        events = timeline.events
        seen: dict[tuple[str, float, str], int] = {}
        for position in nearby:
            event = events[position]
            if event.actions.compaction is not None:
                continue
            key = (event.invocation_id, event.timestamp, event.isolation_scope)
            other = seen.setdefault(key, position)
            if other != position and timeline.lane(other) != timeline.lane(position):
                yield from (other, position)

    def runs(self, lane: Lane, sequence: Sequence[int]) -> list[tuple[int, int]]:
        """`free_runs` of a sequence of events of ``lane``."""
        if not sequence:
            return []
        inside = set(sequence)
        times = {self._timeline.events[position].timestamp for position in sequence}
        nearby = self._timeline.near(min(times), max(times))
        links = [link for link in self._links if not inside.isdisjoint(link)]
        blocked = self.blocked.union(self._collisions(nearby))
        return free_runs(sequence, [*links, *self._moments(lane, times, nearby)], blocked)

    def _moments(self, lane: Lane, times: set[float], nearby: Iterable[int]) -> list[list[int]]:
        """Events of the lane with one timestamp: a span of time takes all of them or none."""
        timeline = self._timeline
        events = timeline.events
        moments: dict[float, list[int]] = {}
        for position in nearby:
            at = events[position].timestamp
            if at in times and events[position].actions.compaction is None and timeline.lane(position) == lane:
                moments.setdefault(at, []).append(position)
        return [group for group in moments.values() if len(group) > 1]


def is_lost(call: Call, history: HistoryIndex) -> bool:
    """Whether an unanswered call can never be answered (core B-13).

    Its event carries an error, so it is never carried out (FLOW-14); or its activation has ended since, and an ended
    one is not entered again.
    """
    if call.failed_event:
        return True
    if call.long_running or call.kind != "tool":
        return False
    record = history.record(call.invocation_id, call.path)
    return record is not None and record.end > call.position
