"""What the codec knows of a record type: its fields, their names on the wire, which of them are moments."""

from __future__ import annotations

import types
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from hookwork.records.base import Record

#: The default of a field that is written always (services 1.2).
ALWAYS: Any = object()


class Field(NamedTuple):
    """A field of a record: attribute, camelCase key, annotation, default or `ALWAYS`."""

    name: str
    wire: str
    type: Any
    default: Any


@cache  # evaluating the annotations of a type costs most of what building a reader does
def fields_of(kind: type) -> tuple[Field, ...]:
    """The fields in the order of the wire, ``extra`` left out.

    Raises:
        TypeError: ``kind`` is no record type.
    """
    if not is_record(kind):
        raise TypeError(f"the codec reads and writes records, not {kind!r}")
    found = []
    for field in msgspec.structs.fields(kind):
        if field.name != "extra":
            always = field.default_factory is not msgspec.NODEFAULT or field.default is msgspec.NODEFAULT
            found.append(Field(field.name, field.encode_name, field.type, ALWAYS if always else field.default))
    return tuple(found)


def inner(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """(origin or the type itself, its arguments), ``| None`` taken off."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        (annotation,) = (arg for arg in get_args(annotation) if arg is not types.NoneType)
        origin = get_origin(annotation)
    return origin or annotation, get_args(annotation)


def is_record(kind: Any) -> bool:
    """Whether an annotation is a record type."""
    return isinstance(kind, type) and issubclass(kind, Record)


def is_moment(name: str, kind: Any) -> bool:
    """A float of epoch seconds: by rule every float field called ``timestamp`` or ``…_timestamp`` (GEN-3)."""
    return kind is float and (name == "timestamp" or name.endswith("_timestamp"))


@cache
def has_times(kind: type, form: type) -> bool:
    """Whether a record, or one inside it, has a moment that is a ``float`` or a ``datetime``."""
    for field in fields_of(kind):
        origin, args = inner(field.type)
        if origin is datetime and form is datetime:
            return True
        if form is float and is_moment(field.name, origin):
            return True
        if any(is_record(part) and has_times(part, form) for part in (origin, *args)):
            return True
    return False


# Go's spelling of initialisms, for documents written before ADK-Go had JSON tags (EVT-7).
_INITIALISMS = {"Id": "ID", "Ids": "IDs", "Uri": "URI", "Url": "URL", "Json": "JSON", "Mime": "MIME"}


def spellings_of(name: str, wire: str) -> tuple[str, ...]:
    """The accepted spellings of a field, the winner of two first (COD-2)."""
    words = [word.capitalize() for word in name.split("_")]
    pascal = wire[:1].upper() + wire[1:]
    go = "".join(_INITIALISMS.get(word, word) for word in words)
    return tuple(dict.fromkeys((wire, name, pascal, go)))
