"""`@node`: functions, agents and tools as nodes with settings of their own (workflow API-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, overload

import msgspec

from hookwork.agent import Agent
from hookwork.errors import GraphError
from hookwork.node import Node, NodeConfig
from hookwork_workflow.gates import Gate
from hookwork_workflow.nodes.base import GraphNode
from hookwork_workflow.nodes.function import FunctionNode, StateKeys

if TYPE_CHECKING:
    from hookwork.records.content import Content
    from hookwork.records.event import Event, RequestInput
    from hookwork_workflow.results import Routed

In = TypeVar("In")
Out = TypeVar("Out")
P = ParamSpec("P")

#: What a function may return that is not the value its successor gets.
NoValue: TypeAlias = "Event | RequestInput"

_SAME: Any = object()


class _Decorator:
    """`node` with its settings given, waiting for what it is applied to; the overloads keep the types."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    @overload
    def __call__(
        self, value: Callable[Concatenate[In, P], Awaitable[Routed[Out, Any]]]
    ) -> FunctionNode[In, P, Out]: ...
    @overload
    def __call__(self, value: Callable[Concatenate[In, P], Awaitable[Content]]) -> FunctionNode[In, P, str]: ...
    @overload
    def __call__(self, value: Callable[Concatenate[In, P], Awaitable[NoValue]]) -> FunctionNode[In, P, Any]: ...
    @overload
    def __call__(self, value: Callable[Concatenate[In, P], AsyncIterator[Any]]) -> FunctionNode[In, P, Any]: ...
    @overload
    def __call__(self, value: Callable[Concatenate[In, P], Iterator[Any]]) -> FunctionNode[In, P, Any]: ...
    @overload
    def __call__(self, value: Callable[Concatenate[In, P], Awaitable[Out]]) -> FunctionNode[In, P, Out]: ...
    @overload
    def __call__(self, value: Callable[Concatenate[In, P], Out]) -> FunctionNode[In, P, Out]: ...
    @overload
    def __call__(self, value: Callable[[], Any]) -> FunctionNode[Any, [], Any]: ...
    @overload
    def __call__(self, value: Any) -> GraphNode[Any, Any]: ...
    def __call__(self, value: Any) -> Any:
        return _made(value, self._settings)


@overload
def node(value: Callable[Concatenate[In, P], Awaitable[Routed[Out, Any]]], /) -> FunctionNode[In, P, Out]: ...
@overload
def node(value: Callable[Concatenate[In, P], Awaitable[Content]], /) -> FunctionNode[In, P, str]: ...
@overload
def node(value: Callable[Concatenate[In, P], Awaitable[NoValue]], /) -> FunctionNode[In, P, Any]: ...
@overload
def node(value: Callable[Concatenate[In, P], AsyncIterator[Any]], /) -> FunctionNode[In, P, Any]: ...
@overload
def node(value: Callable[Concatenate[In, P], Iterator[Any]], /) -> FunctionNode[In, P, Any]: ...
@overload
def node(value: Callable[Concatenate[In, P], Awaitable[Out]], /) -> FunctionNode[In, P, Out]: ...
@overload
def node(value: Callable[Concatenate[In, P], Out], /) -> FunctionNode[In, P, Out]: ...
@overload
def node(value: Callable[[], Any], /) -> FunctionNode[Any, [], Any]: ...
@overload
def node(
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Any = _SAME,
    output_schema: Any = _SAME,
    rerun_on_resume: bool | None = None,
    wait_for_output: bool | None = None,
    retry: Any = None,
    timeout: float | None = None,
    parallel: bool = False,
    effect: bool | None = None,
    emits_own_span: bool = False,
    state: StateKeys = (),
    inline: bool = False,
    require_confirmation: Gate = False,
    auth: Any = None,
) -> _Decorator: ...
@overload
def node(value: Any, /, **settings: Any) -> GraphNode[Any, Any]: ...
def node(value: Any = None, /, **settings: Any) -> Any:
    """Make a node of a function, an agent, a tool or a workflow.

    As a decorator, with or without arguments, or called: ``node(agent, timeout=30)``. A function stays callable, and
    ``await f.test(input)`` runs it once as a node. Its first parameter takes the input (or the one named
    ``node_input``), one named ``ctx`` or annotated as a context takes the `NodeContext`, all others are read from the
    state by name. Schemas come from the annotations.

    Args:
        name, description: default: those of the value; a function's are its name and first paragraph.
        input_schema, output_schema: instead of the annotations; a type, a JSON schema, or None for no check.
        rerun_on_resume: None: a question that is yielded hands the answer on as the output, one that is awaited runs
            the body again; True, False: always the one or the other.
        wait_for_output: a finish without output and route leaves the node waiting for its next trigger (NODE-9).
        retry: a `Retry`; None: never tried again.
        timeout: seconds for each attempt; None: no limit.
        parallel: run once for each item of a list input.
        effect: whether an engine may carry the body out elsewhere; None: yes, if it takes no context.
        emits_own_span: no span of the node's own.
        tags: what it uses, for `ResourceLimits`; one text or several.
        undo: a function or node that takes back what this one did, given its output, when the workflow fails for good
            (WB-23).
        state: parameters that are read from the state though they come first, or ``{parameter: key}``.
        inline: run a plain function in the event loop instead of a worker thread; for quick ones.
        require_confirmation: a person approves before the function or tool runs; True, or a function of the input
            that says so. Rejected, the node gives ``{"error": …}`` and the route ``rejected``.
        auth: a `hookwork.credentials.CredentialProvider`, or a function of the context, that is asked before the
            function or tool runs. When it needs somebody's consent the node waits; refused, it gives what a rejected
            one gives.

    Raises:
        GraphError: no node can be made of the value, or a setting is unknown or wrong.
    """
    if value is None:
        return _Decorator(settings)
    return _made(value, settings)


_FUNCTION_ONLY = ("state", "inline")
_GATES = ("require_confirmation", "auth")
_ATTRIBUTES = ("name", "description", "input_schema", "output_schema", "undo", "tags")


def _made(value: Any, settings: dict[str, Any]) -> Any:
    known = (*NodeConfig.__struct_fields__, *_ATTRIBUTES, *_FUNCTION_ONLY, *_GATES)
    for name in settings:
        if name not in known:
            raise GraphError(f"node() has no setting {name!r}; it has: {', '.join(known)}", code="bad_setting")
    config = {name: settings[name] for name in NodeConfig.__struct_fields__ if settings.get(name) is not None}
    _check_config(config)
    _check_undo(settings.get("undo"))
    if settings.get("tags") is not None:
        settings = {**settings, "tags": _tags(settings["tags"])}
    made = _as_node(value, settings)
    changes: dict[str, Any] = {
        name: settings[name]
        for name in _ATTRIBUTES
        if settings.get(name, _SAME) is not _SAME
        and not (settings[name] is None and name in ("name", "description", "undo", "tags"))
    }
    if config:
        changes["config"] = msgspec.structs.replace(made.config, **config)
    made = _changed(made, changes)
    if made.config.parallel:
        from hookwork_workflow.nodes.parallel import parallel

        return parallel(made)
    return made


def _as_node(value: Any, settings: dict[str, Any]) -> Node:
    if isinstance(value, Agent) and settings.get("name") is not None:
        value = value.clone(name=settings["name"])  # a node and its agent have one name (AN-1)
    own = {name: settings[name] for name in (*_FUNCTION_ONLY, *_GATES) if settings.get(name)}
    if not own and settings.get("name") is None:
        from hookwork.node import build_node

        return build_node(value)
    from hookwork_workflow.building import build

    built = value if isinstance(value, Node) else None
    if built is None and callable(value) and not isinstance(value, type) and not hasattr(value, "name"):
        return FunctionNode(value, name=settings.get("name"), **own)
    built = built or build(value)
    if own and built is not None:
        if all(name in _GATES and hasattr(built, name) for name in own):
            return built.replace(**own)  # type: ignore[attr-defined, no-any-return]
        whom = "functions and tools" if all(name in _GATES for name in own) else "functions"
        raise GraphError(f"{', '.join(own)} of node() is for {whom}, not for {value!r}", code="bad_setting")
    if built is None:
        raise GraphError(f"{value!r} of type {type(value).__name__} cannot be a node", code="not_a_node")
    return built


def _check_config(config: dict[str, Any]) -> None:
    from hookwork_workflow.retry import Retry

    retry, timeout = config.get("retry"), config.get("timeout")
    if retry is not None and not isinstance(retry, Retry):
        raise GraphError(f"retry of a node is a Retry(…), not {retry!r}", code="bad_setting")
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and timeout >= 0):
        raise GraphError(f"timeout of a node is a number of seconds from 0, not {timeout!r}", code="bad_setting")


def _tags(value: Any) -> tuple[str, ...]:
    several = tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)
    if not all(isinstance(tag, str) and tag for tag in several):
        raise GraphError(f"tags of a node are texts, not {value!r}", code="bad_setting")
    return several


def _check_undo(undo: Any) -> None:
    from hookwork_workflow.building import build

    if undo is not None and build(undo) is None:
        raise GraphError(f"undo of a node is a function or a node, not {undo!r}", code="bad_setting")


def _changed(made: Node, changes: dict[str, Any]) -> Node:
    if not changes:
        return made
    if isinstance(made, GraphNode):
        return made.replace(**changes)
    import copy

    changed = copy.copy(made)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed
