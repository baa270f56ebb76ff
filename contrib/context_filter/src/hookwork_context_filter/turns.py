"""Turns of a prompt: where they begin, and which of them are the last ones."""

from __future__ import annotations

from collections.abc import Sequence

from hookwork import Content


def last_turns(contents: Sequence[Content], turns: int) -> Sequence[Content]:
    """The contents from the beginning of the ``turns``-th turn from the end; all of them if there are no more.

    A turn begins with what the user says: a content of role ``user`` that answers no call, or several in a row. What
    follows up to the next one belongs to it, so a call and its response are never parted. Should a prompt hold a
    response whose call is further up, more turns are kept until both are there.
    """
    starts = turn_starts(contents)
    if len(starts) <= turns:
        return contents
    for start in reversed(starts[: len(starts) - turns + 1]):
        kept = contents[start:]
        if _answers_only_its_own(kept):
            return kept
    return contents


def turn_starts(contents: Sequence[Content]) -> list[int]:
    """The positions at which turns begin."""
    starts: list[int] = []
    before = False
    for position, content in enumerate(contents):
        says = content.role == "user" and not content.function_responses
        if says and not before:
            starts.append(position)
        before = says
    return starts


def _answers_only_its_own(contents: Sequence[Content]) -> bool:
    """Whether every response among the contents has its call among them, in front of it."""
    made: set[tuple[str | None, str | None]] = set()
    for content in contents:
        for part in content.parts:
            if part.function_call is not None:
                made.add((part.function_call.id, part.function_call.name))
            response = part.function_response
            if response is not None and (response.id, response.name) not in made:
                return False
    return True
