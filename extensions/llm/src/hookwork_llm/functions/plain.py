"""Arguments that are text, numbers and booleans only: the same rules as pydantic's, without loading it.

Most tools need no more than this, and pydantic costs a process its first 25 ms. The tests hold both ways against each
other: same acceptance, same values, same texts, same schema.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from inspect import Parameter
from typing import Any, get_args, get_origin

from hookwork_llm.functions.annotations import is_union
from hookwork_llm.functions.faults import EXPECTED, MISSING, UNKNOWN, Fault, argument_error, pointer

_JSON_NAMES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class PlainType:
    """A scalar type, perhaps nullable; ``kind`` None accepts every JSON value."""

    __slots__ = ("kind", "nullable")

    def __init__(self, kind: type | None, nullable: bool) -> None:
        self.kind = kind
        self.nullable = nullable

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the type."""
        if self.kind is None:
            return {}
        name = _JSON_NAMES[self.kind]
        return {"type": [name, "null"] if self.nullable else name}


def plain_type(annotation: Any) -> PlainType | None:
    """The type of a parameter if it is plain, else None."""
    if annotation is Any or annotation is Parameter.empty:
        return PlainType(None, True)
    if isinstance(annotation, type) and annotation in _JSON_NAMES:
        return PlainType(annotation, False)
    if is_union(annotation):
        members = [member for member in get_args(annotation) if member is not type(None)]
        if len(members) == 1 and len(get_args(annotation)) == 2 and isinstance(members[0], type):
            return PlainType(members[0], True) if members[0] in _JSON_NAMES else None
    return None


def plain_result_schema(annotation: Any) -> dict[str, Any] | None:
    """The JSON schema of a return annotation if it is a plain one, else None."""
    nullable = False
    if is_union(annotation):
        members = [member for member in get_args(annotation) if member is not type(None)]
        if len(members) != 1 or len(get_args(annotation)) != 2:
            return None
        annotation, nullable = members[0], True
    if isinstance(annotation, type) and annotation in _JSON_NAMES:
        return PlainType(annotation, nullable).schema()
    if annotation is dict or (get_origin(annotation) is dict and get_args(annotation) == (str, Any)):
        return {"type": ["object", "null"] if nullable else "object", "additionalProperties": True}
    if annotation is list:
        return {"type": ["array", "null"] if nullable else "array", "items": {}}
    return None


class PlainArguments:
    """Checks and converts plain arguments.

    Args:
        tool: the tool's name, for messages.
        types: parameter name → its type, in signature order.
        required: names without a default.
        extras: whether other names are let through (``**kwargs``).
        reserved: names that may not come that way.
    """

    __slots__ = ("_extras", "_required", "_reserved", "_tool", "_types")

    def __init__(
        self,
        tool: str,
        types: Mapping[str, PlainType],
        required: frozenset[str],
        extras: bool,
        reserved: frozenset[str],
    ) -> None:
        self._tool = tool
        self._types = dict(types)
        self._required = required
        self._extras = extras
        self._reserved = reserved

    def convert(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function. Raises ToolArgumentError."""
        converted: dict[str, Any] = {}
        types = self._types
        for name, value in args.items():
            known = types.get(name)
            if known is None:
                if not self._extras or name in self._reserved:
                    raise argument_error(self._tool, self._faults(args))
                converted[name] = value
            elif type(value) is known.kind and known.kind is not float:
                converted[name] = value
            else:
                adapted = _adapt(known, value)
                if adapted is _WRONG:
                    raise argument_error(self._tool, self._faults(args))
                converted[name] = adapted
        if not self._required <= converted.keys():
            raise argument_error(self._tool, self._faults(args))
        return converted

    def _faults(self, args: Mapping[str, Any]) -> list[Fault]:
        found = []
        for name, known in self._types.items():
            if name not in args:
                if name in self._required:
                    found.append((pointer([name]), MISSING))
            elif known.kind is not None and _adapt(known, args[name]) is _WRONG:
                found.append((pointer([name]), EXPECTED[_JSON_NAMES[known.kind]]))
        for name in args:
            if name not in self._types and (not self._extras or name in self._reserved):
                found.append((pointer([name]), UNKNOWN))
        return found


_WRONG: Any = object()


def _finite(value: float) -> Any:
    return value if math.isfinite(value) else _WRONG


def _adapt(known: PlainType, value: Any) -> Any:
    """The value as that type, or `_WRONG` (FN-12: an integral float is an integer; nothing else is coerced)."""
    kind = known.kind
    if kind is None or (value is None and known.nullable):
        return value
    if kind is bool:
        return value if isinstance(value, bool) else _WRONG
    if kind is str:
        return str.__str__(value) if isinstance(value, str) else _WRONG
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _WRONG
    if kind is float:
        try:
            return _finite(float(value))
        except OverflowError:
            return _WRONG
    if isinstance(value, int):
        return int(value)
    return int(value) if value.is_integer() else _WRONG
