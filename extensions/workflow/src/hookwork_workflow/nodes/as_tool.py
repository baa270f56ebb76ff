"""Nodes as tools of LLM agents: any node, a whole workflow included (workflow WB-7)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from hookwork.errors import ConfigurationError, NodeRunError
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool
from hookwork_workflow.json_form import to_json
from hookwork_workflow.schemas import schema_of

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.node import Node
    from hookwork_workflow.workflow import Workflow

#: The one parameter of a node whose input is no object.
INPUT = "input"


class NodeTool(Tool):
    """A node that a model calls like a function; its output is the result.

    The parameters are the fields of the node's ``input_schema`` if that is an object, else one, ``input``; for a
    workflow that has none it is what the one node takes that its input goes to. When the node waits for a person, the
    call waits; the answer lets it go on where it was, and what is done is not run again.

    Args:
        node: any node. name, description: default: the node's.

    Raises:
        ConfigurationError: neither the node nor the caller says what it does, so no model could choose it.
    """

    def __init__(self, node: Node, *, name: str | None = None, description: str | None = None) -> None:
        self.node = node
        self.name = node.name if name is None else name
        self.description = node.description if description is None else description
        if not self.description:
            raise ConfigurationError(
                f'node "{node.name}" as a tool needs a description, from which a model knows when to call it; give '
                "as_tool(description=…)"
            )
        schema = schema_of(_taken_by(node))
        raw = schema.raw if schema is not None else None
        is_object = schema is not None and (schema.json_schema or {}).get("type") == "object"
        self._takes_object = is_object and node.input_schema is not None
        if self._takes_object and raw is not None:
            parameters = _root(raw)
        else:
            parameters = {"type": "object", "properties": {INPUT: raw or {}}, "required": [INPUT]}
            if raw is not None and "$defs" in raw:
                parameters = {**parameters, "$defs": raw["$defs"]}
        self._declaration = FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=parameters
        )

    def declaration(self) -> FunctionDeclaration:
        """How the model sees the node."""
        return self._declaration

    async def run(self, ctx: ToolContext, args: Mapping[str, Any]) -> Any:
        """Run the node as a child of the call. A workflow that fails is undone: the call is not made again (WB-23)."""
        try:
            return to_json(await ctx.run_node(self.node, dict(args) if self._takes_object else args.get(INPUT)))
        except NodeRunError as error:
            if getattr(self.node, "graph", None) is not None:
                await self._undo(ctx, error)
            raise

    async def _undo(self, ctx: ToolContext, error: NodeRunError) -> None:
        from hookwork_workflow.undoing import is_final, undo_all

        if is_final(error) and ctx.emit_event is not None:
            async with aclosing(undo_all(ctx, cast("Workflow", self.node), error.child_path)) as events:
                async for event in events:
                    await ctx.emit_event(event)


def _taken_by(node: Node) -> Any:
    """The input schema of a node; of a workflow without one, that of the node its input goes to, if that is one."""
    while node.input_schema is None:
        graph = getattr(node, "graph", None)
        if graph is None or len(graph.start) != 1:
            return None
        node = graph.nodes[graph.start[0]]
    return node.input_schema


def _root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema whose root shows its properties instead of a reference to them."""
    reference = schema.get("$ref", "")
    name = reference.rpartition("/")[2]
    definitions = dict(schema.get("$defs", {}))
    if name not in definitions:
        return dict(schema)
    root = {**definitions[name]}
    return {**root, "$defs": definitions} if len(definitions) > 1 else root
