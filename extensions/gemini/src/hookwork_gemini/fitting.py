"""Parts as each of the two backends takes them: both refuse a request for one field too many (models CAP-4, CAP-6)."""

from __future__ import annotations

from hookwork.records.content import FunctionResponse, FunctionResponsePart, Part

#: Keys of parts, beside `part_metadata`, that the SDK refuses to send to Vertex AI.
_NOT_ON_VERTEX = frozenset(
    ("toolCall", "toolResponse", "mediaProcessing", "tool_call", "tool_response", "media_processing")
)


def for_vertexai(part: Part) -> Part:
    """The part without what only the Gemini API takes; the part itself when there is nothing to leave out."""
    if part.part_metadata is not None or (part.extra is not None and not _NOT_ON_VERTEX.isdisjoint(part.extra)):
        extra = {key: value for key, value in (part.extra or {}).items() if key not in _NOT_ON_VERTEX}
        part = part.replace(part_metadata=None, extra=extra or None)
    answer = part.function_response
    if answer is not None and answer.will_continue is not None:
        part = part.replace(function_response=answer.replace(will_continue=None))
    return part


def for_gemini_api(part: Part) -> Part:
    """The part without what only Vertex AI takes; the part itself when there is nothing to leave out."""
    blob, file = part.inline_data, part.file_data
    if blob is not None and blob.display_name is not None:
        return part.replace(inline_data=blob.replace(display_name=None))
    if file is not None and file.display_name is not None:
        return part.replace(file_data=file.replace(display_name=None))
    call = part.function_call
    if call is not None and (call.partial_args is not None or call.will_continue is not None):
        return part.replace(function_call=call.replace(partial_args=None, will_continue=None))
    answer = part.function_response
    if answer is not None and answer.parts:
        return part.replace(function_response=_unnamed(answer))
    return part


def _unnamed(answer: FunctionResponse) -> FunctionResponse:
    return answer.replace(parts=tuple(_unnamed_part(part) for part in answer.parts or ()))


def _unnamed_part(part: FunctionResponsePart) -> FunctionResponsePart:
    blob, file = part.inline_data, part.file_data
    return part.replace(
        inline_data=blob.replace(display_name=None) if blob is not None else None,
        file_data=file.replace(display_name=None) if file is not None else None,
    )
