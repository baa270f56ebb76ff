"""The messages of the published service definitions (google.cloud.aiplatform.v1beta1), as far as the fake knows them.

A shape says which fields a message has and of what kind each is. Like the real service, `accepted` refuses a name that
the message does not have, takes both spellings of a name, and turns every number of a ``Struct`` into a double.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, status: str, message: str, details: list[Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.body = {"error": {"code": code, "message": message, "status": status, "details": details or []}}


def bad(message: str, field: str | None = None) -> Refused:
    """400, with the field that is at fault where there is one."""
    details = []
    if field is not None:
        violation = {"field": field, "description": message}
        details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]
    return Refused(400, "INVALID_ARGUMENT", message, details)


CONTENT = {
    "role": "str",
    "parts": [
        {
            "text": "str",
            "thought": "bool",
            "thoughtSignature": "bytes",
            "inlineData": {"mimeType": "str", "data": "bytes"},
            "fileData": {"mimeType": "str", "fileUri": "str"},
            "functionCall": {"id": "str", "name": "str", "args": "struct"},
            "functionResponse": {"id": "str", "name": "str", "response": "struct"},
            "executableCode": {"language": "enum", "code": "str"},
            "codeExecutionResult": {"outcome": "enum", "output": "str"},
            "videoMetadata": {"startOffset": "duration", "endOffset": "duration", "fps": "double"},
        }
    ],
}
_PAGE_SPAN = {"firstPage": "int32", "lastPage": "int32"}
_CHUNK = {
    "web": {"uri": "str", "title": "str"},
    "retrievedContext": {
        "uri": "str",
        "title": "str",
        "text": "str",
        "documentName": "str",
        "ragChunk": {"text": "str", "pageSpan": _PAGE_SPAN},
    },
    "maps": {
        "uri": "str",
        "title": "str",
        "text": "str",
        "placeId": "str",
        "placeAnswerSources": {"reviewSnippets": [{"reviewId": "str", "googleMapsUri": "str", "title": "str"}]},
    },
}
_SEGMENT = {"partIndex": "int32", "startIndex": "int32", "endIndex": "int32", "text": "str"}
GROUNDING = {
    "webSearchQueries": ["str"],
    "retrievalQueries": ["str"],
    "googleMapsWidgetContextToken": "str",
    "searchEntryPoint": {"renderedContent": "str", "sdkBlob": "bytes"},
    "retrievalMetadata": {"googleSearchDynamicRetrievalScore": "double"},
    "groundingChunks": [_CHUNK],
    "groundingSupports": [
        {"groundingChunkIndices": ["int32"], "confidenceScores": ["double"], "segment": _SEGMENT},
    ],
}
_TRANSCRIPTION = {"text": "str", "finished": "bool"}
SESSION = {
    "name": "str",
    "userId": "str",
    "displayName": "str",
    "labels": "labels",
    "sessionState": "struct",
    "ttl": "duration",
    "expireTime": "time",
}
SESSION_EVENT = {
    "name": "str",
    "author": "str",
    "invocationId": "str",
    "timestamp": "time",
    "content": CONTENT,
    "actions": {
        "skipSummarization": "bool",
        "stateDelta": "struct",
        "artifactDelta": "int32s",
        "escalate": "bool",
        "requestedAuthConfigs": "struct",
        "transferAgent": "str",
    },
    "errorCode": "str",
    "errorMessage": "str",
    "eventMetadata": {
        "groundingMetadata": GROUNDING,
        "partial": "bool",
        "turnComplete": "bool",
        "interrupted": "bool",
        "longRunningToolIds": ["str"],
        "branch": "str",
        "customMetadata": "struct",
        "inputTranscription": _TRANSCRIPTION,
        "outputTranscription": _TRANSCRIPTION,
    },
    "rawEvent": "struct",
}
_METADATA_VALUE = {"stringValue": "str", "doubleValue": "double", "boolValue": "bool", "timestampValue": "time"}
MEMORY = {
    "name": "str",
    "displayName": "str",
    "description": "str",
    "fact": "str",
    "scope": "labels",
    "metadata": {"*": _METADATA_VALUE},
    "ttl": "duration",
    "expireTime": "time",
    "disableMemoryRevisions": "bool",
}
GENERATE = {
    "vertexSessionSource": {"session": "str", "startTime": "time", "endTime": "time"},
    "directContentsSource": {"events": [{"content": CONTENT}]},
    "directMemoriesSource": {"directMemories": [{"fact": "str"}]},
    "scope": "labels",
    "disableConsolidation": "bool",
}
INGEST = {
    "streamId": "str",
    "directContentsSource": {"events": [{"content": CONTENT, "eventId": "str", "eventTime": "time"}]},
    "scope": "labels",
    "generationTriggerConfig": "struct",
    "forceFlush": "bool",
}
RETRIEVE = {
    "scope": "labels",
    "similaritySearchParams": {"searchQuery": "str", "topK": "int32"},
    "simpleRetrievalParams": {"pageSize": "int32", "pageToken": "str"},
}
RETRIEVE_CONTEXTS = {
    "vertexRagStore": {
        "ragResources": [{"ragCorpus": "str", "ragFileIds": ["str"]}],
        "vectorDistanceThreshold": "double",
    },
    "query": {"text": "str", "similarityTopK": "int32"},
}
RAG_UPLOAD = {"ragFile": {"displayName": "str", "description": "str"}}


def accepted(shape: Any, value: Any, at: str = "") -> Any:
    """A value in the service's own form, or `Refused`."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise bad(f"Invalid value at '{at}' (repeated)")
        return [accepted(shape[0], item, f"{at}[{i}]") for i, item in enumerate(value)]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise bad(f"Invalid value at '{at}' (message)")
        found = {}
        for key, item in value.items():
            name = key if key in shape or "*" in shape else camel(key)
            inner = shape.get("*", shape.get(name))
            if inner is None:
                raise bad(f"Invalid JSON payload received. Unknown name \"{key}\" at '{at}': Cannot find field.")
            if item is not None:
                found[name] = accepted(inner, item, f"{at}.{name}" if at else name)
        return found
    return _SCALARS[shape](value, at)


def camel(name: str) -> str:
    """``someName`` for ``some_name``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise bad(f"Invalid value at '{at}' (TYPE_STRING)")
    return value


def _flag(value: Any, at: str) -> bool:
    if not isinstance(value, bool):
        raise bad(f"Invalid value at '{at}' (TYPE_BOOL)")
    return value


def _number(value: Any, at: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad(f"Invalid value at '{at}' (TYPE_DOUBLE)")
    return float(value)


def _int32(value: Any, at: str) -> int:
    number = _number(value, at)
    if not number.is_integer() or not -(1 << 31) <= number < 1 << 31:
        raise bad(f"Invalid value at '{at}' (TYPE_INT32)")
    return int(number)


def _int32s(value: Any, at: str) -> dict[str, int]:
    return {key: _int32(item, f"{at}.{key}") for key, item in _object(value, at).items()}


def _labels(value: Any, at: str) -> dict[str, str]:
    return {key: _text(item, f"{at}.{key}") for key, item in _object(value, at).items()}


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad(f"Invalid value at '{at}' (map)")
    return value


def _struct(value: Any, at: str) -> dict[str, Any]:
    return doubles(_object(value, at))  # type: ignore[no-any-return]


def doubles(value: Any) -> Any:
    """What a ``Struct`` keeps of a value: numbers as doubles, the order of keys its own."""
    if isinstance(value, dict):
        return {key: doubles(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [doubles(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _bytes(value: Any, at: str) -> str:
    text = _text(value, at).replace("-", "+").replace("_", "/")
    try:
        return base64.b64encode(base64.b64decode(text + "=" * (-len(text) % 4), validate=True)).decode()
    except binascii.Error:
        raise bad(f"Invalid value at '{at}' (TYPE_BYTES)") from None


def _time(value: Any, at: str) -> str:
    return shown_time(micros_of(value, at))


def _duration(value: Any, at: str) -> str:
    if not re.fullmatch(r"\d+(\.\d{1,9})?s", _text(value, at)):
        raise bad(f"Invalid value at '{at}' (google.protobuf.Duration)")
    return str(value)


def _enum(value: Any, at: str) -> Any:
    return value  # by name or, as the official client sends it, by number


_SCALARS = {
    "str": _text,
    "bool": _flag,
    "double": _number,
    "int32": _int32,
    "int32s": _int32s,
    "labels": _labels,
    "struct": _struct,
    "bytes": _bytes,
    "time": _time,
    "duration": _duration,
    "enum": _enum,
}


def micros_of(value: Any, at: str) -> int:
    """Microseconds of an RFC 3339 time."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", _text(value, at))
    if match is None:
        raise bad(f"Invalid value at '{at}' (google.protobuf.Timestamp)")
    whole, fraction, zone = match.groups()
    moment = datetime.fromisoformat(whole + ("+00:00" if zone == "Z" else zone))
    return (moment - EPOCH) // timedelta(microseconds=1) + int(((fraction or ".")[1:] + "000000")[:6])


def shown_time(micros: int) -> str:
    """RFC 3339 in UTC, as the service writes it."""
    return (EPOCH + timedelta(microseconds=micros)).isoformat().removesuffix("+00:00") + "Z"
