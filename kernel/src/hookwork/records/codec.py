"""Records to JSON and back, for every backend and server (services COD-1 … COD-9).

One walker, compiled per record type from its fields, reads and writes every form: both casings, both forms of a time,
unknown keys, foreign spellings. msgspec's own encoder and decoder are the fast path for what the kit itself writes
(camelCase, epoch seconds); whatever they cannot carry, or refuse, goes to the walker. Both give equal records and
equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

from hookwork.errors import ValidationError
from hookwork.records.base import EXTRA_WIRE_NAME, Record
from hookwork.records.event import Event
from hookwork.records.jsontext import Fault, parse, sanitised
from hookwork.records.layout import has_times
from hookwork.records.plain_events import plain_event
from hookwork.records.reading import reader_of
from hookwork.records.times import whole_epoch
from hookwork.records.writing import writer_of

R = TypeVar("R", bound=Record)
Keys = Literal["camel", "snake"]
Times = Literal["epoch", "rfc3339"]

_EXTRA_MARK = f'"{EXTRA_WIRE_NAME}":'.encode()
_ESCAPED_NUL = b"\\u0000"
# One byte is looked for first: that is ten times quicker than looking for the whole mark. See `_needs_walker`.
_TEXT_MARKS = ("\\", "\\u0000", "\\u007", "~", EXTRA_WIRE_NAME, "\\u00")
_BYTE_MARKS = tuple(mark.encode() for mark in _TEXT_MARKS)
_PLAIN_MARKS = ('"function_', "\\u0000")
_PLAIN_BYTE_MARKS = tuple(mark.encode() for mark in _PLAIN_MARKS)

_encode = msgspec.json.Encoder().encode


@cache
def _typed_decoder(kind: type) -> Callable[[str | bytes], Any] | None:
    """msgspec's decoder of a record type, built when a text first needs it; None where a moment may need rounding."""
    has_moments = kind is not Event and (has_times(kind, float) or has_times(kind, datetime))
    return None if has_moments else msgspec.json.Decoder(kind).decode


@cache
def _is_typed(kind: type) -> bool:
    """Whether msgspec can write the type: a ``datetime`` it writes in another form."""
    return not has_times(kind, datetime)


# --- the public functions ---------------------------------------------------------------------------------------------


def dump(record: Record, keys: Keys = "camel", times: Times = "epoch") -> dict[str, Any]:
    """A record as a plain, mutable dict that JSON can hold.

    Args:
        record: any record.
        keys: casing of field names. Free-form content and unknown keys are never re-cased (COD-3, COD-4).
        times: ``epoch`` gives floats of epoch seconds, ``rfc3339`` text in UTC with ``Z`` and a fraction of 0 or 6
            digits (COD-6).

    Raises:
        ValidationError: a time outside years 1 to 9999, or a value JSON cannot hold in a field that takes anything.
    """
    if keys == "camel" and times == "epoch":
        data = _fast_bytes(record)
        if data is not None:
            return msgspec.json.decode(data)  # type: ignore[no-any-return]
    return _written(record, keys, times)[0]


def dump_json(record: Record, keys: Keys = "camel", times: Times = "epoch") -> bytes:
    """`dump` as UTF-8 JSON text without blanks."""
    if keys == "camel" and times == "epoch":
        data = _fast_bytes(record)
        if data is not None:
            return data
    return _written(record, keys, times)[1]


def load(kind: type[R], data: str | bytes | Mapping[str, Any], keys: Keys = "camel") -> R:
    """The record of type ``kind`` that JSON text, or a parsed JSON object, describes.

    Reads camelCase, snake_case and PascalCase, mixed too; unknown keys end in ``extra``; a null field is an absent one.
    Text no database can hold is replaced, with one warning (EVT-12).

    Args:
        keys: the casing that a text is likely to have. Every casing is read either way, the likely one sooner.

    Raises:
        ValidationError: not JSON, or not of the form; ``path`` says where, the message what was expected. The value
            itself is never named.
    """
    try:
        if isinstance(data, str | bytes):
            record: Any = _fast_record(kind, data) if keys == "camel" else _plain_record(kind, data)
            if record is not None:
                return record  # type: ignore[no-any-return]
            tree = parse(data)
        else:
            tree = sanitised(data)
        return reader_of(kind)(tree)  # type: ignore[no-any-return]
    except Fault as fault:
        path = fault.path
        at = f"{kind.__name__} at {path}" if path else kind.__name__
        raise ValidationError(f"{at}: {fault.problem}", path=path) from None
    except RecursionError:
        raise ValidationError(f"{kind.__name__}: the document is nested too deeply") from None


# --- the fast path ----------------------------------------------------------------------------------------------------


def _fast_bytes(record: Record) -> bytes | None:
    """The camelCase, epoch form by msgspec alone; None when only the walker can write it."""
    kind = type(record)
    if not _is_typed(kind) or (kind is Event and _is_folded(record)):
        return None
    try:
        data = _encode(record)
    except (UnicodeEncodeError, TypeError):
        return None
    if (b"~" in data and _EXTRA_MARK in data) or (b"\\" in data and _ESCAPED_NUL in data):
        return None
    return data


def _is_folded(event: Any) -> bool:
    """Whether the wire form of an event differs from its fields (ACT-3)."""
    compaction = event.actions.compaction
    return bool(event.routes or (compaction is not None and compaction.excluded_events))


def _fast_record(kind: type[Record], data: str | bytes) -> Any:
    """The record when msgspec's typed decoder takes the document as it is, else None."""
    decode = _typed_decoder(kind)
    if decode is None or _needs_walker(data):
        return None
    try:
        record = decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None  # the walker reads more forms, and names the fault when there is one
    if kind is Event and not (record.actions.compaction is None and whole_epoch(record.timestamp)):
        return None
    return record


def _plain_record(kind: type[Record], data: Any) -> Event | None:
    """The event of a snake_case text when it is a plain one, else None; calls and responses are told by their keys."""
    if kind is not Event:
        return None
    call, nul = _PLAIN_MARKS if isinstance(data, str) else _PLAIN_BYTE_MARKS
    return None if call in data or nul in data else plain_event(data)


def _needs_walker(data: Any) -> bool:
    """Whether a text may hold a NUL, or a key that spells, with escapes or without, the wire name of `extra`."""
    backslash, nul, tilde_escape, tilde, mark, escape = _TEXT_MARKS if isinstance(data, str) else _BYTE_MARKS
    if backslash in data and (nul in data or tilde_escape in data):
        return True
    return tilde in data and (mark in data or escape in data)


def _written(record: Record, keys: Keys, times: Times) -> tuple[dict[str, Any], bytes]:
    """The walker's document, and its text: encoding it is the quickest way to see whether every text can be held."""
    if keys not in ("camel", "snake") or times not in ("epoch", "rfc3339"):
        raise ValueError(f"keys is 'camel' or 'snake' and times 'epoch' or 'rfc3339', not {keys!r} and {times!r}")
    try:
        document: dict[str, Any] = writer_of(type(record), keys, times)(record)
        try:
            data = _encode(document)
            if _ESCAPED_NUL not in data:
                return document, data
        except UnicodeEncodeError:
            pass  # a lone surrogate in a typed field; payloads were cleaned when they entered
        document = sanitised(document)
        return document, _encode(document)
    except (TypeError, Fault) as error:
        path = error.path if isinstance(error, Fault) else ""
        raise ValidationError(f"{type(record).__name__} cannot be written as JSON: {error}", path=path) from None
