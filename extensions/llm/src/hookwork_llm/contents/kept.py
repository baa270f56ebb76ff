"""What prompts of one branch are still made of once summaries stand for the rest (core CMP-11, CON-16).

Coverage only grows: what a record stands for is fixed when it is stored, and a rewind empties the log's slots. So what
vanished once need not be looked at again, and a new record costs what is left, not what was ever said.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from hookwork.records.event import Event
from hookwork_llm.contents.compaction import place_of
from hookwork_llm.contents.summaries import Summary, Survivors
from hookwork_llm.contents.visibility import has_tool_parts, sees_branch


class Kept:
    """The events that prompts of one branch, outside of scopes, are made of; carried on by what is appended.

    Attributes:
        position: how many events were taken in. positions: of events that are shown, or that have calls or responses:
            what comes later may be about these. covered: those of the positions that a summary stands for.
    """

    __slots__ = ("_branch", "_in_order", "_newest", "_places", "_shown", "covered", "positions", "survivors")

    def __init__(self, branch: str) -> None:
        self._branch = branch
        self.survivors = Survivors()
        self.positions: list[int] = []
        self.covered: set[int] = set()
        #: positions of all events that a record could stand for, and whether their times ascend.
        self._shown: list[int] = []
        self._in_order = True
        self._newest = float("-inf")
        #: record's position → where its summary stands.
        self._places: dict[int, int] = {}

    @property
    def position(self) -> int:
        return self.survivors.position

    def extend(self, events: Sequence[Event], positions: Sequence[int]) -> None:
        """Take in further events; ``positions`` ascend."""
        self.survivors.extend(events, positions, branch=self._branch, scope="")
        new = {record.position: record for record in self.survivors.seen}
        for position in positions:
            record = new.get(position)
            if record is not None:
                self._cover(record, events)
            else:
                self._take(position, events[position])
        standing = {record.position for record in self.survivors.summaries}
        self._places = {position: place for position, place in self._places.items() if position in standing}

    def _take(self, position: int, event: Event) -> None:
        if event.actions.compaction is not None:
            return
        shown = not event.isolation_scope and sees_branch(self._branch, event.branch)
        if shown:
            self._shown.append(position)
            self._in_order = self._in_order and event.timestamp >= self._newest
            self._newest = event.timestamp
        if shown or has_tool_parts(event):
            self.positions.append(position)

    def _cover(self, record: Summary, events: Sequence[Event]) -> None:
        kept: list[int] = []
        for position in self.positions:
            event = events[position]
            if position not in self.covered and self._stands_for(record, event):
                if not has_tool_parts(event):
                    continue
                self.covered.add(position)
            kept.append(position)
        self.positions = kept
        self._places[record.position] = self._place(record, events)

    def _stands_for(self, record: Summary, event: Event) -> bool:
        """Whether a record stands for an event in front of it that this branch is shown."""
        at = event.timestamp
        return (
            record.start <= at <= record.end
            and not event.isolation_scope
            and sees_branch(self._branch, event.branch)
            and (event.invocation_id, at) not in record.excluded
        )

    def _place(self, record: Summary, events: Sequence[Event]) -> int:
        """Where the first event stands that a record stands for, vanished ones too."""
        shown, first = self._shown, 0
        if self._in_order:
            first = bisect_left(shown, record.start, key=lambda position: events[position].timestamp)
        for i in range(first, len(shown)):
            event = events[shown[i]]
            if self._stands_for(record, event):
                return shown[i]
            if self._in_order and event.timestamp > record.end:
                break
        return place_of(record, events, shown)

    def items(self) -> Iterator[int | Summary]:
        """Positions, and the standing summaries where they stand."""
        places = self._places
        summaries = sorted(self.survivors.summaries, key=lambda record: (places[record.position], record.position))
        i = 0
        for position in self.positions:
            while i < len(summaries) and places[summaries[i].position] <= position:
                yield summaries[i]
                i += 1
            yield position
        yield from summaries[i:]
