"""A recording of a real adapter's call replays when its service is gone (models Beyond)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hookwork import RunConfig, Runner
from hookwork.errors import ModelError
from hookwork_llm import LlmAgent
from hookwork_openai import OpenAIModel
from hookwork_record_replay import RecordReplay

KEY = "sk-the-key-of-this-test"


def chunk(**delta: Any) -> str:
    """One chunk of Chat Completions, as OpenAI's reference shows it."""
    data = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-2026",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}],
    }
    return f"data: {json.dumps(data)}\n\n"


def service(request: httpx2.Request) -> httpx2.Response:
    assert request.headers["authorization"] == f"Bearer {KEY}"
    text = chunk(role="assistant", content="It is ") + chunk(content="sunny.") + chunk() + "data: [DONE]\n\n"
    return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})


def gone(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("nobody is there")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "weather.jsonl"


async def play(
    factory: Callable[..., Runner], answer: Callable[[httpx2.Request], httpx2.Response], *plugins: Any
) -> list[tuple[bool, str]]:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        model = OpenAIModel("m", base_url="http://service.test/v1", api_key=KEY, http_client=client)
        agent = LlmAgent(name="weather", model=model, instruction="Say what the sky is like.")
        async with factory(agent, plugins=plugins) as runner:
            config = RunConfig(streaming_mode="sse")
            async with runner.run(user_id="u", session_id="s", message="The sky?", config=config) as run:
                return [(bool(event.partial), event.text) async for event in run]


async def test_sp_30_a_streamed_call_replays_when_the_service_is_gone(
    runner_factory: Callable[..., Runner], file: Path
) -> None:
    said = [(True, "It is "), (True, "sunny."), (False, "It is sunny.")]
    assert await play(runner_factory, service, RecordReplay(file, mode="record")) == said
    assert KEY not in file.read_text()
    with pytest.raises(ModelError):
        await play(runner_factory, gone)
    assert await play(runner_factory, gone, RecordReplay(file)) == said
