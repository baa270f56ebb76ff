"""Live connections to the local live server, and short ways to look at them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.gemini.live_service import Line, LiveServer
from tests.gemini.making import api_model, vertex_model

from hookwork import ModelRequest, ModelResponse, user_content
from hookwork.live import (
    LiveConnection,
    LiveRunConfig,
)
from hookwork_gemini import GeminiModel

ASKED = ModelRequest(contents=[user_content("hi")])
LIVE_2 = "gemini-2.0-flash-live-001"
LIVE_31 = "gemini-3.1-flash-live"


def model_for(server: LiveServer, *, vertex: bool = False, name: str = LIVE_2) -> GeminiModel:
    return (vertex_model if vertex else api_model)(server, name)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def connected(
    server: LiveServer,
    *,
    request: ModelRequest = ASKED,
    config: LiveRunConfig | None = None,
    vertex: bool = False,
    name: str = LIVE_2,
) -> AsyncIterator[LiveConnection]:
    model = model_for(server, vertex=vertex, name=name)
    try:
        async with model.connect(request, config or LiveRunConfig()) as connection:
            yield connection
    finally:
        await model.close()


async def stay(line: Line) -> None:
    await line.hang_up()


async def setup_of(server: LiveServer, **options: Any) -> dict[str, Any]:
    """What a connection is set up with."""
    server.talks.append(stay)
    async with connected(server, **options):
        pass
    return server.setups[-1]


async def frames_of(server: LiveServer, send: Any, count: int, **options: Any) -> list[dict[str, Any]]:
    """The frames that some sends become."""
    got: list[dict[str, Any]] = []
    done = asyncio.Event()

    async def collect(line: Line) -> None:
        for _ in range(count):
            got.append(await line.get())
        done.set()
        await line.hang_up()

    server.talks.append(collect)
    async with connected(server, **options) as connection:
        await send(connection)
        await asyncio.wait_for(done.wait(), 10)
    return got


async def said_by(server: LiveServer, *messages: dict[str, Any], **options: Any) -> list[ModelResponse]:
    """The responses that some server messages become; a last message marks the end."""

    async def tell(line: Line) -> None:
        for message in messages:
            await line.send(**message)
        await line.send(sessionResumptionUpdate={"newHandle": "END", "resumable": True})
        await line.hang_up()

    server.talks.append(tell)
    got: list[ModelResponse] = []
    async with connected(server, **options) as connection, contextlib.aclosing(connection.receive()) as responses:
        async for response in responses:
            if response.session_resumption_handle == "END":
                return got
            got.append(response)
    raise AssertionError("the connection ended early")
