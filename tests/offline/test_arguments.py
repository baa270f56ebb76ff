"""Arguments filled from text by their declared JSON types (issue extensions/offline)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.platform import use_clock
from hookwork.records.request import FunctionDeclaration
from hookwork_offline.arguments import Filled, fill
from hookwork_offline.matching import tool_option
from hookwork_offline.schema import fits

TEXT = {"type": "string"}
INT = {"type": "integer"}
NUMBER = {"type": "number"}
FLAG = {"type": "boolean"}


def read(text: str, properties: dict[str, Any], required: list[str] | None = None, **schema: Any) -> Filled:
    declaration = FunctionDeclaration(
        name="tool",
        description="A tool.",
        parameters_json_schema={
            "type": "object",
            "properties": properties,
            "required": list(properties) if required is None else required,
            **schema,
        },
    )
    return fill(tool_option(declaration), text)


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("give me 5", INT, 5),
        ("give me five", INT, 5),
        ("minus -3 degrees", INT, -3),
        ("about 1,250 people", INT, 1250),
        ("pi is 3.14", NUMBER, 3.14),
        ("walk 12km", NUMBER, 12),
        ("raise it to 40, then to 20", {**INT, "maximum": 30}, 20),
        ("it costs 2.5 or 3", INT, 3),
        ("in 3 steps of 25", {**INT, "multipleOf": 5}, 25),
        ("order 00123 now", {**TEXT, "pattern": "^[0-9]{5}$"}, "00123"),
    ],
)
def test_numbers(text: str, schema: dict[str, Any], value: Any) -> None:
    name = "order_id" if schema["type"] == "string" else "amount"
    assert read(text, {name: schema}).args == {name: value}


@pytest.mark.parametrize(
    ("text", "allowed", "value"),
    [
        ("make it High please", ["low", "high"], "high"),
        ("it is in progress", ["open", "in_progress"], "in_progress"),
        ("use dark-blue", ["DarkBlue", "red"], "DarkBlue"),
        ("level 3", [1, 2, 3], 3),
        ("C++ please", ["C", "C++"], "C++"),
    ],
)
def test_enums(text: str, allowed: list[Any], value: Any) -> None:
    assert read(text, {"choice": {"enum": allowed}}).args == {"choice": value}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("title", 'call it "Long walks"', "Long walks"),
        ("title", "call it “Long walks”", "Long walks"),
        ("title", "call it 'Long walks'", "Long walks"),
        ("city", "what about New York today", "New York"),
        ("city", "and in rio grande please", "rio grande"),
        ("city", "we go to Rio de Janeiro soon", "Rio de Janeiro"),
        ("owner", "show Ada's orders", "Ada"),
        ("email", "write to ann@example.com now", "ann@example.com"),
        ("url", "open https://example.com/a?b=1.", "https://example.com/a?b=1"),
        ("path", "delete /tmp/a.txt", "/tmp/a.txt"),
        ("filename", "open notes.md please", "notes.md"),
        ("order_id", "where is order A-17?", "A-17"),
        ("order_id", "where is order 17?", "17"),
        ("day", "we meet tomorrow", "tomorrow"),
        ("query", "search for cats and dogs", "cats and dogs"),
        ("message", "say to Bob: I am late", "I am late"),
        ("question", "Can you help me?", "help me?"),
        ("city", "city: paris", "paris"),
        ("city", "WEATHER IN PARIS", "PARIS"),
    ],
)
def test_texts(name: str, text: str, value: str) -> None:
    declaration = FunctionDeclaration(
        name="weather",
        description="Current weather.",
        parameters_json_schema={"type": "object", "properties": {name: TEXT}, "required": [name]},
    )
    assert fill(tool_option(declaration), text).args == {name: value}


def test_prepositions_tell_origin_from_destination() -> None:
    assert read("fly to Rome from Paris", {"origin": TEXT, "destination": TEXT}).args == {
        "origin": "Paris",
        "destination": "Rome",
    }


def test_a_number_goes_where_its_noun_is() -> None:
    schema = {"guests": INT, "nights": INT}
    assert read("2 nights for 3 guests", schema).args == {"guests": 3, "nights": 2}
    assert read("nights: 2, guests = 3", schema).args == {"guests": 3, "nights": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [("with breakfast", True), ("without breakfast", False), ("breakfast: no", False), ("no breakfast please", False)],
)
def test_flags(text: str, value: bool) -> None:
    assert read(text, {"include_breakfast": FLAG}).args == {"include_breakfast": value}


def test_a_flag_nobody_mentions_is_missing() -> None:
    assert read("two nights", {"breakfast": FLAG}).missing == ["breakfast"]


def test_dates_are_relative_to_the_platform_clock() -> None:
    schema = {"date": {"type": "string", "format": "date"}}
    with use_clock(lambda: datetime(2026, 2, 28, 12, tzinfo=UTC)):
        assert read("the table for tomorrow", schema).args == {"date": "2026-03-01"}
    assert read("on 2026-05-02", schema).args == {"date": "2026-05-02"}
    assert read("some day", schema).missing == ["date"]


@pytest.mark.parametrize(
    ("text", "items", "value"),
    [
        ("add milk, eggs and bread to the list", TEXT, ["milk", "eggs", "bread"]),
        ('add "blue cheese" and "wine"', TEXT, ["blue cheese", "wine"]),
        ("invite Ann, Bob and Cid", TEXT, ["Ann", "Bob", "Cid"]),
        ("sum 1, 2 and 3.5", NUMBER, [1, 2, 3.5]),
        ("red and blue", {"enum": ["red", "green", "blue"]}, ["red", "blue"]),
        ('[{"a": 1}]', {"type": "object"}, [{"a": 1}]),
    ],
)
def test_lists(text: str, items: dict[str, Any], value: list[Any]) -> None:
    assert read(text, {"entries": {"type": "array", "items": items}}).args == {"entries": value}


def test_a_required_object_is_filled_property_by_property() -> None:
    address = {"type": "object", "properties": {"city": TEXT, "number": INT}, "required": ["city", "number"]}
    assert read("deliver to Paris, number 12", {"place": address}).args == {"place": {"city": "Paris", "number": 12}}
    assert read("deliver to Paris", {"place": address}).missing == ["place"]


def test_json_in_the_text_is_taken_as_it_is() -> None:
    assert read('use {"a": [1, 2]} there', {"options": {"type": "object"}}).args == {"options": {"a": [1, 2]}}


def test_references_and_unions_are_followed() -> None:
    filled = read(
        "set it to 7",
        {"level": {"anyOf": [{"$ref": "#/$defs/Level"}, {"type": "null"}]}},
        None,
        **{"$defs": {"Level": {"type": "integer", "minimum": 1}}},
    )
    assert filled.args == {"level": 7}


def test_genai_schemas_are_read_too() -> None:
    declaration = FunctionDeclaration(
        name="heat",
        description="Heat.",
        parameters={
            "type": "OBJECT",
            "properties": {
                "degrees": {"type": "INTEGER", "nullable": True},
                "mode": {"type": "STRING", "enum": ["ECO"]},
            },
            "required": ["degrees"],
        },
    )
    assert fill(tool_option(declaration), "heat to 21 in eco mode").args == {"degrees": 21, "mode": "ECO"}


def test_defaults_fill_what_the_text_does_not_say() -> None:
    filled = read("cats", {"query": TEXT, "limit": {**INT, "default": 5}, "page": {**INT, "default": None}}, ["query"])
    assert filled.args == {"query": "cats", "limit": 5}
    assert filled.said == {"query": "cats"}


def test_an_optional_text_takes_no_stray_name() -> None:
    filled = read("weather in Paris says Bob", {"city": TEXT, "note": TEXT}, ["city"])
    assert filled.args == {"city": "Paris"}


def test_a_constant_needs_no_words() -> None:
    assert read("go", {"kind": {"const": "fast"}}).args == {"kind": "fast"}


@pytest.mark.parametrize("schema", [False, {"type": "object", "minimum": "x", "required": "city"}, {"enum": [None]}])
def test_an_odd_parameter_schema_never_raises(schema: Any) -> None:
    filled = read("weather in Paris", {"thing": schema})
    assert filled.missing == ["thing"] or fits(filled.args["thing"], schema, {})


def test_arguments_that_only_fit_one_by_one_are_not_sent() -> None:
    filled = read("use 5", {"a": INT}, [], anyOf=[{"required": ["b"]}])
    assert filled.missing
