"""Functions as tools: `FunctionTool`, `StreamingTool`, the decorator `tool`, and `as_tool` for ``tools=[...]``."""

from __future__ import annotations

from hookwork_llm.functions.decorator import as_tool, tool
from hookwork_llm.functions.tool import FunctionTool, StreamingTool

__all__ = ["FunctionTool", "StreamingTool", "as_tool", "tool"]
