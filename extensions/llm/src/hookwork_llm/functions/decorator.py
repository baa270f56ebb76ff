"""``@tool`` and `as_tool`: from a callable to a tool."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, overload

from hookwork.errors import InvalidToolError
from hookwork.tool import FunctionLike, RequestProcessor, StreamingLike, Tool
from hookwork_llm.functions.callables import describe
from hookwork_llm.functions.tool import Confirmation, FunctionTool, StreamingTool

_CAPABILITIES = (FunctionLike, StreamingLike, RequestProcessor)
_NOT_FOR_STREAMS = ("output_schema", "long_running", "inline")


@overload
def tool(func: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Any = None,
    output_schema: Any = None,
    long_running: bool = False,
    require_confirmation: Confirmation = False,
    idempotent: bool | None = None,
    timeout: float | None = None,
    inline: bool = False,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(func: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool, bare or with the options of `FunctionTool`.

    An async generator function becomes a `StreamingTool`. The result can still be called like the function. On a
    method in a class body each instance has a tool of its own.

    Raises:
        InvalidToolError: see `FunctionTool`.
    """
    if func is not None:
        return make_tool(func, options)

    def decorate(func: Callable[..., Any]) -> Tool:
        return make_tool(func, options)

    return decorate


def make_tool(func: Callable[..., Any], options: dict[str, Any]) -> FunctionTool | StreamingTool:
    """A FunctionTool, or a StreamingTool for an async generator function."""
    if describe(func).kind != "async generator":
        return FunctionTool(func, **options)
    for name in _NOT_FOR_STREAMS:
        if options.get(name):
            raise InvalidToolError(f"a streaming tool has no {name!r}: its result is the text it yields")
    return StreamingTool(func, **{k: v for k, v in options.items() if k not in _NOT_FOR_STREAMS})


def as_tool(value: Any) -> Tool:
    """What stands in ``tools=[...]`` as a tool, with its annotations resolved.

    A tool stays as it is; functions, bound methods, partials and objects with ``__call__`` become function tools.

    Raises:
        InvalidToolError: it is none of these, or an annotation cannot be resolved.
    """
    if isinstance(value, types.MethodType) and isinstance(value.__func__, FunctionTool | StreamingTool):
        value = value.__func__.of_method(value.__self__)  # what @classmethod gives from Python 3.13 on
    if isinstance(value, FunctionTool | StreamingTool):
        value.resolve()
        return value
    if isinstance(value, Tool) or _is_like_a_tool(value):
        return value  # type: ignore[no-any-return]
    if not callable(value) or isinstance(value, type):
        what = f"the class {value.__qualname__}" if isinstance(value, type) else f"a {type(value).__name__}"
        hint = ", or AgentTool(agent), with what its as_agent() returns" if hasattr(value, "as_agent") else ""
        raise InvalidToolError(
            f"{what} is not a tool; give a Tool, a function, a bound method or a callable object{hint}"
        )
    made = make_tool(value, {})
    made.resolve()
    return made


def _is_like_a_tool(value: Any) -> bool:
    """A tool by its capabilities, without the base class (TL-01)."""
    if isinstance(value, type) or not isinstance(getattr(value, "name", None), str):
        return False
    return isinstance(value, _CAPABILITIES)
