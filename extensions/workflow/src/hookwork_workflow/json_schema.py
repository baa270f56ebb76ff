"""Comparing JSON schemas: one form for schemas that mean the same (workflow GV-12)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: Keywords that say nothing about which values fit.
_REMARKS = frozenset({"title", "description", "default", "examples", "discriminator", "$schema", "$id", "$comment"})
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"})


def canonical(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with references written out (recursive ones stay), without remarks, in one order."""
    defs = {f"#/{key}/{name}": value for key in ("$defs", "definitions") for name, value in schema.get(key, {}).items()}
    result: dict[str, Any] = _node(schema, defs, ())
    return result


def _node(schema: Any, defs: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference in defs:
        if reference in inside:  # how far up the same type stands, whatever it is called
            return {"$ref": f"up {len(inside) - inside.index(reference)}"}
        own = {key: value for key, value in schema.items() if key != "$ref"}
        return _node({**defs[reference], **own}, defs, (*inside, reference))
    result: dict[str, Any] = {}
    for key in sorted(schema):
        value = schema[key]
        if key in _REMARKS or key in ("$defs", "definitions"):
            continue
        if key in _MAPS:
            result[key] = {name: _node(value[name], defs, inside) for name in sorted(value)}
        elif key in _LISTS:
            result[key] = [_node(item, defs, inside) for item in value]
        elif key in _SINGLE:
            result[key] = _node(value, defs, inside)
        else:
            result[key] = value
    return _tidied(result)


def _tidied(node: dict[str, Any]) -> dict[str, Any]:
    """One spelling for what has several."""
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if "enum" in node:
        node["enum"] = sorted(node["enum"], key=_text)
        if all(isinstance(value, str) for value in node["enum"]):
            node.setdefault("type", "string")
    if "required" in node:
        node["required"] = sorted(node["required"])
        if not node["required"]:
            del node["required"]
    if node.get("additionalProperties") in (True, {}):
        del node["additionalProperties"]
    if node.get("items") in (True, {}):
        del node["items"]
    if isinstance(node.get("type"), list):
        members = [{**node, "type": name} for name in node.pop("type")]
        return _tidied({"anyOf": members}) if len(members) > 1 else members[0]
    if "anyOf" in node:
        flat = [
            inner for member in node["anyOf"] for inner in (member["anyOf"] if list(member) == ["anyOf"] else [member])
        ]
        node["anyOf"] = sorted({_text(member): member for member in flat}.values(), key=_text)
        if len(node["anyOf"]) == 1 and len(node) == 1:
            only: dict[str, Any] = node["anyOf"][0]
            return only
    return node


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _members(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(schema["anyOf"]) if list(schema) == ["anyOf"] else [schema]


def takes_text(schema: Mapping[str, Any]) -> bool:
    """Whether any text is a value of a canonical schema: a string at its root, perhaps among others, and no enum."""
    return any(
        member.get("type") == "string" and "enum" not in member and "format" not in member
        for member in _members(schema)
    )


def covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Whether every value of one canonical schema is one of another, as far as their roots tell; {} takes all."""
    if not wide or not narrow or wide == narrow:
        return True
    return all(any(_covers_one(w, n) for w in _members(wide)) for n in _members(narrow))


def _covers_one(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    if not wide or wide == narrow:
        return True
    if wide == {"type": "number"}:
        return narrow.get("type") in ("integer", "number")
    if set(wide) == {"type"} and wide["type"] == narrow.get("type"):
        return True  # e.g. any object, any list, any text
    if "enum" in wide and "enum" in narrow:
        return all(value in wide["enum"] for value in narrow["enum"])
    if wide.get("type") == narrow.get("type") == "array" and set(wide) == set(narrow) == {"type", "items"}:
        return covers(wide["items"], narrow["items"])
    return False
