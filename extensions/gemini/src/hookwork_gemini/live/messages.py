"""Messages of a live server as responses (models LIVE-6, LIVE-7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hookwork.live import (
    CANCELLED_CALLS,
    GENERATION_COMPLETE,
    GO_AWAY,
    INTERACTION_STATUS,
    TURN_COMPLETE_REASON,
    VOICE_ACTIVITY,
)
from hookwork.records.codec import load
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.metadata import GroundingMetadata, ModelResponse, Transcription, UsageMetadata
from hookwork_modelkit.retry_after import seconds_of

#: Live names of token counts → names of the record.
_LIVE_COUNTS = {"responseTokenCount": "candidatesTokenCount", "responseTokensDetails": "candidatesTokensDetails"}


def responses_of(message: Mapping[str, Any]) -> Iterator[ModelResponse]:
    """The responses that one server message stands for; nothing for a message that says nothing to the outside.

    Args:
        message: the JSON form of a BidiGenerateContentServerMessage, camelCase.
    """
    handle = _handle(message.get("sessionResumptionUpdate"))
    if handle:
        yield ModelResponse(session_resumption_handle=handle)
    said = message.get("serverContent") or {}
    transcripts = _transcripts(said)
    if transcripts:
        yield ModelResponse(partial=True, **transcripts)
    fields = _fields(message, said)
    contents = list(_contents(message, said))
    for content, partial in contents[:-1]:
        yield ModelResponse(content=content, partial=partial)
    if contents:
        content, partial = contents[-1]
        yield ModelResponse(content=content, partial=partial, **fields)
    elif fields:
        yield ModelResponse(partial=True if set(fields) == {"custom_metadata"} else None, **fields)


def _handle(update: Any) -> str | None:
    """A handle that can be used now."""
    if not isinstance(update, Mapping) or not update.get("resumable"):
        return None
    return update.get("newHandle")


def _contents(message: Mapping[str, Any], said: Mapping[str, Any]) -> Iterator[tuple[Content, bool | None]]:
    """(content, is it a fragment): texts are fragments, media and calls are not."""
    turn = said.get("modelTurn") or {}
    run: list[Part] = []
    is_text = False
    for raw in turn.get("parts") or ():
        part = load(Part, raw)
        if part.is_empty():
            continue
        if run and (part.text is not None) != is_text:
            yield Content(role="model", parts=run), True if is_text else None
            run = []
        is_text = part.text is not None
        run.append(part)
    if run:
        yield Content(role="model", parts=run), True if is_text else None
    calls = (message.get("toolCall") or {}).get("functionCalls")
    if calls:
        parts = [Part(function_call=load(FunctionCall, call)) for call in calls]
        yield Content(role="model", parts=parts), None


def _transcripts(said: Mapping[str, Any]) -> dict[str, Any]:
    """New fragments of speech as text, by field."""
    found: dict[str, Any] = {}
    for key, name in (("inputTranscription", "input_transcription"), ("outputTranscription", "output_transcription")):
        text = (said.get(key) or {}).get("text")
        if text:
            found[name] = Transcription(text=text)
    return found


def _fields(message: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """All that a response says beside its content."""
    fields: dict[str, Any] = {}
    for key, name in (("turnComplete", "turn_complete"), ("interrupted", "interrupted")):
        if said.get(key):
            fields[name] = True
    if said.get("groundingMetadata"):
        fields["grounding_metadata"] = load(GroundingMetadata, said["groundingMetadata"])
    usage = message.get("usageMetadata")
    if usage:
        counts = {_LIVE_COUNTS.get(key, key): value for key, value in usage.items() if key != "serviceTier"}
        fields["usage_metadata"] = load(UsageMetadata, counts)
    labels = _labels(message, said)
    if labels:
        fields["custom_metadata"] = labels
    return fields


def _labels(message: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    labels: dict[str, Any] = {}
    if said.get("generationComplete"):
        labels[GENERATION_COMPLETE] = True
    if said.get("turnCompleteReason"):
        labels[TURN_COMPLETE_REASON] = said["turnCompleteReason"]
    if said.get("interactionStatus"):
        labels[INTERACTION_STATUS] = said["interactionStatus"]
    activity = message.get("voiceActivity") or message.get("voiceActivityDetectionSignal")
    if activity:
        labels[VOICE_ACTIVITY] = dict(activity)
    go_away = message.get("goAway")
    if go_away is not None:
        labels[GO_AWAY] = seconds_of(go_away.get("timeLeft")) or 0
    cancelled = (message.get("toolCallCancellation") or {}).get("ids")
    if cancelled:
        labels[CANCELLED_CALLS] = list(cancelled)
    return labels
