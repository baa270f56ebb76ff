"""How large the next prompt will be (core CMP-5)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hookwork.records.content import Content, Part
from hookwork.records.event import Event, is_compaction
from hookwork_llm.contents.visibility import sees_branch

if TYPE_CHECKING:
    from hookwork.records.session import Session

#: Characters per token where a model reports no tokens (core CMP-5).
CHARS_PER_TOKEN = 4


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


def reported_size(session: Session, *, branch: str, scope: str) -> float | None:
    """Tokens of the prompt by the newest report of a visible model turn plus what was said since; None: no report."""
    later = 0
    for event in _newest_first(session):
        if event.isolation_scope != scope or not sees_branch(branch, event.branch) or is_compaction(event):
            continue
        usage = event.usage_metadata
        if usage is not None and usage.prompt_token_count is not None:
            return usage.prompt_token_count + later / CHARS_PER_TOKEN
        if event.content is not None:
            later += characters((event.content,))
    return None


def _newest_first(session: Session) -> Iterable[Event]:
    return reversed(session.live_events if session.log.has_rewinds else session.events)
