"""What is shown for a call that has no response (core CON-11).

Whether it waits for someone is read off the log's index; this module only asks. A response made up here is part of
the prompt and is never stored.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.frozen import freeze
from hookwork.records.history import KINDS, parents
from hookwork_llm.contents.pairing import CallSlot, CallTurn, shown_response

if TYPE_CHECKING:
    from hookwork.records.history import Call, HistoryIndex
    from hookwork.records.session import Session

PENDING = "pending"
INTERRUPTED = "interrupted"

_RESPONSES = {
    PENDING: freeze(
        {
            "status": PENDING,
            "message": "This call is waiting for someone and has no result yet. The result will follow; "
            "do not call it again for the same purpose.",
        }
    ),
    INTERRUPTED: freeze(
        {
            "status": INTERRUPTED,
            "error": "This call was interrupted before it finished. It has no result, its effect is unknown, "
            "and it was not run again.",
        }
    ),
}


def _position(call: Call) -> int:
    return call.position


def asked_for_id(name: str | None, args: Any) -> str:
    """The id of the call that a request (confirmation, credential) is about; ``""`` for none."""
    if not name or not isinstance(args, dict):
        return ""
    kind = KINDS.get(name)
    if kind == "confirmation":
        original = args.get("originalFunctionCall")
        found = original.get("id") if isinstance(original, dict) else None
    elif kind == "credential":
        found = args.get("functionCallId", args.get("function_call_id"))
    else:
        found = None
    return found if isinstance(found, str) else ""


class Waiting:
    """Which calls of a session wait for someone right now."""

    __slots__ = ("_asked", "_delegated", "_history", "_places")

    def __init__(self, session: Session) -> None:
        history = session.history()
        self._history = history
        #: (position of the call's event, id) of calls about which a person is being asked.
        self._asked: set[tuple[int, str]] = set()
        #: places with an open call at or under them.
        self._places: set[tuple[str, str]] = set()
        self._delegated = {id(call) for call in history.open_delegations()} if session.log.has_scopes else set()
        for call in history.unanswered.values():
            if call.is_open:
                self._take(history, call)

    def _take(self, history: HistoryIndex, call: Call) -> None:
        if call.path:
            self._places.add((call.invocation_id, call.path))
            self._places.update((call.invocation_id, path) for path in parents(call.path))
        original = asked_for_id(call.name, call.args)
        if original:
            for candidate in reversed(history.calls_by_id.get(original, ())):
                if candidate.position < call.position:
                    self._asked.add((candidate.position, original))
                    return

    def is_asked(self, slot: CallSlot) -> bool:
        """Whether a person is being asked about this call and has not answered."""
        return (slot.turn.position, slot.call_id) in self._asked

    def is_waiting(self, slot: CallSlot) -> bool:
        """Whether the call is open, or its confirmation, credential, delegation or child is."""
        if self.is_asked(slot):
            return True
        call = self._call(slot)
        if call is None:
            return False
        if call.is_open or id(call) in self._delegated:
            return True
        # A child started by the call runs at the call's own place (activations §4) and may be what waits.
        return bool(call.path) and (
            (call.invocation_id, f"{call.path}/{call.name}@{call.turn}-{call.number}") in self._places
        )

    def _call(self, slot: CallSlot) -> Call | None:
        position, number = slot.turn.position, slot.number
        calls = self._history.calls_by_id.get(slot.call_id, ())
        for i in range(bisect_left(calls, position, key=_position), len(calls)):
            call = calls[i]
            if call.position != position:
                return None
            if call.number == number:
                return call
        return None

    def state(self, slot: CallSlot) -> str:
        """What to show in place of a real response; ``""`` when the stored one is shown."""
        if slot.answer is None:
            return PENDING if self.is_waiting(slot) else INTERRUPTED
        if not slot.placeholder:
            return ""
        # A placeholder whose question was not stored (a crash in between) still waits: it will be asked again.
        return PENDING if not slot.asked or self.is_waiting(slot) else ""


def response_content(turn: CallTurn) -> Content:
    """One user content with a response to each call of the turn, in call order (CON-6)."""
    parts: list[Part] = []
    for slot in turn.slots:
        if slot.state or slot.answer is None:
            payload = _RESPONSES[slot.state or INTERRUPTED]
            parts.append(Part(function_response=FunctionResponse(id=slot.shown_id, name=slot.name, response=payload)))
        else:
            parts.append(shown_response(slot.answer, slot))
    source = turn.source
    if (
        source is not None
        and source.role == "user"
        and len(source.parts) == len(parts)
        and all(a is b for a, b in zip(source.parts, parts, strict=True))
    ):
        return source
    return Content(role="user", parts=parts)
