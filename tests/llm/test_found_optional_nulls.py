"""Null for a property that was optional, as strict modes make models write it (models OAI-17, T-19; core OUT-4)."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from hookwork_llm.object_schema import InvalidObject, ObjectSchema


class Item(BaseModel):
    sku: str
    size: Literal["s", "m"] = "m"


class Order(BaseModel):
    title: str
    note: str | None
    items: list[Item] = []
    first: Item | None = None
    kind: Literal["a", "b"] = "a"
    tags: dict[str, str] = {}
    children: list[Order] = []


def checked(value: dict[str, Any]) -> Any:
    return ObjectSchema(Order, "test").validate(value)


def test_null_for_a_property_with_a_default_is_the_default() -> None:
    value = checked({"title": "t", "note": None, "items": None, "first": None, "kind": None, "tags": None})
    assert value == {
        "title": "t", "note": None, "items": [], "first": None, "kind": "a", "tags": {}, "children": [],
    }  # fmt: skip


def test_also_inside_lists_references_and_alternatives() -> None:
    item = {"sku": "x", "size": None}
    child = {"title": "c", "note": None, "kind": None}
    value = checked({"title": "t", "note": "n", "items": [item], "first": item, "children": [child]})
    assert value["items"] == [{"sku": "x", "size": "m"}]
    assert value["first"] == {"sku": "x", "size": "m"}
    assert value["children"][0]["kind"] == "a"


@pytest.mark.parametrize(
    "value", [{"title": None, "note": "n"}, {"title": "t", "note": "n", "items": [None]}, {"title": "t", "note": 3}]
)
def test_a_null_that_is_due_is_still_a_fault(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidObject):
        checked(value)


def test_what_the_model_wrote_is_left_as_it_is() -> None:
    wrote: dict[str, Any] = {"title": "t", "note": None, "kind": None}
    checked(wrote)
    assert wrote == {"title": "t", "note": None, "kind": None}


def test_a_property_that_takes_everything_keeps_its_null() -> None:
    schema = {"type": "object", "properties": {"any": {}, "n": {"type": "integer"}}}
    assert ObjectSchema(schema, "test").validate({"any": None, "n": None}) == {"any": None}
