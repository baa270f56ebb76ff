"""A genai GenerateContentResponse in its JSON form as a ModelResponse (models §3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from hookwork.errors import ValidationError
from hookwork.records.base import EXTRA_WIRE_NAME, Record
from hookwork.records.codec import load
from hookwork.records.content import Content, Part
from hookwork.records.metadata import (
    CitationMetadata,
    GroundingMetadata,
    LogprobsResult,
    ModelResponse,
    UsageMetadata,
)
from hookwork_modelkit.parts_in_order import EMPTY_PARTS

R = TypeVar("R", bound=Record)


class _Candidate(msgspec.Struct, rename="camel"):
    """What is read of a candidate; other keys are passed over."""

    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: GroundingMetadata | None = None
    citation_metadata: CitationMetadata | None = None
    avg_logprobs: float | None = None
    logprobs_result: LogprobsResult | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Response(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: UsageMetadata | None = None
    model_version: str | None = None


_decode = msgspec.json.Decoder(_Response).decode


def _marks(data: str | bytes) -> tuple[Any, ...]:
    """What a key may hold that spells the inner name of `extra`, with an escape or without: not for `_decode`."""
    return (EXTRA_WIRE_NAME, "\\u007") if isinstance(data, str) else (EXTRA_WIRE_NAME.encode(), b"\\u007")


def convert_response(data: str | bytes | Mapping[str, Any]) -> ModelResponse:
    """One response, unstreamed or a chunk of a stream, by CONV-1 … CONV-6.

    Args:
        data: the JSON text of the API, or the object (camelCase or snake_case keys, bytes as base64 text). Text is
            quicker: what has only keys that the records know is read in one step.

    Returns:
        ``partial`` and ``turn_complete`` are unset: the caller knows which of the two it is. A response that the
        service refused to give carries ``error_code``.

    Raises:
        hookwork.errors.ValidationError: the object is not of that form.
    """
    return _converted(_read(data))


def whole_response(data: str | bytes | Mapping[str, Any]) -> ModelResponse:
    """An unstreamed response by CONV-1 … CONV-6, as the one whole response of its call (models MOD-2).

    What a stream's aggregate leaves out is left out here too: empty parts (AGG-3) and calls without a name (AGG-13);
    what that leaves without a part is judged like a response that came without one (CONV-3, AGG-28). So a turn gives
    the same response, streamed or not; see `StreamAggregator` for its errors.
    Arguments and errors are those of `convert_response`.
    """
    response = convert_response(data)
    content = response.content
    parts = [part for part in content.parts if not _says_nothing(part)] if content is not None else []
    if content is not None and len(parts) < len(content.parts):
        content = content.replace(parts=parts)
    code = response.error_code
    if not parts:
        code = code or (response.finish_reason if response.finish_reason != "STOP" else None)
        content = None if code else Content(role="model", parts=[])
    return response.replace(content=content, error_code=code, turn_complete=True)


def _says_nothing(part: Part) -> bool:
    call = part.function_call
    return part in EMPTY_PARTS if call is None else not call.name


def _read(data: str | bytes | Mapping[str, Any]) -> _Response:
    if isinstance(data, Mapping):
        return _loaded(data)
    if not any(mark in data for mark in _marks(data)):
        try:
            return _decode(data)
        except msgspec.DecodeError:
            pass  # the codec reads more spellings, keeps unknown keys, and names the fault when there is one
    try:
        return _loaded(msgspec.json.decode(data))
    except msgspec.DecodeError as error:
        raise ValidationError("GenerateContentResponse: not JSON", path="") from error


def _loaded(data: Any) -> _Response:
    """The parts of a response that are records, read one by one by the codec."""
    if not isinstance(data, Mapping):
        raise ValidationError("GenerateContentResponse: an object is expected", path="")
    candidates = data.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    feedback = _get(data, "promptFeedback", "prompt_feedback")
    return _Response(
        candidates=[_loaded_candidate(first)] if isinstance(first, Mapping) else None,
        prompt_feedback=_Feedback(
            _get(feedback, "blockReason", "block_reason"), _get(feedback, "blockReasonMessage", "block_reason_message")
        )
        if feedback
        else None,
        usage_metadata=_record(UsageMetadata, data, "usageMetadata", "usage_metadata"),
        model_version=_get(data, "modelVersion", "model_version"),
    )


def _loaded_candidate(candidate: Mapping[str, Any]) -> _Candidate:
    return _Candidate(
        content=_record(Content, candidate, "content", "content"),
        finish_reason=_get(candidate, "finishReason", "finish_reason"),
        finish_message=_get(candidate, "finishMessage", "finish_message"),
        grounding_metadata=_record(GroundingMetadata, candidate, "groundingMetadata", "grounding_metadata"),
        citation_metadata=_record(CitationMetadata, candidate, "citationMetadata", "citation_metadata"),
        avg_logprobs=_get(candidate, "avgLogprobs", "avg_logprobs"),
        logprobs_result=_record(LogprobsResult, candidate, "logprobsResult", "logprobs_result"),
    )


def _converted(data: _Response) -> ModelResponse:
    usage, version, feedback = data.usage_metadata, data.model_version, data.prompt_feedback
    if data.candidates:
        return _from_candidate(data.candidates[0], usage, version)
    if feedback is not None and (feedback.block_reason or feedback.block_reason_message):
        return ModelResponse(
            error_code=feedback.block_reason,
            error_message=feedback.block_reason_message,
            usage_metadata=usage,
            model_version=version,
        )
    # Vertex AI begins streams of Gemini 3 with chunks that hold metadata only (CONV-5).
    return ModelResponse(content=Content(role="model", parts=[]), usage_metadata=usage, model_version=version)


def _from_candidate(candidate: _Candidate, usage: UsageMetadata | None, version: str | None) -> ModelResponse:
    content, reason = candidate.content, candidate.finish_reason
    if content is not None and content.role != "model":
        content = content.replace(role="model")  # whoever the service says: in a history "assistant" would be refused
    succeeded = (content is not None and bool(content.parts)) or reason == "STOP"
    return ModelResponse(
        content=content if succeeded else None,
        error_code=None if succeeded else reason,
        error_message=None if succeeded else candidate.finish_message,
        finish_reason=reason,
        grounding_metadata=candidate.grounding_metadata,
        citation_metadata=candidate.citation_metadata,
        avg_logprobs=candidate.avg_logprobs,
        logprobs_result=candidate.logprobs_result,
        usage_metadata=usage,
        model_version=version,
    )


def _get(data: Mapping[str, Any], camel: str, snake: str) -> Any:
    value = data.get(camel)
    return data.get(snake) if value is None else value


def _record(kind: type[R], data: Mapping[str, Any], camel: str, snake: str) -> R | None:
    value = _get(data, camel, snake)
    return None if value is None else load(kind, value)
