"""Reading the arguments of built-in tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.errors import ToolArgumentError


def required_text(tool: str, args: Mapping[str, Any], name: str) -> str:
    """A text argument that has to be there and to say something. Raises ToolArgumentError."""
    value = args.get(name)
    if value is None:
        raise ToolArgumentError(f"{tool}: /{name}: Field required")
    if not isinstance(value, str) or not value.strip():
        raise ToolArgumentError(f"{tool}: /{name}: Input should be text that is not blank")
    return value


def names_list(tool: str, args: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts; absent or null is an empty one. Raises ToolArgumentError."""
    value = args.get(name)
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise ToolArgumentError(f"{tool}: /{name}: Input should be a valid array")
    for position, item in enumerate(value):
        if not isinstance(item, str):
            raise ToolArgumentError(f"{tool}: /{name}/{position}: Input should be a valid string")
    return list(value)
