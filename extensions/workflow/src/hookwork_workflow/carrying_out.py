"""Bodies of nodes and of tool nodes, carried out from their descriptions (tools-plugins EFF-10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hookwork.credentials import auth_config
from hookwork.errors import ConfigurationError, ConsentRequiredError
from hookwork.inside import invocation_of
from hookwork.node import Node
from hookwork.node_activation import NodeActivation
from hookwork.node_effects import body_result
from hookwork.records.codec import dump, load
from hookwork.records.event import EventActions, ToolConfirmation
from hookwork.records.frozen import thaw
from hookwork.state import DeltaBuffer

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.node_context import NodeContext
    from hookwork_workflow.workflow import Workflow


async def carry_out(workflow: Workflow, ctx: InvocationContext, kind: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """The effect's result as JSON: the fields of a NodeResult, or of a ToolResult.

    An error of the body is part of the result: its type does not survive the way to another process.

    Raises:
        ConfigurationError: the workflow has no such node or tool, or carries out no effects of that kind.
    """
    if kind == "node":
        return await _node(workflow, ctx, call)
    if kind == "tool":
        return await _tool(workflow, ctx, call)
    raise ConfigurationError(f"workflow {workflow.name!r} carries out node and tool effects, not {kind!r}")


def nodes_of(workflow: Any) -> Iterator[Node]:
    """All nodes of a workflow, those of inner workflows and those that run once for each item included."""
    for node in workflow.graph.nodes.values():
        pending = [node]
        while pending:
            found = pending.pop()
            yield found
            if getattr(found, "graph", None) is not None:
                yield from nodes_of(found)
            elif (wrapped := getattr(found, "wrapped", None)) is not None:
                pending.append(wrapped)


async def _node(workflow: Workflow, ctx: InvocationContext, call: Mapping[str, Any]) -> dict[str, Any]:
    node = next((node for node in nodes_of(workflow) if node.name == call["node"]), None)
    if node is None:
        raise ConfigurationError(
            f"workflow {workflow.name!r} has no node {call['node']!r}; a node that a body makes itself can only be "
            "carried out where it was made"
        )
    at = _context(ctx, node, int(call.get("attempt", 1)))
    at.given_answers = dict(call.get("answers") or {})
    try:
        at.node_input = node.validate_input(thaw(call.get("input")))
        result = await body_result(at)
    except Exception as error:  # noqa: BLE001 - part of the result
        return {"output": None, "routes": [], "events": [], "error": _described(error), "actions": dump(EventActions())}
    return {
        "output": thaw(result.output),
        "routes": list(result.routes),
        "events": [dump(event) for event in result.events],
        "error": None,
        "actions": dump(result.actions),
    }


async def _tool(workflow: Workflow, ctx: InvocationContext, call: Mapping[str, Any]) -> dict[str, Any]:
    from hookwork_workflow.tool_chain import ToolRun

    nodes = (node for node in nodes_of(workflow) if getattr(node, "tool", None) is not None)
    node: Any = next((node for node in nodes if node.tool.name == call["tool"]), None)  # type: ignore[attr-defined]
    if node is None:
        raise ConfigurationError(f"workflow {workflow.name!r} has no node of a tool {call['tool']!r}")
    given = call.get("confirmation")
    approval = load(ToolConfirmation, given) if given is not None else None
    args = thaw(call.get("args") or {})
    run = ToolRun(node.name, _context(ctx, node, 1), node.tool, args, call.get("call_id", ""), approval)
    try:
        result = await run.carry_out()
    except Exception as error:  # noqa: BLE001 - part of the result
        return {"result": None, "finished": False, "error": _described(error), "actions": dump(EventActions())}
    return {"result": thaw(result.result), "finished": result.finished, "error": None, "actions": dump(result.actions)}


def _context(ctx: InvocationContext, node: Node, attempt: int) -> NodeContext:
    activation = NodeActivation(
        invocation_of(ctx), node, ctx.path, owner=ctx.agent, branch=ctx.branch, scope=ctx.isolation_scope
    )
    activation.attempt = attempt
    return activation.context(DeltaBuffer())


def _described(error: Exception) -> dict[str, Any]:
    told = {"type": type(error).__name__, "message": str(error), "retryable": bool(getattr(error, "retryable", False))}
    if isinstance(error, ConsentRequiredError):  # the node waits for a person; it did not fail
        told["consent"] = auth_config(error.key, error.auth_uri, error.nonce, error.config)
    return told
