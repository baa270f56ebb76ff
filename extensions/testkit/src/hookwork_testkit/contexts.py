"""Real contexts without a runner (core CTX-7): what a tool, callback, provider or agent body gets, for unit tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict, Unpack, overload

from hookwork.agent import Agent
from hookwork.context import CallbackContext, InvocationContext, ReadonlyContext, ToolContext
from hookwork.errors import ConfigurationError, UnsupportedInContext
from hookwork.invocation import Invocation, RunConfig
from hookwork.node import Node
from hookwork.plugins.dispatch import Hooks
from hookwork.records.content import Content, Part, user_content
from hookwork.records.event import Event, ToolConfirmation, frozen_delta
from hookwork.records.session import EventLog, Session, split_state
from hookwork.services import ArtifactService, MemoryService
from hookwork.state import DeltaBuffer

#: argument of `make_context` → the capabilities that a strict context has when it is given.
_OPENS: dict[str, tuple[str, ...]] = {
    "state": ("state",),
    "events": ("session", "view"),
    "message": ("user_content",),
    "artifacts": ("artifacts",),
    "memory": ("search_memory", "add_session_to_memory"),
    "ephemeral": ("ephemeral",),
    "config": ("run_config",),
    "function_call_id": ("function_call_id", "actions", "request_confirmation", "idempotency_key"),
    "confirmation": ("tool_confirmation",),
    "agent": ("agent", "activate"),
    "input": ("input",),
}
_GUARDED = {name: argument for argument, names in _OPENS.items() for name in names} | {
    "end_invocation": "allow",
    "ended": "allow",
}


class _Strict:
    """Mixed into a kind of context: what was not given raises, so a test lists all that its subject relies on."""

    __slots__ = ()
    opened: frozenset[str] = frozenset()

    def __getattribute__(self, name: str) -> Any:
        argument = _GUARDED.get(name)
        if argument is not None and name not in type(self).opened:
            remedy = f"allow=[{name!r}]" if argument == "allow" else f"{argument}=… (or allow=[{name!r}])"
            raise UnsupportedInContext(f"this strict context was not given {name!r}; make_context(..., {remedy})")
        return super().__getattribute__(name)


class _StrictReadonly(_Strict, ReadonlyContext):
    __slots__ = ()


class _StrictCallback(_Strict, CallbackContext):
    __slots__ = ()


class _StrictTool(_Strict, ToolContext):
    __slots__ = ()


class _StrictInvocation(_Strict, InvocationContext):
    __slots__ = ()


_KINDS: dict[str, tuple[type[ReadonlyContext], type[ReadonlyContext]]] = {
    "readonly": (ReadonlyContext, _StrictReadonly),
    "callback": (CallbackContext, _StrictCallback),
    "tool": (ToolContext, _StrictTool),
    "invocation": (InvocationContext, _StrictInvocation),
}


class ContextOptions(TypedDict, total=False):
    """The keyword arguments of `make_context`, which describes them."""

    app_name: str
    user_id: str
    session_id: str
    invocation_id: str
    agent: Agent | Node | str
    state: Mapping[str, Any] | None
    events: Iterable[Event]
    message: str | Content | Sequence[Part]
    artifacts: ArtifactService | None
    memory: MemoryService | None
    ephemeral: Mapping[str, Any] | None
    config: RunConfig | None
    plugins: Sequence[Any]
    branch: str
    isolation_scope: str
    function_call_id: str
    tool_name: str
    confirmation: ToolConfirmation | None
    resuming: bool
    attempt: int
    input: Any
    strict: bool
    allow: Iterable[str]


@overload
def make_context(kind: Literal["tool"] = ..., **options: Unpack[ContextOptions]) -> ToolContext: ...
@overload
def make_context(kind: Literal["callback"], **options: Unpack[ContextOptions]) -> CallbackContext: ...
@overload
def make_context(kind: Literal["readonly"], **options: Unpack[ContextOptions]) -> ReadonlyContext: ...
@overload
def make_context(kind: Literal["invocation"], **options: Unpack[ContextOptions]) -> InvocationContext: ...
@overload
def make_context(kind: str, **options: Unpack[ContextOptions]) -> Any: ...
def make_context(kind: str = "tool", **options: Unpack[ContextOptions]) -> ReadonlyContext:
    """A context of the kernel's own classes, with a session in memory and no runner.

        ctx = make_context(state={"city": "Tokyo"}, confirmation=ToolConfirmation(confirmed=True))
        assert await my_tool.run(ctx, {}) == …
        assert ctx.actions.state_delta == {"seen": True}

    Args:
        kind: ``"tool"``, ``"callback"``, ``"readonly"`` or ``"invocation"`` (agent bodies).
        app_name, user_id, session_id, invocation_id: ``"test_app"``, ``"test_user"``, ``"test_session"``, ``"e-test"``.
        agent: the agent that runs, or just its name (default ``"test_agent"``).
        state: the session's state; ``app:``, ``user:`` and ``temp:`` keys go to their scopes.
        events: the session's history.
        message: what the user said in this run.
        artifacts, memory: service objects; default: in-memory ones if the hookwork-inmemory extension is installed.
        function_call_id, tool_name: ``"test_call"``, ``"test_tool"``.
        strict: what is not given raises `UnsupportedInContext`; ids, names and branch are always there.
        allow: further capabilities of a strict context, by attribute name.

    Raises:
        ConfigurationError: an unknown kind or name in ``allow``, or plugins that break the hook contract.
        TypeError: an unknown argument.
    """
    if kind not in _KINDS:
        raise ConfigurationError(f"make_context kind is one of {', '.join(sorted(_KINDS))}, not {kind!r}")
    unknown = set(options) - set(ContextOptions.__annotations__)
    if unknown:
        raise TypeError(f"make_context() got unexpected arguments {sorted(unknown)}")
    plain, strict_form = _KINDS[kind]
    form: Any = _opened(strict_form, options) if options.get("strict") else plain
    invocation = _invocation(options)
    owner = _owner(options.get("agent"))
    path = f"{owner.name}@1"
    place = (invocation, owner, options.get("branch", ""), options.get("isolation_scope", ""))
    resuming, attempt = options.get("resuming", False), options.get("attempt", 1)
    context: ReadonlyContext
    if kind == "readonly":
        context = form(*place, path)
    elif kind == "callback":
        context = form(*place, path, buffer=DeltaBuffer(), place="test", resuming=resuming, attempt=attempt)
    elif kind == "invocation":
        context = form(*place, path, resuming=resuming, input=options.get("input"))
    else:
        call_place = f"{options.get('tool_name', 'test_tool')}@1-1"
        context = form(
            *place,
            f"{path}/{call_place}",
            parent_path=path,
            buffer=DeltaBuffer(),
            place=f"tool/{call_place}",
            function_call_id=options.get("function_call_id", "test_call"),
            tool_name=options.get("tool_name", "test_tool"),
            tool_confirmation=options.get("confirmation"),
            resuming=resuming,
            attempt=attempt,
        )
    return context


def _invocation(options: ContextOptions) -> Invocation:
    app_name, user_id = options.get("app_name", "test_app"), options.get("user_id", "test_user")
    message = options.get("message")
    strict = options.get("strict", False)
    return Invocation(
        app_name=app_name,
        user_id=user_id,
        session=_session(app_name, user_id, options),
        invocation_id=options.get("invocation_id", "e-test"),
        artifacts=options["artifacts"] if "artifacts" in options else _in_memory("artifact", strict),
        memory=options["memory"] if "memory" in options else _in_memory("memory", strict),
        hooks=Hooks(options.get("plugins", ())),
        config=options.get("config"),
        ephemeral=options.get("ephemeral"),
        user_content=None if message is None else user_content(message),
    )


def _opened(form: type[ReadonlyContext], options: ContextOptions) -> type[ReadonlyContext]:
    names = {name for argument in options for name in _OPENS.get(argument, ())}
    for name in options.get("allow", ()):
        if name not in _GUARDED:
            raise ConfigurationError(f"allow: {name!r} is no capability; known are {', '.join(sorted(_GUARDED))}")
        names.add(name)
    return type(form.__name__, (form,), {"__slots__": (), "opened": frozenset(names)})


async def _no_body(ctx: InvocationContext) -> AsyncIterator[Event]:
    return
    yield


def _owner(agent: Agent | Node | str | None) -> Agent | Node:
    if agent is None or isinstance(agent, str):
        return Agent(name=agent or "test_agent", body=_no_body)
    return agent


def _session(app_name: str, user_id: str, options: ContextOptions) -> Session:
    state = frozen_delta(options.get("state"))
    app, user, own = split_state(state)
    return Session(
        app_name=app_name,
        user_id=user_id,
        id=options.get("session_id", "test_session"),
        log=EventLog(list(options.get("events", ()))),
        last_update_time=datetime.fromtimestamp(0, UTC),
        revision="0",
        session_state=own,
        app_state=app,
        user_state=user,
        temp_state={key: value for key, value in state.items() if key.startswith("temp:")},
    )


def _in_memory(what: str, strict: bool) -> Any:
    """An in-memory service, or None when no installed extension offers one: the context then says what is missing."""
    if strict:
        return None
    from hookwork.resolve import resolve_artifact_service, resolve_memory_service
    from hookwork.settings import NO_SETTINGS

    resolve = resolve_artifact_service if what == "artifact" else resolve_memory_service
    try:
        service, _ = resolve("memory:", NO_SETTINGS)
    except ConfigurationError:
        return None
    return service
