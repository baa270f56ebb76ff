"""Sessions of a client with a scripted Realtime service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from tests.openai.asking import KEY, asked
from tests.openai.realtime_service import (
    HangUp,
    Hear,
    RealtimeService,
    Step,
)

from hookwork import (
    LiveRunConfig,
    ModelRequest,
    ModelResponse,
    user_content,
)
from hookwork.errors import LiveConnectionClosed
from hookwork.live import LiveConnection
from hookwork_openai import OpenAIModel

SPEECH_OFF = {"automaticActivityDetection": {"disabled": True}}


@asynccontextmanager
async def session_on(
    *script: Step, live: dict[str, Any] | None = None, request: ModelRequest | None = None
) -> AsyncIterator[tuple[LiveConnection, RealtimeService]]:
    async with RealtimeService(script).running() as service:
        model = OpenAIModel("gpt-realtime-2", base_url=service.base_url, api_key=KEY)
        async with model.connect(request or asked("hi"), LiveRunConfig(**(live or {}))) as connection:
            yield connection, service
        await model.close()


async def heard(*script: Step, live: dict[str, Any] | None = None) -> list[ModelResponse]:
    """All responses of a session in which the service plays a script and the client says one text."""
    async with session_on(Hear("response.create"), *script, HangUp(1000), live=live) as (connection, _):
        await connection.send_content(user_content("hi"))
        found: list[ModelResponse] = []
        with pytest.raises(LiveConnectionClosed):
            await collect(connection, found)
        return found


async def collect(connection: LiveConnection, found: list[ModelResponse]) -> None:
    async with aclosing(connection.receive()) as responses:  # type: ignore[type-var]
        async for response in responses:
            found.append(response)
