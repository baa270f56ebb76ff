"""A tool call over MCP, by the SDK's own client and through `McpToolset`, to the same server in one run (spec MCP).

    python tests/benchmarks/mcp_overhead.py [calls]

Prints microseconds a call (median) for both, over stdio, and their ratio. The two take turns, in blocks of fifty.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import mcp
from tests.mcp import server

from hookwork_mcp import McpToolset, Stdio
from hookwork_testkit import make_context

BLOCK = 50


async def times(call: Callable[[], Awaitable[object]], number: int) -> list[float]:
    """Seconds of each call."""
    taken = []
    for _ in range(number):
        start = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - start)
    return taken


async def main(calls: int) -> None:
    parameters = mcp.StdioServerParameters(command=sys.executable, args=[server.SCRIPT])
    toolset = McpToolset(Stdio(sys.executable, [server.SCRIPT]))
    async with mcp.Client(parameters) as client:
        add = next(tool for tool in await toolset.tools(make_context("readonly")) if tool.name == "add")
        ctx = make_context("tool")

        async def bare() -> None:
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert not result.is_error

        async def ours() -> None:
            assert await add.run(ctx, {"a": 1, "b": 2}) is not None

        taken: dict[str, list[float]] = {"sdk": [], "hookwork": []}
        await times(bare, BLOCK)
        await times(ours, BLOCK)
        for _ in range(calls // BLOCK):
            taken["sdk"] += await times(bare, BLOCK)
            taken["hookwork"] += await times(ours, BLOCK)
    await toolset.close()
    medians = {name: round(statistics.median(values) * 1e6) for name, values in taken.items()}
    print(json.dumps({**medians, "ratio": round(medians["hookwork"] / medians["sdk"], 2), "calls": calls}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
