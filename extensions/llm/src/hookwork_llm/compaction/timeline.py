"""What of a session's history is summarised already, and what is not (core CMP-4 … CMP-6).

Positions are indices into the events of the handle. Events of one branch and one isolation scope make a *lane*; a
window never leaves its lane.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hookwork.records.event import Event
from hookwork.records.history import place_scope
from hookwork.records.session import live_positions
from hookwork_llm.contents.summaries import excluded_keys, summary_of
from hookwork_llm.contents.visibility import sees_branch

if TYPE_CHECKING:
    from hookwork.records.history import Call, HistoryIndex
    from hookwork.records.session import Session

#: (branch, isolation scope)
Lane = tuple[str, str]

_SLOT = "hookwork_llm.compaction"


class Coverage:
    """What a compaction event stands for, as a reader in an event's own lane sees it."""

    __slots__ = ("_compaction", "_excluded", "_record")

    def __init__(self, record: Event) -> None:
        self._record = record
        self._compaction = record.actions.compaction
        self._excluded = excluded_keys(self._compaction) if self._compaction is not None else frozenset()

    def __contains__(self, event: Event) -> bool:
        """Whether an event in front of the record is one of those."""
        compaction, record = self._compaction, self._record
        if compaction is None or record.isolation_scope != event.isolation_scope:
            return False
        at = event.timestamp
        if not compaction.start_timestamp <= at <= compaction.end_timestamp:
            return False
        return sees_branch(event.branch, record.branch) and (event.invocation_id, at) not in self._excluded


class Uncovered:
    """Positions of live events that no summary stands for, kept with the log and carried on by what is appended.

    Coverage only grows (a rewind empties the log's slots), so a run looks at new events and, for a new record, at what
    was not covered before: not at the whole history.

    Attributes:
        position: how many events were taken in. events: the positions. records: compaction events with a usable
            summary. standing: of these, by lane, the ones that no wider one of the lane supersedes, starts ascending.
        lanes: positions of all but compaction events by lane. begins: lane → invocation → its first position there.
        answers: a person's answers to calls of a branch → the lane they stand in. in_order: whether times ascend.
    """

    __slots__ = (
        "_kept",
        "_newest",
        "answers",
        "begins",
        "events",
        "in_order",
        "lanes",
        "position",
        "records",
        "standing",
    )

    def __init__(self) -> None:
        self.position = 0
        self._kept = 0
        self._newest = float("-inf")
        self.events: list[int] = []
        self.records: list[int] = []
        self.standing: dict[Lane, list[int]] = {}
        self.lanes: dict[Lane, list[int]] = {}
        self.begins: dict[Lane, dict[str, int]] = {}
        self.answers: dict[int, Lane] = {}
        self.in_order = True

    def extend(self, session: Session, events: Sequence[Event], positions: Iterable[int]) -> None:
        """Take in further events; ``positions`` ascend."""
        history = session.history()
        for position in positions:
            event = events[position]
            self.in_order = self.in_order and event.timestamp >= self._newest
            self._newest = event.timestamp
            compaction = event.actions.compaction
            if compaction is None:
                self._take(position, event, history)
            elif summary_of(compaction) is not None:
                self._take_record(position, event, events)
        self.position = len(events)

    def _take(self, position: int, event: Event, history: HistoryIndex) -> None:
        self.events.append(position)
        lane = (event.branch, event.isolation_scope)
        if event.author == "user" and not event.branch and _only_answers(event):
            branch = _asking_branch(position, event, history)
            if branch:
                lane = self.answers[position] = (branch, event.isolation_scope)
        self.lanes.setdefault(lane, []).append(position)
        self.begins.setdefault(lane, {}).setdefault(event.invocation_id, position)

    def _take_record(self, position: int, event: Event, events: Sequence[Event]) -> None:
        self.records.append(position)
        covered = Coverage(event)
        self.events = [p for p in self.events if events[p] not in covered]
        lane = (event.branch, event.isolation_scope)
        self.standing[lane] = _not_superseded([*self.standing.get(lane, ()), position], events)

    def forget_finished(self, session: Session, events: Sequence[Event]) -> None:
        """Leave out the talk of finished tasks, which nobody is shown again; looked at each time the rest doubled."""
        if not session.log.has_scopes or len(self.events) < 2 * self._kept + 64:
            return
        speaking = open_scopes(session)
        speaking.add("")
        self.events = [p for p in self.events if events[p].isolation_scope in speaking]
        self._kept = len(self.events)


def open_scopes(session: Session) -> set[str]:
    """The isolation scopes in which somebody still works on a task."""
    tasks = {place_scope(task.invocation_id, task.path) for task in session.open_tasks}
    return tasks | {call.scope for call in session.open_delegations}


def _asking_branch(position: int, event: Event, history: HistoryIndex) -> str:
    """The branch of the newest call that an event answers; ``""`` for none, or one outside of branches."""
    found: list[Call] = []
    for response in event.function_responses:
        newest = history.newest_call(response.id or "")
        if newest is not None and _is_answered_at(newest, position):
            found.append(newest)
        else:  # the id came again since
            found += [call for call in history.calls if _is_answered_at(call, position)]
    branches = [(call.position, call.number, call.branch) for call in found if call.branch]
    return max(branches)[2] if branches else ""


def _is_answered_at(call: Call, position: int) -> bool:
    return any(response.position == position for response in call.responses)


def _not_superseded(records: Sequence[int], events: Sequence[Event]) -> list[int]:
    """The records of a lane that no wider or later one of the same span takes the place of, starts ascending."""
    spans: list[tuple[float, float, int]] = []
    for position in records:
        compaction = events[position].actions.compaction
        assert compaction is not None
        spans.append((compaction.start_timestamp, -compaction.end_timestamp, -position))
    kept: list[int] = []
    reach = float("-inf")
    for _, negative_end, negative_position in sorted(spans):
        if -negative_end > reach:
            reach = -negative_end
            kept.append(-negative_position)
    return kept


class Timeline:
    """A snapshot of a session's live events, taken when a window is looked for.

    Attributes:
        events: of the handle. uncovered: positions of live events in no summary. end: how many stored events the
            snapshot knows.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.events: Sequence[Event] = session.events[:]  # a plain list: it is read by position, over and over
        self.end = session.log.offset + session.start + session.length
        self._state = _state(session, self.events)
        self.uncovered: list[int] = list(self._state.events)
        self._live: Sequence[int] | None = None
        self._in_order = True

    def look_everywhere(self) -> None:
        """Take no advantage of times that ascend: the reference that `near` must equal."""
        self._in_order = False

    @property
    def live(self) -> Sequence[int]:
        """Positions of the live events, compaction events included."""
        if self._live is None:
            events = self.events
            self._live = live_positions(events) if self.session.log.has_rewinds else range(len(events))
        return self._live

    def near(self, start: float, end: float) -> Sequence[int]:
        """Live positions among which are all whose time lies in a span: just these where times ascend."""
        live = self.live
        if not (self._state.in_order and self._in_order):
            return live
        events = self.events
        first = bisect_left(live, start, key=lambda position: events[position].timestamp)
        return live[first : bisect_right(live, end, lo=first, key=lambda position: events[position].timestamp)]

    def lane(self, position: int) -> Lane:
        """The lane of an event. A person's answers stand in the lane of the calls that they answer."""
        found = self._state.answers.get(position)
        if found is None:
            event = self.events[position]
            return event.branch, event.isolation_scope
        return found

    def in_lane(self, lane: Lane, begin: int, behind: int | None = None) -> list[int]:
        """Positions from ``begin`` up to ``behind`` that are events of a lane, compaction events left out."""
        behind = len(self.events) if behind is None else behind
        positions = self._state.lanes.get(lane, [])
        return positions[bisect_left(positions, begin) : bisect_left(positions, behind)]

    def ends_lane(self, position: int) -> bool:
        """Whether an event is the newest one of its lane."""
        positions = self._state.lanes[self.lane(position)]
        return positions[bisect_left(positions, len(self.events)) - 1] == position

    def begins_newest_first(self, lane: Lane) -> Iterator[tuple[str, int]]:
        """The invocations of a lane and their first positions in it, the one that began last first."""
        return reversed(self._state.begins.get(lane, {}).items())

    def standing(self, lane: Lane) -> Sequence[int]:
        """Positions of the lane's summaries that no wider one has superseded, starts ascending."""
        return self._state.standing.get(lane, ())

    def lanes(self, positions: Iterable[int]) -> dict[Lane, list[int]]:
        """Positions by lane, lanes in the order of their first."""
        found: dict[Lane, list[int]] = {}
        for position in positions:
            found.setdefault(self.lane(position), []).append(position)
        return found


def _only_answers(event: Event) -> bool:
    content = event.content
    return content is not None and all(part.function_response is not None for part in content.parts)


def _state(session: Session, events: Sequence[Event]) -> Uncovered:
    slots = session.log.slots
    kept = slots.get(_SLOT) if session.is_current else None
    state: Uncovered = kept if kept is not None and kept.position <= len(events) else Uncovered()
    if state.position < len(events):
        fresh = state.position == 0 and session.log.has_rewinds
        state.extend(session, events, live_positions(events) if fresh else range(state.position, len(events)))
    if session.is_current:
        slots[_SLOT] = state
        state.forget_finished(session, events)
    return state
