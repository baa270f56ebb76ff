"""Function tools: annotations, schemas and declarations (tools-plugins FN-01..FN-05, FN-30, CASE-TOOL-1, 2)."""
# mypy: disable-error-code="no-untyped-def, empty-body, type-arg, comparison-overlap"
# Functions without annotations and bodies are the very thing these tests are about.

from __future__ import annotations

import datetime
import decimal
import enum
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

import attrs
import pytest
from pydantic import BaseModel, ConfigDict, Field

from hookwork.context import InvocationContext, ReadonlyContext, ToolContext
from hookwork.errors import InvalidToolError
from hookwork.records.frozen import thaw
from hookwork_llm.functions import FunctionTool, as_tool, tool

if TYPE_CHECKING:
    from collections import UserDict as OnlyForCheckers


class A(BaseModel):
    x: int


@dataclass
class B:
    y: str


@attrs.define
class Box:
    name: str
    _width: int = 3
    lid: Annotated[bool, "whether it has a lid"] = True


class Place(TypedDict):
    city: str
    zip: NotRequired[int]


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


def parameters(func: Any, **options: Any) -> dict[str, Any]:
    """The declared parameter schema as plain JSON."""
    schema = FunctionTool(func, **options).declaration().parameters_json_schema
    assert schema is not None
    return thaw(schema)  # type: ignore[no-any-return]


def property_of(annotation: Any) -> Any:
    """The schema of one required parameter of that type."""

    def probe(value): ...

    probe.__annotations__ = {"value": annotation}
    return parameters(probe)["properties"]["value"]


# --- FN-02: the table -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (None, {"type": "null"}),
        (int | None, {"type": ["integer", "null"]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (list[str] | None, {"type": ["array", "null"], "items": {"type": "string"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["only"], {"type": "string", "enum": ["only"]}),
        (Mood, {"type": "string", "enum": ["good", "bad"]}),
        (Mood | None, {"type": ["string", "null"], "enum": ["good", "bad", None]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (decimal.Decimal, {"type": "string", "format": "decimal"}),
        (bytes, {"type": "string", "format": "byte"}),
        (Any, {}),
    ],
)
def test_fn_02_annotation_gives_the_schema_of_the_table(annotation: Any, schema: dict[str, Any]) -> None:
    assert property_of(annotation) == schema


@pytest.mark.parametrize(
    ("annotation", "properties", "required"),
    [
        (A, {"x": {"type": "integer"}}, ["x"]),
        (B, {"y": {"type": "string"}}, ["y"]),
        (Place, {"city": {"type": "string"}, "zip": {"type": "integer"}}, ["city"]),
        (
            Box,
            {
                "name": {"type": "string"},
                "width": {"type": "integer", "default": 3},
                "lid": {"type": "boolean", "default": True, "description": "whether it has a lid"},
            },
            ["name"],
        ),
    ],
)
def test_fn_02_classes_become_closed_objects_in_field_order(
    annotation: Any, properties: dict[str, Any], required: list[str]
) -> None:
    schema = property_of(annotation)
    assert schema == {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    assert list(schema["properties"]) == list(properties)


class Tree(BaseModel):
    value: int
    kids: list[Tree] = []


@attrs.define
class Chain:
    link: str
    next: Chain | None = None


@pytest.mark.parametrize(("kind", "key"), [(Tree, "Tree"), (Chain, "Chain")])
def test_fn_02_recursive_type_uses_defs(kind: type, key: str) -> None:
    def grow(node): ...

    grow.__annotations__ = {"node": kind}
    schema = parameters(grow)
    assert schema["properties"]["node"] == {"$ref": f"#/$defs/{key}"}
    assert schema["$defs"][key]["additionalProperties"] is False


def test_fn_02_recursive_attrs_class_is_built_by_the_class() -> None:
    def follow(chain: Chain) -> str: ...

    converted = FunctionTool(follow).validate_args({"chain": {"link": "a", "next": {"link": "b"}}})
    assert converted == {"chain": Chain("a", Chain("b"))}


def test_fn_02_unannotated_parameter_takes_anything() -> None:
    def free(value, other=None): ...

    assert parameters(free) == {
        "type": "object",
        "properties": {"value": {}, "other": {"default": None}},
        "required": ["value"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("annotation", [dict[int, str], Mapping[int, str], list[dict[int, str]]])
def test_fn_02_keys_that_are_not_text_are_refused(annotation: Any) -> None:
    with pytest.raises(InvalidToolError, match="keys are not text"):
        property_of(annotation)


@pytest.mark.parametrize("annotation", [Callable[[int], int], subprocess.Popen])
def test_fn_02_underivable_type_fails_at_construction_and_names_the_parameter(annotation: Any) -> None:
    with pytest.raises(InvalidToolError, match=r"'probe'.*parameter 'value'"):
        property_of(annotation)


def test_fn_02_model_that_allows_extras_keeps_its_word() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        q: int

    def ask(o: Open): ...

    made = FunctionTool(ask)
    schema = made.declaration().parameters_json_schema
    assert schema is not None
    assert schema["properties"]["o"]["additionalProperties"] is True
    assert made.validate_args({"o": {"q": 1, "r": 2}})["o"].r == 2


# --- FN-01, FN-03: signatures -----------------------------------------------------------------------------------------


def test_fn_03_case_tool_2_required_is_decided_per_parameter() -> None:
    def s(query: str, tags: list[str] | None = None, n: int = 10, mode: Literal["a", "b"] = "a"): ...

    schema = parameters(s)
    assert schema["required"] == ["query"]
    assert list(schema["properties"]) == ["query", "tags", "n", "mode"]
    assert schema["properties"]["tags"] == {"type": ["array", "null"], "items": {"type": "string"}, "default": None}
    assert schema["properties"]["n"] == {"type": "integer", "default": 10}
    assert schema["properties"]["mode"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert FunctionTool(s).validate_args({"query": "q"}) == {"query": "q"}


def test_fn_03_enum_default_is_recorded_by_value() -> None:
    def feel(mood: Mood = Mood.BAD): ...

    assert parameters(feel)["properties"]["mood"] == {"type": "string", "enum": ["good", "bad"], "default": "bad"}


def test_fn_01_context_is_injected_and_not_in_the_schema() -> None:
    def where(city: str, anything: ToolContext, other: ReadonlyContext | None = None): ...

    assert parameters(where)["properties"] == {"city": {"type": "string"}}


def test_fn_01_context_imported_for_checkers_only_is_still_a_context() -> None:
    scope: dict[str, Any] = {}
    exec("def f(city: 'str', c: 'ToolContext', d: 'hookwork.context.ToolContext | None' = None): ...", scope)
    assert parameters(scope["f"])["properties"] == {"city": {"type": "string"}}


def test_fn_01_a_context_that_no_call_has_is_refused() -> None:
    def body(ctx: InvocationContext): ...

    with pytest.raises(InvalidToolError, match="a tool gets a ToolContext"):
        FunctionTool(body)


def test_fn_01_star_args_are_refused() -> None:
    def many(*args: int): ...

    with pytest.raises(InvalidToolError, match=r"\*args"):
        FunctionTool(many)


@pytest.mark.parametrize("annotation", [str, list[str]])
def test_fn_01_keyword_arguments_open_the_schema(annotation: Any) -> None:
    def many(a, **rest: int): ...

    many.__annotations__["a"] = annotation
    schema = parameters(many)
    assert schema["additionalProperties"] is True
    assert list(schema["properties"]) == ["a"]


@pytest.mark.parametrize(
    ("kind", "given", "built"),
    [
        (A, {"x": 1}, A(x=1)),
        (B, {"y": "q"}, B("q")),
        (Box, {"name": "n", "width": 4}, Box("n", 4)),
        (Place, {"city": "c"}, {"city": "c"}),
    ],
)
def test_fn_01_struct_form(kind: type, given: dict[str, Any], built: Any) -> None:
    def take(args, ctx): ...

    take.__annotations__ = {"args": kind, "ctx": ToolContext}
    made = FunctionTool(take)
    assert set(given) <= set(parameters(take)["properties"])
    assert made.validate_args(given) == {"args": built}


def test_fn_02_constraints_in_annotation_or_default() -> None:
    def limit(a: Annotated[int, Field(ge=1, description="how many")], b: int = Field(3, le=5)): ...

    schema = parameters(limit)
    assert schema["properties"]["a"] == {"type": "integer", "minimum": 1, "description": "how many"}
    assert schema["properties"]["b"] == {"type": "integer", "maximum": 5, "default": 3}
    assert schema["required"] == ["a"]
    assert FunctionTool(limit).validate_args({"a": 1}) == {"a": 1, "b": 3}


# --- CASE-TOOL-1: strings and forward names ---------------------------------------------------------------------------


def test_fn_02_type_defined_below_is_resolved_when_first_needed() -> None:
    @tool
    def later(value: Below) -> None: ...

    class Below(BaseModel):
        n: int

    assert as_tool(later) is later
    schema = later.declaration().parameters_json_schema
    assert schema is not None
    assert schema["properties"]["value"]["properties"] == {"n": {"type": "integer"}}


def test_fn_02_name_known_to_checkers_only_is_a_clear_error() -> None:
    def use(value: OnlyForCheckers): ...

    made = FunctionTool(use)
    with pytest.raises(InvalidToolError, match=r"'use'.*parameter 'value'.*'OnlyForCheckers'"):
        as_tool(made)
    with pytest.raises(InvalidToolError, match="OnlyForCheckers"):
        as_tool(use)
    with pytest.raises(InvalidToolError, match="OnlyForCheckers"):
        made.declaration()


# --- FN-04, FN-05: overrides and declarations -------------------------------------------------------------------------


def test_fn_04_override_schema_is_declared() -> None:
    override = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}

    def f(n: subprocess.Popen): ...  # no schema could be derived from this

    assert parameters(f, input_schema=override) == override


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "strnig"},
        {"type": "object", "properties": []},
        {"properties": {"a": {"pattern": "("}}},
        {"$ref": "#/$defs/none"},
        {"required": "a"},
        [],
    ],
)
@pytest.mark.parametrize("which", ["input_schema", "output_schema"])
def test_fn_02_invalid_override_fails_at_construction(bad: Any, which: str) -> None:
    with pytest.raises(InvalidToolError, match=which):
        FunctionTool(lambda: None, name="f", **{which: bad})


def test_fn_05_absent_schema_is_absent_and_declaration_is_cached() -> None:
    def f(a: int): ...

    made = FunctionTool(f)
    declaration = made.declaration()
    assert declaration.response_json_schema is None
    assert declaration.parameters is None
    assert declaration.response is None
    assert made.declaration() is declaration


def test_fn_05_return_annotation_is_the_response_schema() -> None:
    def f() -> list[Box]: ...

    schema = FunctionTool(f).declaration().response_json_schema
    assert schema is not None
    assert schema["type"] == "array"
    assert list(schema["items"]["properties"]) == ["name", "width", "lid"]


def test_fn_30_long_running_description_has_a_note() -> None:
    def order(n: int):
        """Order things."""

    plain = FunctionTool(order).declaration().description
    noted = FunctionTool(order, long_running=True).declaration().description
    assert plain == "Order things."
    assert noted is not None
    assert noted.startswith("Order things.\n\nNOTE:")
