"""The named fields of a SessionEvent, which other kits read and write (services §5.3).

Hookwork itself keeps an event in ``rawEvent``; what stands here is for readers that do not know it, and for events of
writers that leave it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.errors import ValidationError
from hookwork.records.codec import dump
from hookwork.records.content import Content
from hookwork.records.event import Event
from hookwork.records.frozen import thaw

#: google-adk's places in the custom metadata for what has no named field.
USAGE, COMPACTION = "_usage_metadata", "_compaction"

_INT32 = range(-(1 << 31), 1 << 31)

# Which keys go through; a dict or a list of one dict describes what is inside.
_PART: dict[str, Any] = {
    "text": None,
    "inlineData": {"mimeType": None, "data": None},
    "functionCall": {"id": None, "name": None, "args": None},
    "functionResponse": {"id": None, "name": None, "response": None},
    "thought": None,
    "thoughtSignature": None,
}
_SNIPPET: dict[str, Any] = {"reviewId": None, "googleMapsUri": None, "title": None}
_CHUNK: dict[str, Any] = {
    "web": {"uri": None, "title": None},
    "retrievedContext": {
        "uri": None,
        "title": None,
        "text": None,
        "documentName": None,
        "ragChunk": {"text": None, "pageSpan": {"firstPage": None, "lastPage": None}},
    },
    "maps": {
        "uri": None,
        "title": None,
        "text": None,
        "placeId": None,
        "placeAnswerSources": {"reviewSnippets": [_SNIPPET]},
    },
}
_SUPPORT: dict[str, Any] = {
    "groundingChunkIndices": None,
    "confidenceScores": None,
    "segment": {"partIndex": None, "startIndex": None, "endIndex": None, "text": None},
}
_GROUNDING: dict[str, Any] = {
    "webSearchQueries": None,
    "retrievalQueries": None,
    "googleMapsWidgetContextToken": None,
    "searchEntryPoint": {"renderedContent": None, "sdkBlob": None},
    "retrievalMetadata": {"googleSearchDynamicRetrievalScore": None},
    "groundingChunks": [_CHUNK],
    "groundingSupports": [_SUPPORT],
}
_TRANSCRIPTION: dict[str, Any] = {"text": None, "finished": None}


def _picked(value: Any, shape: Any) -> Any:
    """Of a JSON value what the shape names; what is empty inside is left out."""
    if shape is None or value is None:
        return value
    if isinstance(shape, list):
        return [_picked(item, shape[0]) for item in value] if isinstance(value, list) else None
    if not isinstance(value, Mapping):
        return None
    found = {key: _picked(value[key], inner) for key, inner in shape.items() if key in value}
    return {key: item for key, item in found.items() if item is not None}


# --- out --------------------------------------------------------------------------------------------------------------


def content_fields(content: Content) -> dict[str, Any]:
    """A Content as the API takes it: other kinds of parts become empty objects, so that positions stay."""
    document = dump(content)
    parts = []
    for part in document.get("parts") or []:
        kept = _picked(part, _PART)
        for name, payload in (("functionCall", "args"), ("functionResponse", "response")):
            if name in kept:
                kept[name].setdefault(payload, {})  # VTX-18
        parts.append(kept)
    role = document.get("role")
    return {**({"role": role} if role else {}), "parts": parts}


def named_fields(event: Event) -> dict[str, Any]:
    """The named fields of an event, its ``temp:`` keys already removed; ``author``, ids and time are not among them.

    Raises:
        ValidationError: an artifact's version does not fit into 32 bits (VTX-18).
    """
    found: dict[str, Any] = {}
    if event.content is not None:
        found["content"] = content_fields(event.content)
    actions = _actions(event)
    if actions:
        found["actions"] = actions
    metadata = _metadata(event)
    if metadata:
        found["eventMetadata"] = metadata
    if event.error_code:
        found["errorCode"] = event.error_code
    if event.error_message:
        found["errorMessage"] = event.error_message
    return found


def _actions(event: Event) -> dict[str, Any]:
    actions = event.actions
    for name, version in actions.artifact_delta.items():
        if version not in _INT32:
            raise ValidationError(f"artifact {name!r}: version {version} does not fit into 32 bits", path="actions")
    configs = (actions.extra or {}).get("requestedAuthConfigs")
    wanted = {
        "stateDelta": thaw(actions.state_delta),
        "artifactDelta": dict(actions.artifact_delta),
        "skipSummarization": actions.skip_summarization,
        "escalate": actions.escalate,
        "transferAgent": actions.transfer_to_agent,
        "requestedAuthConfigs": thaw(configs) if isinstance(configs, Mapping) else None,
    }
    return {name: value for name, value in wanted.items() if value}


def _metadata(event: Event) -> dict[str, Any]:
    grounding = event.grounding_metadata
    wanted = {
        "branch": event.branch or None,
        "partial": event.partial,
        "turnComplete": event.turn_complete,
        "interrupted": event.interrupted,
        "longRunningToolIds": list(event.long_running_tool_ids) or None,
        "customMetadata": _custom(event) or None,
        "groundingMetadata": None if grounding is None else _grounding_out(dump(grounding)),
        "inputTranscription": event.input_transcription and _picked(dump(event.input_transcription), _TRANSCRIPTION),
        "outputTranscription": event.output_transcription and _picked(dump(event.output_transcription), _TRANSCRIPTION),
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _custom(event: Event) -> dict[str, Any]:
    """The custom metadata, with google-adk's additions in google-adk's spelling."""
    custom: dict[str, Any] = dict(thaw(event.custom_metadata or {}))
    if event.usage_metadata is not None:
        custom[USAGE] = dump(event.usage_metadata, keys="snake")
    compaction = event.actions.compaction
    if compaction is not None:
        custom[COMPACTION] = dump(compaction.replace(excluded_events=()), keys="snake")
    return custom


def _snippets(grounding: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The review snippets of all chunks."""
    chunks = grounding.get("groundingChunks") or []
    sources = [(chunk.get("maps") or {}).get("placeAnswerSources") or {} for chunk in chunks]
    return [snippet for source in sources for snippet in source.get("reviewSnippets") or []]


def _grounding_out(document: dict[str, Any]) -> Any:
    """Grounding as the API spells it: what is a snippet's ``review`` here is its ``reviewId`` there (VTX-15)."""
    for snippet in _snippets(document):
        if snippet.get("review") is not None:
            snippet["reviewId"] = snippet["review"]
    return _picked(document, _GROUNDING)


def _grounding_in(document: Any) -> Any:
    found = _picked(document, _GROUNDING)
    if isinstance(found, dict):
        for snippet in _snippets(found):
            if "reviewId" in snippet:
                snippet["review"] = snippet.pop("reviewId")
    return found


# --- in ---------------------------------------------------------------------------------------------------------------


def document_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """The event of an item of ``sessionEvents`` without ``rawEvent``, as the codec reads it.

    Objects that the server only materialised (``{}``) are unset (VTX-18); ids, author and time are the caller's.
    """
    metadata = item.get("eventMetadata") or {}
    custom = dict(metadata.get("customMetadata") or {})
    usage, compaction = custom.pop(USAGE, None), custom.pop(COMPACTION, None)
    found = {
        "content": item.get("content") or None,
        "errorCode": item.get("errorCode") or None,
        "errorMessage": item.get("errorMessage") or None,
        "customMetadata": custom or None,
        "usageMetadata": usage,
        "groundingMetadata": _grounding_in(metadata.get("groundingMetadata")) or None,
        "actions": _actions_in(item.get("actions") or {}, compaction),
    }
    for name in ("branch", "partial", "turnComplete", "interrupted", "longRunningToolIds"):
        found[name] = metadata.get(name)
    for name in ("inputTranscription", "outputTranscription"):
        found[name] = metadata.get(name) or None
    return {name: value for name, value in found.items() if value is not None}


def _actions_in(actions: Mapping[str, Any], compaction: Any) -> dict[str, Any]:
    wanted = {
        "stateDelta": actions.get("stateDelta") or {},
        "artifactDelta": actions.get("artifactDelta") or {},
        "skipSummarization": actions.get("skipSummarization"),
        "escalate": actions.get("escalate"),
        "transferToAgent": actions.get("transferAgent") or None,
        "requestedAuthConfigs": actions.get("requestedAuthConfigs") or None,
        "compaction": compaction,
    }
    return {name: value for name, value in wanted.items() if value is not None}
