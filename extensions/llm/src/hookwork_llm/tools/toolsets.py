"""Toolsets around toolsets: fewer tools, other names, approval first (tools-plugins TL-08 … TL-11)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from hookwork.model import ModelRequest
from hookwork.tool import ConfirmationGate, RequestProcessor, Tool, Toolset, ToolWrapper, capability, pack_tool

if TYPE_CHECKING:
    from hookwork.context import ReadonlyContext, ToolContext
    from hookwork.records.request import FunctionDeclaration

#: Whether a tool is offered to the agent that asks now.
Predicate = Callable[["ReadonlyContext", Tool], "bool | Awaitable[bool]"]
#: Whether a call, by its tool's name and its arguments, needs a person's approval.
ApprovalProvider = Callable[[str, dict[str, Any]], "bool | Awaitable[bool]"]


def allowed_tools(names: Iterable[str]) -> Predicate:
    """A predicate for the tools of these names, compared exactly. Raises TypeError: no list of texts."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"allowed_tools takes a list of tool names, not {names!r}")
    allowed = frozenset(names)
    if not all(isinstance(name, str) for name in allowed):
        raise TypeError(f"allowed_tools takes tool names, not {names!r}")

    def is_allowed(_: ReadonlyContext, tool: Tool) -> bool:
        return tool.name in allowed

    return is_allowed


def filter_toolset(toolset: Toolset, predicate: Predicate) -> Toolset:
    """The toolset with only those tools for which ``predicate(ctx, tool)`` is true, in the same order.

    The predicate, async or not, is asked at each listing; what it raises leaves the listing. Raises TypeError: no
    toolset, no predicate.
    """
    _check(toolset)
    if not callable(predicate):
        raise TypeError(f"filter_toolset needs a predicate (ctx, tool) -> bool, not {predicate!r}")

    async def kept(ctx: ReadonlyContext, tools: list[Tool]) -> list[Tool]:
        return [tool for tool in tools if await _truth(predicate(ctx, tool))]

    return _WrappedToolset(toolset, kept)


def prefix_toolset(toolset: Toolset, prefix: str) -> Toolset:
    """The toolset with ``prefix`` before the name of every tool, e.g. ``"github_"``, so that two can be used together.

    Tools that a provider carries out have no name to the model and stay as they are. Raises TypeError.
    """
    _check(toolset)
    if not isinstance(prefix, str) or not prefix:
        raise TypeError(f"prefix_toolset needs a prefix that is non-empty text, not {prefix!r}")

    async def renamed(_: ReadonlyContext, tools: list[Tool]) -> list[Tool]:
        return [_Renamed(tool, prefix + tool.name) if _is_callable(tool) else tool for tool in tools]

    return _WrappedToolset(toolset, renamed)


def with_confirmation(toolset: Toolset, require: bool, provider: ApprovalProvider | None = None) -> Toolset:
    """The toolset with approval before its tools run.

    Args:
        toolset: whose tools.
        require: every call needs approval, or none does.
        provider: ``(tool name, arguments) -> bool``, async or not; decides instead of ``require``.

    A tool that asks for approval by itself goes on doing so. Raises TypeError: no toolset, no provider.
    """
    _check(toolset)
    if provider is not None and not callable(provider):
        raise TypeError(f"with_confirmation takes a provider (tool_name, args) -> bool, not {provider!r}")

    async def gated(_: ReadonlyContext, tools: list[Tool]) -> list[Tool]:
        return [_Gated(tool, require, provider) if _is_callable(tool) else tool for tool in tools]

    return _WrappedToolset(toolset, gated)


class _WrappedToolset(Toolset):
    """A toolset with another listing; everything else is the inner one's."""

    def __init__(self, inner: Toolset, listing: Callable[[ReadonlyContext, list[Tool]], Awaitable[list[Tool]]]) -> None:
        self.inner = inner
        self.name = inner.name
        self.optional = inner.optional
        self._listing = listing

    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        return await self._listing(ctx, await self.inner.tools(ctx))

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        if isinstance(self.inner, RequestProcessor):
            await self.inner.process_request(ctx, request)

    async def close(self) -> None:
        await self.inner.close()


class _Gated(ToolWrapper):
    """A tool whose calls may need approval."""

    def __init__(self, inner: Tool, require: bool, provider: ApprovalProvider | None) -> None:
        super().__init__(inner)
        self._require = require
        self._provider = provider

    async def needs_confirmation(self, ctx: ToolContext, args: dict[str, Any], converted: Any) -> bool:
        if self._provider is not None:
            wanted = await _truth(self._provider(self.name, args))
        else:
            wanted = self._require
        own = capability(self.inner, ConfirmationGate)
        return wanted or (own is not None and await own.needs_confirmation(ctx, args, converted))


class _Renamed(ToolWrapper):
    """A tool under another name, in the table and in its declaration."""

    def __init__(self, inner: Tool, name: str) -> None:
        super().__init__(inner)
        self.name = name

    def declaration(self) -> FunctionDeclaration | None:
        declared = self.inner.declaration()
        return declared.replace(name=self.name) if declared is not None else None

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        """The inner tool's own, in a request of the same content; what it packs there is packed under the new name."""
        inner = ModelRequest(
            model=request.model, contents=request.contents, config=request.config.replace(tools=()), tools={}
        )
        await self.inner.process_request(ctx, inner)
        request.contents = inner.contents
        present, added = request.config.tools, inner.config.tools
        request.config = inner.config.replace(tools=present)
        packed = inner.tools.pop(self.inner.name, None)
        if packed is not None:
            pack_tool(request, self)
        for tool in inner.tools.values():
            pack_tool(request, tool)
        others = [entry for entry in added if entry.function_declarations is None]
        if others:
            request.update_config(tools=(*request.config.tools, *others))


def _check(toolset: Any) -> None:
    if not isinstance(toolset, Toolset):
        raise TypeError(f"a toolset is needed, not {toolset!r}")


def _is_callable(tool: Tool) -> bool:
    from hookwork_llm.tool_calls import is_runnable

    return is_runnable(tool)


async def _truth(answer: Any) -> bool:
    return bool(await answer if inspect.isawaitable(answer) else answer)
