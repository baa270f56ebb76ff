"""Frozen JSON (core DLT-2, services COD-8, EVT-9, EVT-12)."""

from __future__ import annotations

import copy
import enum
import json
import logging
import math
import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.errors import StateMutationError, ValidationError
from hookwork.records.frozen import FrozenDict, FrozenList, freeze, freeze_at, thaw, where_text

leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("aé東😀")
)
json_values = st.recursive(
    leaves, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text("ab"), inside, max_size=3)
)


@given(json_values)
def test_dlt_2_frozen_values_equal_plain_ones(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert value == frozen
    assert json.dumps(frozen) == json.dumps(value)
    assert msgspec.json.encode(frozen) == msgspec.json.encode(value)
    assert thaw(frozen) == value
    assert pickle.loads(pickle.dumps(frozen)) == value
    assert copy.deepcopy(frozen) == value


def kinds(value: Any) -> set[type]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {type(value)}.union(*(kinds(item) for item in inside))


@given(json_values)
def test_dlt_2_deep_copies_are_plain_to_the_leaves(value: Any) -> None:
    for plain in (thaw(freeze(value)), copy.deepcopy(freeze(value))):
        assert kinds(plain).isdisjoint({FrozenDict, FrozenList})
    assert kinds(freeze(value)).isdisjoint({dict, list})


DICT_CHANGES: list[Callable[[Any], Any]] = [
    lambda d: d.__setitem__("a", 1),
    lambda d: d.__delitem__("a"),
    lambda d: d.clear(),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.setdefault("z", 1),
    lambda d: d.update(a=2),
    lambda d: d.__ior__({"z": 1}),
]
LIST_CHANGES: list[Callable[[Any], Any]] = [
    lambda x: x.__setitem__(0, 9),
    lambda x: x.__setitem__(slice(0, 1), []),
    lambda x: x.__delitem__(0),
    lambda x: x.__iadd__([1]),
    lambda x: x.__imul__(2),
    lambda x: x.append(1),
    lambda x: x.extend([1]),
    lambda x: x.insert(0, 1),
    lambda x: x.pop(),
    lambda x: x.remove(3),
    lambda x: x.clear(),
    lambda x: x.sort(),
    lambda x: x.reverse(),
]


@pytest.mark.parametrize("change", DICT_CHANGES)
def test_dlt_2_every_mutator_of_a_dict_is_refused(change: Callable[[Any], Any]) -> None:
    frozen = freeze({"a": 1})
    with pytest.raises(StateMutationError, match="frozen"):
        change(frozen)
    assert frozen == {"a": 1}


@pytest.mark.parametrize("change", LIST_CHANGES)
def test_dlt_2_every_mutator_of_a_list_is_refused(change: Callable[[Any], Any]) -> None:
    frozen = freeze([3, 1, 2])
    with pytest.raises(TypeError, match="frozen"):
        change(frozen)
    assert frozen == [3, 1, 2]


def test_dlt_2_operators_give_plain_ones() -> None:
    mapping, items = freeze({"a": 1}), freeze([1, 2])
    for plain in (mapping | {"b": 2}, {"b": 2} | mapping, mapping.copy(), copy.copy(mapping), dict(mapping)):
        assert type(plain) is dict
    for plain in (items + [3], items.copy(), copy.copy(items), items[:], list(items)):  # noqa: RUF005
        assert type(plain) is list
    assert mapping | {"a": 2} == {"a": 2}
    assert {"a": 2} | mapping == {"a": 1}


def test_cod_8_what_is_frozen_is_taken_as_it_is() -> None:
    inner = freeze({"a": [1]})
    assert freeze(inner) is inner
    assert freeze({"k": inner})["k"] is inner


def test_dlt_2_a_state_value_names_its_own_key_wherever_it_came_from() -> None:
    value = freeze_at({"lines": [{}]}, "cart")
    moved = freeze_at(value["lines"], "basket")
    assert freeze_at(value, "cart") is value
    with pytest.raises(StateMutationError, match=r"'cart\.lines\[0\]'"):
        value["lines"][0]["x"] = 1
    with pytest.raises(StateMutationError, match=r"'basket' is frozen.*ctx\.state\['basket'\]"):
        moved.append(1)


def test_dlt_2_a_value_on_its_own_tells_to_copy() -> None:
    with pytest.raises(StateMutationError, match="copy"):
        freeze([])[:0] + freeze([]).append(1)


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize("value", [object(), b"x", {1, 2}, Color.RED, 1j, lambda: 0])
def test_evt_9_what_json_cannot_hold_is_refused_with_its_path(value: Any) -> None:
    with pytest.raises(ValidationError, match="JSON cannot hold") as caught:
        freeze({"a": [0, {"b": value}]})
    assert caught.value.path == "a[1].b"
    assert repr(value) not in str(caught.value)


@pytest.mark.parametrize("sign", [1, -1])
def test_cod_8_an_integer_that_python_does_not_write_is_refused_before_it_is_stored(sign: int) -> None:
    number = sign * 10**4300
    for value in (number, {"a": [number]}):
        with pytest.raises(ValidationError, match="more than 4,300 digits"):
            freeze(value)
    assert len(str(freeze(abs(number) - 1))) == 4300


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_evt_9_no_nan_and_no_infinity(number: float) -> None:
    with pytest.raises(ValidationError, match="no NaN") as caught:
        freeze([number], (None, "args"))
    assert caught.value.path == "args[0]"


def test_evt_9_keys_are_text() -> None:
    with pytest.raises(ValidationError, match="keys are text, not int"):
        freeze({"a": {1: 2}})


def test_evt_9_a_value_that_contains_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValidationError, match="contains itself"):
        freeze(loop)


class Size(enum.IntEnum):
    BIG = 3


class Name(enum.StrEnum):
    ANN = "ann"


def test_evt_9_subclasses_become_the_plain_kind() -> None:
    frozen = freeze({"n": Size.BIG, "s": Name.ANN, "o": OrderedDict(a=1), "t": (1, 2), Name.ANN: 1})
    assert frozen == {"n": 3, "s": "ann", "o": {"a": 1}, "t": [1, 2], "ann": 1}
    assert [type(frozen[key]) for key in ("n", "s", "o", "t")] == [int, str, FrozenDict, FrozenList]
    assert {type(key) for key in frozen} == {str}
    assert type(freeze(True)) is bool


def test_evt_12_text_is_cleaned_with_one_warning_for_the_first_place(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="hookwork.records"):
        frozen = freeze({"out": "a\x00b\ud83dc", "k\x00": ["\udc00", "😀東"]})
    assert frozen == {"out": "a\ufffdb\ufffdc", "k\ufffd": ["\ufffd", "😀東"]}
    assert len(caplog.records) == 1
    assert "at out (3 place(s))" in caplog.text


def test_evt_12_two_keys_that_become_equal() -> None:
    for keys in (["a\x00", "a\ud800"], ["a\ufffd", "a\x00"]):
        with pytest.raises(ValidationError, match="become equal"):
            freeze(dict.fromkeys(keys))


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (None, ""),
        ((None, "a"), "a"),
        (((None, "a"), 0), "a[0]"),
        ((((None, "a"), 0), "b"), "a[0].b"),
        ((None, 2), "[2]"),
    ],
)
def test_where_text(where: Any, text: str) -> None:
    assert where_text(where) == text
