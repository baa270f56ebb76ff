"""How large the next prompt will be (core CMP-5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.records.content import Content, Part
from hookwork.records.event import Event, is_compaction
from hookwork.records.session import live_positions
from hookwork_llm.contents.visibility import sees_branch

if TYPE_CHECKING:
    from hookwork.records.session import Session

#: Characters per token where a model reports no tokens (core CMP-5).
CHARS_PER_TOKEN = 4

_SLOT = "hookwork_llm.reported"
#: Branches and scopes that a log keeps this for; those of finished tasks make room.
_MAX_ENTRIES = 64


def characters(contents: Iterable[Content]) -> int:
    """Characters of the texts, calls, responses and code in the contents; media count nothing."""
    return sum(_characters(part) for content in contents for part in content.parts)


def _characters(part: Part) -> int:
    size = len(part.text or "")
    if part.function_call is not None:
        size += len(part.function_call.name or "") + _json(part.function_call.args)
    if part.function_response is not None:
        size += len(part.function_response.name or "") + _json(part.function_response.response)
    if part.executable_code is not None:
        size += len(part.executable_code.code or "")
    if part.code_execution_result is not None:
        size += len(part.code_execution_result.output or "")
    return size


def _json(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False)) if value else 0


class Reported:
    """The newest report of a visible model turn and the characters said since, carried on by what is appended."""

    __slots__ = ("later", "position", "tokens")

    def __init__(self) -> None:
        self.position = 0
        self.tokens: int | None = None
        self.later = 0

    def extend(self, events: Sequence[Event], positions: Iterable[int], *, branch: str, scope: str) -> None:
        """Take in further events; ``positions`` ascend."""
        for position in positions:
            event = events[position]
            if event.isolation_scope != scope or not sees_branch(branch, event.branch) or is_compaction(event):
                continue
            usage = event.usage_metadata
            if usage is not None and usage.prompt_token_count is not None:
                self.tokens, self.later = usage.prompt_token_count, 0
            elif self.tokens is not None and event.content is not None:
                self.later += characters((event.content,))
        self.position = len(events)


def reported_size(session: Session, *, branch: str, scope: str) -> float | None:
    """Tokens of the prompt by the newest report of a visible model turn plus what was said since; None: no report.

    Cost: O(events since the last look) on the log's end, O(events) the first time and for a handle behind the log.
    """
    found = _reported(session, branch, scope)
    return None if found.tokens is None else found.tokens + found.later / CHARS_PER_TOKEN


def _reported(session: Session, branch: str, scope: str) -> Reported:
    kept: dict[Any, Reported] = session.log.slots.setdefault(_SLOT, {}) if session.is_current else {}
    key = (branch, scope, session.start)
    found = kept.pop(key, None) or Reported()
    events = session.events
    if found.position < len(events):
        fresh = found.position == 0 and session.log.has_rewinds  # a rewind empties the slots of a log
        positions = live_positions(events[:]) if fresh else range(found.position, len(events))
        found.extend(events, positions, branch=branch, scope=scope)
    while len(kept) >= _MAX_ENTRIES:
        del kept[next(iter(kept))]
    kept[key] = found
    return found
