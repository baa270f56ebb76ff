"""The one door between records and google-genai: models GEM-14, SDK-6."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from hookwork import Blob, Content, FileData, FunctionCall, FunctionResponse, Part
from hookwork.errors import ConfigurationError
from hookwork.records.codec import dump, load
from hookwork.records.content import CodeExecutionResult, ExecutableCode
from hookwork_gemini import config_from_genai, from_genai, to_genai

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=4), json_values, max_size=3)
texts = st.text(max_size=8)
kinds = st.one_of(
    st.builds(Part, text=texts),
    st.builds(Part, inline_data=st.builds(Blob, data=st.binary(max_size=6), mime_type=st.just("image/png"))),
    st.builds(Part, file_data=st.builds(FileData, file_uri=texts, mime_type=st.just("a/b"), display_name=texts)),
    st.builds(Part, function_call=st.builds(FunctionCall, id=st.none() | texts, name=texts, args=objects)),
    st.builds(Part, function_response=st.builds(FunctionResponse, name=texts, response=objects)),
    st.builds(Part, executable_code=st.builds(ExecutableCode, code=texts, language=st.just("PYTHON"))),
    st.builds(Part, code_execution_result=st.builds(CodeExecutionResult, outcome=st.just("OUTCOME_OK"), output=texts)),
)


@st.composite
def parts(draw: Any) -> Part:
    thought = draw(st.sampled_from([None, True]))
    return draw(kinds).replace(thought=thought, thought_signature=draw(st.none() | st.binary(min_size=1, max_size=4)))


@given(st.builds(Content, role=st.sampled_from(["user", "model"]), parts=st.lists(parts(), min_size=1, max_size=4)))
def test_gem_14_a_content_comes_back_as_it_went(content: Content) -> None:
    crossed = to_genai(content)
    assert isinstance(crossed, types.Content)
    assert from_genai(crossed, Content) == content


def test_gem_14_bytes_stay_bytes() -> None:
    """AGG-11: signatures go back verbatim."""
    raw = bytes(range(256))
    part = to_genai(Part(text="a", thought_signature=raw))
    assert part.thought_signature == raw
    assert from_genai(part, Part).thought_signature == raw


def test_sdk_6_newer_fields_travel_in_extra() -> None:
    part = types.Part(tool_call=types.ToolCall(id="1"), part_metadata={"a": None})
    record = from_genai(part, Part)
    assert record.extra == {"toolCall": {"id": "1"}}
    assert record.part_metadata == {"a": None}
    assert to_genai(record) == part


def test_gem_14_what_is_refused_may_be_decided_by_the_caller() -> None:
    refused: list[str] = []
    part = to_genai(load(Part, {"text": "a", "zork": 1, "zork2": {}}), refused=refused.append)
    assert part == types.Part(text="a")
    assert sorted(refused) == ["zork", "zork2"]


class Answer(BaseModel):
    sky: str
    degrees: int | None = None


def weather(city: str) -> str:
    """A tool as the SDK takes it."""
    return city


def test_gem_14_a_config_of_google_genai_becomes_a_record() -> None:
    given_config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0.5,
        stop_sequences=["x"],
        thinking_config=types.ThinkingConfig(thinking_budget=1),
        tools=[types.Tool(google_search=types.GoogleSearch())],
        response_schema=Answer,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        audio_timestamp=True,
    )
    config = config_from_genai(given_config)
    assert dump(config) == {
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "temperature": 0.5,
        "stopSequences": ["x"],
        "thinkingConfig": {"thinkingBudget": 1},
        "tools": [{"googleSearch": {}}],
        "responseSchema": {
            "title": "Answer",
            "type": "OBJECT",
            "properties": {
                "sky": {"title": "Sky", "type": "STRING"},
                "degrees": {"title": "Degrees", "type": "INTEGER", "nullable": True},
            },
            "required": ["sky"],
        },
        "audioTimestamp": True,
    }
    assert given_config.system_instruction == "Be brief."


@pytest.mark.parametrize(
    ("instruction", "wanted"),
    [
        (types.Content(role="user", parts=[types.Part(text="a")]), ["a"]),
        (types.Part(text="a"), ["a"]),
        (["a", types.Part(text="b")], ["a", "b"]),
    ],
)
def test_gem_14_an_instruction_in_every_form(instruction: Any, wanted: list[str]) -> None:
    config = config_from_genai(types.GenerateContentConfig(system_instruction=instruction))
    assert config.system_instruction is not None
    assert [part.text for part in config.system_instruction.parts] == wanted


def test_gem_14_a_dict_is_a_config_too_and_a_callable_is_no_tool() -> None:
    assert config_from_genai({"temperature": 1.0, "response_schema": {"type": "STRING"}}).response_schema == {
        "type": "STRING"
    }
    with pytest.raises(ConfigurationError, match="give"):
        config_from_genai({"tools": [weather]})
    with pytest.raises(ConfigurationError, match="not the fields"):
        config_from_genai({"temprature": 1.0})
