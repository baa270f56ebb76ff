"""Null where a property was optional: how models in strict modes leave one out (models OAI-17, T-19).

In the strict form of a schema every property is required, and one that was optional may be null. The schema itself
knows no null there, so such a property counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: Schemas inside each other that are followed; a recursive schema meets a value of finite depth anyway.
_DEPTH = 100


def without_optional_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value without the nulls that stand for an absent property; the value itself is left as it is.

    Args:
        value: JSON that a model wrote.
        schema: its JSON schema; references into it are followed.
    """
    return _Pruning(schema).pruned(value, schema, _DEPTH)


class _Pruning:
    __slots__ = ("root",)

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def pruned(self, value: Any, schema: Any, depth: int) -> Any:
        if depth == 0:
            return value
        if isinstance(value, list):
            items = [one["items"] for one in self.readings(schema, depth) if "items" in one]
            return [self.pruned(item, items[0], depth - 1) for item in value] if len(items) == 1 else value
        if not isinstance(value, dict):
            return value
        objects = [one for one in self.readings(schema, depth) if isinstance(one.get("properties"), Mapping)]
        if len(objects) != 1:  # none, or several: which of them is meant is not ours to guess
            return value
        return self.pruned_object(value, objects[0], depth)

    def pruned_object(self, value: dict[str, Any], schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema["properties"], schema.get("required") or ()
        kept = {}
        for key, item in value.items():
            inner = properties.get(key)
            if item is None and inner is not None and key not in required and not self.takes_null(inner, depth):
                continue
            kept[key] = self.pruned(item, inner, depth - 1) if inner is not None else item
        return kept

    def readings(self, schema: Any, depth: int) -> Iterator[Mapping[str, Any]]:
        """The schema and what it may stand for: what it refers to, and its alternatives."""
        if not isinstance(schema, Mapping) or depth == 0:
            return
        yield schema
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield from self.readings(self.referred(reference), depth - 1)
        for key in ("anyOf", "oneOf", "allOf"):
            for option in schema.get(key) or ():
                yield from self.readings(option, depth - 1)

    def referred(self, reference: str) -> Any:
        if not reference.startswith("#"):
            return None
        found: Any = self.root
        for step in reference.split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return found

    def takes_null(self, schema: Any, depth: int) -> bool:
        """Whether null is a value of its own here; a schema that says nothing of types takes everything."""
        readings = list(self.readings(schema, depth))
        limits = ("type", "enum", "const", "properties", "items")
        if not any(key in one for one in readings for key in limits):
            return True
        for one in readings:
            kinds = one.get("type")
            if kinds == "null" or (isinstance(kinds, list) and "null" in kinds) or None in (one.get("enum") or ()):
                return True
        return False
