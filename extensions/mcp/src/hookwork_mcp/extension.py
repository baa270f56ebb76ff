"""Provider hooks of hookwork-mcp: the toolset kind ``mcp`` and the command ``hookwork mcp``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry
    from hookwork.tool import Toolset

_KINDS = frozenset({"mcp", "McpToolset", "MCPToolset"})


@hookimpl
def create_toolset(kind: str, settings: dict[str, Any]) -> Toolset | None:
    """A toolset from settings or YAML; the keys are in the README."""
    if kind not in _KINDS:
        return None
    from hookwork_mcp.configured import toolset_from

    return toolset_from(settings)


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """`hookwork mcp`."""
    cli.add("mcp", "Serve an agent, or its tools, as an MCP server.", "hookwork_mcp.command:command")
