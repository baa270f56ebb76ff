"""Tool declarations and schemas as the Gemini API takes them (models GEM-15, CASE-MCP-4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.records.codec import dump
from hookwork.records.request import FunctionDeclaration, ToolDeclaration
from hookwork_gemini.conversion import warn_once
from hookwork_modelkit import InexpressibleSchema, to_genai_schema, to_json_schema

#: Fields of the published Schema message; a schema with any other key is a raw JSON schema.
_SCHEMA_FIELDS = frozenset(
    {"anyOf", "default", "description", "enum", "example", "format", "items", "maxItems", "maxLength", "maxProperties",
     "maximum", "minItems", "minLength", "minProperties", "minimum", "nullable", "pattern", "properties",
     "propertyOrdering", "required", "title", "type"}
)  # fmt: skip
_SNAKE = {"any_of": "anyOf", "max_items": "maxItems", "max_length": "maxLength", "max_properties": "maxProperties",
          "min_items": "minItems", "min_length": "minLength", "min_properties": "minProperties",
          "property_ordering": "propertyOrdering"}  # fmt: skip
_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL", "TYPE_UNSPECIFIED"})


def tool_json(tool: ToolDeclaration) -> dict[str, Any]:
    """A tool of a config in JSON form. A function whose schema cannot be said is left out, with one warning."""
    functions = tool.function_declarations
    if functions is None:
        return dump(tool)
    declared = [one for one in (_declared(function) for function in functions) if one is not None]
    entry = dump(tool.replace(function_declarations=None))
    if declared:
        entry["functionDeclarations"] = declared
    return entry


def _declared(function: FunctionDeclaration) -> dict[str, Any] | None:
    entry = dump(function)
    try:
        _say(entry, "parametersJsonSchema", "parameters", is_root=True)
        _say(entry, "responseJsonSchema", "response", is_root=False)
    except InexpressibleSchema as error:
        warn_once(
            f"tool {function.name}",
            "left tool %r out of the request: the Gemini API cannot take its schema (%s)",
            function.name,
            error,
        )
        return None
    return entry


def _say(entry: dict[str, Any], raw_key: str, key: str, *, is_root: bool) -> None:
    raw, given = entry.pop(raw_key, None), entry.get(key)
    if given is not None and raw is None:
        if is_schema(given):
            return
        raw = to_json_schema(given)
    if raw is None:
        return
    said = to_genai_schema(raw, is_root=is_root)
    if is_root and set(said) <= {"type", "description", "title"}:
        entry.pop(key, None)  # the API refuses an object without properties: no parameters are no schema
    else:
        entry[key] = said


def is_schema(schema: Any) -> bool:
    """Whether a schema has the form of the Schema message already, so that it can go over as it is."""
    if not isinstance(schema, Mapping):
        return False
    for key, value in schema.items():
        name = _SNAKE.get(key, key)
        if name not in _SCHEMA_FIELDS:
            return False
        if name == "type" and not (isinstance(value, str) and value in _TYPES):
            return False
        if name == "items" and not is_schema(value):
            return False
        if name == "anyOf" and not all(is_schema(item) for item in value):
            return False
        if name == "properties" and not all(is_schema(item) for item in value.values()):
            return False
    return True


def response_schema_json(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A ``response_schema`` as a Schema message; a JSON schema in its place is rewritten.

    Raises:
        InexpressibleSchema: it cannot be.
    """
    return dict(schema) if is_schema(schema) else to_genai_schema(to_json_schema(schema), is_root=False)
