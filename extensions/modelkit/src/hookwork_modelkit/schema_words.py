"""What a genai Schema has no keyword for, said in the description."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: Formats the Gemini API takes; it refuses a declaration with any other.
_FORMATS = {
    "string": frozenset({"date-time", "enum"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _strings(node: Mapping[str, Any]) -> list[str] | None:
    values = [value for value in node.get("enum") or () if value is not None]
    return values if values and all(isinstance(value, str) and value for value in values) else None


def formats_of(node: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """``format``, ``enum`` and exact bounds of a plain value, where the message has a place for them."""
    result: dict[str, Any] = {}
    texts = _strings(node)
    if kind == "string" and texts is not None:
        result = {"format": "enum", "enum": list(dict.fromkeys(texts))}
    elif node.get("format") in _FORMATS.get(kind, ()):
        result["format"] = node["format"]
    if kind in ("integer", "number"):
        numbers = [value for value in node.get("enum") or () if _is_number(value)]
        if numbers:
            result |= {"minimum": min(numbers), "maximum": max(numbers)}
        if kind == "integer":
            low, high = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
            if _is_number(low):
                result["minimum"] = max(int(low) + 1, node.get("minimum", int(low) + 1))  # type: ignore[arg-type]
            if _is_number(high):
                result["maximum"] = min(int(high) - 1, node.get("maximum", int(high) - 1))  # type: ignore[arg-type]
    return result


def in_words(node: Mapping[str, Any], kind: str) -> str:
    """The description, and behind it in brackets what else must hold."""
    notes: list[str] = []
    values = node.get("enum")
    if values and not (kind == "string" and _strings(node) is not None):
        shown = ", ".join(json.dumps(value, ensure_ascii=False) for value in values if value is not None)
        if shown:
            notes.append(f"allowed values: {shown}")
    form = node.get("format")
    if isinstance(form, str) and form not in _FORMATS.get(kind, ()):
        notes.append(f"format: {form}")
    if kind == "number":
        notes += [f"greater than {node['exclusiveMinimum']}"] if _is_number(node.get("exclusiveMinimum")) else []
        notes += [f"less than {node['exclusiveMaximum']}"] if _is_number(node.get("exclusiveMaximum")) else []
    if kind in ("number", "integer") and _is_number(node.get("multipleOf")):
        notes.append(f"a multiple of {node['multipleOf']}")
    if kind == "array" and node.get("uniqueItems") is True:
        notes.append("no equal items")
    if kind == "object" and isinstance(node.get("additionalProperties"), Mapping):
        notes.append(_other_values(node["additionalProperties"]))
    text = str(node.get("description") or "")
    told = f"({'; '.join(note for note in notes if note)})" if any(notes) else ""
    return f"{text} {told}".strip()


def _other_values(schema: Mapping[str, Any]) -> str:
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds:
        return "other keys are allowed"
    return f"other keys are allowed, with values of type {' or '.join(map(str, kinds))}"
