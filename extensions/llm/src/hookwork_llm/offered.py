"""What a toolset lists, checked before it is used (tools-plugins TL-03, TL-12, TL-13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hookwork.errors import DuplicateToolError, InvalidToolError
from hookwork.tool import RESERVED_TOOL_NAMES, Tool
from hookwork_llm.tool_calls import is_runnable


def offered(values: Any, known: Iterable[Tool], where: str) -> list[Tool]:
    """The values that ``where`` listed, as tools; ``known`` are those that the agent has already.

    Functions become function tools, and what is a tool by its methods alone gets the rest of one, as in ``tools=[…]``.

    Raises:
        InvalidToolError: something that is no tool was listed.
        DuplicateToolError: a name is missing, reserved, or taken by another tool that can be called.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidToolError(f"tools() gave a {type(values).__name__}, not a list of tools")
    taken = {tool.name: tool for tool in known if is_runnable(tool)}
    tools = []
    for value in values:
        tool = value if isinstance(value, Tool) else _adopted(value)
        _check_name(tool, where)
        if is_runnable(tool):
            other = taken.setdefault(tool.name, tool)
            if other is not tool:
                raise DuplicateToolError(
                    f"{where}: the tool name {tool.name!r} is taken by another tool ({type(other).__name__} and "
                    f"{type(tool).__name__}); rename one, or give its toolset a prefix"
                )
        tools.append(tool)
    return tools


def _adopted(value: Any) -> Tool:
    from hookwork_llm.adopted import AdoptedTool
    from hookwork_llm.functions import as_tool

    made = as_tool(value)
    return made if isinstance(made, Tool) else AdoptedTool(made)


def _check_name(tool: Tool, where: str) -> None:
    if not isinstance(tool.name, str) or not tool.name:
        raise DuplicateToolError(f"{where}: a tool of type {type(tool).__name__} has no name; give it one")
    if tool.name in RESERVED_TOOL_NAMES:
        raise DuplicateToolError(
            f"{where}: the tool name {tool.name!r} is reserved; rename the tool, or give its toolset a prefix"
        )
