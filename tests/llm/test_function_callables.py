"""Function tools: anything callable, the decorator, docstrings (tools-plugins FN-06, FN-07, FN-25, CASE-TOOL-3, 4)."""
# mypy: disable-error-code="no-untyped-def, empty-body, type-arg, comparison-overlap"
# Functions without annotations and bodies are the very thing these tests are about.

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Annotated, Any

import pytest

from hookwork.context import ToolContext
from hookwork.errors import InvalidToolError
from hookwork.records.frozen import thaw
from hookwork.tool import Tool
from hookwork_llm.functions import FunctionTool, StreamingTool, as_tool, tool


def parameters(func: Any, **options: Any) -> dict[str, Any]:
    """The declared parameter schema as plain JSON."""
    schema = FunctionTool(func, **options).declaration().parameters_json_schema
    assert schema is not None
    return thaw(schema)  # type: ignore[no-any-return]


# --- FN-06: anything callable -----------------------------------------------------------------------------------------


class Lookup:
    def __init__(self, answer: str) -> None:
        self.answer = answer

    def method(self, q: str) -> str:
        return f"{self.answer}:{q}"

    async def __call__(self, q: str) -> str:
        return f"{self.answer}/{q}"


def scaled(unit: str, value: int, factor: int = 2) -> str:
    return f"{value * factor}{unit}"


def test_fn_06_bound_method() -> None:
    made = FunctionTool(Lookup("a").method)
    assert made.name == "method"
    assert list(parameters(Lookup("a").method)["properties"]) == ["q"]


def test_fn_06_partials_lose_what_they_bind() -> None:
    by_position = FunctionTool(functools.partial(scaled, "C"))
    by_name = FunctionTool(functools.partial(scaled, unit="C"))
    nested = FunctionTool(functools.partial(functools.partial(scaled, "C"), factor=3))
    assert by_position.name == by_name.name == nested.name == "scaled"
    for made, names in ((by_position, ["value", "factor"]), (by_name, ["value", "factor"]), (nested, ["value"])):
        schema = made.declaration().parameters_json_schema
        assert schema is not None
        assert list(schema["properties"]) == names


def test_fn_06_object_is_named_after_its_class() -> None:
    made = FunctionTool(Lookup("a"))
    assert made.name == "lookup"

    class HTTPStatusLookup:
        def __call__(self): ...

    assert FunctionTool(HTTPStatusLookup()).name == "http_status_lookup"


def test_fn_06_lambda_needs_a_name() -> None:
    with pytest.raises(InvalidToolError, match="name="):
        FunctionTool(lambda q: q)
    assert FunctionTool(lambda q: q, name="echo").name == "echo"


def test_fn_06_wrapped_function_keeps_its_schema() -> None:
    def logged(func: Any) -> Any:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

        return wrapper

    @logged
    async def fetch(url: str, tries: int = 1) -> str:
        """Fetch it."""

    made = FunctionTool(fetch)
    assert made.name == "fetch"
    assert made.description == "Fetch it."
    assert list(parameters(fetch)["properties"]) == ["url", "tries"]


@pytest.mark.parametrize("value", [3, "name", int, Lookup, None])
def test_fn_06_what_cannot_be_a_tool_is_refused(value: Any) -> None:
    with pytest.raises(InvalidToolError):
        as_tool(value)


def test_tl_01_tools_stay_and_capabilities_are_enough() -> None:
    class Plain(Tool):
        name = "plain"

    class Duck:
        name = "duck"

        async def process_request(self, ctx: Any, request: Any) -> None: ...

    plain, duck = Plain(), Duck()
    assert as_tool(plain) is plain
    assert as_tool(duck) is duck


def test_fn_25_async_generators_stream_and_generators_are_refused() -> None:
    async def words(n: int):
        yield "a"

    def numbers(n: int):
        yield 1

    assert isinstance(as_tool(words), StreamingTool)
    assert isinstance(tool(words), StreamingTool)
    with pytest.raises(InvalidToolError, match="StreamingTool"):
        FunctionTool(words)
    with pytest.raises(InvalidToolError, match="generator"):
        as_tool(numbers)
    with pytest.raises(InvalidToolError, match="long_running"):
        tool(long_running=True)(words)
    with pytest.raises(InvalidToolError, match="async generator"):
        StreamingTool(scaled)


def test_decorated_method_gives_each_instance_its_own_tool() -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @tool(long_running=True)
        def order(self, n: int) -> str:
            """Order."""
            return f"{self.name}{n}"

    one, two = Shop("a"), Shop("b")
    assert one.order is one.order
    assert one.order.is_long_running
    assert one.order(1) == "a1"
    assert two.order(1) == "b1"
    assert one.order.validate_args({"n": 1}) == {"n": 1}
    with pytest.raises(InvalidToolError, match="instance"):
        as_tool(Shop.order)


def test_decorator_bare_and_with_options_stays_callable() -> None:
    @tool
    def one(a: int) -> int:
        return a + 1

    @tool(name="zwei", description="adds", idempotent=True)
    def two(a: int) -> int:
        return a + 2

    assert (one.name, two.name, two.description, two.idempotent, one.idempotent) == ("one", "zwei", "adds", True, None)
    assert (one(1), two(a=1)) == (2, 3)


@pytest.mark.parametrize("timeout", [0, -1])
def test_bad_timeout_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidToolError, match="timeout"):
        FunctionTool(scaled, timeout=timeout)


# --- FN-07: docstrings ------------------------------------------------------------------------------------------------


def google(city: str, days: int, ctx: ToolContext):
    """Forecast.

    Longer text.

    Args:
        city: the city, by name
        days: how many days
            to look ahead
        ctx: the context

    Returns:
        A forecast.

    Raises:
        KeyError: no city.
    """


def numpy(city: str, days: int, ctx: ToolContext):
    """Forecast.

    Longer text.

    Parameters
    ----------
    city : str
        the city, by name
    days : int
        how many days to look ahead
    ctx : ToolContext
        the context

    Returns
    -------
    str
        A forecast.
    """


def sphinx(city: str, days: int, ctx: ToolContext):
    """Forecast.

    Longer text.

    :param city: the city, by name
    :param days: how many days to look ahead
    :param ctx: the context
    :returns: A forecast.
    :raises KeyError: no city.
    """


@pytest.mark.parametrize("func", [google, numpy, sphinx])
def test_fn_07_case_tool_4_docstring_styles(func: Any) -> None:
    made = FunctionTool(func)
    assert made.description == "Forecast.\n\nLonger text."
    properties = parameters(func)["properties"]
    assert properties == {
        "city": {"type": "string", "description": "the city, by name"},
        "days": {"type": "integer", "description": "how many days to look ahead"},
    }


def test_fn_03_annotation_text_wins_over_the_docstring() -> None:
    def forecast(city: Annotated[str, "the city"], tags: Annotated[list[str], "the tags"], n: int = 1):
        """Forecast.

        Args:
            city: from the docs
            tags: from the docs
            n: from the docs
        """

    texts = {name: node["description"] for name, node in parameters(forecast)["properties"].items()}
    assert texts == {"city": "the city", "tags": "the tags", "n": "from the docs"}


def test_fn_07_docstring_without_sections_is_the_description() -> None:
    def f():
        """One.

        Two: a colon is no section.
        """

    made = FunctionTool(f)
    assert made.description == "One.\n\nTwo: a colon is no section."


def test_s1_plain_functions_load_neither_pydantic_nor_the_docstring_library() -> None:
    code = (
        "import sys\n"
        "from hookwork_llm.functions import tool\n"
        "@tool\n"
        "def weather(city: str, days: int = 1) -> dict:\n"
        '    """Current weather."""\n'
        "weather.declaration(); weather.validate_args({'city': 'x'})\n"
        "print('pydantic' in sys.modules, 'docstring_parser' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
