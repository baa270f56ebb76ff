"""Values in their JSON form: what one node hands to the next, live and after a replay alike (workflow PER-2, PER-3)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from hookwork.errors import ValidationError
from hookwork.records.base import Record
from hookwork.records.frozen import FrozenDict, FrozenList

_AS_THEY_ARE = frozenset({str, int, float, bool, type(None), FrozenDict, FrozenList})


def to_json(value: Any) -> Any:
    """``value`` as dict, list, str, int, float, bool or None.

    Dataclasses, attrs classes, Structs and pydantic models become objects, an enum member its value, sets and tuples
    lists, dates, times, UUIDs and Decimals text; records of the kit take their wire form.

    Raises:
        ValidationError: JSON cannot hold it; ``path`` says where, the value is never quoted. Bytes are refused too:
            save an artifact and hand on its name.
    """
    if type(value) in _AS_THEY_ARE:
        return value
    try:
        return _encode(value, "$")
    except RecursionError:
        raise ValidationError("the value contains itself or is nested too deeply for JSON", path="$") from None


def _encode(value: Any, at: str) -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return _encode(value.value, at)
    if isinstance(value, Mapping):
        return {_key(key, at): _encode(item, f"{at}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item, f"{at}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [_encode(item, f"{at}[{i}]") for i, item in enumerate(_ordered(value))]
    if isinstance(value, bytes | bytearray | memoryview):
        raise ValidationError(f"{at}: JSON cannot hold bytes; save an artifact and hand on its name", path=at)
    return _encode_object(value, kind, at)


def _encode_object(value: Any, kind: type, at: str) -> Any:
    if isinstance(value, Record):
        from hookwork.records.codec import dump

        return dump(value)
    serializer = getattr(kind, "__pydantic_serializer__", None)
    if serializer is not None:
        try:
            return _encode(serializer.to_python(value, mode="json", by_alias=True), at)
        except ValidationError:
            raise
        except Exception as error:
            text = f"{at}: pydantic cannot write the {kind.__qualname__} as JSON ({type(error).__name__})"
            raise ValidationError(text, path=at) from error
    names = _field_names(kind)
    if names is not None:
        present = ((name, getattr(value, name, msgspec.UNSET)) for name in names)
        return {name: _encode(item, f"{at}.{name}") for name, item in present if item is not msgspec.UNSET}

    def of_inner(inner: Any) -> Any:
        if inner is value:
            raise ValidationError(f"{at}: JSON cannot hold a {kind.__module__}.{kind.__qualname__}", path=at)
        return _encode(inner, at)

    # Dates, times, UUIDs, Decimals, Structs, subclasses of plain types.
    return msgspec.to_builtins(value, enc_hook=of_inner)


def _field_names(kind: type) -> list[str] | None:
    """The fields of a dataclass or attrs class, under the names by which they are read back."""
    fields = getattr(kind, "__attrs_attrs__", None)
    if fields is not None:
        return [field.name for field in fields]
    known = getattr(kind, "__dataclass_fields__", None)
    if known is not None:
        from dataclasses import fields as fields_of

        return [field.name for field in fields_of(kind)]
    return None


def _key(key: Any, at: str) -> str:
    plain = key.value if isinstance(key, Enum) else key
    if isinstance(plain, str):
        return str.__str__(plain)
    if isinstance(plain, int | float) and not isinstance(plain, bool):  # JSON keys are text; schemas read them back
        return repr(plain)
    raise ValidationError(f"{at}: JSON keys are text, not {type(key).__name__}", path=at)


def _ordered(value: Any) -> list[Any]:
    """Sorted: the order of a set differs from process to process, a replay must not."""
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=lambda item: (type(item).__name__, repr(item)))
