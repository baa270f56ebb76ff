"""The SDK's stdio transport; what a server writes to its standard error goes nowhere unless a file is given."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TextIO

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client


@asynccontextmanager
async def stdio(parameters: StdioServerParameters, errlog: TextIO | None) -> AsyncIterator[Any]:
    """The transport of one subprocess."""
    if errlog is not None:
        async with stdio_client(parameters, errlog=errlog) as streams:
            yield streams
        return
    with open(os.devnull, "w") as nowhere:  # noqa: ASYNC230 - opening the null device does not block
        async with stdio_client(parameters, errlog=nowhere) as streams:
            yield streams
