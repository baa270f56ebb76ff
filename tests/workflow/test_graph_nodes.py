"""Nodes made of functions (workflow §1.4, API-2, NODE): bodies run by hand, with a bare context."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.workflow.bare import Bare, events_of, output_of

from hookwork import Content, Event, InvocationContext, Node, NodeConfig, build_node, text_content
from hookwork.errors import GraphError, NodeFailed, ValidationError
from hookwork_workflow import (
    FunctionNode,
    InputValidationError,
    Join,
    OutputValidationError,
    Retry,
    Routed,
    node,
    routed,
)

if TYPE_CHECKING:
    from hookwork.elsewhere import NodeContext  # type: ignore[import-not-found]


@dataclass
class City:
    name: str


async def test_node_an_async_function() -> None:
    @node
    async def city(text: str) -> City:
        """Finds the city.

        More about it.
        """
        return City(text.title())

    assert isinstance(city, FunctionNode)
    assert (city.name, city.description, city.kind) == ("city", "Finds the city.", "function")
    assert (city.input_schema, city.output_schema) == (str, City)
    assert not city.takes_context
    assert city.config == NodeConfig()
    assert await output_of(city, "oslo") == {"name": "Oslo"}


async def test_api_2_a_node_stays_callable() -> None:
    @node(retry=Retry(max_attempts=3), timeout=10, name="town")
    async def city(text: str) -> City:
        return City(text)

    assert await city("tokyo") == City("tokyo")
    assert city.name == "town"
    assert city.config == NodeConfig(retry=Retry(max_attempts=3), timeout=10)

    @node
    def double(x: int, by: int = 2) -> int:
        return x * by

    assert (double(4), double(4, by=3)) == (8, 12)


async def test_node_a_plain_function_runs_in_a_thread_with_the_callers_variables() -> None:
    variable = contextvars.ContextVar("variable", default="")
    threads = []

    @node
    def where(text: str) -> str:
        threads.append(threading.current_thread())
        return variable.get() + text

    variable.set("seen ")
    assert await output_of(where, "x") == "seen x"
    assert threads != [threading.main_thread()]


async def test_node_inline_keeps_a_quick_function_in_the_loop() -> None:
    @node(inline=True)
    def where(text: str) -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await output_of(where, "x") is True


async def test_node_a_functions_thread_is_left_behind_when_the_node_is_cancelled() -> None:
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    @node
    def slow() -> None:
        started.set()
        release.wait(30)
        ended.set()

    task = asyncio.create_task(events_of(slow))
    await asyncio.to_thread(started.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not ended.is_set()
    release.set()
    assert await asyncio.to_thread(ended.wait, 30)


async def test_node_a_plain_function_may_not_raise_what_a_future_cannot_carry() -> None:
    @node
    def ends() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match='function of node "ends" raised StopIteration'):
        await events_of(ends)


@pytest.mark.parametrize("value", [None, "text", 5, [1], {"a": 1}])
async def test_node_what_a_function_returns_is_the_output(value: Any) -> None:
    @node
    async def gives(x: Any) -> Any:
        return value

    events = await events_of(gives, 1)
    assert [event.output for event in events] == ([] if value is None else [value])
    assert [event.content for event in events] == ([] if value is None else [None])


async def test_node_an_event_is_emitted_as_it_is() -> None:
    own = Event(author="me", content=text_content("hi"), output={"x": 1}, routes=("r",))

    @node
    async def gives(x: Any) -> Event:
        return own

    assert await events_of(gives, 1) == [own]
    assert gives.output_schema is None
    assert gives.validate_output(own) is own


async def test_node_content_is_shown_and_its_text_is_the_output() -> None:
    """WT-15: in the reference the successor gets nothing. NODE-8: the text is stored once."""

    @node
    async def says(x: Any) -> Content:
        return Content(parts=text_content("hi").parts)

    [event] = await events_of(says, 1)
    assert event.content == text_content("hi")
    assert event.output == "hi"
    assert event.node_info is not None
    assert event.node_info.message_as_output is True


async def test_api_2_routed_gives_output_and_routes() -> None:
    @node
    async def triage(city: City) -> Routed[City, Literal["big", "small"]]:
        return routed("big", city)

    assert triage.output_schema is City
    [event] = await events_of(triage, {"name": "Oslo"})
    assert (event.output, event.routes) == ({"name": "Oslo"}, ("big",))

    @node
    async def several(x: Any) -> Any:
        return routed([1, True, "x", 1])

    [event] = await events_of(several, 0)
    assert (event.output, event.routes) == (None, ("1", "true", "x"))
    with pytest.raises(GraphError, match="is no route"):
        routed(1.5)


async def test_per_2_what_json_cannot_hold_raises_when_emitted() -> None:
    @node
    async def gives(x: Any) -> Any:
        return {"f": object()}

    with pytest.raises(ValidationError, match=r"\$\.f: JSON cannot hold"):
        await events_of(gives, 1)


async def test_node_1_none_becomes_the_parameters_default() -> None:
    @node
    async def greets(name: str = "world", *, loud: bool = False) -> str:
        return f"hello {name}"

    @node
    async def takes(value: str | None) -> str:
        return f"got {value}"

    assert await output_of(greets, None) == "hello world"
    assert await output_of(greets, "you") == "hello you"
    assert await output_of(takes, None) == "got None"


async def test_node_1_node_2_the_input_is_converted_and_checked() -> None:
    @node
    async def greets(city: City) -> str:
        return city.name

    assert await output_of(greets, {"name": "Oslo"}) == "Oslo"
    assert await output_of(greets, '{"name": "Oslo"}') == "Oslo"
    assert await output_of(greets, City("Oslo")) == "Oslo"
    with pytest.raises(InputValidationError, match=r'^input validation failed for node "greets": '):
        greets.validate_input({"name": 5})


async def test_node_3_node_4_the_output_is_checked() -> None:
    @node
    async def gives(x: Any) -> City:
        return x  # type: ignore[no-any-return]

    assert await output_of(gives, {"name": "Oslo", "more": 1}) == {"name": "Oslo"}
    with pytest.raises(OutputValidationError, match=r'^output validation failed for node "gives": '):
        await output_of(gives, {"nam": "Oslo"})


async def test_node_schemas_may_be_given_or_switched_off() -> None:
    def function(x: int) -> int:
        return x

    free = node(function, input_schema=None, output_schema=None)
    assert free.validate_input("anything") == "anything"
    assert await output_of(free, "anything") == "anything"
    strict = node(input_schema=City, output_schema={"type": "object"})(function)
    assert strict.validate_input({"name": "x"}) == City("x")
    assert strict.validate_output(City("x")) == {"name": "x"}


async def test_node_a_context_is_given_only_if_asked_for() -> None:
    @node
    async def by_annotation(x: Any, context: InvocationContext) -> Any:
        return context.mark

    @node
    async def by_name(x: Any, *, ctx: Any) -> Any:
        return ctx.mark

    @node
    async def by_text(x: Any, where: NodeContext) -> Any:
        return where.mark

    @node
    async def without(x: Any) -> Any:
        return x

    @node
    async def nothing() -> Any:
        return "none"

    ctx = Bare()
    ctx.mark = "here"  # type: ignore[attr-defined]
    for made in (by_annotation, by_name, by_text):
        assert made.takes_context
        assert await output_of(made, 1, ctx) == "here"
    assert not without.takes_context
    assert await output_of(nothing, "ignored") == "none"


async def test_node_other_parameters_are_read_from_the_state() -> None:
    @node
    async def report(node_input: Any, city: City, mood: str = "fine") -> str:
        return f"{node_input} {city.name} {mood}"

    assert report.state_fields == ("city", "mood")
    assert not report.takes_context  # EFF-8: still a leaf
    assert await output_of(report, {"raw": 1}, Bare(city={"name": "Oslo"})) == "{'raw': 1} Oslo fine"
    assert await output_of(report, "x", Bare(city={"name": "Oslo"}, mood="grey")) == "x Oslo grey"


async def test_node_node_input_takes_the_input_wherever_it_stands() -> None:
    @node
    async def report(city: str, node_input: int) -> str:
        return f"{city} {node_input}"

    assert report.input_schema is int
    assert report.state_fields == ("city",)
    assert await output_of(report, 5, Bare(city="Oslo")) == "Oslo 5"


async def test_node_a_missing_key_names_parameter_and_key() -> None:
    @node(state={"home": "user:city"})
    async def report(value: Any, home: str) -> str:
        return home

    assert report.state_fields == ("user:city",)
    ctx = Bare()
    with pytest.raises(NodeFailed, match="parameter 'home' is read from the state, but there is no key 'user:city'"):
        await events_of(report, 1, ctx)
    ctx.state["user:city"] = 5
    with pytest.raises(NodeFailed, match="the state key 'user:city' does not fit parameter 'home'"):
        await events_of(report, 1, ctx)
    ctx.state["user:city"] = "Oslo"
    assert await output_of(report, 1, ctx) == "Oslo"


async def test_node_the_first_parameter_may_come_from_the_state() -> None:
    @node(state=["city"])
    async def report(city: str) -> str:
        return city

    assert report.input_schema is None
    assert await output_of(report, "ignored", Bare(city="Oslo")) == "Oslo"
    with pytest.raises(GraphError, match="state names the parameter 'town', which its function does not have"):
        node(state=["town"])(report.func)


async def test_node_many_shapes_of_callables() -> None:
    class Desk:
        factor = 3

        def times(self, x: int) -> int:
            return x * self.factor

        async def __call__(self, x: int) -> int:
            return x + self.factor

    def add(x: int, y: int) -> int:
        return x + y

    def log(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @log
    async def wrapped(x: int) -> int:
        return x * 10

    def by_position(x: int, /) -> int:
        return -x

    async def keyword_only(*, x: int) -> int:
        return x

    async def rest(x: int, *more: Any, **others: Any) -> int:
        return x + len(more) + len(others)

    assert await output_of(node(Desk().times), 2) == 6
    assert await output_of(node(Desk()), 2) == 5
    assert await output_of(node(functools.partial(add, y=4)), 2) == 6
    assert await output_of(node(wrapped), 2) == 20
    assert await output_of(node(by_position), 2) == -2
    assert await output_of(node(keyword_only), 2) == 2
    assert await output_of(node(rest), 2) == 2
    assert await output_of(node(lambda x: x, name="same"), 2) == 2
    assert node(functools.partial(add, y=4)).name == "add"
    assert node(Desk()).name == "Desk"


def test_name_1_a_lambda_needs_a_name() -> None:
    with pytest.raises(GraphError, match="a lambda has no name"):
        node(lambda x: x)


def test_node_what_cannot_be_one() -> None:
    """HK-1: the text names the value and its type."""
    with pytest.raises(GraphError, match="5 of type int cannot be a node"):
        node(5)
    with pytest.raises(GraphError, match="of type type cannot be a node"):
        build_node(City)
    with pytest.raises(GraphError, match="of type type cannot be a node"):
        node(City, name="x")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"retries": 3}, "node.. has no setting 'retries'"),
        ({"retry": 3}, "retry of a node is a Retry"),
        ({"timeout": -1}, "timeout of a node is a number of seconds"),
        ({"timeout": "5"}, "timeout of a node is a number of seconds"),
    ],
)
def test_node_settings_that_mean_nothing_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        node(**settings)(lambda x: x)


def test_node_function_settings_do_not_fit_other_nodes() -> None:
    with pytest.raises(GraphError, match=r"state of node.. is for functions"):
        node(Join("both"), state=["x"])


def test_hk_1_build_node_returns_a_node_as_it_is_and_overrides_are_a_copy() -> None:
    @node
    async def city(text: str) -> str:
        return text

    assert build_node(city) is city
    assert node(city) is city
    other = node(city, name="town", timeout=5, description="other", input_schema=int)
    assert isinstance(other, FunctionNode)
    assert (other.name, other.config.timeout, other.description, other.input_schema) == ("town", 5, "other", int)
    assert (city.name, city.config.timeout, city.description, city.input_schema) == ("city", None, "", str)
    assert node(Join("both"), name="all").name == "all"


def test_hk_1_settings_of_a_foreign_node_are_a_copy_too() -> None:
    class Foreign(Node):
        name = "foreign"

        async def run(self, ctx: Any, input: Any) -> Any:
            yield Event()

    foreign = Foreign()
    other = node(foreign, name="other", timeout=3)
    assert (other.name, other.config.timeout) == ("other", 3)
    assert (foreign.name, foreign.config.timeout) == ("foreign", None)


def test_node_an_annotation_defined_later_is_found_when_it_is_needed() -> None:
    space: dict[str, Any] = {}
    source = "async def later(x: 'Late') -> 'Late': return x"
    exec(compile(source, "later.py", "exec", dont_inherit=True), space)
    made = node(space["later"])
    with pytest.raises(GraphError, match="parameter 'x' is 'Late', which names something that is not defined"):
        _ = made.input_schema
    space["Late"] = City
    assert (made.input_schema, made.output_schema) == (City, City)


def test_node_a_type_that_cannot_be_checked_names_the_node() -> None:
    class Opaque:
        pass

    async def takes(x: Opaque) -> None: ...

    with pytest.raises(GraphError, match=r'node "takes": its input: .*Opaque cannot be checked'):
        node(takes)
