"""Schemas of objects and reading objects out of text (core OUT-4, OUT-5, CASE-OUT-1)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypedDict

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from hookwork.errors import ConfigurationError
from hookwork_llm.object_schema import InvalidObject, ObjectSchema, read_object


class AsModel(BaseModel):
    city: str
    n: int


@dataclass
class AsDataclass:
    city: str
    n: int


@attrs.define
class AsAttrs:
    city: str
    n: int


class AsTypedDict(TypedDict):
    city: str
    n: int


AS_JSON = {
    "type": "OBJECT",
    "properties": {"city": {"type": "STRING"}, "n": {"type": "integer"}},
    "required": ["city", "n"],
}
FORMS = [AsModel, AsDataclass, AsAttrs, AsTypedDict, AS_JSON]


@pytest.mark.parametrize("form", FORMS, ids=["pydantic", "dataclass", "attrs", "typeddict", "json"])
class TestForms:
    def test_out_4_a_fitting_object_comes_back_as_json(self, form: Any) -> None:
        assert ObjectSchema(form, "agent 'a'").validate({"city": "Rome", "n": 3}) == {"city": "Rome", "n": 3}

    def test_out_4_integers_may_arrive_as_integral_floats(self, form: Any) -> None:
        assert ObjectSchema(form, "agent 'a'").validate({"city": "Rome", "n": 3.0})["n"] == 3

    @pytest.mark.parametrize(
        ("value", "named"),
        [
            ({"city": "Rome"}, "/n"),
            ({"city": "Rome", "n": "3"}, "/n"),
            ({"city": "Rome", "n": 3, "extra": 1}, "/extra"),
        ],
    )
    def test_out_4_faults_name_their_place(self, form: Any, value: Any, named: str) -> None:
        with pytest.raises(InvalidObject, match=named):
            ObjectSchema(form, "agent 'a'").validate(value)

    def test_the_model_is_shown_an_object_with_both_keys_required(self, form: Any) -> None:
        schema = ObjectSchema(form, "agent 'a'").json_schema
        assert schema["type"] == "object"
        assert set(schema["required"]) == {"city", "n"}


def test_a_schema_that_is_none_is_refused_with_its_owner() -> None:
    with pytest.raises(ConfigurationError, match="agent 'a'"):
        ObjectSchema("text", "agent 'a'")


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"city": "Rome", "n": 1}\n```',
        '```\r\n{"city": "Rome", "n": 1}\r\n```',
        '<think>hm {"no": 1}</think>\n{"city": "Rome", "n": 1}',
        'Here it is: {"city": "Rome", "n": 1}. Done.',
        '{"city": "Rome", "n": 1}',
        'Look {not json} but {"city": "Rome", "n": 1}',
        'First ```python\nx = 1\n``` then ```json\n{"city": "Rome", "n": 1}\n```',
    ],
)
def test_out_5_the_object_is_found(text: str) -> None:
    assert read_object(text) == {"city": "Rome", "n": 1}


@pytest.mark.parametrize("text", ["", "no object", "[1, 2]", "{broken", "3"])
def test_out_5_text_without_an_object_says_so(text: str) -> None:
    with pytest.raises(InvalidObject, match="JSON object"):
        read_object(text)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4), st.text(max_size=20))
def test_out_5_any_object_after_prose_without_braces_is_found(value: dict[str, Any], prose: str) -> None:
    prose = prose.replace("{", "").replace("`", "").replace("<", "")
    assert read_object(f"{prose}\n{json.dumps(value)}") == value
