"""Random but plausible histories: turns, parallel calls, confirmations, late answers, compaction, rewinds."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import Event, EventActions, EventCompaction, ExcludedEvent, NodeInfo
from hookwork_testkit.suites.base import BASE_TIME

#: One move of a history and the number that decides its details.
Move = tuple[str, int]

_KINDS = ("turn", "turn", "say", "call", "answer", "answer", "confirm", "delegate", "compact", "rewind")
_move = st.tuples(st.sampled_from(_KINDS), st.integers(min_value=0, max_value=11))
#: Up to 24 moves; every length is as likely (a plain list strategy prefers very short ones).
moves: st.SearchStrategy[list[Move]] = st.integers(min_value=0, max_value=24).flatmap(
    lambda size: st.lists(_move, min_size=size, max_size=size)
)


class History:
    """Builds the events of a list of moves. Ids, times and texts follow from the position alone."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.invocation = "inv-0"
        self.waiting: list[FunctionCall] = []
        self.serial = 0

    def add(self, author: str, parts: list[Part], **fields: Any) -> None:
        """Append one event."""
        position = len(self.events)
        content = Content(role="user" if author == "user" else "model", parts=parts) if parts else None
        path = None if author == "user" else NodeInfo(path=f"{author}@1")
        event = Event(
            id=f"evt-{position}",
            timestamp=BASE_TIME + position,
            invocation_id=fields.pop("invocation_id", self.invocation),
            author=author,
            content=content,
            node_info=path,
            **fields,
        )
        self.events.append(event)

    def play(self, kind: str, number: int) -> None:
        """Carry out one move; one that makes no sense now is a plain text."""
        {
            "turn": self._turn,
            "call": self._call,
            "answer": self._answer,
            "confirm": self._confirm,
            "delegate": self._delegate,
            "compact": self._compact,
            "rewind": self._rewind,
        }.get(kind, self._say)(number)

    def _say(self, number: int) -> None:
        self.add("agent", [Part(text=f"text {number}")])

    def _turn(self, number: int) -> None:
        if number % 4 or not self.events:
            self.serial += 1
            self.invocation = f"inv-{self.serial}"
        else:  # an earlier invocation goes on
            self.invocation = self.events[number % len(self.events)].invocation_id
        self.add("user", [Part(text=f"question {number}")])

    def _call(self, number: int) -> None:
        calls = [
            FunctionCall(id=f"c-{len(self.events)}-{n}" if number % 5 else f"c-{n}", name="f", args={"n": n})
            for n in range(1 + number % 3)
        ]
        long_running = tuple(call.id or "" for call in calls) if number % 2 else ()
        self.add("agent", [Part(function_call=call) for call in calls], long_running_tool_ids=long_running)
        self.waiting += calls

    def _answer(self, number: int) -> None:
        if not self.waiting:
            return self._say(number)
        call = self.waiting.pop(number % len(self.waiting))
        response = FunctionResponse(id=call.id, name=call.name, response={"n": number})
        return self.add("user" if number % 2 else "agent", [Part(function_response=response)])

    def _confirm(self, number: int) -> None:
        call = FunctionCall(
            id=f"a-{len(self.events)}",
            name="adk_request_confirmation",
            args={"toolConfirmation": {"hint": f"sure {number}?", "confirmed": False, "payload": None}},
        )
        self.add("agent", [Part(function_call=call)], long_running_tool_ids=(call.id or "",))
        self.waiting.append(call)

    def _delegate(self, number: int) -> None:
        if not self.waiting:
            return self._say(number)
        call = self.waiting[number % len(self.waiting)]
        return self.add("helper", [Part(text="delegated")], isolation_scope=call.id or "")

    def _compact(self, number: int) -> None:
        if len(self.events) < 2:
            return self._say(number)
        start = number % (len(self.events) - 1)
        left_out = self.events[start]
        excluded = ExcludedEvent(invocation_id=left_out.invocation_id, timestamp=left_out.timestamp)
        compaction = EventCompaction(
            start_timestamp=left_out.timestamp,
            end_timestamp=self.events[-1].timestamp,
            compacted_content=Content(role="model", parts=[Part(text="summary")]),
            excluded_events=(excluded,) if number % 3 == 0 else (),
        )
        actions = EventActions(compaction=compaction)
        return self.add("user", [], invocation_id=f"e-{len(self.events)}", actions=actions)

    def _rewind(self, number: int) -> None:
        if not self.events:
            return self._say(number)
        target = self.events[number % len(self.events)].invocation_id
        self.waiting = []
        actions = EventActions(rewind_before_invocation_id=target)
        return self.add("user", [], invocation_id=f"e-{len(self.events)}", actions=actions)


def history(played: list[Move]) -> list[Event]:
    """The events of a list of moves."""
    made = History()
    for kind, number in played:
        made.play(kind, number)
    return made.events
