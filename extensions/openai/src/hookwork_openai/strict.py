"""Schemas in the strict form of structured output (models OAI-16, OAI-17)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

DEFAULT_NAME = "adk_response"

_NAMED = ("properties", "$defs", "definitions")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "not", "additionalProperties")


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a JSON schema in which every property is required and no other is allowed.

    A property that was optional may be null instead, else the model would have to invent a value for it.
    """
    reference = schema.get("$ref")
    if reference is not None and not _has_definitions(schema):
        return {"$ref": reference}
    strict: dict[str, Any] = {}
    for key, value in schema.items():
        if key != "default":  # strict mode refuses it, and says nothing by it: every property is required
            strict[key] = _strict_value(key, value)
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        required = schema.get("required")
        needed = frozenset(required) if isinstance(required, list | tuple) else frozenset()
        strict["properties"] = {
            name: inner if name in needed else _nullable(inner) for name, inner in strict["properties"].items()
        }
        strict["required"] = sorted(properties)
        strict["additionalProperties"] = False
    return strict


def _has_definitions(schema: Mapping[str, Any]) -> bool:
    """The root may refer to one of its own definitions, which must not get lost with the other keys."""
    return any(schema.get(key) for key in ("$defs", "definitions"))


def _strict_value(key: str, value: Any) -> Any:
    if key in _NAMED and isinstance(value, Mapping):
        return {name: _strict(inner) for name, inner in value.items()}
    if key in _LISTED and isinstance(value, list | tuple):
        return [_strict(inner) for inner in value]
    if key in _SINGLE:
        return _strict(value)
    return _plain(value)


def _strict(value: Any) -> Any:
    return strict_schema(value) if isinstance(value, Mapping) else _plain(value)


def _plain(value: Any) -> Any:
    """A copy that shares nothing with the caller's schema (models OAI-47)."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _nullable(schema: Any) -> Any:
    if not isinstance(schema, dict) or _allows_null(schema):
        return schema
    kind = schema.get("type")
    if isinstance(kind, str | list):
        kinds = [kind] if isinstance(kind, str) else kind
        nullable = {**schema, "type": [*kinds, "null"]}
        if isinstance(schema.get("enum"), list):
            nullable["enum"] = [*schema["enum"], None]
        if "const" in schema:
            nullable["enum"] = [nullable.pop("const"), None]
        return nullable
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


def _allows_null(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    return any(
        isinstance(option, dict) and _allows_null(option)
        for key in ("anyOf", "oneOf")
        for option in schema.get(key) or ()
    )


def schema_name(title: Any) -> str:
    """A title as a name that the API takes: letters, digits, ``_`` and ``-``, 64 at most."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", title).strip("_")[:64] if isinstance(title, str) else ""
    return name or DEFAULT_NAME
