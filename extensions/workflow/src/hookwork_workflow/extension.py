"""Provider hooks of hookwork-workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry
    from hookwork.node import Node


@hookimpl
def build_node(value: Any) -> Node | None:
    """Agents, tools, functions, generators and workflows as nodes (workflow HK-1)."""
    from hookwork_workflow.building import build

    return build(value)


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """`hookwork graph`."""
    cli.add(
        "graph",
        "Show an agent or a workflow as a picture, with the state of a session.",
        "hookwork_workflow.command:command",
    )
