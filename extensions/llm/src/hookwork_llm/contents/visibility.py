"""Which events and parts a prompt may show at all (core CON-1, CON-2, CON-3, CON-8)."""

from __future__ import annotations

from collections.abc import Sequence

from hookwork.records.content import Part
from hookwork.records.event import Event
from hookwork.records.history import KINDS


def sees_branch(mine: str, theirs: str) -> bool:
    """Whether an event of branch ``theirs`` is visible to an agent on branch ``mine`` (CON-2).

    Either side empty, equal, or ``theirs`` an ancestor of ``mine``.
    """
    return not theirs or not mine or theirs == mine or mine.startswith(f"{theirs}.")


def is_request(part: Part) -> bool:
    """A question of the kit to a person, or the answer to one: never shown to a model (HITL-13)."""
    call, response = part.function_call, part.function_response
    return (call is not None and call.name in KINDS) or (response is not None and response.name in KINDS)


def is_recording(part: Part) -> bool:
    """Kept audio of a live session (models LIVE-16): no model can fetch it, and what was said stands beside it."""
    uri = part.file_data.file_uri if part.file_data is not None else None
    return uri is not None and uri.startswith("artifact://") and "/_adk_live/" in uri


def has_substance(part: Part) -> bool:
    """Whether the part is of any kind besides text. A signature or a flag alone is of none."""
    return (
        part.function_call is not None
        or part.function_response is not None
        or part.inline_data is not None
        or part.file_data is not None
        or part.executable_code is not None
        or part.code_execution_result is not None
        or part.extra is not None
    )


def is_empty(part: Part) -> bool:
    """Nothing a provider could take: no text, no other kind, and no signature that must go back to its model."""
    return not part.text and part.thought_signature is None and not has_substance(part)


def shown_parts(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts without requests, recordings and empty ones; the same object when nothing had to go."""
    for part in parts:
        if _is_hidden(part):
            return [part for part in parts if not _is_hidden(part)]
    return parts


def _is_hidden(part: Part) -> bool:
    return is_empty(part) or is_request(part) or is_recording(part)


def has_tool_parts(event: Event) -> bool:
    """Whether an event has calls or responses."""
    if event.content is not None:
        for part in event.content.parts:
            if part.function_call is not None or part.function_response is not None:
                return True
    return False


def is_blank(parts: Sequence[Part]) -> bool:
    """No part, or only blank text (core FLOW-13)."""
    return not any((part.text and not part.text.isspace()) or has_substance(part) for part in parts)


def survey(parts: Sequence[Part]) -> tuple[bool, bool, bool]:
    """(has calls, has responses, something must not be shown), in one pass."""
    calls = responses = hidden = False
    for part in parts:
        call = part.function_call
        if call is not None:
            calls = True
            hidden = hidden or call.name in KINDS
        response = part.function_response
        if response is not None:
            responses = True
            hidden = hidden or response.name in KINDS
        elif call is None and not part.text and (is_empty(part) or is_recording(part)):
            hidden = True
    return calls, responses, hidden
