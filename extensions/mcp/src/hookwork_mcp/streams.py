"""The SDK's streamable-HTTP transport with a client that ends with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def streamable_http(url: str, client: httpx2.AsyncClient) -> AsyncIterator[Any]:
    """The transport of one session; the client is closed afterwards."""
    async with client, streamable_http_client(url, http_client=client) as streams:
        yield streams
