"""Comparisons of one argument of a call with what a rule says about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

#: Stands for an argument that a call does not have.
ABSENT: Any = object()


class Incomparable(Exception):
    """The argument is of a kind that the comparison cannot judge; the policy then denies."""


def equal(one: Any, other: Any) -> bool:
    """Equal JSON: 1 equals 1.0, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def judge(value: Any, limit: Any) -> bool:
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (value, limit))
        if not numbers and not (isinstance(value, str) and isinstance(limit, str)):
            raise Incomparable(f"it is {_kind(value)} and is compared with {_kind(limit)}")
        return compare(value, limit)

    return judge


def _text(judge: Callable[[str, Any], bool]) -> Callable[[Any, Any], bool]:
    def with_text(value: Any, pattern: Any) -> bool:
        if not isinstance(value, str):
            raise Incomparable(f"it is {_kind(value)} and is compared with a pattern")
        return judge(value, pattern)

    return with_text


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str) and isinstance(wanted, str):
        return wanted in value
    if isinstance(value, list | tuple):
        return any(equal(item, wanted) for item in value)
    raise Incomparable(f"it is {_kind(value)} and is searched for something")


#: Name of a comparison → what it says of (argument, operand). All of them but ``exists`` are of present arguments.
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": equal,
    "ne": lambda value, other: not equal(value, other),
    "lt": _ordered(lambda value, limit: value < limit),
    "le": _ordered(lambda value, limit: value <= limit),
    "gt": _ordered(lambda value, limit: value > limit),
    "ge": _ordered(lambda value, limit: value >= limit),
    "in": lambda value, listed: any(equal(value, item) for item in listed),
    "not_in": lambda value, listed: not any(equal(value, item) for item in listed),
    "contains": _contains,
    "glob": _text(lambda value, pattern: fnmatchcase(value, pattern)),
    "regex": _text(lambda value, pattern: re.search(pattern, value) is not None),
    "exists": lambda value, wanted: (value is not ABSENT) is wanted,
}

#: What a comparison says of an absent argument: it is not equal to anything and in no list.
_OF_ABSENT = {"ne": True, "not_in": True}


def holds(name: str, value: Any, operand: Any) -> bool:
    """Whether a comparison is true of an argument.

    Raises:
        Incomparable: it cannot be judged, like ``gt`` of a text and a number.
    """
    if value is ABSENT and name != "exists":
        return _OF_ABSENT.get(name, False)
    return COMPARISONS[name](value, operand)


def operand_fault(name: str, operand: Any) -> str:
    """Why an operand does not fit its comparison; empty when it does."""
    if name in ("in", "not_in") and not isinstance(operand, list | tuple):
        return "needs a list"
    if name in ("glob", "regex") and not isinstance(operand, str):
        return "needs a text"
    if name == "exists" and not isinstance(operand, bool):
        return "needs true or false"
    if name in ("lt", "le", "gt", "ge") and (isinstance(operand, bool) or not isinstance(operand, int | float | str)):
        return "needs a number or a text"
    if name == "regex":
        try:
            re.compile(operand)
        except re.error as error:
            return f"needs a regular expression: {error}"
    return ""


def pointed_at(args: Any, pointer: str) -> Any:
    """The value a JSON pointer (RFC 6901) names, or `ABSENT`."""
    value = args
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(key, ABSENT)
        elif isinstance(value, list | tuple) and re.fullmatch(r"0|[1-9]\d*", key, re.ASCII) and int(key) < len(value):
            value = value[int(key)]
        else:
            return ABSENT
        if value is ABSENT:
            return ABSENT
    return value


def _kind(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text", type(None): "null"}
    return names.get(type(value), "a list" if isinstance(value, list | tuple) else "an object")
