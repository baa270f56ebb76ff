"""Reading annotations: which library checks a type, and what a function's parameters and result mean."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import msgspec

from hookwork.records.base import Record


def type_text(annotation: Any) -> str:
    """A type as a person writes it."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")


def needs_pydantic(annotation: Any) -> bool:
    """Whether something in a type is known to pydantic only: its models, or constraints in ``Annotated``."""
    return _needs(annotation, set())


def _needs(annotation: Any, seen: set[int]) -> bool:
    if get_origin(annotation) is Annotated:
        if any(_constrains(item) for item in annotation.__metadata__):
            return True
        return _needs(annotation.__origin__, seen)
    if any(_needs(argument, seen) for argument in get_args(annotation) if not isinstance(argument, str)):
        return True
    cls = get_origin(annotation) or annotation
    if not isinstance(cls, type) or id(cls) in seen:
        return False
    seen.add(id(cls))
    if any(hasattr(cls, name) for name in ("__pydantic_core_schema__", "__get_pydantic_core_schema__")):
        return True
    if not _has_fields(cls):
        return False
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001 - names that cannot be resolved here: the library that reads the type will say so
        return False
    return any(_needs(hint, seen) for hint in hints.values())


def _constrains(item: Any) -> bool:
    """Whether metadata of ``Annotated`` is meant for pydantic; texts and msgspec's own are not."""
    return not (isinstance(item, str | msgspec.Meta) or hasattr(item, "documentation"))


def _has_fields(cls: type) -> bool:
    if issubclass(cls, Record):
        return False
    return (
        dataclasses.is_dataclass(cls)
        or hasattr(cls, "__attrs_attrs__")
        or typing.is_typeddict(cls)
        or issubclass(cls, msgspec.Struct)
        or hasattr(cls, "_fields")
    )


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function as types; one that names something unknown stays text.

    Names are looked up where the function is defined: in its module, in what it closes over, and in the function
    around it while that runs.
    """
    target = _with_annotations(function)
    namespace = getattr(target, "__globals__", {})
    local = _closure(target)
    annotations = getattr(target, "__annotations__", {})
    hints = {name: _read(value, namespace, local) for name, value in annotations.items()}
    if any(isinstance(hint, str) for hint in hints.values()):
        local = {**_locals_around(target), **local}
        hints = {name: _read(value, namespace, local) for name, value in annotations.items()}
    return hints


def _with_annotations(function: Any) -> Any:
    """The function that carries the annotations: inside partials, wrappers, methods, objects with ``__call__``."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif isinstance(function, types.FunctionType):
            return function
        else:
            call = getattr(type(function), "__call__", None)  # noqa: B004 - its annotations are wanted
            if not isinstance(call, types.FunctionType):
                return function
            function = call


def _closure(function: Any) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    found = {}
    for name, cell in zip(code.co_freevars if code else (), getattr(function, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _locals_around(function: Any) -> dict[str, Any]:
    """Local names of the function in whose body this one was defined, if that is on the stack now."""
    around, inside, _ = str(getattr(function, "__qualname__", "")).rpartition(".<locals>.")
    frame = sys._getframe() if inside else None
    while frame is not None:
        if frame.f_code.co_qualname == around and frame.f_code.co_filename == function.__code__.co_filename:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def _read(annotation: Any, namespace: dict[str, Any], local: dict[str, Any]) -> Any:
    """One annotation as a type; its text when a name in it is unknown."""
    if annotation is None:
        return type(None)
    holder = type("Holder", (), {"__annotations__": {"value": annotation}})
    try:
        return typing.get_type_hints(holder, namespace, local, include_extras=True)["value"]
    except NameError:
        return annotation if isinstance(annotation, str) else str(annotation)
