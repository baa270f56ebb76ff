"""Gemini models against two independent fakes (parts ECO-FAKE-1, ECO-FAKE-2): others read the wire format too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.gemini.fakes import aimock, katan
from tests.gemini.making import asking, responses_of, vertex_model, whole_of

from hookwork import FunctionDeclaration, RunConfig, Runner, Settings
from hookwork.errors import ModelError
from hookwork_gemini import GeminiModel
from hookwork_llm import LlmAgent, tool

STREAMS = pytest.mark.parametrize("stream", [False, True])
FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "weather in Paris", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "weather", "arguments": '{"city": "Paris", "days": [1, 2]}'}]},
    },
    {
        "match": {"userMessage": "weather in Paris", "hasToolResult": True},
        "response": {"content": "It is clear in Paris."},
    },
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


def mocked(url: str) -> GeminiModel:
    return GeminiModel("gemini-2.5-flash", api_key="k", base_url=url, api_version="v1beta")


@STREAMS
async def test_eco_fake_1_a_text(mock_url: str, stream: bool) -> None:
    responses = await responses_of(mocked(mock_url), asking("hello"), stream=stream)
    assert responses[-1].text == "Hello from the mock, in several pieces."
    assert responses[-1].finish_reason == "STOP"
    if stream:
        assert len(responses) > 3
        assert "".join(response.text for response in responses[:-1]) == responses[-1].text


@STREAMS
@pytest.mark.filterwarnings(
    "ignore:FUNCTION_CALL is not a valid FinishReason:UserWarning"
)  # a reason of the fake's own
async def test_eco_fake_1_a_conversation_with_a_tool(mock_url: str, stream: bool) -> None:
    seen: list[Any] = []

    @tool
    def weather(city: str, days: list[int]) -> dict[str, Any]:
        """The weather of a city."""
        seen.append((city, days))
        return {"sky": "clear"}

    model = mocked(mock_url)
    async with Runner.in_memory(LlmAgent(name="a", model=model, tools=[weather]), settings=Settings()) as runner:
        config = RunConfig(streaming_mode="sse" if stream else "none")
        answer = await runner.ask(user_id="u", session_id="s", message="weather in Paris", config=config)
    await model.close()
    assert seen == [("Paris", [1, 2])]
    assert answer == "It is clear in Paris."


async def test_eco_fake_1_an_error(mock_url: str) -> None:
    with pytest.raises(ModelError) as caught:
        await responses_of(mocked(mock_url), asking("fail"))
    assert (caught.value.kind, caught.value.status_code, caught.value.retryable) == ("rate_limit", 429, True)
    assert "secret" not in str(caught.value)


@pytest.fixture(scope="module")
def katan_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with katan(tmp_path_factory.mktemp("katan")) as url:
        yield url


class _At:
    def __init__(self, url: str) -> None:
        self.url = url


@STREAMS
async def test_eco_fake_2_an_echo_on_vertex_ai(katan_url: str, stream: bool) -> None:
    model = vertex_model(_At(katan_url), api_version="v1")  # type: ignore[arg-type]
    whole = await whole_of(model, asking("tell me about rivers"), stream=stream)
    assert "rivers" in whole.text
    assert whole.finish_reason == "STOP"
    assert whole.usage_metadata is not None
    assert whole.usage_metadata.prompt_token_count


@STREAMS
async def test_eco_fake_2_a_call(katan_url: str, stream: bool) -> None:
    request = asking("weather?")
    request.add_declarations(
        [
            FunctionDeclaration(
                name="weather", parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}}
            )
        ]
    )
    model = vertex_model(_At(katan_url), api_version="v1")  # type: ignore[arg-type]
    whole = await whole_of(model, request, stream=stream)
    assert [call.name for call in whole.content.function_calls] == ["weather"]  # type: ignore[union-attr]


async def test_eco_fake_2_no_token_is_an_auth_error(katan_url: str) -> None:
    model = GeminiModel("gemini-2.5-flash", api_key="k", base_url=katan_url, api_version="v1beta")
    with pytest.raises(ModelError) as caught:
        await responses_of(model)
    assert (caught.value.kind, caught.value.status_code) == ("auth", 401)


async def test_eco_fake_2_faults_that_it_injects(tmp_path: Any) -> None:
    with katan(tmp_path, "--error-rate", "1.0") as url, pytest.raises(ModelError) as caught:
        await responses_of(vertex_model(_At(url), api_version="v1"))  # type: ignore[arg-type]
    assert caught.value.retryable
    assert caught.value.kind in ("rate_limit", "unavailable")
