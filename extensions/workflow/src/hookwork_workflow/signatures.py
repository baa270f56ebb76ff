"""What the parameters of a node's function are given: the input, the context, values of the state (workflow §1.4)."""

from __future__ import annotations

import collections.abc
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Union, get_args, get_origin

from hookwork.context import ReadonlyContext
from hookwork.errors import ConfigurationError, GraphError
from hookwork.records.content import Content
from hookwork.records.event import Event, RequestInput
from hookwork_workflow.results import Routed
from hookwork_workflow.schemas import Schema, schema_of
from hookwork_workflow.type_reading import hints_of

#: The parameter that always takes the input, wherever it stands; all others are then read from the state.
NODE_INPUT = "node_input"

_STREAMS = (
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.Iterable,
)


class UnresolvedAnnotation(GraphError):
    """An annotation names something that is not defined (yet)."""


class StateParameter:
    """A parameter that is read from the state."""

    __slots__ = ("default", "key", "name", "schema")

    def __init__(self, name: str, key: str, default: Any, schema: Schema | None) -> None:
        self.name = name
        self.key = key
        self.default = default
        self.schema = schema


class Signature:
    """A function's parameters, sorted.

    Attributes:
        input: the parameter that takes the node's input, None for a function that takes none.
        input_default: its default, `inspect.Parameter.empty` without.
        input_type, output_type: annotations without what says nothing about the value; None: not annotated.
        context: the parameter that takes the context, None without.
        state: what is read from the state.
        positional_only: names that can be given by position only, in order.
    """

    __slots__ = (
        "context",
        "input",
        "input_default",
        "input_positional",
        "input_type",
        "output_type",
        "positional_only",
        "state",
    )

    def __init__(
        self, function: Callable[..., Any], node: str, state_keys: Mapping[str, str], *, streams: bool = False
    ) -> None:
        try:
            parameters = inspect.signature(function).parameters
        except (ValueError, TypeError) as error:
            raise GraphError(
                f'node "{node}": the signature of its function cannot be read ({error}); wrap it in a function with '
                "annotations",
                code="bad_function",
            ) from error
        hints = hints_of(function)
        usable = [p for p in parameters.values() if p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
        self.context = next((p.name for p in usable if _is_context(p.name, hints.get(p.name))), None)
        others = [p for p in usable if p.name != self.context]
        _check_state_names(node, state_keys, [p.name for p in others])
        self.positional_only = [p.name for p in usable if p.kind is Parameter.POSITIONAL_ONLY]
        chosen = _input_of(others, state_keys)
        self.input = chosen.name if chosen is not None else None
        self.input_default = chosen.default if chosen is not None else Parameter.empty
        self.input_positional = chosen is not None and chosen.kind is not Parameter.KEYWORD_ONLY
        self.input_type = _value_type(_known(hints, self.input, node)) if self.input is not None else None
        # What a generator is annotated with is often imported for type checkers only; it says nothing of its own.
        unknown_stream = streams and isinstance(hints.get("return"), str)
        self.output_type = None if unknown_stream else _result_type(_known(hints, "return", node))
        self.state = tuple(_state_parameter(p, hints, node, state_keys) for p in others if p is not chosen)


def _input_of(parameters: Sequence[Parameter], state_keys: Mapping[str, str]) -> Parameter | None:
    """``node_input`` if there is one, else the first parameter that is not read from the state."""
    named = next((p for p in parameters if p.name == NODE_INPUT), None)
    return named or next((p for p in parameters if p.name not in state_keys), None)


def _check_state_names(node: str, state_keys: Mapping[str, str], names: Sequence[str]) -> None:
    for name in state_keys:
        if name not in names:
            raise GraphError(
                f'node "{node}": state names the parameter {name!r}, which its function does not have '
                f"(it has: {', '.join(names) or 'none'})",
                code="bad_function",
            )


def _is_context(name: str, annotation: Any) -> bool:
    if isinstance(annotation, str):  # not imported at run time
        return annotation.replace("|", " ").split(".")[-1].split()[:1] in (["NodeContext"], ["InvocationContext"])
    if annotation is None:
        return name == "ctx"
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    if name == "ctx" and annotation is Any:
        return True
    return any(isinstance(member, type) and issubclass(member, ReadonlyContext) for member in members)


def _known(hints: Mapping[str, Any], name: str, node: str) -> Any:
    annotation = hints.get(name)
    if isinstance(annotation, str):
        what = "its result" if name == "return" else f"parameter {name!r}"
        raise UnresolvedAnnotation(
            f'node "{node}": the annotation of {what} is {annotation!r}, which names something that is not defined '
            "where the function is; import it at run time (not under TYPE_CHECKING only) or define it",
            code="bad_function",
        )
    return annotation


def _state_parameter(p: Parameter, hints: Mapping[str, Any], node: str, keys: Mapping[str, str]) -> StateParameter:
    annotation = _value_type(_known(hints, p.name, node))
    return StateParameter(p.name, keys.get(p.name, p.name), p.default, node_schema(annotation, node, p.name))


def node_schema(annotation: Any, node: str, what: str) -> Schema | None:
    """The schema of an annotation of a node. Raises GraphError that names both."""
    try:
        return schema_of(annotation)
    except ConfigurationError as error:
        raise GraphError(f'node "{node}": {what}: {error}', code="bad_function") from error


def _value_type(annotation: Any) -> Any:
    return None if annotation is Any or annotation is object else annotation


def _result_type(annotation: Any) -> Any:
    """What a function gives to the next node, without wrappers (Routed, streams) and members that are no values."""
    origin = get_origin(annotation)
    if origin in _STREAMS or annotation in _STREAMS:
        arguments = get_args(annotation)
        if origin is collections.abc.Generator and len(arguments) == 3:  # a generator's value is what it returns
            return _result_type(arguments[2])
        return _result_type(arguments[0]) if arguments else None
    if origin is Routed:
        return _result_type(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return _union_type(get_args(annotation))
    if _is_no_value(annotation):
        return None
    return _value_type(annotation)


def _is_no_value(annotation: Any) -> bool:
    return annotation is type(None) or (
        isinstance(annotation, type) and issubclass(annotation, Event | RequestInput | Content | Routed)
    )


def _union_type(members: Sequence[Any]) -> Any:
    """A union without members that are no values; None when something in it is not known.

    None is left out too: a node that gives None gives no output (§1.4).
    """
    values = [member for member in members if not _is_no_value(member)]
    found = [_result_type(member) for member in values]
    if not found or any(member is None for member in found) or Content in members:
        return None
    result = found[0]
    for member in found[1:]:
        result = result | member
    return result
