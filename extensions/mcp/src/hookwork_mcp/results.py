"""What a tool call gave, as a function response (tools-plugins §5), and its media as parts of the next request."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container, Sequence
from typing import Any

from hookwork.errors import ToolError
from hookwork.records.content import Content, FunctionResponse, FunctionResponseBlob, FunctionResponsePart, Part
from hookwork.records.frozen import thaw

#: The fixed beginning of what a model is told about a failed call; the words of other ADKs.
FAILED = "Tool execution failed."


def response_of(result: Any) -> dict[str, Any]:
    """The response to a call.

    ``{"output": structured content}``; else ``{"output": text}`` when all blocks are text; else
    ``{"output": [typed items]}``, where media keep their base64 ``data``. Media beside structured content stand
    under ``content``.

    Raises:
        ToolError: the server says that the call failed.
    """
    blocks = list(result.content or ())
    texts = [block.text for block in blocks if block.type == "text"]
    if result.is_error:
        details = "".join(texts)
        raise ToolError(f"{FAILED} Details: {details}" if details else FAILED)
    if result.structured_content is not None:
        media = [item_of(block) for block in blocks if block.type != "text"]
        return {"output": result.structured_content, **({"content": media} if media else {})}
    if len(texts) == len(blocks):
        return {"output": "".join(texts)}
    return {"output": [item_of(block) for block in blocks]}


def item_of(block: Any) -> dict[str, Any]:
    """A content block as JSON, without the hints that are not for models; an embedded resource stands flat."""
    item: dict[str, Any] = block.model_dump(by_alias=True, mode="json", exclude_none=True)
    item.pop("annotations", None)
    item.pop("_meta", None)
    if item.get("type") == "resource" and isinstance(item.get("resource"), dict):
        resource = item.pop("resource")
        resource.pop("_meta", None)
        item |= resource
        if "blob" in item:
            item["data"] = item.pop("blob")
    return item


def with_media_parts(contents: Sequence[Content], names: Container[str]) -> list[Content] | None:
    """The contents with the media of MCP responses as function-response parts; None when there are none.

    The stored response keeps the data; a model is better shown an image than its base64 text.
    """
    changed: dict[int, Content] = {}
    for i, content in enumerate(contents):
        parts = [_shown(part, names) for part in content.parts]
        if any(new is not old for new, old in zip(parts, content.parts, strict=True)):
            changed[i] = content.replace(parts=parts)
    if not changed:
        return None
    return [changed.get(i, content) for i, content in enumerate(contents)]


def _shown(part: Part, names: Container[str]) -> Part:
    answer = part.function_response
    if answer is None or answer.parts or answer.name not in names or not answer.response:
        return part
    media: list[FunctionResponsePart] = []
    response = dict(answer.response)
    for key in ("output", "content"):
        items = response.get(key)
        if isinstance(items, Sequence) and not isinstance(items, str):
            response[key] = [_without_data(item, media) for item in items]
    if not media:
        return part
    shown = FunctionResponse(id=answer.id, name=answer.name, response=thaw(response), parts=tuple(media))
    return part.replace(function_response=shown)


def _without_data(item: Any, media: list[FunctionResponsePart]) -> Any:
    mime = item.get("mimeType") if hasattr(item, "get") else None
    data = item.get("data") if mime else None
    if not isinstance(data, str):
        return item
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return item
    media.append(FunctionResponsePart(inline_data=FunctionResponseBlob(data=raw, mime_type=mime)))
    return {key: value for key, value in item.items() if key != "data"}
