"""Where the current turn begins, for agents that are shown no history (core CON-30)."""

from __future__ import annotations

from collections.abc import Sequence

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
    """Index into ``positions`` of the first event of the current turn; 0 when no event begins one."""
    for i in range(len(positions) - 1, -1, -1):
        event = events[positions[i]]
        if event.isolation_scope == scope and sees_branch(branch, event.branch) and begins_turn(event, name):
            return i
    return 0
