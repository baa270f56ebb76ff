"""ExitLoopTool: ends the loop its agent runs in (tools-plugins §4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool

if TYPE_CHECKING:
    from hookwork.context import ToolContext


class ExitLoopTool(Tool):
    """`exit_loop`: the round of the enclosing LoopAgent is the last one, and the agent says nothing more."""

    name = "exit_loop"
    description = "Ends the loop. Call it only when you were told that the loop is to end."

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.description)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        ctx.actions.escalate = True
        ctx.actions.skip_summarization = True
        return {}
