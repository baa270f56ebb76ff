"""Values between nodes: schemas from annotations, JSON forms (workflow NODE-1 … NODE-5, PER-2, PER-3)."""

from __future__ import annotations

import datetime
import enum
import math
import sys
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork import Content, text_content
from hookwork.errors import ConfigurationError, ValidationError
from hookwork_workflow.json_form import to_json
from hookwork_workflow.schemas import SchemaFault, check_input, check_output, check_tool_output, schema_of


@dataclass
class City:
    name: str
    people: int = 0


@attrs.frozen
class Temperature:
    degrees: float
    _unit: str = "C"


class Point(msgspec.Struct):
    x: int


class Sky(enum.Enum):
    CLEAR = "clear"
    GREY = "grey"


class Report(pydantic.BaseModel):
    title: str
    pages: Annotated[int, pydantic.Field(gt=0)] = 1
    city: City | None = None


class Options(TypedDict, total=False):
    units: str


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Mixed:
    report: Report
    cities: list[City] = field(default_factory=list)


def schema(annotation: Any) -> Any:
    found = schema_of(annotation)
    assert found is not None
    return found


@pytest.mark.parametrize("annotation", [None, Any, object, {}])
def test_node_2_no_schema_no_check(annotation: Any) -> None:
    assert schema_of(annotation) is None


VALUES = [
    (City, City("Oslo", 7), {"name": "Oslo", "people": 7}),
    (Temperature, Temperature(1.5, unit="K"), {"degrees": 1.5, "_unit": "K"}),
    (Point, Point(3), {"x": 3}),
    (Sky, Sky.GREY, "grey"),
    (Report, Report(title="t", city=City("Rome")), {"title": "t", "pages": 1, "city": {"name": "Rome", "people": 0}}),
    (Options, {"units": "m"}, {"units": "m"}),
    (Pair, Pair(1, "r"), [1, "r"]),
    (
        Mixed,
        Mixed(Report(title="t"), [City("x")]),
        {"report": {"title": "t", "pages": 1, "city": None}, "cities": [{"name": "x", "people": 0}]},
    ),
    (datetime.date, datetime.date(2026, 11, 30), "2026-11-30"),
    (uuid.UUID, uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (Decimal, Decimal("1.50"), "1.50"),
    (set[int], {3, 1, 2}, [1, 2, 3]),
    (tuple[int, str], (1, "a"), [1, "a"]),
    (dict[int, City], {5: City("x")}, {"5": {"name": "x", "people": 0}}),
    (list[Sky], [Sky.CLEAR], ["clear"]),
    (str, "text", "text"),
    (int, 5, 5),
    (float, 5.5, 5.5),
    (bool, True, True),
    (Literal["a", 1], "a", "a"),
    (City | Report, Report(title="t"), {"title": "t", "pages": 1, "city": None}),
    (int | str, "5", "5"),
]


@pytest.mark.parametrize(("annotation", "value", "plain"), VALUES, ids=[str(v[0]) for v in VALUES])
def test_per_3_a_value_survives_its_json_form(annotation: Any, value: Any, plain: Any) -> None:
    """PER-2: values are dumped; PER-3: the successor gets the same from the JSON form as it would live."""
    assert to_json(value) == plain
    if annotation is not int | str:  # "5" for int | str is read as JSON first, see below
        assert check_input(schema(annotation), plain) == value
        assert check_input(schema(annotation), value) == value
    assert check_output(schema(annotation), value) == plain


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({1, object()}, "builtins.object"),
        (object(), "builtins.object"),
        ({"a": [b"x"]}, r"\$\.a\[0\]: JSON cannot hold bytes; save an artifact"),
        ({(1, 2): 3}, "JSON keys are text, not tuple"),
        (lambda: None, "function"),
    ],
)
def test_per_2_what_json_cannot_hold_is_told_by_its_place(value: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        to_json(value)


def test_per_2_what_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValidationError, match="contains itself"):
        to_json(endless)


def test_per_2_records_of_the_kit_take_their_wire_form() -> None:
    assert to_json([text_content("hi")]) == [{"role": "model", "parts": [{"text": "hi"}]}]
    back = check_input(schema(Content), {"role": "model", "parts": [{"text": "hi"}]})
    assert back == text_content("hi")
    assert check_input(schema(Content), "hi").text == "hi"
    with pytest.raises(SchemaFault, match="expected a Content"):
        check_input(schema(Content), 5)


def test_node_2_text_for_another_schema_is_read_as_json_first() -> None:
    assert check_input(schema(City), '{"name": "Oslo"}') == City("Oslo")
    assert check_input(schema(int), "42") == 42
    assert check_input(schema(list[int]), "[1, 2]") == [1, 2]
    assert check_input(schema(int | None), "null") is None


def test_node_2_then_as_it_is() -> None:
    """Enums and dates are text on the wire."""
    assert check_input(schema(Sky), "grey") is Sky.GREY
    assert check_input(schema(datetime.date), "2026-11-30") == datetime.date(2026, 11, 30)


def test_node_2_then_the_fault_of_the_schema() -> None:
    with pytest.raises(SchemaFault, match="expected JSON text"):
        check_input(schema(City), "Oslo")
    with pytest.raises(SchemaFault, match=r"Expected `str`, got `int` - at `\$\.name`"):
        check_input(schema(City), '{"name": 5}')


@pytest.mark.parametrize("annotation", [str, str | None, {"type": "string"}, {"type": ["string", "null"]}])
@pytest.mark.parametrize("text", ["42", "true", "null", '"quoted"', "{}", "plain"])
def test_node_2_text_for_a_text_schema_is_never_decoded(annotation: Any, text: str) -> None:
    """WT-20: what a person typed stays what it is."""
    assert check_input(schema(annotation), text) == text


def test_node_2_none_passes() -> None:
    assert check_input(schema(City), None) is None
    assert check_output(schema(City), None) is None


def test_node_3_an_output_takes_the_schemas_shape() -> None:
    assert check_output(schema(City), {"name": "Oslo", "noise": 1}) == {"name": "Oslo", "people": 0}
    with pytest.raises(SchemaFault, match="missing required field `name`"):
        check_output(schema(City), {})
    with pytest.raises(SchemaFault, match="pages: Input should be greater than 0"):
        check_output(schema(Report), {"title": "t", "pages": 0})


@pytest.mark.parametrize("value", ['{"name": "Oslo"}', text_content('{"name": "Oslo"}')])
def test_node_3_text_is_read_as_json_when_it_does_not_fit(value: Any) -> None:
    assert check_output(schema(City), value) == {"name": "Oslo", "people": 0}


def test_node_3_text_for_a_text_schema_stays() -> None:
    assert check_output(schema(str), text_content("5")) == "5"
    assert check_output(schema(str | None), "null") == "null"


def test_node_3_blank_text_fails_and_the_first_fault_is_told() -> None:
    with pytest.raises(SchemaFault, match=r"Expected `object`, got `str`"):
        check_output(schema(City), "  ")
    with pytest.raises(SchemaFault, match=r"Expected `object`, got `str`"):
        check_output(schema(City), '{"name": 5}')
    with pytest.raises(SchemaFault, match=r"Expected `object`, got `str`"):
        check_output(schema(City), "no json")


def test_node_5_a_tools_result_directly_or_under_result() -> None:
    assert check_tool_output(schema(City), {"name": "Oslo"}) == {"name": "Oslo", "people": 0}
    assert check_tool_output(schema(City), {"result": {"name": "Oslo"}}) == {"name": "Oslo", "people": 0}
    assert check_tool_output(schema(int), {"result": 5}) == 5
    with pytest.raises(SchemaFault, match="missing required field `name`"):
        check_tool_output(schema(City), {"result": {"people": 1}})
    with pytest.raises(SchemaFault, match="missing required field `name`"):
        check_tool_output(schema(City), {"result": {"name": "x"}, "more": 1})


def test_node_1_a_fault_never_quotes_the_value() -> None:
    secret = "hunter2-secret"
    for annotation in (
        City,
        Report,
        int,
        {"type": "integer"},
        {"enum": ["a"]},
        Sky,
        Annotated[int, pydantic.Field(gt=1)],
    ):
        with pytest.raises(SchemaFault) as caught:
            check_input(schema(annotation), {"title": [secret], "name": [secret]})
        assert secret not in str(caught.value)


def test_node_2_a_json_schema_is_checked_and_changes_nothing() -> None:
    given = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    assert check_input(schema(given), {"n": 2, "more": True}) == {"n": 2, "more": True}
    with pytest.raises(SchemaFault, match=r"\$\.n: does not fit 'minimum'"):
        check_input(schema(given), {"n": 0})
    with pytest.raises(ConfigurationError, match="not valid"):
        schema_of({"type": "objekt"})


def test_node_2_a_json_schema_never_reads_the_net() -> None:
    with pytest.raises(ConfigurationError, match=r"refers to .*, which is not in it"):
        check_input(schema({"$ref": "https://example.com/schema.json"}), 1)


def test_node_2_a_type_json_cannot_hold_is_refused() -> None:
    class Opaque:
        pass

    with pytest.raises(ConfigurationError, match="Opaque cannot be checked"):
        schema_of(Opaque)


def test_node_2_strictly_no_text_becomes_a_number_and_no_number_a_bool() -> None:
    for annotation, value in [(int, True), (bool, 1), (int, 1.5), (Report, {"title": 5}), (list[int], {"a": 1})]:
        with pytest.raises(SchemaFault):
            check_input(schema(annotation), value)


def test_schemas_are_made_without_pydantic_where_msgspec_will_do() -> None:
    """Start-up: a workflow of plain types loads neither pydantic nor jsonschema."""
    import subprocess

    code = (
        "import sys, dataclasses\n"
        "from hookwork_workflow import START, compile_graph, node\n"
        "@dataclasses.dataclass\n"
        "class City:\n    name: str\n"
        "@node\nasync def city(text: str) -> City: return City(text)\n"
        "@node\nasync def weather(c: City, n: int = 1) -> dict[str, int] | None: return None\n"
        "compile_graph('wf', START >> city >> weather)\n"
        "assert city.validate_output(City('x')) == {'name': 'x'}\n"
        "print([m for m in ('pydantic', 'jsonschema') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e300, 1e300) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None)
@given(_json)
def test_per_3_law_json_values_are_their_own_form(value: Any) -> None:
    assert to_json(value) == value


@settings(deadline=None)
@given(st.builds(City, st.text(), st.integers(-(2**60), 2**60)))
def test_per_3_law_live_and_replayed_inputs_are_equal(city: City) -> None:
    replayed = msgspec.json.decode(msgspec.json.encode(to_json(city)))
    assert check_input(schema(City), replayed) == check_input(schema(City), city) == city


def test_per_2_not_a_number_is_refused_when_the_event_is_made() -> None:
    from hookwork_workflow.results import output_event

    with pytest.raises(ValidationError, match="no NaN"):
        output_event({"x": math.nan})
