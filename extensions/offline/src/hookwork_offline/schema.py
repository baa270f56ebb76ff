"""Reading JSON schemas: references, unions, and whether a value fits.

Understood are the keywords that tool declarations use, in JSON Schema's own spelling and in genai's (upper-case type
names, ``nullable``). Keywords not listed here are ignored, as a model that reads a declaration would.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]

_MAX_DEPTH = 12
_MAX_VARIANTS = 16

_FORMATS = {
    "date": re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"),
    "date-time": re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:?\d\d)?"),
    "time": re.compile(r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:?\d\d)?"),
    "email": re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+"),
}


def as_schema(value: Any) -> Schema:
    """A schema as a dict; ``True`` and anything that is no schema allow everything."""
    if value is False:
        return {"enum": []}
    return value if isinstance(value, dict) else {}


def is_number(value: Any) -> bool:
    """A finite JSON number; booleans are none."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def types_of(schema: Schema) -> list[str]:
    """The declared type names in lower case, in order; empty when none is declared."""
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types = [name.lower() for name in names if isinstance(name, str) and name.lower() != "type_unspecified"]
    if types and schema.get("nullable") is True and "null" not in types:
        types.append("null")
    if not types and isinstance(schema.get("properties"), dict):
        return ["object"]
    return types


def _lookup(reference: Any, root: Schema) -> Schema:
    """What a local ``$ref`` points at; a foreign or broken one allows everything."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    node: Any = root
    for step in reference[1:].split("/"):
        if step:
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return as_schema(node)


def resolve(schema: Any, root: Schema) -> Schema:
    """The schema with its ``$ref`` and ``allOf`` folded in."""
    current = as_schema(schema)
    for _ in range(_MAX_DEPTH):
        pieces = current.get("allOf")
        if "$ref" in current:
            own = {key: value for key, value in current.items() if key != "$ref"}
            current = {**_lookup(current["$ref"], root), **own}
        elif isinstance(pieces, list):
            merged: Schema = {}
            for piece in pieces:
                merged = _merge(merged, as_schema(piece))
            current = _merge(merged, {key: value for key, value in current.items() if key != "allOf"})
        else:
            break
    return current


def _merge(first: Schema, second: Schema) -> Schema:
    merged = {**first, **second}
    if isinstance(first.get("properties"), dict) and isinstance(second.get("properties"), dict):
        merged["properties"] = {**first["properties"], **second["properties"]}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        merged["required"] = [*first["required"], *second["required"]]
    return merged


def variants(schema: Any, root: Schema) -> list[Schema]:
    """The plain alternatives of a schema, in order: each has at most one type and no union."""
    found: list[Schema] = []
    _collect(schema, root, found, 0)
    return found


def _collect(schema: Any, root: Schema, found: list[Schema], depth: int) -> None:
    if depth > _MAX_DEPTH or len(found) >= _MAX_VARIANTS:
        return
    current = resolve(schema, root)
    for keyword in ("anyOf", "oneOf"):
        options = current.get(keyword)
        if isinstance(options, list) and options:
            rest = {key: value for key, value in current.items() if key != keyword}
            for option in options:
                _collect(_merge(rest, resolve(option, root)), root, found, depth + 1)
            return
    types = types_of(current)
    if len(types) > 1:
        for name in types:
            _collect({**current, "type": name, "nullable": False}, root, found, depth + 1)
        return
    found.append({**current, "type": types[0]} if types else current)


def properties(schema: Any, root: Schema) -> dict[str, Schema]:
    """The declared properties of an object schema, by name."""
    declared = resolve(schema, root).get("properties")
    return {str(name): as_schema(value) for name, value in declared.items()} if isinstance(declared, dict) else {}


def required(schema: Any, root: Schema) -> list[str]:
    """The names an object must have."""
    names = resolve(schema, root).get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def enum_of(schema: Schema) -> list[Any] | None:
    """The allowed values, when they are counted out (``enum`` or ``const``)."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return list(values) if isinstance(values, list) else None


def equal(first: Any, second: Any) -> bool:
    """JSON equality: ``1 == 1.0``, but a boolean is no number."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    return bool(first == second)


def fits(value: Any, schema: Any, root: Schema, depth: int = 0) -> bool:
    """Whether a JSON value satisfies a schema, as far as the keywords above go. False for what nests too deeply."""
    if depth > _MAX_DEPTH or schema is False:
        return False
    original = as_schema(schema)
    pieces = original.get("allOf")
    if isinstance(pieces, list) and not all(fits(value, piece, root, depth + 1) for piece in pieces):
        return False
    if "$ref" in original and not fits(value, _lookup(original["$ref"], root), root, depth + 1):
        return False
    any_of, one_of = original.get("anyOf"), original.get("oneOf")
    if isinstance(any_of, list) and any_of and not any(fits(value, option, root, depth + 1) for option in any_of):
        return False
    if isinstance(one_of, list) and one_of and sum(fits(value, option, root, depth + 1) for option in one_of) != 1:
        return False
    allowed = enum_of(original)
    if allowed is not None and not any(equal(value, option) for option in allowed):
        return False
    types = types_of(original)
    if types and not any(_CHECKS[name](value) for name in types if name in _CHECKS):
        return False
    return all(check(value, original, root, depth) for check in _KEYWORDS)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: is_number(value) and value == int(value),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _bounds(schema: Schema, *names: str) -> Iterator[tuple[str, float]]:
    for name in names:
        if is_number(schema.get(name)):
            yield name, schema[name]


def _number_fits(value: Any, schema: Schema, root: Schema, depth: int) -> bool:
    if not is_number(value):
        return True
    for name, bound in _bounds(schema, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        if name == "multipleOf":
            if bound > 0 and not _is_multiple(value, bound):
                return False
        elif not _within(name, value, bound):
            return False
    return True


def _is_multiple(value: float, step: float) -> bool:
    try:
        times = value / step
        return abs(times - round(times)) < 1e-9
    except OverflowError:  # a number too large for floating point arithmetic: only whole numbers can be told apart
        return isinstance(value, int) and isinstance(step, int) and value % step == 0


def _within(name: str, value: float, bound: float) -> bool:
    if name == "minimum":
        return value >= bound
    if name == "maximum":
        return value <= bound
    return value > bound if name == "exclusiveMinimum" else value < bound


def _string_fits(value: Any, schema: Schema, root: Schema, depth: int) -> bool:
    if not isinstance(value, str):
        return True
    for name, bound in _bounds(schema, "minLength", "maxLength"):
        if (len(value) < bound) if name == "minLength" else (len(value) > bound):
            return False
    form = _FORMATS.get(schema["format"]) if isinstance(schema.get("format"), str) else None
    if form is not None and form.fullmatch(value) is None:
        return False
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            return re.search(pattern, value) is not None
        except re.error:  # a dialect Python does not know: the tool itself will check
            return True
    return True


def _array_fits(value: Any, schema: Schema, root: Schema, depth: int) -> bool:
    if not isinstance(value, list):
        return True
    for name, bound in _bounds(schema, "minItems", "maxItems"):
        if (len(value) < bound) if name == "minItems" else (len(value) > bound):
            return False
    if schema.get("uniqueItems") is True and any(equal(a, b) for i, a in enumerate(value) for b in value[:i]):
        return False
    return "items" not in schema or all(fits(item, schema["items"], root, depth + 1) for item in value)


def _object_fits(value: Any, schema: Schema, root: Schema, depth: int) -> bool:
    if not isinstance(value, dict):
        return True
    names = schema.get("required")
    if isinstance(names, list) and any(name not in value for name in names if isinstance(name, str)):
        return False
    declared = schema.get("properties")
    known = declared if isinstance(declared, dict) else {}
    others = schema.get("additionalProperties")
    for name, item in value.items():
        if name in known:
            if not fits(item, known[name], root, depth + 1):
                return False
        elif others is False or (isinstance(others, dict) and not fits(item, others, root, depth + 1)):
            return False
    return True


_KEYWORDS = (_number_fits, _string_fits, _array_fits, _object_fits)
