"""What of a session's history is summarised already, and what is not (core CMP-4 … CMP-6).

Positions are indices into the events of the handle. Events of one branch and one isolation scope make a *lane*; a
window never leaves its lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hookwork.records.event import Event
from hookwork.records.session import live_positions
from hookwork_llm.contents.summaries import excluded_keys, summary_of
from hookwork_llm.contents.visibility import sees_branch

if TYPE_CHECKING:
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
    """

    __slots__ = ("_kept", "events", "position", "records")

    def __init__(self) -> None:
        self.position = 0
        self._kept = 0
        self.events: list[int] = []
        #: compaction events with a usable summary.
        self.records: list[int] = []

    def extend(self, events: Sequence[Event], positions: Iterable[int]) -> None:
        """Take in further events; ``positions`` ascend."""
        for position in positions:
            event = events[position]
            compaction = event.actions.compaction
            if compaction is None:
                self.events.append(position)
            elif summary_of(compaction) is not None:
                self.records.append(position)
                covered = Coverage(event)
                self.events = [p for p in self.events if events[p] not in covered]
        self.position = len(events)

    def forget_finished(self, session: Session, events: Sequence[Event]) -> None:
        """Leave out the talk of finished tasks, which nobody is shown again; looked at each time the rest doubled."""
        if not session.log.has_scopes or len(self.events) < 2 * self._kept + 64:
            return
        speaking = {call.scope for call in session.open_delegations}
        speaking.add("")
        self.events = [p for p in self.events if events[p].isolation_scope in speaking]
        self._kept = len(self.events)


class Timeline:
    """A snapshot of a session's live events, taken when a window is looked for.

    Attributes:
        events: of the handle. uncovered: positions of live events in no summary. records: positions of live
            compaction events. end: how many stored events the snapshot knows.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.events: Sequence[Event] = session.events[:]  # a plain list: it is read by position, over and over
        self.end = session.log.offset + session.start + session.length
        state = _state(session, self.events)
        self.uncovered: list[int] = list(state.events)
        self.records: list[int] = list(state.records)
        self._live: Sequence[int] | None = None
        self._lanes: dict[int, Lane] | None = None

    @property
    def live(self) -> Sequence[int]:
        """Positions of the live events, compaction events included."""
        if self._live is None:
            events = self.events
            self._live = live_positions(events) if self.session.log.has_rewinds else range(len(events))
        return self._live

    def lane(self, position: int) -> Lane:
        """The lane of an event. A person's answers stand in the lane of the calls that they answer."""
        if self._lanes is None:
            self._lanes = dict(self._answers())
        found = self._lanes.get(position)
        if found is None:
            event = self.events[position]
            return event.branch, event.isolation_scope
        return found

    def _answers(self) -> Iterator[tuple[int, Lane]]:
        for call in self.session.history().calls:
            if call.branch:
                for response in call.responses:
                    event = self.events[response.position]
                    if event.author == "user" and not event.branch and _only_answers(event):
                        yield response.position, (call.branch, event.isolation_scope)

    def in_lane(self, lane: Lane, positions: Iterable[int]) -> list[int]:
        """Those of the positions that are events of a lane, compaction events left out."""
        events = self.events
        return [p for p in positions if events[p].actions.compaction is None and self.lane(p) == lane]

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
        state.extend(events, live_positions(events) if fresh else range(state.position, len(events)))
    if session.is_current:
        slots[_SLOT] = state
        state.forget_finished(session, events)
    return state
