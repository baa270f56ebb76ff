"""Calls and the responses to them (core CON-7, CON-12, CON-13).

Every call event (a *turn*) has one content with its calls and, right behind it, one content with a response to each of
them, real or made up. Responses wander to their call; everything else stays where it stood.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.frozen import FrozenDict
from hookwork_llm.contents.visibility import is_empty, is_request

_NO_ARGUMENTS = FrozenDict({})
_MADE_UP_ID = "adk-"


class CallSlot:
    """One call of a turn and the response to it, as far as there is one.

    ``number`` is its place among all calls of its event, from 1. ``placeholder``: the response only says that a person
    is being asked; ``asked``: the question itself was seen after it. ``state`` is the status of the made-up response
    that stands in for a real one, ``""`` for none.
    """

    __slots__ = ("answer", "asked", "call_id", "name", "number", "placeholder", "shown_id", "state", "turn")

    def __init__(self, turn: CallTurn, call: FunctionCall, number: int, shown_id: str | None) -> None:
        self.turn = turn
        self.call_id = call.id or ""
        self.shown_id = shown_id
        self.name = call.name
        self.number = number
        self.answer: Part | None = None
        self.placeholder = False
        self.asked = False
        self.state = ""

    @property
    def is_settled(self) -> bool:
        """Whether a real response is there."""
        return self.answer is not None and not self.placeholder


class CallTurn:
    """A call event of this agent. ``index`` is where its responses stand in the prompt, -1 while it is not shown."""

    __slots__ = ("content", "index", "position", "slots", "source")

    def __init__(self, position: int) -> None:
        self.position = position
        self.index = -1
        self.content = Content()
        self.slots: list[CallSlot] = []
        #: the newest response content that holds nothing but responses; reused when it is exactly what is shown.
        self.source: Content | None = None


def open_turn(position: int, content: Content, *, pairs_by_id: bool) -> CallTurn:
    """The turn of a call event: everything it shows but responses, in one content (CON-13).

    Numbers count the calls that are not shown too (requests to a person), as the log's index does.
    """
    turn = CallTurn(position)
    shown: list[Part] = []
    changed = content.role != "model"
    number = 0
    ids: set[str] = set()
    for part in content.parts:
        call = part.function_call
        number += call is not None
        if part.function_response is not None or is_empty(part) or is_request(part):
            changed = True
            continue
        if call is not None:
            seen = _with_own_id(shown_call(call, pairs_by_id=pairs_by_id), ids)
            turn.slots.append(CallSlot(turn, call, number, seen.id))
            if seen is not call:
                part = part.replace(function_call=seen)
                changed = True
        shown.append(part)
    turn.content = Content(role="model", parts=shown) if changed else content
    return turn


def shown_call(call: FunctionCall, *, pairs_by_id: bool) -> FunctionCall:
    """The call as a model is shown it: made-up ids cleared, arguments an object (CON-8, CON-13)."""
    args = call.args
    clear = not pairs_by_id and call.id is not None and call.id.startswith(_MADE_UP_ID)
    if args is not None and not isinstance(args, dict):
        return call.replace(args=_NO_ARGUMENTS, id=None if clear else call.id)
    return call.replace(id=None) if clear else call


def _with_own_id(call: FunctionCall, taken: set[str]) -> FunctionCall:
    """The call under an id that no earlier call of its turn has (CASE-HIST-3): providers refuse a repeated one."""
    if not call.id:
        return call
    unique, n = call.id, 1
    while unique in taken:
        n += 1
        unique = f"{call.id}-{n}"
    taken.add(unique)
    return call if n == 1 else call.replace(id=unique)


def shown_response(part: Part, slot: CallSlot) -> Part:
    """The response under the id and name that its call is shown with."""
    response = part.function_response
    assert response is not None
    if response.id == slot.shown_id and response.name == slot.name:
        return part
    return part.replace(function_response=response.replace(id=slot.shown_id, name=slot.name))


class Pairs:
    """Finds the call that a response belongs to, going forward through the history."""

    __slots__ = ("_by_id", "_by_name", "_foreign")

    def __init__(self) -> None:
        #: id → the calls of that id in the newest event that has one.
        self._by_id: dict[str, list[CallSlot]] = {}
        #: name → the same for calls without id.
        self._by_name: dict[str, list[CallSlot]] = {}
        #: ids whose newest call is one of another agent, or not visible here.
        self._foreign: set[str] = set()

    def add(self, turn: CallTurn) -> None:
        """Take in the calls of a turn; from now on responses belong to these."""
        for slot in turn.slots:
            table, key = (self._by_id, slot.call_id) if slot.call_id else (self._by_name, slot.name or "")
            group = table.get(key)
            if group is not None and group[0].turn is turn:
                group.append(slot)
            else:
                table[key] = [slot]
            if self._foreign:
                self._foreign.discard(slot.call_id)

    def add_foreign(self, parts: Sequence[Part]) -> None:
        """Note the calls of an event that pairs with nothing here: a person's answer may be meant for them."""
        for part in parts:
            if part.function_call is not None and part.function_call.id in self._by_id:
                self._foreign.add(part.function_call.id)

    def find(
        self, response: FunctionResponse, used: Collection[CallSlot], nth: int, *, by_user: bool
    ) -> CallSlot | None:
        """The call that the ``nth`` response of this id or name in one event answers; ``used`` are taken already."""
        call_id = response.id
        if call_id:
            if by_user and call_id in self._foreign:
                return None
            group = self._by_id.get(call_id)
        else:
            group = self._by_name.get(response.name or "")
        if group is None:
            return None
        if len(group) == 1:
            return group[0]
        if nth < len(group) and not group[nth].is_settled:
            return group[nth]
        for slot in group:
            if not slot.is_settled and slot not in used:
                return slot
        return group[nth] if nth < len(group) else None

    def group(self, call_id: str) -> Sequence[CallSlot]:
        """The newest own calls of an id."""
        return self._by_id.get(call_id, ())
