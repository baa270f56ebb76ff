"""MCP for Hookwork: tools of MCP servers as toolsets, agents and toolsets as MCP servers.

Names are resolved on first use; the MCP SDK is imported when a server is first connected.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_mcp.elicitation import Elicitation, accept_defaults
    from hookwork_mcp.errors import McpConnectionError
    from hookwork_mcp.sampling import sample_with
    from hookwork_mcp.serving.server import AgentServer
    from hookwork_mcp.tool import McpTool
    from hookwork_mcp.toolset import McpToolset
    from hookwork_mcp.transports import InProcess, Sse, Stdio, StreamableHttp

_HOMES = {
    "AgentServer": "serving.server",
    "Elicitation": "elicitation",
    "InProcess": "transports",
    "McpConnectionError": "errors",
    "McpTool": "tool",
    "McpToolset": "toolset",
    "Sse": "transports",
    "Stdio": "transports",
    "StreamableHttp": "transports",
    "accept_defaults": "elicitation",
    "sample_with": "sampling",
}

__all__ = [
    "AgentServer",
    "Elicitation",
    "InProcess",
    "McpConnectionError",
    "McpTool",
    "McpToolset",
    "Sse",
    "Stdio",
    "StreamableHttp",
    "accept_defaults",
    "sample_with",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
