"""Reading annotations: strings, forward names, and the context parameter (tools-plugins FN-01, FN-02)."""

from __future__ import annotations

import sys
import types
import typing
from typing import Annotated, Any, Union, get_args, get_origin

from hookwork.context import CallbackContext, InvocationContext, ReadonlyContext, ToolContext
from hookwork.errors import InvalidToolError

#: Names of the kit that a module often imports under TYPE_CHECKING only; a tool call can always supply them.
_CONTEXT_NAMES = {cls.__name__: cls for cls in (ToolContext, CallbackContext, ReadonlyContext)}


class UnresolvedName(InvalidToolError):
    """An annotation names something that is not defined (yet). ``parameter`` is filled in by the reader."""

    def __init__(self, name: str, where: str = "an annotation") -> None:
        super().__init__(f"{where} uses the name {name!r}, which is not defined")
        self.name = name
        self.parameter = ""


class _Holder:
    """Something with ``__annotations__`` for `typing.get_type_hints`."""

    def __init__(self, annotation: Any) -> None:
        self.__annotations__ = {"value": annotation}


def resolve(annotation: Any, where: Any) -> Any:
    """The annotation as types, read in the globals, closure and enclosing scope of the function ``where``.

    Raises:
        UnresolvedName: a name in it is unknown.
        TypeError, SyntaxError: it is no annotation.
    """
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation
    namespace = getattr(where, "__globals__", {})
    local = {**_CONTEXT_NAMES, **{k: v for k, v in namespace.items() if k in _CONTEXT_NAMES}, **_closure(where)}
    holder = _Holder(annotation)
    try:
        return typing.get_type_hints(holder, namespace, local, include_extras=True)["value"]
    except NameError:
        pass
    enclosing = _enclosing_locals(where)
    try:
        return typing.get_type_hints(holder, namespace, {**local, **enclosing}, include_extras=True)["value"]
    except NameError as error:
        raise UnresolvedName(error.name or str(error)) from error


def _closure(where: Any) -> dict[str, Any]:
    code = getattr(where, "__code__", None)
    cells = getattr(where, "__closure__", None) or ()
    found = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _enclosing_locals(where: Any) -> dict[str, Any]:
    """Locals of the function in which ``where`` was defined, if that is running right now up the stack."""
    outer, found, _ = str(getattr(where, "__qualname__", "")).rpartition(".<locals>.")
    code = getattr(where, "__code__", None)
    if not found or code is None:
        return {}
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_qualname == outer and frame.f_code.co_filename == code.co_filename:
            return dict(frame.f_locals)
        frame = frame.f_back  # type: ignore[assignment]
    return {}


def strip_annotated(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """``Annotated[T, a, b]`` → (T, (a, b)); anything else → (it, ())."""
    if get_origin(annotation) is Annotated:
        return annotation.__origin__, annotation.__metadata__
    return annotation, ()


def description_in(metadata: tuple[Any, ...]) -> str | None:
    """The text of ``Annotated[T, "text"]`` or of a PEP 727 ``Doc``; the last one counts."""
    for item in reversed(metadata):
        if isinstance(item, str):
            return item
        if type(item).__name__ == "Doc" and isinstance(getattr(item, "documentation", None), str):
            return str(item.documentation)
    return None


def is_union(annotation: Any) -> bool:
    """``X | Y``, `Union` or `Optional`."""
    return get_origin(annotation) in (Union, types.UnionType)


def is_context(annotation: Any, tool: str, parameter: str) -> bool:
    """Whether a parameter is the call's context, which is injected and never part of the schema.

    Raises:
        InvalidToolError: it asks for a context that no tool call has.
    """
    annotation, _ = strip_annotated(annotation)
    if is_union(annotation):
        return any(is_context(member, tool, parameter) for member in get_args(annotation))
    if not (isinstance(annotation, type) and issubclass(annotation, ReadonlyContext)):
        return False
    if issubclass(ToolContext, annotation):
        return True
    hint = " (agent bodies get that one)" if issubclass(annotation, InvocationContext) else ""
    raise InvalidToolError(
        f"tool {tool!r}: parameter {parameter!r} asks for {annotation.__name__}{hint}; a tool gets a ToolContext"
    )


def looks_like_context(annotation: Any) -> bool:
    """Whether an annotation that cannot be resolved is a context by its text, such as ``ctx.ToolContext``."""
    return isinstance(annotation, str) and annotation.replace("|", " ").split(".")[-1].split()[:1] == ["ToolContext"]
