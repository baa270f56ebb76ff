"""A genai GenerateContentResponse in its JSON form as a ModelResponse (models §3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from hookwork.records.base import Record
from hookwork.records.codec import load
from hookwork.records.content import Content
from hookwork.records.metadata import (
    CitationMetadata,
    GroundingMetadata,
    LogprobsResult,
    ModelResponse,
    UsageMetadata,
)

R = TypeVar("R", bound=Record)


def convert_response(data: Mapping[str, Any]) -> ModelResponse:
    """One response, unstreamed or a chunk of a stream, by CONV-1 … CONV-6.

    Args:
        data: the JSON object of the API (camelCase or snake_case keys, bytes as base64 text).

    Returns:
        ``partial`` and ``turn_complete`` are unset: the caller knows which of the two it is. A response that the
        service refused to give carries ``error_code``.

    Raises:
        hookwork.errors.ValidationError: the object is not of that form.
    """
    common: dict[str, Any] = {
        "usage_metadata": _record(UsageMetadata, data, "usageMetadata", "usage_metadata"),
        "model_version": _get(data, "modelVersion", "model_version"),
    }
    candidates = data.get("candidates")
    if candidates:
        return _from_candidate(candidates[0], common)
    feedback = _get(data, "promptFeedback", "prompt_feedback")
    if feedback:
        code = _get(feedback, "blockReason", "block_reason")
        message = _get(feedback, "blockReasonMessage", "block_reason_message")
        return ModelResponse(error_code=code, error_message=message, **common)
    # Vertex AI begins streams of Gemini 3 with chunks that hold metadata only (CONV-5).
    return ModelResponse(content=Content(role="model", parts=[]), **common)


def _from_candidate(candidate: Mapping[str, Any], common: dict[str, Any]) -> ModelResponse:
    reason = _get(candidate, "finishReason", "finish_reason")
    common |= {
        "finish_reason": reason,
        "grounding_metadata": _record(GroundingMetadata, candidate, "groundingMetadata", "grounding_metadata"),
        "citation_metadata": _record(CitationMetadata, candidate, "citationMetadata", "citation_metadata"),
        "avg_logprobs": _get(candidate, "avgLogprobs", "avg_logprobs"),
        "logprobs_result": _record(LogprobsResult, candidate, "logprobsResult", "logprobs_result"),
    }
    content = _record(Content, candidate, "content", "content")
    if content is not None and not content.role:
        content = content.replace(role="model")
    if (content is not None and content.parts) or reason == "STOP":
        return ModelResponse(content=content, **common)
    message = _get(candidate, "finishMessage", "finish_message")
    return ModelResponse(error_code=reason, error_message=message, **common)


def _get(data: Mapping[str, Any], camel: str, snake: str) -> Any:
    value = data.get(camel)
    return data.get(snake) if value is None else value


def _record(kind: type[R], data: Mapping[str, Any], camel: str, snake: str) -> R | None:
    value = _get(data, camel, snake)
    return None if value is None else load(kind, value)
