"""JSON text and parsed JSON from outside, made safe for the codec: what is in it JSON can hold and databases too."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from hookwork.records.frozen import Where, where_text
from hookwork.records.text import clean, report_cleaned

_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


class Fault(Exception):
    """What is wrong with a document. Readers on the way out add their ``steps``, the innermost first.

    The codec turns it into a `ValidationError`; nobody else sees it.
    """

    def __init__(self, problem: str, tail: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[str | int] = []
        self._tail = tail

    @classmethod
    def expected(cls, expected: str, value: Any) -> Self:
        """The fault of a value of the wrong kind; only its kind is named."""
        return cls(f"expected {expected}, found {_KINDS.get(type(value), type(value).__qualname__)}")

    @property
    def path(self) -> str:
        """``content.parts[0].text``; ``""`` is the document itself."""
        where: Where = None
        for step in reversed(self.steps):
            where = (where, step)
        path = where_text(where)
        if not self._tail or not path:
            return path or self._tail
        return f"{path}{self._tail}" if self._tail.startswith("[") else f"{path}.{self._tail}"


def parse(data: str | bytes) -> Any:
    """The plain value of JSON text.

    msgspec parses what is sound. What it refuses is read by the standard library, which lets NaN and lone surrogates
    through, so that the one can be named by its place and the other replaced.

    Raises:
        Fault: not JSON, or a value in it JSON cannot hold.
        RecursionError: nested too deeply.
    """
    try:
        value = msgspec.json.decode(data)
        if ("\\u0000" in data) if isinstance(data, str) else (b"\\u0000" in data):
            return sanitised(value)
        return value
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    try:
        value = json.loads(data)
    except json.JSONDecodeError as error:
        raise Fault(f"not JSON (line {error.lineno}, column {error.colno})") from None
    except UnicodeDecodeError as error:
        raise Fault(f"not JSON (byte {error.start} is not UTF-8)") from None
    except ValueError:  # Python's limit on the digits of one integer
        raise Fault("not JSON (a number has too many digits)") from None
    return sanitised(value)


def sanitised(value: Any) -> Any:
    """A parsed JSON value, its text holdable by every database (EVT-12); one warning at most.

    Raises:
        Fault: JSON cannot hold a value in it, or two keys become equal.
        RecursionError: nested too deeply.
    """
    if _is_sound(value):
        return value
    places: list[Where] = []
    result = _copy(value, None, places)
    if places:
        report_cleaned(where_text(places[0]), len(places))
    return result


def _is_sound(value: Any) -> bool:
    """Plain, and nothing to replace or to refuse: the usual case, told without building anything."""
    kind = type(value)
    if kind is str:
        return clean(value) is value
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or clean(key) is not key or not _is_sound(item):
                return False
        return True
    if kind is list:
        for item in value:  # a generator would cost more than the loop
            if not _is_sound(item):
                return False
        return True
    return kind is int or kind is bool or value is None or (kind is float and math.isfinite(value))


def _copy(value: Any, where: Where, places: list[Where]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = clean(value)
        if text is not value and text != value:
            places.append(where)
        return text if type(text) is str else str.__str__(text)
    if isinstance(value, dict | Mapping):
        return _copy_object(value, where, places)
    if isinstance(value, list | tuple):
        return [_copy(item, (where, i), places) for i, item in enumerate(value)]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise Fault("JSON has no NaN and no infinity", where_text(where))
    raise Fault(f"JSON cannot hold a {type(value).__module__}.{type(value).__qualname__}", where_text(where))


def _copy_object(value: Mapping[Any, Any], where: Where, places: list[Where]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise Fault(f"JSON keys are text, not {type(key).__name__}", where_text(where))
        name = clean(key)
        if name is not key and name != key:
            places.append((where, name))
            if name in result or name in value:
                raise Fault("two keys become equal once NUL and lone surrogates are replaced", where_text(where))
        result[name if type(name) is str else str.__str__(name)] = _copy(item, (where, name), places)
    return result
