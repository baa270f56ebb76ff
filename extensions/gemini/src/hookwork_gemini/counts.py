"""Token counts as they may be believed: a count below zero is none (MOD-17)."""

from __future__ import annotations

from hookwork.records.metadata import ModelResponse
from hookwork_gemini.conversion import warn_once

_COUNTS = (
    "prompt_token_count",
    "candidates_token_count",
    "total_token_count",
    "thoughts_token_count",
    "cached_content_token_count",
    "tool_use_prompt_token_count",
)


def counted(response: ModelResponse) -> ModelResponse:
    """The response without negative counts, which would make sums and budgets of a run smaller."""
    usage = response.usage_metadata
    if usage is None:
        return response
    wrong = [name for name in _COUNTS if (getattr(usage, name) or 0) < 0]
    if not wrong:
        return response
    warn_once("negative counts", "the service reported a negative %s; it counts as not reported", wrong[0])
    return response.replace(usage_metadata=usage.replace(**dict.fromkeys(wrong)))
