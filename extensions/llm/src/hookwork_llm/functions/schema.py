"""Making a generated JSON schema short and plain enough for every model API (tools-plugins FN-02)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MAPS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_REF = "#/$defs/"


def tidy(schema: dict[str, Any], *, closed: bool) -> dict[str, Any]:
    """The schema with its references written out, except recursive ones; ``T | None`` as a type list.

    With ``closed``, objects that name their properties and say nothing of others refuse others.
    """
    defs = {name: _untitled(definition) for name, definition in schema.pop("$defs", {}).items()}
    recursive = {name for name in defs if name in _reachable(name, defs)}
    plain = _Tidy(defs, recursive, closed)
    if schema.get("$ref", "").startswith(_REF):  # the root must show its properties, not a reference
        schema = {**defs[schema.pop("$ref").removeprefix(_REF)], **schema}
    result: dict[str, Any] = plain.node(schema)
    kept = {name: plain.node(defs[name]) for name in defs if name in recursive}
    if kept:
        result["$defs"] = kept
    return result


def _untitled(definition: dict[str, Any]) -> dict[str, Any]:
    """An enum's title is only its class name."""
    return {key: value for key, value in definition.items() if key != "title" or "enum" not in definition}


def _children(node: Mapping[str, Any]) -> list[Any]:
    found = [node[key] for key in _SINGLE if key in node]
    for key in _LISTS:
        found += node.get(key, ())
    for key in _MAPS:
        found += node.get(key, {}).values()
    return found


def _reachable(name: str, defs: Mapping[str, Any]) -> set[str]:
    """Definitions that a definition leads to."""
    found: set[str] = set()
    pending = [defs[name]]
    while pending:
        node = pending.pop()
        if not isinstance(node, Mapping):
            continue
        target = str(node.get("$ref", "")).removeprefix(_REF)
        if target in defs and target not in found:
            found.add(target)
            pending.append(defs[target])
        pending += _children(node)
    return found


class _Tidy:
    def __init__(self, defs: Mapping[str, Any], recursive: set[str], closed: bool) -> None:
        self._defs = defs
        self._recursive = recursive
        self._closed = closed

    def node(self, schema: Any) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        name = str(schema.get("$ref", "")).removeprefix(_REF)
        if name in self._defs and name not in self._recursive:
            own = {key: value for key, value in schema.items() if key != "$ref"}
            return self.node({**self._defs[name], **own})
        result = {key: self._keyword(key, value) for key, value in schema.items() if key != "discriminator"}
        if "const" in result:
            result.setdefault("enum", [result.pop("const")])
        if self._closed and "properties" in result:
            result.setdefault("additionalProperties", False)
        return _nullable(result)

    def _keyword(self, key: str, value: Any) -> Any:
        if key in _MAPS:
            return {name: self.node(sub) for name, sub in value.items()}
        if key in _LISTS:
            return [self.node(sub) for sub in value]
        return self.node(value) if key in _SINGLE else value


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    """``anyOf [X, null]`` → X with null in its type list, where X has exactly one type."""
    options = node.get("anyOf")
    if not isinstance(options, list) or len(options) != 2 or {"type": "null"} not in options:
        return node
    inner = dict(options[0] if options[1] == {"type": "null"} else options[1])
    if not isinstance(inner.get("type"), str) or inner["type"] == "null":
        return node
    inner["type"] = [inner["type"], "null"]
    if "enum" in inner and None not in inner["enum"]:
        inner["enum"] = [*inner["enum"], None]
    return {**inner, **{key: value for key, value in node.items() if key != "anyOf"}}


def describe_properties(schema: dict[str, Any], texts: Mapping[str, str], *, override: bool = False) -> None:
    """Put descriptions at properties, in place; present ones stay unless ``override``."""
    for name, node in schema.get("properties", {}).items():
        if name in texts and (override or "description" not in node):
            node["description"] = texts[name]


def walk(schema: Any, visit: Callable[[Mapping[str, Any]], None]) -> None:
    """Call ``visit`` with every sub-schema."""
    if isinstance(schema, Mapping):
        visit(schema)
        for child in _children(schema):
            walk(child, visit)
