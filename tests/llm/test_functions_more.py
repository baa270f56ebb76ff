"""Lines of function tools that planted faults passed by: descriptions, defaults, bridges, reserved names (§2)."""
# mypy: disable-error-code="no-untyped-def, empty-body, type-arg"

from __future__ import annotations

import functools
import sys
import threading
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import attrs
import pytest
from pydantic import BaseModel, Field, field_serializer
from tests.llm.test_function_calls import call_context
from tests.llm.test_functions_edges import schema_of, taking

from hookwork.context import ToolContext
from hookwork.errors import ToolArgumentError, ToolResultError
from hookwork.records.content import Content, Part
from hookwork_llm.functions import FunctionTool, StreamingTool, as_tool
from hookwork_llm.functions.docstrings import read_docstring
from hookwork_llm.functions.json_schema import JsonSchema
from hookwork_llm.functions.results import to_json


def test_fn_03_the_last_text_of_an_annotation_counts() -> None:
    assert schema_of(taking(Annotated[int, "first", "last"]))["properties"]["x"]["description"] == "last"
    assert schema_of(taking(Annotated[list[int], "first", "last"]))["properties"]["x"]["description"] == "last"


def test_fn_02_names_that_a_function_closes_over_are_known_when_their_scope_is_gone() -> None:
    def make() -> Any:
        class Local(BaseModel):
            n: int

        def f(x: Local, others: list[Local]) -> int:
            return Local(n=x.n).n

        return f

    made = FunctionTool(make())
    assert made.validate_args({"x": {"n": 1}, "others": []})["x"].n == 1


def test_fn_03_null_is_recorded_as_default_only_where_it_is_allowed() -> None:
    def f(a: int = None, b: int | None = None, c: list[int] = None, d: Any = None): ...  # type: ignore[assignment]  # noqa: RUF013

    properties = schema_of(FunctionTool(f))["properties"]
    assert {name: "default" in node for name, node in properties.items()} == {
        "a": False,
        "b": True,
        "c": False,
        "d": True,
    }
    with pytest.raises(ToolArgumentError, match="/a"):
        FunctionTool(f).validate_args({"a": None})


def test_fn_03_a_default_factory_of_a_field_is_asked() -> None:
    def f(tags: list[str] = Field(default_factory=lambda: ["x"], description="the tags")): ...  # noqa: B008

    schema = schema_of(FunctionTool(f))
    assert schema["properties"]["tags"]["default"] == ["x"]
    assert schema["properties"]["tags"]["description"] == "the tags"
    assert "required" not in schema


@pytest.mark.parametrize("annotation", [int, list[int]])
def test_fn_01_the_model_cannot_fill_the_context_through_open_keywords(annotation: Any) -> None:
    def f(ctx: ToolContext, x=0, **more: Any): ...

    f.__annotations__["x"] = annotation
    made = FunctionTool(f)
    assert made.validate_args({"y": 1}) == {"y": 1}
    with pytest.raises(ToolArgumentError, match="/ctx: Extra inputs are not permitted"):
        made.validate_args({"ctx": {"user_id": "other"}, "y": 1})


@dataclass
class Order:
    """An order.

    Attributes:
        item: what is bought
        count: how many of it
    """

    item: str
    count: Annotated[int, "number of pieces"] = 1
    note: str = ""


def test_fn_01_texts_of_the_struct_form_come_from_class_and_function() -> None:
    def buy(args: Order):
        """Buy.

        Args:
            note: a note for the shop
            item: the item, says the function
        """

    properties = schema_of(FunctionTool(buy))["properties"]
    assert {name: node.get("description") for name, node in properties.items()} == {
        "item": "the item, says the function",
        "count": "number of pieces",
        "note": "a note for the shop",
    }


@pytest.mark.parametrize("returns", [Part, Content | None, list[Part]])
async def test_fn_05_records_of_the_kit_are_results_without_a_schema(returns: Any) -> None:
    def f(): ...

    part = Part(text="hi")
    f.__annotations__["return"] = returns
    made = FunctionTool(f)
    assert made.declaration().response_json_schema is None
    made.func = lambda: [part] if returns == list[Part] else part
    wire = {"text": "hi"}
    expected = {"result": [wire]} if returns == list[Part] else wire
    assert await made.run_validated(call_context(), {}) == expected


async def test_fn_20_a_type_as_output_schema_refuses_what_is_missing_not_what_is_more() -> None:
    made = FunctionTool(lambda: {"item": "x", "count": 1, "note": "", "more": True}, name="f", output_schema=Order)
    assert (await made.run_validated(call_context(), {}))["more"] is True
    wrong = FunctionTool(lambda: {"count": 1}, name="f", output_schema=Order)
    with pytest.raises(ToolResultError, match="/item: Field required"):
        await wrong.run_validated(call_context(), {})


def _known(value: str) -> str:
    return {"a": "A"}[value]


@attrs.define
class Converted:
    letter: str = attrs.field(converter=_known)
    derived: int = attrs.field(init=False, default=7)


def test_fn_02_converters_of_attrs_classes_say_no_with_the_place() -> None:
    made = taking(list[Converted])
    assert made.validate_args({"x": [{"letter": "a"}]})["x"] == [Converted("a")]
    assert list(schema_of(made)["properties"]["x"]["items"]["properties"]) == ["letter"]
    with pytest.raises(ToolArgumentError, match="/x/1: "):
        made.validate_args({"x": [{"letter": "a"}, {"letter": "z"}]})
    with pytest.raises(ToolArgumentError, match="/x/0/derived"):
        made.validate_args({"x": [{"letter": "a", "derived": 3}]})


class Open(TypedDict):
    a: int


Open.__pydantic_config__ = {"extra": "allow"}  # type: ignore[attr-defined]


class Closed(TypedDict):
    a: int


def test_fn_02_a_typed_dict_that_allows_extras_keeps_its_word() -> None:
    assert taking(Open).validate_args({"x": {"a": 1, "b": 2}})["x"] == {"a": 1, "b": 2}
    with pytest.raises(ToolArgumentError, match="/x/b"):
        taking(Closed).validate_args({"x": {"a": 1, "b": 2}})


def test_fn_06_annotations_of_a_wrapped_function_are_read_where_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = types.ModuleType("elsewhere")
    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)
    exec(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class OnlyHere:\n"
        "    n: int\n"
        "def inner(x: OnlyHere) -> int:\n"
        "    return x.n\n",
        elsewhere.__dict__,
    )
    inner = elsewhere.__dict__["inner"]

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    made: Any = as_tool(outer)
    assert made(**made.validate_args({"x": {"n": 3}})) == 3


@pytest.mark.parametrize(("answer", "needed"), [(1, True), ("yes", True), ([], False), (None, False), (0, False)])
async def test_hitl_02_any_true_answer_of_a_provider_asks_a_person(answer: Any, needed: bool) -> None:
    made = FunctionTool(lambda: None, name="f", require_confirmation=lambda: answer)
    assert await made.needs_confirmation(call_context(), {}, {}) is needed


async def test_hitl_02_a_provider_may_ask_for_open_keywords_and_for_the_context_by_the_functions_name() -> None:
    seen: list[Any] = []

    def f(c: ToolContext, x: int = 4, **more: Any): ...

    def provider(c, x, y=0) -> bool:
        seen.append((c.function_call_id, x, y))
        return True

    def open_provider(c, **given: Any) -> bool:
        seen.append((c.function_call_id, given))
        return True

    for require in (provider, open_provider):
        made = FunctionTool(f, require_confirmation=require)
        assert await made.needs_confirmation(call_context(), {}, made.validate_args({"y": 2})) is True
    assert seen == [("c1", 4, 2), ("c1", {"x": 4, "y": 2})]


async def test_hitl_02_a_required_parameter_of_a_provider_may_be_an_open_keyword() -> None:
    def f(**more: Any): ...

    made = FunctionTool(f, require_confirmation=lambda amount: amount > 10)
    assert await made.needs_confirmation(call_context(), {}, made.validate_args({"amount": 11})) is True
    assert await made.needs_confirmation(call_context(), {}, made.validate_args({"amount": 1})) is False


@pytest.mark.parametrize(
    "text",
    [
        """Weather.

        :param
        """,
        """Weather.

        Args:
        """,
        """Weather.

        :raises
        """,
    ],
    ids=["param", "args", "raises"],
)
def test_fn_07_a_docstring_in_no_style_still_describes_the_tool(text: str) -> None:
    def f(city: str): ...

    f.__doc__ = text
    assert str(FunctionTool(f).description).startswith("Weather.")


def test_fn_07_examples_come_after_the_body() -> None:
    description, _ = read_docstring(
        """Weather.

        Body.

        Args:
            city: c

        Example:
            >>> weather("x")
        """
    )
    assert description == 'Weather.\n\nBody.\n\nExample:\n>>> weather("x")'


def test_fn_13_a_text_lists_each_fault_once_and_not_all_of_a_long_array() -> None:
    with pytest.raises(ToolArgumentError) as raised:
        taking(list[int]).validate_args({"x": ["no"] * 50})
    assert str(raised.value).count("Input should be") == 5
    assert str(raised.value).endswith("; and 45 more")
    with pytest.raises(ToolArgumentError) as once:
        taking(Converted | Order).validate_args({"x": {"letter": 1, "item": 1}})
    assert len(set(str(once.value).split("; "))) == str(once.value).count("; ") + 1
    with pytest.raises(ToolArgumentError) as both:
        taking(Cat | Kitten).validate_args({"x": {"kind": "cat"}})
    assert str(both.value).count("/x/lives: Field required") == 1


def test_fn_04_a_bare_type_is_checked_quickly_and_one_with_limits_in_full() -> None:
    assert JsonSchema({"type": "integer"}).faults(True) == [("", "Input should be a valid integer")]
    assert JsonSchema({"type": "integer", "minimum": 3}).faults(1) == [
        ("", "Input should be greater than or equal to 3")
    ]
    assert JsonSchema({"type": "string", "enum": ["a"]}).faults("b") == [("", "Input should be one of 'a'")]
    assert JsonSchema({"type": "number"}).faults(1.5) == []


def test_fn_13_pointers_are_escaped() -> None:
    with pytest.raises(ToolArgumentError, match="/x/a~1b~0c: "):
        taking(dict[str, int]).validate_args({"x": {"a/b~c": "no"}})


def test_fn_13_names_that_a_pattern_allows_are_not_among_the_unknown() -> None:
    schema = JsonSchema({"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False})
    assert schema.faults({"x-a": 1, "y": 2}) == [("/y", "Extra inputs are not permitted")]
    assert schema.faults({"x-a": "no"}) == [("/x-a", "Input should be a valid integer")]


def test_fn_13_of_several_branches_that_might_be_meant_none_is_guessed() -> None:
    circle = {"type": "object", "required": ["radius"]}
    square = {"type": "object", "required": ["side"]}
    schema = JsonSchema({"properties": {"shape": {"anyOf": [circle, square]}}})
    assert schema.faults({"shape": {}}) == [("/shape", "Input has none of the allowed forms")]
    assert schema.faults({"shape": {"side": 1}}) == []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Kitten(BaseModel):
    kind: Literal["cat"]
    lives: int
    age: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


def test_fn_02_a_union_told_apart_by_a_field_is_declared_in_plain_json_schema() -> None:
    made = taking(Annotated[Cat | Dog, Field(discriminator="kind")])
    node = schema_of(made)["properties"]["x"]
    assert "discriminator" not in node
    assert len(node["oneOf"]) == 2
    assert made.validate_args({"x": {"kind": "dog", "name": "Rex"}})["x"] == Dog(kind="dog", name="Rex")
    with pytest.raises(ToolArgumentError, match="/x/lives: Field required"):
        made.validate_args({"x": {"kind": "cat"}})


class Key(str):
    """A text of a class of its own."""


def test_fn_21_keys_are_plain_text() -> None:
    [key] = to_json({Key("k"): Key("v")})
    assert type(key) is str


def test_fn_02_a_result_may_hold_more_than_its_type_promises() -> None:
    def f() -> Cat: ...

    schema = FunctionTool(f).declaration().response_json_schema
    assert schema is not None
    assert "additionalProperties" not in schema
    assert schema["required"] == ["kind", "lives"]


def test_fn_30_the_note_stands_alone_where_there_is_no_description() -> None:
    made = FunctionTool(lambda: None, name="later", long_running=True)
    text = str(made.declaration().description)
    assert text.startswith("NOTE: ")
    assert text == text.strip()


# --- FN-07: sections of plain text ------------------------------------------------------------------------------------


def test_fn_07_numpy_notes_and_warnings_belong_to_the_description() -> None:
    text, described = read_docstring(
        """Weather.

        Body.

        Parameters
        ----------
        lat, lon : float
            Position.

        Returns
        -------
        dict
            Secret of the returns.

        Warnings
        --------
        Slow.

        Notes
        -----
        Prices in EUR.

        See Also
        --------
        other
        """
    )
    assert text == "Weather.\n\nBody.\n\nWarning:\nSlow.\n\nNote:\nPrices in EUR."
    assert described == {"lat": "Position.", "lon": "Position."}


def test_fn_07_google_notes_stay_where_they_are() -> None:
    text, described = read_docstring(
        """Weather.

        Note:
            Prices in EUR.

        Args:
            city (str): The city: name
                on two lines.
            **extra: More.

        Returns:
            Text of the returns.
        """
    )
    assert text == "Weather.\n\nNote:\n    Prices in EUR."
    assert described == {"city": "The city: name on two lines.", "extra": "More."}


def test_fn_07_the_context_is_never_mentioned() -> None:
    def f(ctx: ToolContext, city: str):
        """Look.

        :param ctx: the hidden context
        :param city: the city
        :type city: str
        :returns: nothing of use
        """

    text = str(FunctionTool(f).declaration())
    assert "hidden" not in text
    assert "nothing of use" not in text
    assert "the city" in text


# --- FN-06: what a wrapper wraps --------------------------------------------------------------------------------------


def wrapping(func: Any) -> Any:
    @functools.wraps(func)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return outer


async def test_fn_06_a_plain_wrapper_is_of_the_kind_of_what_it_wraps() -> None:
    async def words(n: int):
        """Words."""
        yield "w" * n

    async def thread() -> str:
        return threading.current_thread().name

    streaming = as_tool(wrapping(words))
    assert isinstance(streaming, StreamingTool)
    assert await streaming.run_validated(call_context(), {"n": 2}) == {"result": "ww"}
    seen: list[str] = []

    @functools.wraps(thread)
    def noting(*args: Any, **kwargs: Any) -> Any:
        seen.append(threading.current_thread().name)
        return thread(*args, **kwargs)

    result = await FunctionTool(noting).run_validated(call_context(), {})
    assert result == {"result": seen[0]} == {"result": threading.current_thread().name}


def test_fn_06_the_doc_of_call_comes_before_that_of_the_class() -> None:
    class Lookup:
        """About the class."""

        def __call__(self, q: str) -> str:
            """About the call."""
            return q

    class Undocumented:
        """About the class."""

        def __call__(self, q: str) -> str:
            return q

    assert (FunctionTool(Lookup()).name, FunctionTool(Lookup()).description) == ("lookup", "About the call.")
    assert FunctionTool(Undocumented()).description == "About the class."


class Broken(BaseModel):
    n: int

    @field_serializer("n")
    def lost(self, value: int) -> int:
        raise LookupError("no serializer today")


async def test_fn_21_a_model_that_cannot_be_serialised_is_an_error_and_never_text() -> None:
    made = FunctionTool(lambda: {"at": Broken(n=1)}, name="f")
    with pytest.raises(ToolResultError, match="/at: a Broken that pydantic cannot serialise"):
        await made.run_validated(call_context(), {})
