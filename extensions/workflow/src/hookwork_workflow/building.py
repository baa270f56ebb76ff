"""What can become a node of itself: agents, tools, functions (workflow HK-1)."""

from __future__ import annotations

import inspect
from typing import Any

from hookwork.agent import Agent
from hookwork.node import Node
from hookwork.tool import FunctionLike, StreamingLike, capability


def build(value: Any) -> Node | None:
    """A node for an agent, a tool or anything that can be called; None for everything else.

    Raises:
        GraphError: it could be one, but something about it is wrong.
    """
    if isinstance(value, Node):
        return value
    if isinstance(value, Agent):
        from hookwork_workflow.nodes.agent import AgentNode

        return AgentNode(value)
    if is_tool(value):
        from hookwork_workflow.nodes.tool import ToolNode

        return ToolNode(value)
    if inspect.isroutine(value) or (callable(value) and not isinstance(value, type)):
        from hookwork_workflow.nodes.function import FunctionNode

        return FunctionNode(value)
    return None


def is_tool(value: Any) -> bool:
    """Whether a value has a tool's capabilities, whatever its class is."""
    named = isinstance(getattr(value, "name", None), str)
    return named and (capability(value, FunctionLike) is not None or capability(value, StreamingLike) is not None)
