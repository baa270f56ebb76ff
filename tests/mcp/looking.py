"""What the MCP tests look at: tools by name, tasks and processes that should be gone."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from hookwork_mcp import McpToolset
from hookwork_testkit import make_context


def readonly(user: str = "u1") -> Any:
    """The context of a listing."""
    return make_context("readonly", user_id=user)


async def by_name(toolset: McpToolset, ctx: Any = None) -> dict[str, Any]:
    """A toolset's tools."""
    return {tool.name: tool for tool in await toolset.tools(ctx or readonly())}


def other_tasks() -> set[asyncio.Task[Any]]:
    """All tasks but the caller's."""
    return asyncio.all_tasks() - {asyncio.current_task()}


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
