"""The offline model keeps the Model contract as a remote one would (models LOC-4)."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from hookwork import ModelRequest, Runner, Settings, user_content
from hookwork.resolve import resolve_model
from hookwork_llm import LlmAgent, tool


async def whole_of(request: ModelRequest, *, stream: bool) -> Any:
    model = resolve_model("offline", Settings())
    try:
        return [response async for response in model.generate(request, stream=stream)][-1]
    finally:
        await model.close()


async def test_loc_4_it_is_deterministic_streams_what_it_says_whole_and_reports_usage() -> None:
    request = ModelRequest(contents=[user_content("Hello, what can you do?")])
    first, again = await whole_of(request, stream=False), await whole_of(request, stream=False)
    streamed = await whole_of(request, stream=True)
    assert first == again
    assert streamed.content == first.content
    assert streamed.usage_metadata == first.usage_metadata
    assert first.usage_metadata.prompt_token_count > 0
    assert first.usage_metadata.candidates_token_count > 0


async def test_loc_4_it_runs_tools_and_never_opens_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    @tool
    def get_weather(city: str) -> dict[str, str]:
        """Current weather of a city."""
        called.append(city)
        return {"sky": "clear"}

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a socket was opened")

    async with Runner.in_memory(
        LlmAgent(name="weather", model="offline", tools=[get_weather]), settings=Settings()
    ) as runner:
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        answer = await runner.ask("What is the weather in Tokyo?")
    assert called == ["Tokyo"]
    assert "clear" in answer
