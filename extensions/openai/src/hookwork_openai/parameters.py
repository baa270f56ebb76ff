"""Parameter schemas as the service takes them: an object at the top, whatever a tool's server wrote (CASE-MCP-4).

Inside, any JSON schema will do (functions are declared with ``strict: false``). At the top there must be an object with
properties, and neither a reference nor a combination of schemas. Arguments are still judged by the tool's own schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hookwork_modelkit.schema_merging import Inexpressible, Schemas

#: Keywords that the top may not have and that say nothing an object's properties could say.
_NOT_AT_THE_TOP = ("enum", "const", "not", "if", "then", "else", "dependentSchemas", "$schema", "$id")
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTED = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "not", "if", "then", "else", "contains", "propertyNames"})


def function_parameters(schema: Any) -> dict[str, Any]:
    """A schema with an object at its top, equal in meaning as far as one can say it there; a copy.

    Raises:
        Inexpressible: arguments of this form are no object, or nothing fits them.
    """
    whole = _without_booleans(schema)
    if not isinstance(whole, dict):
        raise Inexpressible("no arguments fit the schema")
    schemas = Schemas(whole)
    node = _flat(schemas, whole)
    for key in ("anyOf", "oneOf"):
        branches = node.pop(key, None)
        if isinstance(branches, list) and branches:
            node = _spread(node, [_flat(schemas, branch) for branch in branches if isinstance(branch, dict)])
    for key in _NOT_AT_THE_TOP:
        node.pop(key, None)
    if not _is_object(node):
        raise Inexpressible(f"arguments are an object, and the schema wants {node['type']!r}")
    return {**node, "type": "object", "properties": node.get("properties") or {}}


def _flat(schemas: Schemas, schema: dict[str, Any]) -> dict[str, Any]:
    node, _ = schemas.flat(schema, "#", ())
    if node is None:
        raise Inexpressible("the schema refers to itself at its top")
    return node


def _is_object(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    return kind is None or kind == "object" or (isinstance(kind, list) and "object" in kind)


def _spread(node: dict[str, Any], branches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The object that any of some objects fits: all their properties, of which is required what all of them require."""
    objects = [branch for branch in branches if _is_object(branch)]
    if not objects:
        raise Inexpressible("none of the alternatives is an object")
    properties: dict[str, Any] = dict(node.get("properties") or {})
    for name in dict.fromkeys(name for branch in objects for name in branch.get("properties") or {}):
        own = [properties[name]] if name in properties else []
        said = [*own, *(branch["properties"][name] for branch in objects if name in (branch.get("properties") or {}))]
        different = [schema for i, schema in enumerate(said) if schema not in said[:i]]
        properties[name] = different[0] if len(different) == 1 else {"anyOf": different}
    shared = [name for name in objects[0].get("required") or () if all(_requires(branch, name) for branch in objects)]
    required = list(dict.fromkeys([*(node.get("required") or ()), *shared]))
    spread = {**node, "properties": properties}
    return {**spread, "required": required} if required else spread


def _requires(branch: Mapping[str, Any], name: str) -> bool:
    return name in (branch.get("required") or ())


def _without_booleans(schema: Any) -> Any:
    """A copy in which the schemas ``true`` and ``false`` are objects that say the same."""
    if schema is True or schema is None:
        return {}
    if schema is False:
        return {"not": {}}
    if not isinstance(schema, Mapping):
        return schema
    return {key: _copied(key, value) for key, value in schema.items()}


def _copied(key: str, value: Any) -> Any:
    if key in _NAMED and isinstance(value, Mapping):
        return {name: _without_booleans(inner) for name, inner in value.items()}
    if key in _LISTED and isinstance(value, list | tuple):
        return [_without_booleans(inner) for inner in value]
    if key in _SINGLE:
        return [_without_booleans(inner) for inner in value] if isinstance(value, list) else _without_booleans(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
