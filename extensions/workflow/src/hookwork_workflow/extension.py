"""Provider hooks of hookwork-workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork import hookimpl

if TYPE_CHECKING:
    from hookwork.node import Node


@hookimpl
def build_node(value: Any) -> Node | None:
    """Agents, tools, functions, generators and workflows as nodes (workflow HK-1)."""
    from hookwork_workflow.building import build

    return build(value)
