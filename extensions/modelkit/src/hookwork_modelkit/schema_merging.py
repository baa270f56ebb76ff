"""References put in place and ``allOf`` laid together, before a JSON schema is rewritten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

#: Schemas at most, once references are put in place: a few nested references can otherwise grow without bound.
MAX_NODES = 4_000
MAX_DEPTH = 64
#: How often a schema may be put inside itself.
MAX_UNROLLED = 2


class Inexpressible(ValueError):
    """A schema that cannot be said in another form. ``is_never``: because no value at all fits it."""

    def __init__(self, message: str, *, is_never: bool = False) -> None:
        super().__init__(message)
        self.is_never = is_never


def never(at: str) -> Inexpressible:
    """The error for a schema that nothing fits."""
    return Inexpressible(f"{at}: no value is allowed here", is_never=True)


class Schemas:
    """The sub-schemas of one root."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = MAX_NODES

    def flat(self, schema: Any, at: str, inside: tuple[str, ...]) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
        """The schema without ``$ref``, ``allOf`` and ``const``, and the references it is inside of now.

        None in place of the schema: it is inside itself, too often to go on.
        """
        self._left -= 1
        if self._left < 0:
            raise Inexpressible(f"{at}: more than {MAX_NODES} schemas once references are put in place")
        if at.count("/") > 2 * MAX_DEPTH:
            raise Inexpressible(f"{at[:80]}…: nested too deeply")
        if not isinstance(schema, Mapping):
            raise Inexpressible(f"{at}: a schema is an object or a boolean, not {type(schema).__name__}")
        node = dict(schema)
        while "$ref" in node:
            reference = node.pop("$ref")
            if inside.count(reference) >= MAX_UNROLLED:
                return None, inside
            inside = (*inside, reference)
            node = merged(self._target(reference, at), node, at)
        parts = node.pop("allOf", None) or ()
        for i, part in enumerate(parts):
            resolved, inside = self.flat({} if part is True else part, f"{at}/allOf/{i}", inside)
            if resolved is None:
                return None, inside
            node = merged(resolved, node, at)
        if "const" in node:
            node["enum"] = [node.pop("const")]
        return node, inside

    def _target(self, reference: Any, at: str) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise Inexpressible(f"{at}: $ref {reference!r} points outside the schema")
        target = self._root
        for step in reference[1:].split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and name in target:
                target = target[name]
            elif isinstance(target, list | tuple) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            else:
                raise Inexpressible(f"{at}: $ref {reference!r} points at nothing")
        if reference not in ("#", "#/") and not reference.startswith("#/"):
            raise Inexpressible(f"{at}: $ref {reference!r} is an anchor; only JSON pointers are followed")
        return {} if target is True else target


def merged(base: Any, over: Any, at: str) -> dict[str, Any]:
    """What fits both schemas, as far as keywords say; annotations of ``over`` win."""
    if base is False or over is False:
        raise never(at)
    for schema in (base, over):
        if not isinstance(schema, Mapping):
            raise Inexpressible(f"{at}: a schema is an object or a boolean, not {type(schema).__name__}")
    result = dict(base)
    for key, value in over.items():
        if key not in result or result[key] == value:
            result[key] = value
        elif key in _COMBINED:
            result[key] = _COMBINED[key](result[key], value, at)
        else:
            result[key] = value
    return result


def _both_types(left: Any, right: Any, at: str) -> Any:
    first, second = ([kind] if isinstance(kind, str) else list(kind) for kind in (left, right))
    common = [kind for kind in first if kind in second]
    if "integer" not in common and {"integer", "number"} <= {*first, *second}:
        common.append("integer")
    if not common:
        raise never(at)
    return common[0] if len(common) == 1 else common


def _both_values(left: Any, right: Any, at: str) -> Any:
    common = [value for value in left if value in right]
    if not common:
        raise never(at)
    return common


def _all_properties(left: Any, right: Any, at: str) -> Any:
    result = dict(left)
    for name, schema in right.items():
        result[name] = {"allOf": [result[name], schema]} if name in result and result[name] != schema else schema
    return result


def _joined(left: Any, right: Any, at: str) -> Any:
    return list(dict.fromkeys([*left, *right]))


def _one_after_the_other(left: Any, right: Any, at: str) -> Any:
    return [*left, *right]


def _over_each_other(left: Any, right: Any, at: str) -> Any:
    return {**left, **right}


def _larger(left: Any, right: Any, at: str) -> Any:
    return max(left, right)


def _smaller(left: Any, right: Any, at: str) -> Any:
    return min(left, right)


_COMBINED: dict[str, Callable[[Any, Any, str], Any]] = {
    "type": _both_types,
    "enum": _both_values,
    "required": _joined,
    "properties": _all_properties,
    "$defs": _over_each_other,
    "definitions": _over_each_other,
    "allOf": _one_after_the_other,
    **dict.fromkeys(("minimum", "minLength", "minItems", "minProperties", "exclusiveMinimum"), _larger),
    **dict.fromkeys(("maximum", "maxLength", "maxItems", "maxProperties", "exclusiveMaximum"), _smaller),
}
