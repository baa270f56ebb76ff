"""Lists of tools as servers really write them (tools-plugins MCP-14).

The SDK refuses a whole ``tools/list`` when one schema in it is missing, a boolean, or an object without
``"type": "object"``. So such a schema is set aside under a key of the tool's ``_meta`` before the SDK looks, and put
back afterwards. Output schemas are always set aside: results are checked here, in texts that do not repeat the values.
The same place notices when a connection ends, which the SDK tells only to those who wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from mcp_types import JSONRPCResponse

#: Keys of a tool's ``_meta`` that hold a schema set aside; None stands for one that is missing.
ASIDE = {"inputSchema": "hookwork.input-schema", "outputSchema": "hookwork.output-schema"}
_MISSING = object()


def set_aside(result: dict[str, Any]) -> None:
    """Make a raw ``tools/list`` result acceptable to the SDK, in place."""
    tools = result.get("tools")
    if not isinstance(tools, list):
        return
    for tool in tools:
        if not isinstance(tool, dict):
            continue
        for key, kept in ASIDE.items():
            schema = tool.get(key, _MISSING)
            if schema is _MISSING and key == "outputSchema":
                continue
            if key == "inputSchema" and isinstance(schema, dict) and schema.get("type") == "object":
                continue
            meta = tool.get("_meta")
            tool["_meta"] = {**(meta if isinstance(meta, dict) else {}), kept: None if schema is _MISSING else schema}
            if key == "outputSchema":
                del tool[key]
            else:
                tool[key] = {"type": "object"}


def schema_of(tool: Any, key: str) -> Any:
    """The schema a server wrote (``inputSchema`` or ``outputSchema``), None when it wrote none."""
    meta = tool.meta or {}
    if ASIDE[key] in meta:
        return meta[ASIDE[key]]
    return tool.input_schema if key == "inputSchema" else tool.output_schema


class _Reading:
    """A read stream that prepares tool lists, and says when it has ended."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        try:
            item = await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended()
            raise
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse) and isinstance(message.result, dict):
            set_aside(message.result)
        return item

    def __aiter__(self) -> _Reading:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Reading:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def lenient(transport: AbstractAsyncContextManager[Any], ended: Callable[[], None]) -> AsyncIterator[Any]:
    """A transport around another one; ``ended`` is called when the server closes the connection."""
    async with transport as (read, write):
        yield _Reading(read, ended), write
