"""Contents as columns: a JSON value, and a list of parts without the bytes of files (tools-plugins SP-22)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hookwork import Content, Part

#: Behind a text that was cut.
SUFFIX = "...[TRUNCATED]"

INLINE, EXTERNAL = "INLINE", "EXTERNAL_URI"


class Shortener:
    """Plain JSON with every text cut after ``limit`` characters; ``cut`` says whether one was.

    What JSON cannot hold is replaced by a marker, never an error (crosscutting TEL-15).
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.cut = False

    def plain(self, value: Any) -> Any:
        """A fresh JSON value."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else repr(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        if isinstance(value, bytes | bytearray):
            return binary(len(value))
        return "<not_serializable>"

    def text(self, text: str) -> str:
        """The text, or its beginning and `SUFFIX`; what UTF-8 cannot hold becomes ``?``."""
        text = text.encode("utf-8", "replace").decode()
        if len(text) <= self._limit:
            return text
        self.cut = True
        return text[: self._limit] + SUFFIX


def binary(length: int) -> str:
    """What stands for bytes."""
    return f"[BINARY DATA, {length} bytes]"


def part_rows(content: Content | None) -> list[dict[str, Any]]:
    """The parts of a content as rows of the column ``content_parts``."""
    if content is None:
        return []
    return [_part_row(part, index) for index, part in enumerate(content.parts)]


def _part_row(part: Part, index: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        **dict.fromkeys(("mime_type", "uri", "object_ref", "text", "part_attributes")),
        "part_index": index,
        "storage_mode": INLINE,
    }
    if part.text is not None:
        row |= {"mime_type": "text/plain", "text": part.text}
        if part.thought:
            row["part_attributes"] = {"thought": True}
    elif part.inline_data is not None:
        blob = part.inline_data
        row |= {"mime_type": blob.mime_type, "text": binary(len(blob.data or b""))}
    elif part.file_data is not None:
        file = part.file_data
        row |= {"mime_type": file.mime_type, "uri": file.file_uri, "storage_mode": EXTERNAL}
        if (file.file_uri or "").startswith("gs://"):
            row["object_ref"] = {"uri": file.file_uri, "version": None, "authorizer": None, "details": None}
    elif part.function_call is not None:
        call = part.function_call
        row |= {"mime_type": "application/json", "text": f"Function: {call.name}"}
        row["part_attributes"] = {"function_call": {"id": call.id, "name": call.name, "args": call.args}}
    elif part.function_response is not None:
        response = part.function_response
        row |= {"mime_type": "application/json", "text": f"Function response: {response.name}"}
        row["part_attributes"] = {
            "function_response": {"id": response.id, "name": response.name, "response": response.response}
        }
    elif part.executable_code is not None:
        row |= {"mime_type": "text/x-code", "text": part.executable_code.code}
    elif part.code_execution_result is not None:
        row |= {"mime_type": "text/plain", "text": part.code_execution_result.output}
    return row


def as_json(content: Content | None) -> dict[str, Any] | None:
    """A content as the column ``content``: its role and its text."""
    return None if content is None else {"role": content.role, "text": content.text}
