"""The tool that stands for a server whose tools cannot be listed before somebody consented (crosscutting AUTH-30)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork_mcp.toolset import McpToolset

_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


class ConnectTool(Tool):
    """Asks for the consent that a server needs: the call pauses the run; answered, the server's tools are there."""

    idempotent = True

    def __init__(self, toolset: McpToolset) -> None:
        self._toolset = toolset
        self.name = f"{toolset.prefix}connect_{re.sub(r'[^0-9A-Za-z_]+', '_', toolset.name)}"
        self.description = (
            f"Connects to {toolset.endpoint.place}, whose tools cannot be used before the user consented. Call it "
            "once; the user is asked, and the tools are offered afterwards."
        )

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=dict(_NO_PARAMETERS)
        )

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        """The names of the tools that can be used now. Raises ConsentRequiredError: the user has to consent first."""
        listed = await self._toolset.server_tools(ctx)
        return {"connected": True, "tools": [tool.name for tool in listed]}
