"""What a function returned, as JSON (tools-plugins FN-20, FN-21)."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from hookwork.records.base import Record
from hookwork_llm.functions.faults import Fault, pointer

_PLAIN = frozenset({str, int, bool, type(None)})


class NotJson(Exception):
    """JSON cannot hold a value."""

    def __init__(self, at: Any, what: str) -> None:
        steps: list[str | int] = []
        while at is not None:
            at, step = at
            steps.append(step)
        self.fault: Fault = (pointer(steps[::-1]), what)
        super().__init__(what)


def to_json(value: Any, at: Any = None) -> Any:
    """A fresh JSON value (dict, list, str, int, float, bool, None) for ``value``.

    attrs classes, dataclasses and pydantic models become objects under their aliases, an enum member its value,
    date-times ISO 8601, UUID and Decimal text, bytes base64 text, sets and tuples lists; records of the kit take
    their wire form.

    Raises:
        NotJson: anything else, a key that is not text, NaN or an infinity, a value that contains itself.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    try:
        return _encode(value, kind, at)
    except RecursionError:
        raise NotJson(at, "contains itself or is nested too deeply for JSON") from None


def _encode(value: Any, kind: type, at: Any) -> Any:
    if kind in _PLAIN:
        return value
    if isinstance(value, Enum):
        return _encode(value.value, type(value.value), at)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson(at, "JSON has no NaN and no infinity")
        return float(value)
    if isinstance(value, Mapping):
        return _object(value, at)
    if isinstance(value, list | tuple):
        return [_encode(item, type(item), (at, i)) for i, item in enumerate(value)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, set | frozenset):
        return [_encode(item, type(item), at) for item in _ordered(value)]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return _text_of(value, at)
    return _instance(value, kind, at)


def _object(value: Mapping[Any, Any], at: Any) -> dict[str, Any]:
    encoded = {}
    for key, item in value.items():
        name = key.value if isinstance(key, Enum) else key
        if not isinstance(name, str):
            raise NotJson(at, f"has a key of type {type(key).__name__}; JSON keys are text")
        encoded[str.__str__(name)] = _encode(item, type(item), (at, name))
    return encoded


def _ordered(value: set[Any] | frozenset[Any]) -> Sequence[Any]:
    """Sorted: the order of a set differs from process to process, a replay must not."""
    try:
        return sorted(value)
    except TypeError:  # of several types
        return sorted(value, key=lambda item: (type(item).__name__, repr(item)))


def _text_of(value: UUID | Decimal, at: Any) -> str:
    if isinstance(value, Decimal) and not value.is_finite():
        raise NotJson(at, "JSON has no NaN and no infinity")
    return str(value)


def _instance(value: Any, kind: type, at: Any) -> Any:
    if isinstance(value, Record):
        from hookwork.records.codec import dump

        return dump(value)
    serializer = getattr(kind, "__pydantic_serializer__", None)
    if serializer is not None:
        try:
            dumped = serializer.to_python(value, mode="json", by_alias=True)
        except Exception as error:  # user serializers may raise anything; the cause goes along
            raise NotJson(at, f"a {kind.__qualname__} that pydantic cannot serialise") from error
        return _encode(dumped, type(dumped), at)
    fields = getattr(kind, "__attrs_attrs__", None)
    if fields is not None:
        named = ((field.alias or field.name, getattr(value, field.name)) for field in fields)
        return {name: _encode(item, type(item), (at, name)) for name, item in named}
    if hasattr(kind, "__dataclass_fields__"):
        from dataclasses import fields as fields_of

        names = [field.name for field in fields_of(value)]
        return {name: _encode(getattr(value, name), type(getattr(value, name)), (at, name)) for name in names}
    raise NotJson(at, f"JSON cannot hold a {kind.__module__}.{kind.__qualname__}; return a dict, list, text or number")


def as_response(value: Any) -> dict[str, Any]:
    """The form of a function response: an object as it is, any other value under ``result``."""
    return value if type(value) is dict else {"result": value}
