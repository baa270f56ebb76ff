"""JSON on both sides of a function: schema checker and encoder of results (tools-plugins FN-04, FN-20, FN-21)."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from hookwork.records.content import Part
from hookwork.records.frozen import FrozenDict, FrozenList, freeze
from hookwork_llm.functions.json_schema import JsonSchema, SchemaError
from hookwork_llm.functions.results import NotJson, as_response, to_json

# Text that every store can hold; `freeze` replaces other characters.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)

# Semantics as of JSON Schema draft 2020-12: (schema, what fits, what does not).
CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (True, [1, None], []),
    (False, [], [1, None]),
    ({"type": "integer"}, [1, 1.0, -3], [1.5, "1", True, None]),
    ({"type": "number"}, [1, 1.5], ["1", False]),
    ({"type": "boolean"}, [True], [1, "true"]),
    ({"type": ["string", "null"]}, ["", None], [1]),
    ({"enum": [1, "a", None]}, [1, 1.0, "a", None], [True, "b"]),
    ({"const": {"a": [1]}}, [{"a": [1.0]}], [{"a": [True]}, {}]),
    ({"minimum": 1, "maximum": 2}, [1, 2, "text"], [0, 3]),
    ({"exclusiveMinimum": 1, "exclusiveMaximum": 2}, [1.5], [1, 2]),
    ({"multipleOf": 2}, [4, 2.0], [3]),
    ({"minLength": 2, "maxLength": 3}, ["ab", 1], ["a", "abcd"]),
    ({"pattern": "^a"}, ["ab", 1], ["b"]),
    ({"items": {"type": "string"}, "minItems": 1, "maxItems": 2}, [["a"], "a"], [[], [1], ["a", "b", "c"]]),
    ({"prefixItems": [{"type": "string"}], "items": False}, [["a"], []], [[1], ["a", 1]]),
    ({"uniqueItems": True}, [[1, True], [1, 2]], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
    ({"contains": {"type": "string"}, "maxContains": 1}, [["a", 1]], [[1], ["a", "b"]]),
    ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, [{"a": "x", "b": 1}, 3], [{}, {"a": 1}]),
    ({"properties": {"a": True}, "additionalProperties": False}, [{"a": 1}, {}], [{"b": 1}]),
    ({"additionalProperties": {"type": "integer"}}, [{"x": 1}], [{"x": "1"}]),
    ({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
     [{"x1": 1}], [{"x1": ""}, {"y": 1}]),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}], [{"ab": 1}]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
    ({"dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 1}, {"c": 1}], [{"a": 1}]),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"a": 1, "b": 1}, {}], [{"a": 1}]),
    ({"allOf": [{"type": "string"}, {"minLength": 2}]}, ["ab"], ["a", 1]),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["a", None], [1]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5], [3]),
    ({"not": {"type": "string"}}, [1], ["a"]),
    ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 2}}, ["ab", 2], ["a", 1]),
    ({"$defs": {"n": {"type": "object", "properties": {"k": {"$ref": "#/$defs/n"}}, "required": ["v"]}},
      "$ref": "#/$defs/n"}, [{"v": 1, "k": {"v": 2}}], [{"v": 1, "k": {}}]),
    ({"properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
     [{"next": {"next": {}}}], [{"next": {"x": 1}}]),
    ({"format": "date"}, ["not a date"], []),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "fitting", "wrong"), CASES, ids=lambda case: json.dumps(case)[:40])
def test_fn_04_json_schema_keywords(schema: Any, fitting: list[Any], wrong: list[Any]) -> None:
    compiled = JsonSchema(schema)
    assert [value for value in fitting if compiled.faults(value)] == []
    assert [value for value in wrong if not compiled.faults(value)] == []


def test_fn_13_faults_carry_pointers_and_the_branch_that_was_meant() -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema = JsonSchema({"properties": {"a/b": {"type": "array", "items": {"anyOf": [{"type": "null"}, item]}}}})
    assert schema.faults({"a/b": [None, {"n": "x"}]}) == [("/a~1b/1/n", "Input should be a valid integer")]
    assert schema.faults({"a/b": [3]}) == [("/a~1b/0", "Input has none of the allowed forms")]
    assert schema.faults({"a/b": [{}]}) == [("/a~1b/0/n", "Field required")]


@pytest.mark.parametrize(
    "schema",
    [
        3,
        {"type": "text"},
        {"type": []},
        {"properties": []},
        {"properties": {"a": 1}},
        {"required": [1]},
        {"enum": "ab"},
        {"minimum": "1"},
        {"multipleOf": 0},
        {"pattern": "["},
        {"anyOf": []},
        {"$ref": "other.json"},
        {"$ref": "#/none"},
        {"$defs": {"a": {"type": "x"}}},
    ],
)
def test_fn_02_schema_that_cannot_be_enforced_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaError):
        JsonSchema(schema)


@given(json_values)
def test_every_value_satisfies_its_own_const(value: Any) -> None:
    assert JsonSchema({"const": value}).faults(json.loads(json.dumps(value))) == []


@given(json_values)
def test_fn_20_json_values_are_kept_as_they_are(value: Any) -> None:
    encoded = to_json(value)
    assert encoded == value
    assert json.dumps(encoded) == json.dumps(value)
    assert to_json(freeze(value)) == to_json(value)


def test_fn_20_result_is_detached_and_mutable() -> None:
    source = {"a": [1]}
    encoded = to_json(source)
    source["a"].append(2)
    assert encoded == {"a": [1]}
    thawed = to_json(FrozenDict({"a": FrozenList([1])}))
    thawed["a"].append(2)
    assert type(thawed) is dict
    assert as_response(thawed) is thawed
    assert as_response([1]) == {"result": [1]}


class Level(enum.IntEnum):
    LOW = 1


class Word(str):
    pass


@dataclass
class Inner:
    when: date
    tags: set[str] = field(default_factory=set)


@attrs.define
class Outer:
    inner: Inner
    _hidden: int = 4


class Model(BaseModel):
    some_name: int = Field(alias="someName")


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (
            Outer(Inner(date(2026, 1, 2), {"b", "a"})),
            {"inner": {"when": "2026-01-02", "tags": ["a", "b"]}, "hidden": 4},
        ),
        (Model(someName=1), {"someName": 1}),
        ([Model(someName=1)], [{"someName": 1}]),
        (Level.LOW, 1),
        (Word("w"), "w"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        (time(1, 2), "01:02:00"),
        (UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"), "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        (Decimal("1.50"), "1.50"),
        (b"\xff\xfe\x00", "//4A"),
        ((1, (2,)), [1, [2]]),
        (frozenset({2, 1}), [1, 2]),
        (frozenset({"b", 2, "a", 1}), [1, 2, "a", "b"]),
        ({Word("k"): Level.LOW}, {"k": 1}),
        (Part(text="t"), {"text": "t"}),
    ],
)  # fmt: skip
def test_fn_21_encoders(value: Any, encoded: Any) -> None:
    result = to_json(value)
    assert result == encoded
    assert json.loads(json.dumps(result)) == encoded


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [object()]}, "/a/0"),
        (Inner(when=float("inf")), "/when"),  # type: ignore[arg-type]
        ({"a": {1: 2}}, "/a"),
        (lambda: 1, ""),
        (Decimal("NaN"), ""),
        (Model, ""),
    ],
)
def test_fn_21_anything_else_is_refused_at_its_place(value: Any, where: str) -> None:
    with pytest.raises(NotJson) as caught:
        to_json(value)
    assert caught.value.fault[0] == where


def test_fn_21_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotJson, match="contains itself"):
        to_json(loop)
