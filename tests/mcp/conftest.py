"""Servers the MCP tests talk to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from tests.mcp.server import make_server


@pytest.fixture(autouse=True)
def quiet_root() -> Iterator[None]:
    """An MCPServer puts a handler on the root logger; take it off again."""
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    for handler in list(root.handlers):
        if handler not in before:
            root.removeHandler(handler)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI app on a free port of this machine; its base URL."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
        if task.done():
            task.result()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


@pytest.fixture
def serve() -> Callable[[Any], Any]:
    """``async with serve(app) as url``."""
    return serving


@pytest.fixture
async def http_url() -> AsyncIterator[str]:
    """The endpoint of the server with one of everything, over streamable HTTP."""
    async with serving(make_server().streamable_http_app()) as url:
        yield f"{url}/mcp"


@pytest.fixture
async def sse_url() -> AsyncIterator[str]:
    """The same over SSE."""
    async with serving(make_server().sse_app()) as url:
        yield f"{url}/sse"
