"""One tool of an MCP server."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool
from hookwork_mcp.schemas import argument_error, result_error

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork_mcp.toolset import McpToolset

#: A flag, or a function of (tool name, arguments) that says whether a call needs approval; may be async.
Confirmation = bool | Callable[[str, dict[str, Any]], "bool | Awaitable[bool]"]


class McpTool(Tool):
    """A tool that runs on its server (MCP-05, MCP-09).

    Attributes:
        mcp_name: its name on the server; ``name`` has the toolset's prefix in front.
        input_schema, output_schema: as the server wrote them; None when it wrote none.
        annotations: the server's hints (``readOnlyHint``, ``idempotentHint`` …); they are claims, not guarantees.
        idempotent: True when the server calls it idempotent or read-only, else False: it is not sent twice (MCP-07).
    """

    def __init__(
        self,
        toolset: McpToolset,
        *,
        mcp_name: str,
        prefix: str = "",
        description: str = "",
        input_schema: Any = None,
        output_schema: Any = None,
        annotations: Mapping[str, Any] | None = None,
        require_confirmation: Confirmation = False,
    ) -> None:
        self.toolset = toolset
        self.mcp_name = mcp_name
        self.name = f"{prefix}{mcp_name}"
        self.description = description
        self.input_schema = input_schema
        self.output_schema = output_schema
        self.annotations = dict(annotations or {})
        self.idempotent = bool(self.annotations.get("idempotentHint") or self.annotations.get("readOnlyHint"))
        self.require_confirmation = require_confirmation
        self._arguments = toolset.checkers.of(input_schema, f"the input schema of tool {self.name!r}")
        self._results = toolset.checkers.of(output_schema, f"the output schema of tool {self.name!r}")

    def declaration(self) -> FunctionDeclaration:
        """Name, description and schemas verbatim; one that is no JSON object cannot be shown and is left out."""
        return FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=_object(self.input_schema),
            response_json_schema=_object(self.output_schema),
        )

    def validate_args(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments, checked by the server's schema. Raises ToolArgumentError; nothing was sent then."""
        faults = self._arguments.faults(args)
        if faults:
            raise argument_error(self.name, faults)
        return args

    async def run_validated(self, ctx: ToolContext, converted: dict[str, Any]) -> dict[str, Any]:
        """Call the tool. Raises ToolError: the call failed, on the way or on the server."""
        response = await self.toolset.call(ctx, self, converted)
        if self.output_schema is not None and "output" in response:
            faults = self._results.faults(response["output"])
            if faults:
                raise result_error(self.name, faults)
        return response

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        """Check the arguments and call the tool."""
        return await self.run_validated(ctx, self.validate_args(args))

    async def needs_confirmation(self, ctx: ToolContext, args: dict[str, Any], converted: Any) -> bool:
        """Whether a person has to approve this call (MCP-08)."""
        if not callable(self.require_confirmation):
            return self.require_confirmation
        answer = self.require_confirmation(self.name, args)
        return bool(await answer if inspect.isawaitable(answer) else answer)


def _object(schema: Any) -> dict[str, Any] | None:
    return schema if isinstance(schema, dict) else None
