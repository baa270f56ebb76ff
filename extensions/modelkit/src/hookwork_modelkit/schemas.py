"""Schemas of the genai form as plain JSON schemas: the one conversion all adapters share (models OAI-18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: genai type → JSON schema type; lower-case spellings are taken as they are.
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})

#: Keywords whose value is one schema, a list of schemas, a map of names to schemas.
_ONE = frozenset({"items", "additionalProperties", "not"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "$defs", "definitions"})
#: Keywords that hold counts; the genai wire form writes 64-bit integers as text.
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_DROPPED = frozenset({"propertyOrdering", "nullable"})
_RENAMED = {"defs": "$defs", "ref": "$ref"}


def to_json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A plain JSON schema (draft 2020-12) of a genai Schema; the argument is not changed.

    Types become lower case, ``nullable`` becomes a union with null, ``propertyOrdering`` is left out, ``example``
    becomes ``examples``; snake_case keywords are read too. What is a JSON schema already comes back as an equal copy.
    Names of properties, values of ``enum`` and ``default`` stay as they are.
    """
    result: dict[str, Any] = {}
    nullable = False
    for key, value in schema.items():
        name = _RENAMED.get(key) or _camel(key)
        if value is None and name not in ("default", "const", "example"):
            continue
        if name == "nullable":
            nullable = bool(value)
        elif name == "type":
            kind = _type(value)
            if kind is not None:
                result["type"] = kind
        elif name == "example":
            result["examples"] = [_copy(value)]
        elif name not in _DROPPED:
            result[name] = _converted(name, value)
    return _nullable(result) if nullable else result


def _converted(name: str, value: Any) -> Any:
    if name in _ONE and isinstance(value, Mapping):
        return to_json_schema(value)
    if name in _MANY or (name == "items" and isinstance(value, list | tuple)):
        return [to_json_schema(item) if isinstance(item, Mapping) else item for item in value]
    if name in _NAMED and isinstance(value, Mapping):
        return {key: to_json_schema(item) if isinstance(item, Mapping) else item for key, item in value.items()}
    if name in _COUNTS and isinstance(value, str) and value.isdigit():
        return int(value)
    return _copy(value)


def _type(value: Any) -> Any:
    """A type in lower case; None for "unspecified"."""
    if isinstance(value, list | tuple):
        return [_type(item) for item in value]
    text = str(value)
    lower = text.lower()
    if lower == "type_unspecified":
        return None
    return lower if lower in _TYPES else text


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, or null."""
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    elif isinstance(kind, list) and "null" not in kind:
        schema["type"] = [*kind, "null"]
    elif kind is None and "anyOf" in schema:
        if {"type": "null"} not in schema["anyOf"]:
            schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    elif kind is None and "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "anyOf" in schema and kind is not None and {"type": "null"} not in schema["anyOf"]:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    return schema


def _camel(key: str) -> str:
    if "_" not in key or key.startswith(("$", "_")):
        return key
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return value
