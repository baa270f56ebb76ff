"""Schemas: the one conversion to JSON schema (OAI-18) and the rewriting for Gemini (GEM-15, CASE-MCP-4)."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork_modelkit import InexpressibleSchema, to_genai_schema, to_json_schema

# --- genai to JSON schema ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        ({"type": "TYPE_UNSPECIFIED", "description": "d"}, {"description": "d"}),
        (
            {"type": "STRING", "enum": ["STRING", "a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["STRING", "a", None]},
        ),
        (
            {
                "type": "OBJECT",
                "properties": {"type": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "2"}},
                "required": ["type"],
                "propertyOrdering": ["type"],
            },
            {
                "type": "object",
                "properties": {"type": {"type": "array", "items": {"type": "integer"}, "minItems": 2}},
                "required": ["type"],
            },
        ),
        (
            {"any_of": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        ),
        ({"type": "STRING", "max_length": 3, "example": "x"}, {"type": "string", "maxLength": 3, "examples": ["x"]}),
        ({"ref": "#/$defs/A", "defs": {"A": {"type": "NULL"}}},
         {"$ref": "#/$defs/A", "$defs": {"A": {"type": "null"}}}),
        ({"type": "OBJECT", "default": {"type": "STRING"}}, {"type": "object", "default": {"type": "STRING"}}),
        ({"type": "OBJECT", "additional_properties": {"type": "STRING"}},
         {"type": "object", "additionalProperties": {"type": "string"}}),
    ],
)  # fmt: skip
def test_oai_18_types_become_lower_case_and_nullable_a_union(schema: dict[str, Any], wanted: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    assert to_json_schema(schema) == wanted
    assert schema == before
    jsonschema.Draft202012Validator.check_schema(wanted)


def test_oai_18_a_json_schema_comes_back_equal_and_copied() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": ["object", "null"],
        "properties": {"max_length": {"const": None}, "a_b": {"type": "string", "default": None}},
        "additionalProperties": False,
        "$defs": {"x_y": {"not": {"type": "string"}}},
    }
    result = to_json_schema(schema)
    assert result == schema
    result["properties"]["a_b"]["type"] = "number"
    assert schema["properties"]["a_b"]["type"] == "string"  # type: ignore[index]


# --- JSON schema to genai ---------------------------------------------------------------------------------------------


def parameters(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def property_of(schema: Any, **root: Any) -> dict[str, Any]:
    result = to_genai_schema({**parameters(p=schema), **root})
    return result["properties"]["p"]  # type: ignore[no-any-return]


ODDITIES = [
    ({"type": "string", "$schema": "s", "$id": "i", "$comment": "c", "examples": ["e"]}, {"type": "STRING"}),
    ({"$ref": "#/$defs/A"}, {"type": "STRING", "description": "an A"}),
    ({"$ref": "#/$defs/A", "description": "mine"}, {"type": "STRING", "description": "mine"}),
    ({"type": "object", "additionalProperties": False}, {"type": "OBJECT"}),
    ({"const": "k"}, {"type": "STRING", "format": "enum", "enum": ["k"]}),
    ({"const": 3}, {"type": "INTEGER", "minimum": 3, "maximum": 3, "description": "(allowed values: 3)"}),
    ({"const": None}, {"type": "NULL"}),
    ({"type": ["string", "null"], "description": "d"}, {"type": "STRING", "description": "d", "nullable": True}),
    ({"type": ["string", "integer"]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
    ({"type": ["string", "integer", "null"], "description": "d", "minLength": 2},
     {"anyOf": [{"type": "STRING", "minLength": 2, "description": "d", "nullable": True},
                {"type": "INTEGER", "description": "d"}]}),
    ({"oneOf": [{"type": "string"}, {"type": "null"}], "title": "T"},
     {"type": "STRING", "title": "T", "nullable": True}),
    ({"anyOf": [{"type": "string", "description": "s"}, False], "description": "d"},
     {"type": "STRING", "description": "d s"}),
    ({"allOf": [{"$ref": "#/$defs/A"}, {"maxLength": 4}]}, {"type": "STRING", "description": "an A", "maxLength": 4}),
    ({"type": "integer", "enum": [1, 2, None]},
     {"type": "INTEGER", "minimum": 1, "maximum": 2, "description": "(allowed values: 1, 2)"}),
    ({"type": "string", "enum": ["a", "b"], "default": "a"},
     {"type": "STRING", "format": "enum", "enum": ["a", "b"], "default": "a"}),
    ({"type": "string", "format": "email", "description": "Where to."},
     {"type": "STRING", "description": "Where to. (format: email)"}),
    ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
    ({"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5},
     {"type": "INTEGER", "minimum": 1, "description": "(a multiple of 5)"}),
    ({"type": "number", "exclusiveMaximum": 1.5}, {"type": "NUMBER", "description": "(less than 1.5)"}),
    ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
    ({"type": "array", "items": False}, {"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": 0}),
    ({"prefixItems": [{"type": "string"}, {"type": "number"}]},
     {"type": "ARRAY", "items": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}, "minItems": 2, "maxItems": 2}),
    ({"type": "object", "additionalProperties": {"type": "integer"}},
     {"type": "OBJECT", "description": "(other keys are allowed, with values of type integer)"}),
    ({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}},
      "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
     {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}),
    ({"type": "string", "not": {"const": "x"}, "if": {"minLength": 1}, "then": {"maxLength": 2}}, {"type": "STRING"}),
    ({"properties": {"a": {"type": "string"}}}, {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}),
    ({"enum": ["a", 1]},
     {"anyOf": [{"type": "STRING", "description": '(allowed values: "a", 1)'},
                {"type": "INTEGER", "minimum": 1, "maximum": 1, "description": '(allowed values: "a", 1)'}]}),
]  # fmt: skip
DEFINITIONS = {"$defs": {"A": {"type": "string", "description": "an A"}}}


@pytest.mark.parametrize(("schema", "wanted"), ODDITIES)
def test_gem_15_schemas_as_servers_write_them(schema: dict[str, Any], wanted: dict[str, Any]) -> None:
    """CASE-MCP-4: meaning is kept, and the server's own schema is unchanged."""
    before = copy.deepcopy(schema)
    assert property_of(schema, **DEFINITIONS) == wanted
    assert schema == before


@pytest.mark.parametrize("anything", [True, {}, {"description": "d"}])
def test_gem_15_anything_is_every_type(anything: Any) -> None:
    branches = property_of(anything)["anyOf"]
    assert [branch["type"] for branch in branches] == ["STRING", "NUMBER", "BOOLEAN", "OBJECT", "ARRAY"]
    if isinstance(anything, dict) and anything:
        assert all(branch["description"] == "d" for branch in branches)


def test_gem_15_what_is_required_is_described() -> None:
    result = to_genai_schema({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b", "a"]})
    assert result["required"] == ["a", "b"]
    assert set(result["properties"]) == {"a", "b"}


def test_gem_15_a_property_that_is_not_allowed_is_left_out() -> None:
    assert to_genai_schema(parameters(a={"type": "string"}, b=False))["properties"] == {"a": {"type": "STRING"}}


def test_gem_15_a_schema_inside_itself_is_unrolled_twice() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/$defs/T"}, "v": {"type": "string"}}}
    result = property_of({"$ref": "#/$defs/T"}, **{"$defs": {"T": tree}})
    assert result["properties"]["v"] == {"type": "STRING"}
    assert result["properties"]["child"]["properties"]["child"] == {"type": "OBJECT"}
    root = to_genai_schema({"type": "object", "properties": {"again": {"$ref": "#"}}})
    assert root["properties"]["again"]["properties"]["again"]["properties"]["again"] == {"type": "OBJECT"}


@pytest.mark.parametrize("schema", [True, {}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_gem_15_no_parameters_are_an_object_without_properties(schema: Any) -> None:
    assert to_genai_schema(schema) == {"type": "OBJECT"}


def test_gem_15_alternatives_at_the_root_are_laid_over_each_other() -> None:
    one = {"type": "object", "properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["a", "c"]}
    two = {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": "string"}}, "required": ["b", "c"]}
    result = to_genai_schema({"anyOf": [one, two]})
    assert set(result["properties"]) == {"a", "b", "c"}
    assert result["required"] == ["c"]


def nested_references(depth: int) -> dict[str, Any]:
    """A small schema that would grow beyond measure once its references are put in place."""
    defs: dict[str, Any] = {"L0": {"type": "string"}}
    for i in range(1, depth):
        defs[f"L{i}"] = parameters(**{name: {"$ref": f"#/$defs/L{i - 1}"} for name in "abcdefgh"})
    return {**parameters(p={"$ref": f"#/$defs/L{depth - 1}"}), "$defs": defs}


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "string"},
        {"type": "thing"},
        {"anyOf": [{"type": "string"}, {"type": "number"}]},
        parameters(a={"$ref": "https://example.com/a.json"}),
        parameters(a={"$ref": "#/$defs/none"}),
        parameters(a={"$ref": "#anchor"}),
        parameters(a={"allOf": [{"type": "string"}, {"type": "object"}]}) | {"required": ["a"]},
        parameters(a=False) | {"required": ["a"]},
        parameters(a=3),
        {"type": "object", "properties": [1]},
        nested_references(9),
    ],
)
def test_gem_15_what_cannot_be_said_is_refused_by_its_place(schema: Any) -> None:
    with pytest.raises(InexpressibleSchema, match="#"):
        to_genai_schema(schema)


KEYWORDS = {
    "type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties",
    "required", "minProperties", "maxProperties", "minimum", "maximum", "minLength", "maxLength", "pattern", "default",
    "anyOf",
}  # fmt: skip

plain_values = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
json_schemas = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "number", "integer", "boolean", "array", "object", "null"])
            | st.lists(st.sampled_from(["string", "integer", "null", "object"]), min_size=1, max_size=3, unique=True),
            "enum": st.lists(plain_values, min_size=1, max_size=3),
            "const": plain_values,
            "description": st.text(max_size=5),
            "default": plain_values,
            "minLength": st.integers(0, 3),
            "exclusiveMinimum": st.integers(0, 3),
            "format": st.sampled_from(["email", "date-time", "int32"]),
            "$ref": st.sampled_from(["#", "#/properties/a", "#/$defs/none"]),
            "$schema": st.just("x"),
            "deprecated": st.booleans(),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array"]),
            "properties": st.dictionaries(st.sampled_from(["a", "b", "type"]), inner, max_size=3),
            "required": st.lists(st.sampled_from(["a", "b", "c"]), max_size=2),
            "items": inner,
            "prefixItems": st.lists(inner, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "additionalProperties": inner,
        },
    ),
    max_leaves=12,
)


def check(schema: Any) -> None:
    assert set(schema) <= KEYWORDS
    if "anyOf" in schema:
        assert set(schema) == {"anyOf"}  # Vertex AI takes nothing beside it
        assert len(schema["anyOf"]) > 1
        for branch in schema["anyOf"]:
            check(branch)
        return
    assert schema["type"] in {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}
    assert set(schema.get("required", ())) <= set(schema.get("properties", ()))
    if "enum" in schema:
        assert schema["type"] == "STRING"
        assert all(isinstance(value, str) for value in schema["enum"])
    for sub in schema.get("properties", {}).values():
        check(sub)
    assert ("items" in schema) == (schema["type"] == "ARRAY")
    if "items" in schema:
        check(schema["items"])


@given(json_schemas)
def test_gem_15_any_schema_is_said_in_the_keywords_of_the_api_or_refused(schema: Any) -> None:
    before = copy.deepcopy(schema)
    try:
        result = to_genai_schema(schema)
    except InexpressibleSchema:
        return
    finally:
        assert schema == before
    assert result["type"] == "OBJECT"
    check(result)
