"""Schemas in strict form (models OAI-16, OAI-17)."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork_openai.strict import schema_name, strict_schema


def test_oai_17_every_property_is_required_and_no_other_allowed() -> None:
    schema = {
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"type": "string"}},
        "required": ["b", "a"],
    }
    assert strict_schema(schema) == {**schema, "required": ["a", "b"], "additionalProperties": False}


def test_oai_17_an_optional_property_may_be_null() -> None:
    """T-19: else the model must invent a value."""
    properties = {
        "plain": {"type": "string", "description": "d"},
        "several": {"type": ["string", "integer"]},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "fixed": {"type": "string", "const": "x"},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "linked": {"$ref": "#/$defs/Node"},
        "already": {"type": ["string", "null"], "default": None},
    }
    found = strict_schema({"type": "object", "properties": properties, "$defs": {"Node": {"type": "object"}}})
    assert found["required"] == sorted(properties)
    assert found["properties"] == {
        "plain": {"type": ["string", "null"], "description": "d"},
        "several": {"type": ["string", "integer", "null"]},
        "choice": {"type": ["string", "null"], "enum": ["a", "b", None]},
        "fixed": {"type": ["string", "null"], "enum": ["x", None]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        "linked": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
        "already": {"type": ["string", "null"]},
    }


INNER = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
STRICT = {**INNER, "additionalProperties": False}


@pytest.mark.parametrize("where", ["properties", "$defs", "definitions"])
def test_oai_17_reaches_named_schemas(where: str) -> None:
    assert strict_schema({where: {"n": INNER}, "required": ["n"]})[where]["n"] == STRICT


@pytest.mark.parametrize("where", ["anyOf", "oneOf", "allOf", "prefixItems"])
def test_oai_17_reaches_lists_of_schemas(where: str) -> None:
    assert strict_schema({where: [INNER, {"type": "null"}]})[where] == [STRICT, {"type": "null"}]


@pytest.mark.parametrize("where", ["items", "not"])
def test_oai_17_reaches_single_schemas(where: str) -> None:
    assert strict_schema({where: INNER})[where] == STRICT


def test_oai_17_a_reference_stands_alone() -> None:
    assert strict_schema({"$ref": "#/$defs/A", "description": "d"}) == {"$ref": "#/$defs/A"}
    root = {"$ref": "#/$defs/A", "$defs": {"A": INNER}}
    assert strict_schema(root) == {"$ref": "#/$defs/A", "$defs": {"A": STRICT}}


def test_oai_17_a_property_named_like_a_keyword_is_a_property() -> None:
    schema = {"type": "object", "properties": {"properties": {"type": "string"}, "$ref": {"type": "string"}}}
    assert strict_schema(schema)["required"] == ["$ref", "properties"]


@pytest.mark.parametrize(
    ("title", "name"),
    [("Good_name-1", "Good_name-1"), ("Wert (€)", "Wert"), ("", "adk_response"), (None, "adk_response"),
     ("€€", "adk_response"), (7, "adk_response"), ("n" * 70, "n" * 64)],
)  # fmt: skip
def test_oai_16_names(title: Any, name: str) -> None:
    assert schema_name(title) == name


leaves = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "boolean"}])


def objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(["a", "b", "c"])

    def build(properties: dict[str, Any], optional: list[str]) -> dict[str, Any]:
        required = [name for name in properties if name not in optional]
        return {"type": "object", "properties": properties, "required": required}

    made = st.builds(build, st.dictionaries(names, inner, min_size=1), st.lists(names))
    return made | st.builds(lambda item: {"type": "array", "items": item}, inner)


schemas = objects(st.recursive(leaves, objects, max_leaves=6))


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a strict schema."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    options: list[st.SearchStrategy[Any]] = []
    for kind in kinds:
        if kind == "object":
            options.append(st.fixed_dictionaries({k: values(v) for k, v in schema["properties"].items()}))
        elif kind == "array":
            options.append(st.lists(values(schema["items"]), max_size=2))
        else:
            simple = {"string": st.text(max_size=2), "integer": st.integers(), "boolean": st.booleans()}
            options.append(simple.get(kind, st.none()))
    return st.one_of(options)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@given(st.data())
def test_oai_17_what_the_strict_schema_allows_the_original_does_once_nulls_are_left_out(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    strict = strict_schema(schema)
    value = data.draw(values(strict))
    jsonschema.validate(value, strict)
    jsonschema.validate(without_nulls(value), schema)
    assert strict_schema(strict) == strict, "a strict schema stays as it is"
