"""Tools by their methods alone (tools-plugins TL-01)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.tool import ToolWrapper, pack_tool

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.model import ModelRequest
    from hookwork.records.request import FunctionDeclaration


class AdoptedTool(ToolWrapper):
    """A tool that has the methods of the contract and not its base class."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name = inner.name
        self.description = getattr(inner, "description", "")
        self.is_long_running = bool(getattr(inner, "is_long_running", False))
        self.idempotent = getattr(inner, "idempotent", None)

    def declaration(self) -> FunctionDeclaration | None:
        declare = getattr(self.inner, "declaration", None)
        return declare() if declare is not None else None

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        own = getattr(self.inner, "process_request", None)
        if own is None:
            pack_tool(request, self)
        else:
            await own(ctx, request)
