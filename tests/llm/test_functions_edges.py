"""Function tools at their edges: forward names inside classes, class methods, exact values, hostile schemas (§2)."""
# mypy: disable-error-code="no-untyped-def, empty-body, type-arg"

from __future__ import annotations

import enum
import functools
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import attrs
import pytest
from pydantic import BaseModel, Field
from tests.llm.test_function_calls import call_context

from hookwork.errors import InvalidToolError, ToolArgumentError, ToolResultError
from hookwork_llm.functions import FunctionTool, StreamingTool, as_tool, tool
from hookwork_llm.functions.json_schema import JsonSchema, SchemaError
from hookwork_llm.functions.results import NotJson, to_json

if TYPE_CHECKING:
    from nowhere import Absent  # type: ignore[import-not-found]


def schema_of(made: FunctionTool | StreamingTool) -> dict[str, Any]:
    schema = made.declaration().parameters_json_schema
    assert schema is not None
    return dict(schema)


def taking(annotation: Any) -> FunctionTool:
    """A tool with one parameter ``x`` of a type."""

    def f(x) -> None: ...

    f.__annotations__["x"] = annotation
    return FunctionTool(f)


# --- FN-02: names that are defined later, inside classes --------------------------------------------------------------


@dataclass
class OuterData:
    inner: Inner


@attrs.define
class OuterAttrs:
    inner: Inner


class OuterModel(BaseModel):
    inner: Inner


class OuterDict(TypedDict):
    inner: Inner


EARLY = {kind: taking(kind) for kind in (OuterData, OuterAttrs, OuterModel, OuterDict)}
EARLY_LISTS = {kind: taking(list[kind] | None) for kind in (OuterData, OuterAttrs, OuterModel, OuterDict)}  # type: ignore[valid-type]


@dataclass
class Inner:
    n: int


@pytest.mark.parametrize("kind", list(EARLY), ids=lambda kind: kind.__name__)
def test_fn_02_case_tool_1_a_field_whose_type_is_defined_below_the_tool_is_resolved_later(kind: Any) -> None:
    node = schema_of(EARLY[kind])["properties"]["x"]["properties"]["inner"]
    assert (node["properties"], node["required"]) == ({"n": {"type": "integer"}}, ["n"])
    converted = EARLY[kind].validate_args({"x": {"inner": {"n": 1.0}}})["x"]
    assert (converted["inner"] if kind is OuterDict else converted.inner) == Inner(1)
    assert EARLY_LISTS[kind].validate_args({"x": [{"inner": {"n": 2}}]})["x"]
    with pytest.raises(ToolArgumentError, match="/x/0/inner/n"):
        EARLY_LISTS[kind].validate_args({"x": [{"inner": {"n": "two"}}]})


@dataclass
class LostData:
    inner: Absent


@attrs.define
class LostAttrs:
    inner: Absent


class LostModel(BaseModel):
    inner: Absent


class LostDict(TypedDict):
    inner: Absent


LOST = [LostData, LostAttrs, LostModel, LostDict]


@pytest.mark.parametrize("kind", LOST, ids=lambda kind: kind.__name__)
def test_fn_02_a_field_known_to_checkers_only_is_an_error_that_names_tool_parameter_and_name(kind: Any) -> None:
    made = taking(kind)
    with pytest.raises(InvalidToolError, match=r"tool 'f'.*parameter 'x'.*'Absent'"):
        as_tool(made)
    with pytest.raises(InvalidToolError, match="Absent"):
        made.validate_args({})


@pytest.mark.parametrize("kind", LOST, ids=lambda kind: kind.__name__)
def test_fn_02_a_lost_name_in_the_result_or_the_struct_form_is_named_too(kind: Any) -> None:
    def gives() -> Any: ...

    def takes(args: Any) -> None: ...

    gives.__annotations__["return"] = kind
    takes.__annotations__["args"] = kind
    with pytest.raises(InvalidToolError, match=r"'gives'.*the result.*'Absent'"):
        as_tool(gives)
    with pytest.raises(InvalidToolError, match=r"'takes'.*parameter 'args'.*'Absent'"):
        as_tool(takes)


@pytest.mark.parametrize("kind", LOST, ids=lambda kind: kind.__name__)
def test_fn_04_an_override_schema_stands_for_a_type_that_is_lost(kind: Any) -> None:
    def f(x) -> None: ...

    f.__annotations__["x"] = kind
    made = as_tool(FunctionTool(f, input_schema={"type": "object", "properties": {"x": {"type": "integer"}}}))
    assert made.validate_args({"x": 3}) == {"x": 3}  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", LOST, ids=lambda kind: kind.__name__)
def test_fn_02_a_lost_name_in_an_override_type_is_named(kind: Any) -> None:
    with pytest.raises(InvalidToolError, match=r"'f'.*'Absent'"):
        as_tool(FunctionTool(lambda: None, name="f", output_schema=kind))


# --- FN-06: class methods, static methods -----------------------------------------------------------------------------


class Shop:
    """Tools of every kind of method."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    @tool
    def of_class(cls, q: str) -> str:
        """Of the class."""
        return f"{cls.__name__}:{q}"

    @staticmethod
    @tool
    def static(q: str) -> str:
        """Of nobody."""
        return q

    @tool
    @staticmethod
    def static_too(q: str) -> str:
        """Of nobody."""
        return q

    @tool(name="stream")
    async def words(self, q: str):
        """Stream."""
        yield self.name
        yield q


class Branch(Shop):
    """Inherits the tools."""


@pytest.mark.parametrize(
    ("owner", "attribute", "result"),
    [
        (Shop, "of_class", "Shop:x"),
        (Shop("a"), "of_class", "Shop:x"),
        (Branch, "of_class", "Branch:x"),
        (Branch("a"), "of_class", "Branch:x"),
        (Shop, "static", "x"),
        (Shop("a"), "static", "x"),
        (Shop("a"), "static_too", "x"),
    ],
)
async def test_fn_06_methods_of_a_class_lose_their_first_parameter(owner: Any, attribute: str, result: str) -> None:
    made: Any = as_tool(getattr(owner, attribute))
    assert made.name == attribute
    assert list(schema_of(made)["properties"]) == ["q"]
    assert made("x") == result
    assert await made.run_validated(call_context(), made.validate_args({"q": "x"})) == {"result": result}


async def test_fn_06_a_class_method_as_python_3_13_gives_it() -> None:
    unbound = Shop.__dict__["of_class"].__func__
    made: Any = as_tool(types.MethodType(unbound, Branch))
    assert isinstance(made, FunctionTool)
    assert list(schema_of(made)["properties"]) == ["q"]
    assert made("x") == "Branch:x"


async def test_fn_06_a_streaming_method_is_bound_to_its_instance() -> None:
    made: Any = as_tool(Branch("b").words)
    assert (made.name, list(schema_of(made)["properties"])) == ("stream", ["q"])
    assert await made.run_validated(call_context(), {"q": "x"}) == {"result": "bx"}
    with pytest.raises(InvalidToolError, match="instance"):
        as_tool(Shop.words)


def test_fn_06_options_are_kept_by_the_tool_of_an_instance() -> None:
    class Bank:
        @tool(
            name="pay",
            description="Pays.",
            input_schema={"type": "object"},
            output_schema={"type": "object"},
            require_confirmation=True,
            idempotent=False,
            timeout=3,
            inline=True,
        )
        def transfer(self, amount: int = 1) -> dict:
            return {"amount": amount}

    made = Bank().transfer
    assert (made.name, made.description, made.idempotent, made.timeout, made.inline) == ("pay", "Pays.", False, 3, True)
    assert schema_of(made) == {"type": "object"}
    assert made.declaration().response_json_schema == {"type": "object"}
    assert made._gate is True


def test_fn_06_partial_methods_and_cached_functions() -> None:
    class Thing:
        def join(self, a: str, b: str) -> str:
            return a + b

        first = functools.partialmethod(join, "a")

    @functools.lru_cache
    def cached(q: str) -> str:
        """Cached."""
        return q

    assert list(schema_of(FunctionTool(Thing().first, name="first"))["properties"]) == ["b"]
    made = FunctionTool(cached)
    assert (made.name, made.description, made("x")) == ("cached", "Cached.", "x")


# --- FN-12: exact values ----------------------------------------------------------------------------------------------


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Switch(enum.Enum):
    ON = True
    OFF = False


@pytest.mark.parametrize(
    ("annotation", "fits", "refused"),
    [
        (Literal[1, 2], [1, 2, 1.0], [True, "1", 3, None]),
        (Literal[True], [True], [1, 1.0, False]),
        (Literal[0, "a"], [0, "a"], [False, "b"]),
        (Level, [1, 2.0], [True, "1", 3]),
        (Switch, [True, False], [0, 1, "True"]),
        (list[Literal[1]], [[1]], [[True]]),
        (dict[str, Level], [{"a": 1}], [{"a": True}]),
        (Level | None, [1, None], [True]),
        (int | str, [1, "a"], [True, None]),
        (int | float, [1, 1.5], [True, "1"]),
        (bool | int, [True, 1], ["1"]),
        (NewType("Count", int), [1, 1.0], [True, "1", 1.5]),
        (Annotated[int, Field(ge=3)], [3, 3.0], [2, 2.0, True]),
        (list[int], [[1.0, 2**70]], [[True], [1.5]]),
        (int, [2**70], [1.5]),
        (float, [1, 2**70], [True, 10**400]),
        (None, [None], [0, ""]),
    ],
)
def test_fn_12_true_is_no_number_and_a_number_is_not_true(annotation: Any, fits: list, refused: list) -> None:
    made = taking(annotation)
    for value in fits:
        given = made.validate_args({"x": value})["x"]
        assert getattr(given, "value", given) == value
    for value in refused:
        with pytest.raises(ToolArgumentError, match="/x"):
            made.validate_args({"x": value})


def test_fn_12_what_is_kept_apart_is_not_seen_in_the_schema() -> None:
    assert schema_of(taking(Level))["properties"]["x"] == {"type": "integer", "enum": [1, 2]}
    assert schema_of(taking(Literal[1, 2]))["properties"]["x"] == {"type": "integer", "enum": [1, 2]}
    assert schema_of(taking(Literal[True]))["properties"]["x"] == {"type": "boolean", "enum": [True]}


def test_fn_13_the_text_says_what_is_expected() -> None:
    with pytest.raises(ToolArgumentError, match=r"tool 'f': /x: Input should be 1 or 2$"):
        taking(Literal[1, 2]).validate_args({"x": True})


# --- FN-04: schemas of others -----------------------------------------------------------------------------------------


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"$ref": {"type": "string"}}}, {"$ref": "x"}),
        ({"const": {"$ref": None}}, {"$ref": None}),
        ({"enum": [{"$ref": "elsewhere"}]}, {"$ref": "elsewhere"}),
        ({"type": "object", "default": {"$ref": "#/nowhere"}, "examples": [{"$ref": 1}]}, {}),
        ({"$defs": {"$ref": {"type": "integer"}}, "$ref": "#/$defs/$ref"}, 1),
    ],
)
def test_fn_04_data_and_names_in_a_schema_are_no_references(schema: Any, value: Any) -> None:
    assert JsonSchema(schema).faults(value) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"$ref": "other.json"}}},
        {"$dynamicRef": "https://example.org/schema"},
        {"properties": {"properties": {"properties": {"$ref": {"$ref": "#/nowhere"}}}}},
        {"items": [{"type": "string"}]},
    ],
)
def test_fn_04_a_reference_that_leads_out_of_a_schema_is_found_wherever_it_is(schema: Any) -> None:
    with pytest.raises(SchemaError):
        JsonSchema(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#"}, 1),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, 1),
        ({"type": "object", "properties": {"x": {"$ref": "#"}}}, nested(3000)),
    ],
    ids=["itself", "each other", "deep value"],
)
def test_fn_13_endless_schemas_and_values_are_a_fault_and_no_crash(schema: Any, value: Any) -> None:
    [(where, what)] = JsonSchema(schema).faults(value)
    assert (where, "too deeply" in what) == ("", True)


def test_fn_13_the_schema_false_says_so() -> None:
    assert JsonSchema({"properties": {"x": False}}).faults({"x": 1}) == [("/x", "Nothing is allowed here")]


def test_fn_04_unevaluated_and_conditional_faults_name_their_place() -> None:
    conditional = JsonSchema({"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}})
    assert conditional.faults({"a": 1}) == [("/b", "Field required")]
    assert JsonSchema({"properties": {"x": {"contains": {"type": "string"}}}}).faults({"x": [1]})[0][0] == "/x"


# --- FN-20, FN-21: results --------------------------------------------------------------------------------------------


class Point(NamedTuple):
    a: int
    b: str


class Colour(enum.Flag):
    RED = 1
    BLUE = 2


class Text(str):
    """Text of a class of its own."""


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (Point(1, "x"), [1, "x"]),
        (Pair(1, {2}), [1, [2]]),
        (Colour.RED | Colour.BLUE, 3),
        (Level.HIGH, 2),
        (Text("t"), "t"),
        ({Text("k"): Text("v")}, {"k": "v"}),
        (defaultdict(int, a=1), {"a": 1}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (bytearray(b"hi"), "aGk="),
        (memoryview(b"hi"), "aGk="),
        ({Switch.ON}, [True]),
        ((), []),
        (2**70, 2**70),
        (-0.0, -0.0),
    ],
)
def test_fn_21_odd_values_become_plain_json(value: Any, encoded: Any) -> None:
    result = to_json(value)
    assert result == encoded
    assert type(result) is type(encoded)


@pytest.mark.parametrize("value", [deque([1]), range(3), iter([1]), types, Shop, len, NotImplemented, ..., 1j])
def test_fn_21_everything_else_is_refused_and_never_made_text(value: Any) -> None:
    with pytest.raises(NotJson):
        to_json({"at": [value]})


async def test_fn_20_a_wrong_result_names_its_place_and_type() -> None:
    def f():
        return {"list": [1, {"bad/key": object()}]}

    with pytest.raises(ToolResultError, match=r"tool 'f': /list/1/bad~1key: .*builtins.object"):
        await FunctionTool(f).run_validated(call_context(), {})
