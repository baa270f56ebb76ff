"""Types that pydantic does not read by itself: attrs classes, and TypedDicts of the standard library before 3.12.

`rewrite` looks through an annotation and puts a stand-in at each of them (tools-plugins FN-02).
"""

from __future__ import annotations

import sys
import types
import typing
from enum import Enum
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

import typing_extensions
from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from hookwork_llm.functions.annotations import description_in, is_union, strip_annotated
from hookwork_llm.functions.results import NotJson, to_json

_MARKERS = (typing.Required, typing.NotRequired, typing_extensions.Required, typing_extensions.NotRequired)


def rewrite(annotation: Any, active: tuple[type, ...] = ()) -> Any:
    """The annotation with every attrs class and foreign TypedDict in a form that pydantic knows."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if _is_attrs(annotation):
            return Annotated[annotation, AttrsBridge(annotation, active)]
        if _is_foreign_typed_dict(annotation) and annotation not in active:
            return _typed_dict(annotation, (*active, annotation))
        if _is_enum(annotation):
            return _exact(annotation, [member.value for member in annotation.__members__.values()])
        return annotation
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return _exact(annotation, [getattr(one, "value", one) for one in arguments])
    if not arguments:
        return annotation
    if origin is Annotated:
        return Annotated[(rewrite(annotation.__origin__, active), *annotation.__metadata__)]
    changed = tuple(_rewrite_argument(argument, active) for argument in arguments)
    if all(new is old for new, old in zip(changed, arguments, strict=True)):
        return annotation
    if is_union(annotation):
        return Union[changed]  # noqa: UP007 - `|` is not defined for every kind of member
    if hasattr(annotation, "copy_with"):
        return annotation.copy_with(changed)
    return origin[changed]


def _rewrite_argument(argument: Any, active: tuple[type, ...]) -> Any:
    if isinstance(argument, list):  # the parameters of a Callable
        return [rewrite(item, active) for item in argument]
    return rewrite(argument, active)


def _is_enum(kind: Any) -> TypeGuard[type[Enum]]:
    return issubclass(kind, Enum) and not hasattr(kind, "__get_pydantic_core_schema__")


def _exact(annotation: Any, values: list[Any]) -> Any:
    """The annotation, told to keep true apart from 1: to Python, and so to pydantic here, they are equal (FN-12)."""
    numbers = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    booleans = any(isinstance(value, bool) for value in values)
    if numbers is booleans:  # neither, or both: nothing to keep apart
        return annotation

    expected = " or ".join(repr(value) for value in values)

    def check(value: Any) -> Any:
        if isinstance(value, int | float) and isinstance(value, bool) is not booleans:
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
        return value

    return Annotated[annotation, BeforeValidator(check)]


def _is_attrs(kind: type) -> bool:
    return hasattr(kind, "__attrs_attrs__") and not hasattr(kind, "__get_pydantic_core_schema__")


def _is_foreign_typed_dict(kind: type) -> bool:
    if sys.version_info >= (3, 12):
        return False
    return typing.is_typeddict(kind) and type(kind).__module__ == "typing"


def make_typed_dict(name: str, fields: dict[str, Any]) -> Any:
    """A TypedDict class made at run time."""
    make: Any = typing_extensions.TypedDict
    return make(name, fields)


def _typed_dict(kind: Any, active: tuple[type, ...]) -> Any:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {}
    for name, hint in hints.items():
        # With annotations as strings the class itself does not see its markers; the hint does.
        marker = get_origin(hint)
        if marker in _MARKERS:
            hint = get_args(hint)[0]
        else:
            marker = typing.Required if name in kind.__required_keys__ else typing.NotRequired
        fields[name] = marker[rewrite(hint, active)]
    made = make_typed_dict(kind.__name__, fields)
    made.__module__ = kind.__module__
    made.__doc__ = kind.__doc__
    config = getattr(kind, "__pydantic_config__", None)
    if config is not None:
        made.__pydantic_config__ = config
    return made


class AttrsBridge:
    """Gives pydantic the schema of an attrs class and lets the class itself build the instance."""

    def __init__(self, kind: Any, active: tuple[type, ...]) -> None:
        self._kind = kind
        self._active = active
        self._fields = [field for field in kind.__attrs_attrs__ if field.init]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        kind = self._kind
        ref = f"{kind.__module__}.{kind.__qualname__}:{id(kind)}"
        if kind in self._active:
            return core_schema.definition_reference_schema(ref)
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = {}
        for field in self._fields:
            hint = rewrite(hints.get(field.name, Any), (*self._active, kind))
            required = _no_default(field)
            fields[field.alias] = core_schema.typed_dict_field(handler.generate_schema(hint), required=required)
        document = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        return core_schema.no_info_after_validator_function(self._build, document, ref=ref)

    def _build(self, values: dict[str, Any]) -> Any:
        try:
            return self._kind(**values)
        except (TypeError, LookupError) as error:  # a validator of the class says no in its own way
            raise ValueError(str(error)) from error

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        result = handler(schema)
        try:
            document = handler.resolve_ref_schema(result)
        except LookupError:  # a reference from within the class itself: the outer one is being worked on
            return result
        hints = typing.get_type_hints(self._kind, include_extras=True)
        for field in self._fields:
            node = document.get("properties", {}).get(field.alias)
            if node is None:
                continue
            text = description_in(strip_annotated(hints.get(field.name, Any))[1])
            if text is not None:
                node["description"] = text
            if not _no_default(field) and not hasattr(field.default, "takes_self"):
                try:
                    node["default"] = to_json(field.default)
                except NotJson:  # a default that only Python can hold: the field is optional all the same
                    continue
        return result


def _no_default(field: Any) -> bool:
    # attrs is not imported for this: the marker of a field without a default is the one member of its enum.
    return type(field.default).__name__ == "_Nothing"
