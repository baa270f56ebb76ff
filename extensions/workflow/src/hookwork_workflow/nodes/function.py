"""Functions as nodes: plain ones, those that emit events, those that read the state (workflow §1.4)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from hookwork.errors import GraphError, NodeFailed
from hookwork.records.event import Event, RequestInput
from hookwork_workflow.errors import InputValidationError, MultipleOutputs, OutputValidationError
from hookwork_workflow.gates import Gate, gate_event, is_rejection, refusal
from hookwork_workflow.nodes.base import GraphNode
from hookwork_workflow.results import output_event
from hookwork_workflow.schemas import SchemaFault, check_input, check_output
from hookwork_workflow.signatures import Signature, StateParameter, UnresolvedAnnotation, node_schema
from hookwork_workflow.workers import Steps, in_worker

if TYPE_CHECKING:
    from hookwork.node import NodeConfig

In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)
P = ParamSpec("P")

StateKeys = Sequence[str] | Mapping[str, str]

_DERIVED: Any = object()


class _Shape:
    """What is known of a function once its annotations are: who gets what, and the schemas."""

    __slots__ = ("input", "input_schema", "output", "output_schema", "signature", "simple")

    def __init__(self, node: FunctionNode[Any, Any, Any]) -> None:
        self.signature = Signature(node.func, node.name, node.state_keys, streams=node.kind == "emitting")
        given_input, given_output = node.given_schemas
        self.input_schema = self.signature.input_type if given_input is _DERIVED else given_input
        self.output_schema = self.signature.output_type if given_output is _DERIVED else given_output
        self.input = node_schema(self.input_schema, node.name, "its input")
        self.output = node_schema(self.output_schema, node.name, "its output")
        #: one positional parameter and no more: the common case.
        self.simple = self.signature.input_positional and not self.signature.state and self.signature.context is None


class FunctionNode(GraphNode[In_contra, Out_co], Generic[In_contra, P, Out_co]):
    """A function as a node; made by `node`, which says what the arguments mean. It stays callable (API-2).

    Raises:
        GraphError: no node can be made of the function; the text says why.
    """

    kind = "function"

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: Any = _DERIVED,
        output_schema: Any = _DERIVED,
        config: NodeConfig | None = None,
        state: StateKeys = (),
        inline: bool = False,
        require_confirmation: Gate = False,
        auth: Any = None,
    ) -> None:
        if not callable(func) or isinstance(func, type):
            raise GraphError(f"{func!r} is no function, so no node can be made of it", code="bad_function")
        self.func = func
        self.name = name if name is not None else _name_of(func)
        self.description = description if description is not None else _first_paragraph(func)
        if config is not None:
            self.config = config
        self.state_keys: dict[str, str] = dict(state) if isinstance(state, Mapping) else {key: key for key in state}
        self.inline = inline
        self.require_confirmation = require_confirmation
        self.auth = auth
        if self._gated:
            self.reruns = True
        self.given_schemas = (input_schema, output_schema)
        self._call = _kind_of(func)
        self._shape: _Shape | None = None
        if self._call in ("async generator", "generator"):
            self.kind = "emitting"
        try:
            self._known()
        except UnresolvedAnnotation:
            # A type may be defined below the function; it is asked for again when the graph is compiled.
            return

    def _known(self) -> _Shape:
        if self._shape is None:
            self._shape = _Shape(self)
        return self._shape

    # --- what the graph asks ------------------------------------------------------------------------------------------

    @property
    def input_schema(self) -> Any:
        return self._known().input_schema

    @input_schema.setter
    def input_schema(self, schema: Any) -> None:
        self.given_schemas = (schema, self.given_schemas[1])
        self._shape = None

    @property
    def output_schema(self) -> Any:
        return self._known().output_schema

    @output_schema.setter
    def output_schema(self, schema: Any) -> None:
        self.given_schemas = (self.given_schemas[0], schema)
        self._shape = None

    @property
    def takes_context(self) -> bool:  # type: ignore[override]
        """Asks for a context, or a person first: then the body is no leaf (EFF-8)."""
        return self._known().signature.context is not None or self._gated

    @property
    def _gated(self) -> bool:
        return bool(self.require_confirmation) or self.auth is not None

    @property
    def state_fields(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(parameter.key for parameter in self._known().signature.state)

    def validate_input(self, value: Any) -> Any:
        schema = (self._shape or self._known()).input
        if schema is None or value is None or type(value) is schema.exact:
            return value
        try:
            return check_input(schema, value)
        except SchemaFault as fault:
            raise InputValidationError(self.name, str(fault)) from fault

    def validate_output(self, value: Any) -> Any:
        schema = (self._shape or self._known()).output
        if schema is None or value is None or type(value) is schema.exact or isinstance(value, Event | RequestInput):
            return value
        if self._gated and is_rejection(value):
            return value
        try:
            return check_output(schema, value)
        except SchemaFault as fault:
            raise OutputValidationError(self.name, str(fault)) from fault

    # --- the body -----------------------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        def __call__(self, value: In_contra, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            """The function itself, as if it were no node."""
    else:

        def __call__(self, *args, **kwargs):
            return self.func(*args, **kwargs)

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Any]:
        """The body: events, and `RequestInput` for questions whose answer is the output (ASK-6)."""
        if self.require_confirmation:
            instead = await gate_event(self.require_confirmation, self.name, ctx, input)
            if instead is not None:
                yield instead
                return
        if self.auth is not None and (refused := await refusal(self.auth, ctx)) is not None:
            yield refused
            return
        if self._call in ("async", "sync"):
            value = await self._value(ctx, input)
            event = value if isinstance(value, RequestInput) else output_event(value)
            if event is not None:
                yield event
            return
        async with aclosing(self._emitted(ctx, input)) as events:
            async for event in events:
                yield event

    async def _value(self, ctx: Any, input: Any) -> Any:
        shape = self._shape or self._known()
        if shape.simple and input is not None:
            if self._call == "async":
                return await self.func(input)
            if self.inline:
                return await _awaited(self.func(input))
        args, kwargs = self._arguments(shape.signature, ctx, input)
        if self._call == "async":
            return await self.func(*args, **kwargs)
        if self.inline:
            return await _awaited(self.func(*args, **kwargs))
        return await _awaited(await in_worker(ctx, self.name, lambda: self.func(*args, **kwargs)))

    async def _emitted(self, ctx: Any, input: Any) -> AsyncGenerator[Any, None]:
        """Events as they come, then one for the value: the one that was yielded, or returned by a plain generator."""
        args, kwargs = self._arguments((self._shape or self._known()).signature, ctx, input)
        produced = self.func(*args, **kwargs)
        steps = Steps()
        if self._call == "generator":
            produced = steps.of(produced, self._step(ctx))
        value: Any = None
        async with aclosing(produced) as items:
            async for item in items:
                if isinstance(item, Event | RequestInput):
                    yield item
                elif item is not None:
                    if value is not None:
                        raise MultipleOutputs(self.name)
                    value = item
        if steps.value is not None:
            if value is not None:
                raise MultipleOutputs(self.name)
            value = steps.value
        last = output_event(value, text_as_content=True)
        if last is not None:
            yield last

    def _step(self, ctx: Any) -> Callable[[Callable[[], Any]], Any]:
        async def step(call: Callable[[], Any]) -> Any:
            return call() if self.inline else await in_worker(ctx, self.name, call)

        return step

    def _arguments(self, signature: Signature, ctx: Any, input: Any) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        if signature.input is not None and (input is not None or signature.input_default is Parameter.empty):
            kwargs[signature.input] = input
        if signature.context is not None:
            kwargs[signature.context] = ctx
        for parameter in signature.state:
            self._read_state(parameter, ctx, kwargs)
        for name in signature.positional_only:
            if name not in kwargs:
                break
            args.append(kwargs.pop(name))
        return args, kwargs

    def _read_state(self, parameter: StateParameter, ctx: Any, kwargs: dict[str, Any]) -> None:
        value = ctx.state.get(parameter.key, _DERIVED)
        if value is _DERIVED:
            if parameter.default is Parameter.empty:
                raise NodeFailed(
                    f'node "{self.name}": parameter {parameter.name!r} is read from the state, but there is no key '
                    f"{parameter.key!r}; let an earlier node write it, or give the parameter a default"
                )
            return
        if parameter.schema is not None and value is not None:
            try:
                value = parameter.schema.validate(value)
            except SchemaFault as fault:
                raise NodeFailed(
                    f'node "{self.name}": the state key {parameter.key!r} does not fit parameter {parameter.name!r}: '
                    f"{fault}"
                ) from fault
        kwargs[parameter.name] = value


async def _awaited(value: Any) -> Any:
    """What a plain function gave; a coroutine, when a wrapper hides that the function is async."""
    return await value if inspect.isawaitable(value) else value


def _kind_of(func: Any) -> str:
    chain = [func]
    while (inner := getattr(chain[-1], "func", None) or getattr(chain[-1], "__wrapped__", None)) is not None:
        chain.append(inner)
    body = chain[-1]
    if not inspect.isroutine(body):
        body = type(body).__call__
    for test, kind in (
        (inspect.isasyncgenfunction, "async generator"),
        (inspect.iscoroutinefunction, "async"),
        (inspect.isgeneratorfunction, "generator"),
    ):
        if test(body) or test(func):
            return kind
    return "sync"


def _name_of(func: Any) -> str:
    while hasattr(func, "func"):  # functools.partial
        func = func.func
    name = getattr(func, "__name__", None) or type(func).__name__
    if name == "<lambda>":
        raise GraphError("a lambda has no name of its own; give it one: node(func, name=…)", code="bad_name")
    return str(name)


def _first_paragraph(func: Any) -> str:
    text = inspect.getdoc(func) if inspect.isroutine(func) else None
    return (text or "").split("\n\n")[0].replace("\n", " ")
