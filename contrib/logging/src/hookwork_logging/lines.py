"""How values look in a line: short, on one line, and never the bytes of a file."""

from __future__ import annotations

import json
from typing import Any

from hookwork import Content, Part

#: Characters after which a text is cut (tools-plugins §8): contents and instructions, and arguments and results.
CONTENT_LIMIT = 200
DATA_LIMIT = 300


def cut(text: str, limit: int) -> str:
    """The text, or its first ``limit`` characters and ``...``."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def shown(value: Any) -> str:
    """One value as part of a line; line breaks are escaped, so a value cannot look like a line of its own."""
    if isinstance(value, Content):
        return cut(" | ".join(_part(part) for part in value.parts) or "(empty)", CONTENT_LIMIT)
    if isinstance(value, BaseException):
        return cut(_quoted(f"{type(value).__name__}: {value}"), DATA_LIMIT)
    if isinstance(value, dict):
        return cut(_json(value), DATA_LIMIT)
    if isinstance(value, list | tuple):
        return cut(", ".join(str(item) for item in value) or "none", DATA_LIMIT)
    if isinstance(value, str) and value.isidentifier():
        return value
    return cut(_json(value), CONTENT_LIMIT)


def _part(part: Part) -> str:
    if part.text is not None:
        return f"{'thought' if part.thought else 'text'}: {_quoted(cut(part.text, CONTENT_LIMIT))}"
    if part.function_call is not None:
        return f"function_call: {part.function_call.name}"
    if part.function_response is not None:
        return f"function_response: {part.function_response.name}"
    if part.inline_data is not None:
        return f"inline_data: {part.inline_data.mime_type}, {len(part.inline_data.data or b'')} bytes"
    if part.file_data is not None:
        return f"file_data: {part.file_data.file_uri}"
    if part.executable_code is not None:
        return "executable_code"
    return "code_execution_result" if part.code_execution_result is not None else "other part"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json(value: Any) -> str:
    # A hook may put anything into arguments and results; what JSON cannot hold is shown by its repr.
    return json.dumps(value, ensure_ascii=False, default=repr)
