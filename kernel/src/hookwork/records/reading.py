"""Plain JSON values to records: the reading half of the codec's walker (services COD-2, COD-3, COD-6, COD-7).

What it is given holds only what JSON can hold, and text that a database can hold (`jsontext`).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hookwork.errors import ValidationError
from hookwork.records.base import Record
from hookwork.records.event import Event, ExcludedEvent
from hookwork.records.frozen import freeze
from hookwork.records.jsontext import Fault
from hookwork.records.layout import Field, fields_of, inner, is_moment, is_record, spellings_of
from hookwork.records.times import epoch_of
from hookwork.records.writing import route_form

Reader = Callable[[Any], Any]

_readers: dict[type, Reader] = {}


#: What a key of a document means: the field, the type that needs no reading, how other values are read (None: anything
#: will do), the spellings of the field that win over this one. A named tuple would unpack more slowly.
_Row = tuple[str, type | None, Reader | None, tuple[str, ...]]


def reader_of(kind: type[Record]) -> Reader:
    """The compiled reader of a record type. It raises `Fault`."""
    reader = _readers.get(kind)
    if reader is None:
        reader = _readers[kind] = _record_reader(kind)
    return reader


def _record_reader(kind: type[Record]) -> Reader:
    table: dict[str, _Row] = {}
    wires: dict[str, str] = {}
    for field in fields_of(kind):
        wires[field.name] = field.wire
        spellings = spellings_of(field.name, field.wire)
        origin, _ = inner(field.type)
        exact = origin if origin in (str, bool, int, float) and not is_moment(field.name, origin) else None
        reader = (
            _deferred(table, field, spellings) if _has_record(field.type) else _value_reader(field.name, field.type)
        )
        for rank, spelling in enumerate(spellings):
            table[spelling] = (field.name, exact, reader, spellings[:rank])
    unfold = _unfold_event if kind is Event else None

    def read(document: Any) -> Any:
        if type(document) is not dict:
            raise Fault.expected("an object", document)
        values: dict[str, Any] = {}
        unknown: dict[str, Any] | None = None
        for key, value in document.items():
            try:
                name, exact, reader, better = table[key]
            except KeyError:
                if unknown is None:
                    unknown = {}
                unknown[key] = value
                continue
            if type(value) is exact:
                values[name] = value
            elif value is not None:
                try:
                    values[name] = value if reader is None else reader(value)
                except Fault as fault:
                    if _is_outdone(document, better):
                        continue
                    fault.steps.append(key)
                    raise
        if len(values) + len(unknown or ()) < len(document):  # nulls, or several spellings of one field
            kept = _without_outdone(document, table)
            if len(kept) < len(document):
                return read(kept)
        if unknown is not None:
            if unfold is not None:
                unfold(values, unknown)
            if unknown:
                values["extra"] = freeze(unknown)
        elif unfold is not None and "actions" in values:
            unfold(values, {})
        try:
            return kind(**values)
        except ValidationError as error:
            raise Fault(str(error), wires.get(error.path, error.path)) from None

    return read


def _has_record(annotation: Any) -> bool:
    kind, args = inner(annotation)
    return any(is_record(part) for part in (kind, *args))


def _deferred(table: dict[str, _Row], field: Field, spellings: tuple[str, ...]) -> Reader:
    """A reader that is built when a document first has the field: a process meets few of the record types there are."""

    def read(value: Any) -> Any:
        reader = _value_reader(field.name, field.type)
        assert reader is not None, "it reads a record"
        for spelling in spellings:
            name, exact, _, better = table[spelling]
            table[spelling] = (name, exact, reader, better)
        return reader(value)

    return read


def _without_outdone(document: dict[str, Any], table: dict[str, _Row]) -> dict[str, Any]:
    """The document without null fields, and with the winner alone of several spellings (COD-2)."""
    return {
        key: value
        for key, value in document.items()
        if key not in table or (value is not None and not _is_outdone(document, table[key][3]))
    }


def _is_outdone(document: dict[str, Any], better: tuple[str, ...]) -> bool:
    for spelling in better:  # a generator would cost more than the loop
        if document.get(spelling) is not None:
            return True
    return False


def _value_reader(name: str, annotation: Any) -> Reader | None:
    """How one field's value is read; None when anything will do (free-form content)."""
    kind, args = inner(annotation)
    if is_record(kind):
        return reader_of(kind)
    if is_moment(name, kind):
        return epoch_of
    if kind is datetime:
        return lambda value: datetime.fromtimestamp(epoch_of(value), UTC)
    if kind in (tuple, list):
        return _list_reader(_value_reader("", args[0]), kind)
    if kind is dict:
        return _map_reader(_value_reader("", args[1]))
    scalars: dict[Any, Reader] = {str: _text, bool: _boolean, int: _whole, float: _number, bytes: _bytes}
    return scalars.get(kind)


def _list_reader(item: Reader | None, kind: type) -> Reader:
    def read(values: Any) -> Any:
        if type(values) is not list:
            raise Fault.expected("a list", values)
        if item is None:
            return kind(values)
        result: list[Any] = []
        try:
            for value in values:
                result.append(item(value))  # its length is the index of the fault
        except Fault as fault:
            fault.steps.append(len(result))
            raise
        return result if kind is list else kind(result)

    return read


def _map_reader(value_of: Reader | None) -> Reader:
    def read(values: Any) -> Any:
        if type(values) is not dict:
            raise Fault.expected("an object", values)
        if value_of is None:
            return values
        result: dict[str, Any] = {}
        for key, value in values.items():
            try:
                result[key] = value_of(value)
            except Fault as fault:
                fault.steps.append(key)
                raise
        return result

    return read


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Fault.expected("text", value)
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise Fault.expected("true or false", value)
    return value


def _whole(value: Any) -> int:
    """An int; an integral double too, for some wires have no other number (EVT-10)."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    raise Fault.expected("a whole number", value)


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Fault("expected a number that a double can hold") from None
    raise Fault.expected("a number", value)


def _bytes(value: Any) -> bytes:
    """Base64 of either alphabet, padded or not (EVT-9)."""
    if type(value) is not str:
        raise Fault.expected("base64 text", value)
    digits = value.replace("-", "+").replace("_", "/")
    if not digits.endswith("=") and len(digits) % 4:
        digits += "=" * (-len(digits) % 4)
    try:
        return b64decode(digits, validate=True)
    except ValueError:
        raise Fault("expected base64 text, found other text") from None


_LIFTED = ("compactionExcludedEvents", "compaction_excluded_events", "CompactionExcludedEvents")


def _unfold_event(values: dict[str, Any], unknown: dict[str, Any]) -> None:
    """Put back what the writer's `fold` moved; changes both arguments."""
    actions = values.get("actions")
    if actions is None:
        return
    routes, known = values.get("routes"), actions.extra
    if routes and known is not None and "route" in known and known["route"] == route_form(routes):
        kept = {key: value for key, value in known.items() if key != "route"}
        values["actions"] = actions = actions.replace(extra=freeze(kept) if kept else None)
    if actions.compaction is None:
        return
    found = [(key, unknown.pop(key)) for key in _LIFTED if key in unknown]
    for key, lifted in found:
        if not lifted:
            continue
        try:
            excluded = _list_reader(reader_of(ExcludedEvent), tuple)(lifted)
        except Fault as fault:
            fault.steps.append(key)
            raise
        values["actions"] = actions.replace(compaction=actions.compaction.replace(excluded_events=excluded))
        return
