"""OpenAI models against two independent fakes (parts ECO-FAKE-1, ECO-FAKE-2): others read the wire format too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gemini.fakes import aimock, katan
from tests.openai.asking import KEY, ask, asked, declared, whole

from hookwork import RunConfig, Runner, Settings
from hookwork.errors import ModelError
from hookwork_llm import LlmAgent, tool
from hookwork_openai import OpenAIModel

STREAMS = pytest.mark.parametrize("stream", [False, True])
APIS = pytest.mark.parametrize("api", ["responses", "chat"])
FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "weather in Paris", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "weather", "arguments": '{"city": "Paris", "days": [1, 2]}'}]},
    },
    {"match": {"userMessage": "weather in Paris", "hasToolResult": True}, "response": {"content": "It is clear."}},
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello from the mock, in several pieces."}},
    {
        "match": {"userMessage": "fail"},
        "response": {"error": {"message": "secret", "type": "rate_limit_error"}, "status": 429},
    },
]


@pytest.fixture(scope="module")
def mock_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with aimock(FIXTURES, tmp_path_factory.mktemp("aimock")) as url:
        yield url


def mocked(url: str, api: str) -> OpenAIModel:
    return OpenAIModel("gpt-5.2", api_key=KEY, base_url=f"{url}/v1", api=api)


@APIS
@STREAMS
async def test_eco_fake_1_a_text(mock_url: str, api: str, stream: bool) -> None:
    responses = await ask(mocked(mock_url, api), asked("hello"), stream=stream)
    assert responses[-1].text == "Hello from the mock, in several pieces."
    assert responses[-1].finish_reason == "STOP"
    if stream:
        assert len(responses) > 3
        assert "".join(response.text for response in responses[:-1]) == responses[-1].text


@APIS
@STREAMS
async def test_eco_fake_1_a_conversation_with_a_tool(mock_url: str, api: str, stream: bool) -> None:
    seen: list[Any] = []

    @tool
    def weather(city: str, days: list[int]) -> dict[str, Any]:
        """The weather of a city."""
        seen.append((city, days))
        return {"sky": "clear"}

    model = mocked(mock_url, api)
    async with Runner.in_memory(LlmAgent(name="a", model=model, tools=[weather]), settings=Settings()) as runner:
        config = RunConfig(streaming_mode="sse" if stream else "none")
        answer = await runner.ask(user_id="u", session_id="s", message="weather in Paris", config=config)
    await model.close()
    assert (seen, answer) == ([("Paris", [1, 2])], "It is clear.")


@APIS
async def test_eco_fake_1_an_error(mock_url: str, api: str) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(mocked(mock_url, api), asked("fail"))
    assert (caught.value.kind, caught.value.status_code, caught.value.retryable) == ("rate_limit", 429, True)
    assert "secret" not in str(caught.value)


@pytest.fixture(scope="module")
def katan_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with katan(tmp_path_factory.mktemp("katan"), "--providers", "openai") as url:
        yield url


@STREAMS
async def test_eco_fake_2_an_echo(katan_url: str, stream: bool) -> None:
    found = await whole(mocked(katan_url, "chat"), asked("tell me about rivers"), stream=stream)
    assert "rivers" in found.text
    assert found.finish_reason == "STOP"


@STREAMS
async def test_eco_fake_2_a_call(katan_url: str, stream: bool) -> None:
    found = await whole(mocked(katan_url, "chat"), asked("weather?", tools=declared("weather")), stream=stream)
    assert found.content is not None
    assert [call.name for call in found.content.function_calls] == ["weather"]


async def test_eco_fake_2_no_key_is_an_auth_error(katan_url: str) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(OpenAIModel("m", base_url=f"{katan_url}/v1"))
    assert (caught.value.kind, caught.value.status_code) == ("auth", 401)


async def test_eco_fake_2_faults_that_it_injects(tmp_path: Path) -> None:
    with katan(tmp_path, "--providers", "openai", "--error-rate", "1.0") as url, pytest.raises(ModelError) as caught:
        await ask(mocked(url, "chat"))
    assert caught.value.retryable
    assert caught.value.kind in ("rate_limit", "unavailable")
