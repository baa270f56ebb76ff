"""What can be called, and what is known about it without calling it (tools-plugins FN-06).

A callable comes in many shapes: function, bound method, `functools.partial`, object with ``__call__``, a wrapper made
with `functools.wraps`. `describe` reads all of them into one plain description.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

from hookwork.errors import InvalidToolError


class CallableInfo:
    """A callable, read once.

    Attributes:
        call: what is called.
        name: a name for a tool made of it; empty for a lambda.
        doc: its docstring as written, or empty.
        parameters: the parameters a caller may still give (no ``self``, nothing that a partial has bound).
        returns: the return annotation, `inspect.Parameter.empty` when there is none.
        where: the innermost function, whose globals and closure its annotations are read in.
        kind: ``"async"``, ``"sync"``, ``"async generator"`` or ``"generator"``.
    """

    __slots__ = ("call", "doc", "kind", "name", "parameters", "returns", "where")

    def __init__(
        self,
        call: Callable[..., Any],
        name: str,
        doc: str,
        parameters: Mapping[str, inspect.Parameter],
        returns: Any,
        where: Any,
        kind: str,
    ) -> None:
        self.call = call
        self.name = name
        self.doc = doc
        self.parameters = parameters
        self.returns = returns
        self.where = where
        self.kind = kind


def describe(func: Callable[..., Any]) -> CallableInfo:
    """Read a callable.

    Raises:
        InvalidToolError: it is no callable, a class, or its signature cannot be read.
    """
    if not callable(func) or isinstance(func, type):
        what = f"the class {func.__qualname__}" if isinstance(func, type) else f"a {type(func).__name__}"
        raise InvalidToolError(f"{what} cannot be a function tool; give a function, a method or a callable object")
    inner, bound = _without_partial(func)
    name, doc, body = _identity(inner)
    chain = _wrapped_chain(body)
    try:
        signature = inspect.signature(func)
    except (ValueError, TypeError) as error:
        raise InvalidToolError(
            f"tool {name or func!r}: its signature cannot be read ({error}); wrap it in a function with annotations"
        ) from error
    parameters = {key: value for key, value in signature.parameters.items() if key not in bound}
    return CallableInfo(func, name, doc, parameters, signature.return_annotation, chain[-1], _kind(chain))


def _without_partial(func: Any) -> tuple[Any, frozenset[str]]:
    """The callable inside a partial and the keywords that are bound already.

    `inspect.signature` drops what a partial binds by position, but keeps its keywords as optional parameters.
    """
    bound: set[str] = set()
    while isinstance(func, functools.partial):
        bound.update(func.keywords)
        func = func.func
    return func, frozenset(bound)


def _identity(inner: Any) -> tuple[str, str, Any]:
    """Name, docstring and the function that holds the code."""
    if isinstance(inner, types.FunctionType | types.MethodType | types.BuiltinFunctionType | types.BuiltinMethodType):
        name = inner.__name__
        return ("" if name == "<lambda>" else name), inner.__doc__ or "", inner
    given = getattr(inner, "__name__", None)
    if isinstance(given, str):  # a wrapper object that took over the function's identity (functools.update_wrapper)
        return given, getattr(inner, "__doc__", None) or "", inner
    kind = type(inner)
    call = kind.__call__
    return snake_case(kind.__name__), call.__doc__ or kind.__doc__ or "", call


def snake_case(name: str) -> str:
    """``WeatherLookup`` → ``weather_lookup``."""
    spaced = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spaced).lower()


def _wrapped_chain(body: Any) -> list[Any]:
    """A function and what it wraps, outermost first, plain functions only."""
    chain: list[Any] = []
    while body is not None and all(body is not known for known in chain):
        chain.append(body)
        body = getattr(body, "__wrapped__", None)
    return [getattr(link, "__func__", link) for link in chain]


def _kind(chain: list[Any]) -> str:
    # A plain wrapper around a coroutine function returns a coroutine: it belongs in the loop, so the whole chain
    # decides, not its outermost link.
    for test, kind in (
        (inspect.isasyncgenfunction, "async generator"),
        (inspect.iscoroutinefunction, "async"),
        (inspect.isgeneratorfunction, "generator"),
    ):
        links = chain[:1] if kind == "generator" else chain
        if any(test(link) or test(_call_method(link)) for link in links):
            return kind
    return "sync"


def _call_method(link: Any) -> Any:
    return None if isinstance(link, types.FunctionType) else getattr(type(link), "__call__", None)  # noqa: B004
