"""Function responses as results of MCP calls: the way back of `hookwork_mcp.results`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from hookwork_mcp.schemas import Checker

_BLOCK: TypeAdapter[Any] = TypeAdapter(types.ContentBlock)


def text_result(text: str, *, error: bool = False, structured: Any = None) -> types.CallToolResult:
    """A result of one text."""
    block = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[block], is_error=error, structured_content=structured)


def result_of(response: Mapping[str, Any] | None, schema: Any = None) -> types.CallToolResult:
    """What a tool answered.

    ``{"error": …}`` is an error. ``{"output": text}`` and ``{"output": [typed items]}``, the forms in which MCP tools
    answer here, become the blocks they came from; any other object is structured content, with its JSON as text.
    A tool with an output ``schema`` always gives structured content: the response, or what stands under ``output``.
    """
    if response is None:
        return types.CallToolResult(content=[])
    if response.get("error"):
        error = response["error"]
        return text_result(error if isinstance(error, str) else json.dumps(error, ensure_ascii=False), error=True)
    output = response.get("output") if set(response) == {"output"} else None
    if schema is not None:
        own = isinstance(output, Mapping) and Checker(schema, "an output schema").faults(response)
        return _structured(output if own else response, _blocks(output))  # type: ignore[arg-type]
    if isinstance(output, str):
        return text_result(output)
    blocks = _blocks(output)
    if blocks is not None:
        return types.CallToolResult(content=blocks)
    return _structured(output if isinstance(output, Mapping) else response, None)


def _structured(value: Mapping[str, Any], blocks: list[Any] | None) -> types.CallToolResult:
    plain = dict(value)
    if blocks is not None:
        return types.CallToolResult(content=blocks, structured_content=plain)
    return text_result(json.dumps(plain, ensure_ascii=False), structured=plain)


def _blocks(output: Any) -> list[Any] | None:
    """Typed items as content blocks; None when they are not all of that kind."""
    if not isinstance(output, list) or not output:
        return None
    blocks = []
    for item in output:
        if not isinstance(item, Mapping) or "type" not in item:
            return None
        try:
            blocks.append(_BLOCK.validate_python(_nested(item), by_name=False))
        except ValidationError:
            return None
    return blocks


def _nested(item: Mapping[str, Any]) -> dict[str, Any]:
    """An embedded resource has its content one level deeper on the wire."""
    if item.get("type") != "resource" or "resource" in item:
        return dict(item)
    inner = {key: value for key, value in item.items() if key != "type"}
    if "data" in inner:
        inner["blob"] = inner.pop("data")
    return {"type": "resource", "resource": inner}
