"""Defaults in strict schemas (models OAI-17): OpenAI answers 400, "'default' is not permitted"."""

from __future__ import annotations

from hookwork_openai.strict import strict_schema


def test_oai_17_no_default_is_sent_at_any_depth() -> None:
    inner = {"type": "object", "properties": {"size": {"type": "string", "default": "m"}}, "required": []}
    schema = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "default": []},
            "first": {"anyOf": [{"$ref": "#/$defs/Item"}, {"type": "null"}], "default": None},
        },
        "$defs": {"Item": inner},
    }
    found = strict_schema(schema)
    assert "'default'" not in str(found)
    assert found["properties"]["kind"] == {"type": ["string", "null"], "enum": ["a", "b", None]}


def test_a_property_that_is_named_default_stays() -> None:
    schema = {"type": "object", "properties": {"default": {"type": "string"}}, "required": ["default"]}
    assert strict_schema(schema) == {**schema, "additionalProperties": False}
