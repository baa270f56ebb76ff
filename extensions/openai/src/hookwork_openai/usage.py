"""Token counts in the one meaning of all adapters (models MOD-16, MOD-17, OAI-36)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.records.metadata import ModalityTokenCount, UsageMetadata


def responses_usage(raw: Any) -> UsageMetadata | None:
    """Usage of a Responses answer; None when nothing is reported."""
    return _usage(raw, "input_tokens", "output_tokens")


def chat_usage(raw: Any) -> UsageMetadata | None:
    """Usage of a Chat Completions answer; None when nothing is reported."""
    return _usage(raw, "prompt_tokens", "completion_tokens")


def _usage(raw: Any, given: str, produced: str) -> UsageMetadata | None:
    if not isinstance(raw, Mapping):
        return None
    prompt, output = _count(raw.get(given)), _count(raw.get(produced))
    cached = _count(_details(raw, given).get("cached_tokens"))
    thoughts = _count(_details(raw, produced).get("reasoning_tokens"))
    total = _count(raw.get("total_tokens"))
    if all(count is None for count in (prompt, output, cached, thoughts, total)):
        return None
    candidates = output if output is None or thoughts is None else max(0, output - thoughts)
    return UsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=candidates,
        total_token_count=total,
        thoughts_token_count=thoughts,
        cached_content_token_count=cached,
        prompt_tokens_details=_as_text(prompt),
        candidates_tokens_details=_as_text(candidates),
        cache_tokens_details=_as_text(cached),
    )


def _details(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = raw.get(f"{name}_details")
    return details if isinstance(details, Mapping) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _as_text(count: int | None) -> tuple[ModalityTokenCount, ...] | None:
    return None if count is None else (ModalityTokenCount(modality="TEXT", token_count=count),)
