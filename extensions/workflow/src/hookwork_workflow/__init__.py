"""Agents made of agents, and graphs of nodes. Names are resolved lazily to keep start-up light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork.node import Node, NodeConfig, NodeOutcome, Pause, build_node
    from hookwork.node_context import MISSING, NodeContext
    from hookwork.records.event import RequestInput
    from hookwork.timed import EXPIRED_ROUTE, WaitExpired, with_deadline
    from hookwork_workflow.asking import REQUEST_INPUT, request_input_event
    from hookwork_workflow.decorator import node
    from hookwork_workflow.edges import DEFAULT, START, Edge, EdgeBuilder, Edges, chain, fan_in, fan_out, routes
    from hookwork_workflow.errors import (
        GraphChanged,
        GraphError,
        InputValidationError,
        InvalidRunId,
        InvalidRunNodeContext,
        MultipleOutputs,
        MultipleRoutes,
        MultipleTerminalOutputs,
        NodeFailed,
        NodeRunError,
        NodeTimeout,
        OutputAlreadyDelegated,
        OutputValidationError,
        ReplayDivergence,
        RunawayGraph,
    )
    from hookwork_workflow.graph import Graph, compile_graph
    from hookwork_workflow.limits import ResourceLimits
    from hookwork_workflow.loop import LoopAgent
    from hookwork_workflow.nodes.agent import AgentNode
    from hookwork_workflow.nodes.as_tool import NodeTool
    from hookwork_workflow.nodes.base import GraphNode
    from hookwork_workflow.nodes.function import FunctionNode
    from hookwork_workflow.nodes.join import Join
    from hookwork_workflow.nodes.parallel import ParallelNode, parallel
    from hookwork_workflow.nodes.tool import ToolNode
    from hookwork_workflow.parallel_agent import ParallelAgent
    from hookwork_workflow.results import Routed, progress, routed
    from hookwork_workflow.retry import Retry
    from hookwork_workflow.sequential import SequentialAgent
    from hookwork_workflow.timed_waits import DueWait, answer_due, due_waits, keep_time, next_due, send_event
    from hookwork_workflow.workflow import Workflow, WorkflowAgent

_HOMES = {
    "hookwork.node": (
        "Node",
        "NodeConfig",
        "NodeOutcome",
        "Pause",
        "build_node",
    ),
    "hookwork.node_context": (
        "MISSING",
        "NodeContext",
    ),
    "hookwork.records.event": ("RequestInput",),
    "hookwork_workflow.asking": (
        "REQUEST_INPUT",
        "request_input_event",
    ),
    "hookwork_workflow.decorator": ("node",),
    "hookwork_workflow.edges": (
        "DEFAULT",
        "Edge",
        "EdgeBuilder",
        "Edges",
        "START",
        "chain",
        "fan_in",
        "fan_out",
        "routes",
    ),
    "hookwork_workflow.errors": (
        "GraphChanged",
        "GraphError",
        "InputValidationError",
        "InvalidRunId",
        "InvalidRunNodeContext",
        "MultipleOutputs",
        "MultipleRoutes",
        "MultipleTerminalOutputs",
        "NodeFailed",
        "NodeRunError",
        "NodeTimeout",
        "OutputAlreadyDelegated",
        "OutputValidationError",
        "ReplayDivergence",
        "RunawayGraph",
    ),
    "hookwork_workflow.graph": (
        "Graph",
        "compile_graph",
    ),
    "hookwork_workflow.limits": ("ResourceLimits",),
    "hookwork_workflow.loop": ("LoopAgent",),
    "hookwork_workflow.nodes.agent": ("AgentNode",),
    "hookwork_workflow.nodes.as_tool": ("NodeTool",),
    "hookwork_workflow.nodes.base": ("GraphNode",),
    "hookwork_workflow.nodes.function": ("FunctionNode",),
    "hookwork_workflow.nodes.join": ("Join",),
    "hookwork_workflow.nodes.parallel": (
        "ParallelNode",
        "parallel",
    ),
    "hookwork_workflow.nodes.tool": ("ToolNode",),
    "hookwork_workflow.parallel_agent": ("ParallelAgent",),
    "hookwork_workflow.results": (
        "Routed",
        "progress",
        "routed",
    ),
    "hookwork_workflow.retry": ("Retry",),
    "hookwork_workflow.sequential": ("SequentialAgent",),
    "hookwork_workflow.timed_waits": (
        "DueWait",
        "answer_due",
        "due_waits",
        "keep_time",
        "next_due",
        "send_event",
    ),
    "hookwork.timed": (
        "EXPIRED_ROUTE",
        "WaitExpired",
        "with_deadline",
    ),
    "hookwork_workflow.workflow": (
        "Workflow",
        "WorkflowAgent",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "DEFAULT",
    "EXPIRED_ROUTE",
    "MISSING",
    "REQUEST_INPUT",
    "START",
    "AgentNode",
    "DueWait",
    "Edge",
    "EdgeBuilder",
    "Edges",
    "FunctionNode",
    "Graph",
    "GraphChanged",
    "GraphError",
    "GraphNode",
    "InputValidationError",
    "InvalidRunId",
    "InvalidRunNodeContext",
    "Join",
    "LoopAgent",
    "MultipleOutputs",
    "MultipleRoutes",
    "MultipleTerminalOutputs",
    "Node",
    "NodeConfig",
    "NodeContext",
    "NodeFailed",
    "NodeOutcome",
    "NodeRunError",
    "NodeTimeout",
    "NodeTool",
    "OutputAlreadyDelegated",
    "OutputValidationError",
    "ParallelAgent",
    "ParallelNode",
    "Pause",
    "ReplayDivergence",
    "RequestInput",
    "ResourceLimits",
    "Retry",
    "Routed",
    "RunawayGraph",
    "SequentialAgent",
    "ToolNode",
    "WaitExpired",
    "Workflow",
    "WorkflowAgent",
    "answer_due",
    "build_node",
    "chain",
    "compile_graph",
    "due_waits",
    "fan_in",
    "fan_out",
    "keep_time",
    "next_due",
    "node",
    "parallel",
    "progress",
    "request_input_event",
    "routed",
    "routes",
    "send_event",
    "with_deadline",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
