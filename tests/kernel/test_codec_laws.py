"""Laws of the codec for every record type (services COD-1 … COD-9, conformance CS-42)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hookwork.records.metadata
import hookwork.records.request
import hookwork.services  # noqa: F401 - its records are among those tested
from hookwork.records.base import Record
from hookwork.records.codec import dump, dump_json, load
from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict, FrozenList, freeze
from hookwork.records.layout import ALWAYS, fields_of, inner, is_moment, is_record, spellings_of
from hookwork.records.reading import reader_of
from hookwork.records.writing import writer_of


def subclasses(kind: type[Record]) -> Iterator[type[Record]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from subclasses(sub)


KINDS = sorted(
    (kind for kind in subclasses(Record) if kind.__module__.startswith("hookwork.")), key=lambda k: k.__name__
)
SWITCHES: list[tuple[Literal["camel", "snake"], Literal["epoch", "rfc3339"]]] = [
    ("camel", "epoch"),
    ("camel", "rfc3339"),
    ("snake", "epoch"),
    ("snake", "rfc3339"),
]

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
texts = st.text(characters, max_size=6)
# Keys of free-form content that look like field names, in each casing, must stay as they are (COD-4).
free_keys = texts | st.sampled_from(
    ["stateDelta", "state_delta", "StateDelta", "functionCall", "id", "~extra", "route"]
)
leaves = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
free = st.recursive(
    leaves | st.sampled_from([{}, [], "", 0, False]),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(free_keys, inside, max_size=3),
    max_leaves=5,
)
free_maps = st.dictionaries(free_keys, free, max_size=3)
# All of years 1 to 9999, in whole microseconds.
micros = st.integers(-62_135_596_800 * 10**6, 253_402_300_800 * 10**6 - 1)
recent = st.integers(0, 4_000_000_000 * 10**6)
moments = (recent | micros).map(lambda us: round(us / 10**6, 6)).filter(lambda t: t < 253_402_300_800)
datetimes = recent.map(lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us))
extras = st.none() | st.dictionaries(st.text("xyz_X", min_size=1, max_size=4), free, min_size=1, max_size=2)
state_keys = free_keys.filter(lambda key: key and key not in ("app:", "user:", "temp:"))
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    bool: st.booleans(),
    int: st.integers(-5, 2**40),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bytes: st.binary(max_size=5),
    datetime: datetimes,
    Any: free,
}


def values(name: str, annotation: Any) -> st.SearchStrategy[Any]:
    kind, args = inner(annotation)
    if name == "state_delta":
        return st.dictionaries(state_keys, free, max_size=3)
    if is_record(kind):
        return records(kind)
    if is_moment(name, kind):
        return moments
    if kind in (tuple, list):
        return st.lists(values("", args[0]), max_size=2).map(kind)
    if kind is dict:
        return st.dictionaries(free_keys, values("", args[1]), max_size=2)
    return SCALARS[kind]


def records(kind: type) -> st.SearchStrategy[Any]:
    fields = {}
    for field in fields_of(kind):
        value = values(field.name, field.type)
        fields[field.name] = value if field.default is ALWAYS or field.default is not None else st.none() | value
    return st.builds(kind, **fields, extra=extras)


STRATEGIES = {kind: records(kind) for kind in KINDS}
relaxed = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@relaxed
def test_cod_3_what_is_written_is_read_back_under_all_switches(kind: type[Record], data: st.DataObject) -> None:
    """CS-42: unknown keys at every depth, free-form keys that look like field names."""
    record = data.draw(STRATEGIES[kind])
    for keys, times in SWITCHES:
        document = dump(record, keys, times)
        assert load(kind, document) == record
        text = dump_json(record, keys, times)
        assert load(kind, text) == record
        assert load(kind, text.decode()) == record
        assert json.loads(text) == document


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@relaxed
def test_cod_9_fast_path_and_walker_agree(kind: type[Record], data: st.DataObject) -> None:
    record = data.draw(STRATEGIES[kind])
    walked = msgspec.json.encode(writer_of(kind, "camel", "epoch")(record))
    assert dump_json(record) == walked
    assert json.dumps(dump(record)) == json.dumps(json.loads(walked))
    assert load(kind, walked) == reader_of(kind)(msgspec.json.decode(walked)) == record


def respelled(kind: Any, document: Any, choose: Any) -> Any:
    """A document with each known key in a spelling of its own, kinds followed downwards."""
    result = {}
    known = {field.wire: field for field in fields_of(kind)}
    for key, value in document.items():
        field = known.get(key)
        if field is None:
            result[key] = value
            continue
        origin, args = inner(field.type)
        if is_record(origin):
            value = respelled(origin, value, choose)
        elif origin in (tuple, list) and is_record(args[0]):
            value = [respelled(args[0], item, choose) for item in value]
        elif origin is dict and is_record(args[1]):
            value = {name: respelled(args[1], item, choose) for name, item in value.items()}
        result[choose(spellings_of(field.name, field.wire))] = value
    return result


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@relaxed
def test_cod_2_casings_may_be_mixed_in_one_document(kind: type[Record], data: st.DataObject) -> None:
    record = data.draw(STRATEGIES[kind])
    mixed = respelled(kind, dump(record), lambda spellings: data.draw(st.sampled_from(spellings)))
    assert load(kind, mixed) == record
    assert load(kind, json.dumps(mixed)) == record


@given(STRATEGIES[Event])
@relaxed
def test_cod_9_a_document_is_plain_and_new(event: Event) -> None:
    def check(value: Any) -> None:
        assert type(value) in (dict, list, str, int, float, bool, type(None))
        for item in value.values() if type(value) is dict else value if type(value) is list else ():
            check(item)

    for keys, times in SWITCHES:
        document = dump(event, keys, times)
        check(document)
        document["actions"].clear()
        assert dump(event, keys, times)["actions"] != {}


@given(free)
@relaxed
def test_cod_8_freezing_twice_changes_nothing(value: Any) -> None:
    once = freeze(value)
    assert once == value
    assert freeze(once) is once or not isinstance(once, FrozenDict | FrozenList)
    assert freeze(once) == once


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_cod_8_records_have_no_hash(kind: type[Record]) -> None:
    with pytest.raises(TypeError, match="cannot be hashed"):
        hash(kind())


@given(STRATEGIES[Event], st.data())
@relaxed
def test_cod_4_a_null_typed_field_is_an_absent_one(event: Event, data: st.DataObject) -> None:
    document = dump(event)
    absent = [field.wire for field in fields_of(Event) if field.wire not in document]
    nulls = {key: None for key in absent if data.draw(st.booleans())}
    assert load(Event, {**nulls, **document}) == event
    assert load(Event, json.dumps({**document, **nulls})) == event
