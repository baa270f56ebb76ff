"""Where the current turn begins, for agents that are shown no history (core CON-30)."""

from __future__ import annotations

from collections.abc import Sequence

from hookwork.records.content import FunctionCall
from hookwork.records.event import Event
from hookwork_llm.contents.visibility import is_blank, sees_branch, shown_parts

_TRANSFER = "transfer_to_agent"


def begins_turn(event: Event, name: str) -> bool:
    """Whether a visible event is something that ``name`` has to react to: words of the user or of another agent.

    Answers to calls are no beginning, since the call would be cut off, nor is the hand-over itself, since the child
    would never see the question.
    """
    author = event.author
    if not author or author == name or event.partial:
        return False
    if author == "user" and event.input_transcription is not None and event.input_transcription.text:
        return True
    content = event.content
    if content is None or not content.role:
        return False
    for part in content.parts:
        if part.function_response is not None and (author == "user" or part.function_response.name == _TRANSFER):
            return False
        if part.function_call is not None and part.function_call.name == _TRANSFER:
            return False
    if author != "user":
        if event.actions.transfer_to_agent:
            return False
        return not is_blank([part for part in shown_parts(content.parts) if not part.thought])
    return not is_blank(shown_parts(content.parts))


def turn_start(events: Sequence[Event], positions: Sequence[int], *, name: str, branch: str, scope: str) -> int:
    """Index into ``positions`` of the first event of the current turn; 0 when no event begins one.

    A turn in which an earlier call is answered begins with the turn of that call: without it the answer would stand
    alone, and the model would call again.
    """

    def begins(index: int) -> bool:
        event = events[positions[index]]
        return event.isolation_scope == scope and sees_branch(branch, event.branch) and begins_turn(event, name)

    end = len(positions)
    start = end
    while start > 0:
        start = next((index for index in range(start - 1, -1, -1) if begins(index)), 0)
        earlier = _call_answered_later([events[position] for position in positions[start:]], name)
        if earlier is None:
            return start
        own = (
            index
            for index in range(start - 1, -1, -1)
            if any(call.id in earlier for call in _own_calls(events[positions[index]], name))
        )
        found = next(own, None)
        if found is None:
            return start
        start = found
    return start


def _call_answered_later(turn: Sequence[Event], name: str) -> set[str] | None:
    """Ids of answers of a turn whose calls stand before it; None when there are none."""
    called: set[str] = set()
    missing: set[str] = set()
    for event in turn:
        called.update(call.id or "" for call in _own_calls(event, name))
        if event.author in (name, "user"):
            missing.update(answer.id or "" for answer in event.function_responses if answer.id not in called)
    return missing or None


def _own_calls(event: Event, name: str) -> Sequence[FunctionCall]:
    return event.function_calls if event.author == name else ()


def others_words(event: Event, name: str, branch: str) -> bool:
    """Whether an event is what someone said outside of an activation's branch while it waited."""
    return event.branch != branch and begins_turn(event, name)
