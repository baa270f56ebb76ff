"""Token counts in the one meaning of all adapters (models MOD-16, MOD-17, OAI-36)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.records.metadata import ModalityTokenCount, UsageMetadata
from hookwork_openai.reading import count_in, object_in


def responses_usage(raw: Any) -> UsageMetadata | None:
    """Usage of a Responses answer; None when nothing is reported."""
    return _usage(raw, "input_tokens", "output_tokens")


def chat_usage(raw: Any) -> UsageMetadata | None:
    """Usage of a Chat Completions answer; None when nothing is reported."""
    return _usage(raw, "prompt_tokens", "completion_tokens")


def _usage(raw: Any, given: str, produced: str) -> UsageMetadata | None:
    if not isinstance(raw, Mapping):
        return None
    prompt, output = count_in(raw, given), count_in(raw, produced)
    cached = count_in(object_in(raw, f"{given}_details"), "cached_tokens")
    thoughts = count_in(object_in(raw, f"{produced}_details"), "reasoning_tokens")
    total = count_in(raw, "total_tokens")
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


def _as_text(count: int | None) -> tuple[ModalityTokenCount, ...] | None:
    return None if count is None else (ModalityTokenCount(modality="TEXT", token_count=count),)
