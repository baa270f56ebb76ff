"""What a call site may do (core §5).

`ReadonlyContext` ⊂ `CallbackContext` ⊂ `ToolContext`; `InvocationContext` is for agent bodies and run hooks. A
capability that a kind of context lacks raises `UnsupportedInContext` and says where it is to be had.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.actions import Actions
from hookwork.artifacts import Artifacts
from hookwork.effects import WriteResult, perform
from hookwork.ephemeral import EphemeralScope
from hookwork.errors import InvalidRunNodeContext, UnsupportedInContext
from hookwork.records.content import Content
from hookwork.records.event import ToolConfirmation
from hookwork.state import DeltaBuffer, State

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hookwork.activation import Activation
    from hookwork.agent import Agent
    from hookwork.invocation import Invocation, RunConfig
    from hookwork.node import Node
    from hookwork.records.event import Event
    from hookwork.records.session import Session
    from hookwork.services import MemoryEntry
    from hookwork.view import View

_WHERE = {
    "actions": "a tool or a node",
    "artifacts": "agent, model and tool callbacks, tools and agent bodies",
    "function_call_id": "a tool and its callbacks",
    "request_confirmation": "a tool and its callbacks",
    "tool_confirmation": "a tool and its callbacks",
    "search_memory": "agent, model and tool callbacks, tools and agent bodies",
    "session": "agent, model and tool callbacks, tools and agent bodies",
    "run_config": "agent, model and tool callbacks, tools and agent bodies",
    "end_invocation": "agent, model and tool callbacks, tools and agent bodies",
    "activate": "an agent body or a tool",
    "run_node": "a tool or a node",
    "request_input": "a node",
    "resumed_input": "a node",
    "emit": "a node",
    "resuming": "callbacks, tools, agent bodies",
    "attempt": "callbacks, tools, agent bodies",
    "idempotency_key": "callbacks, tools, agent bodies",
}

#: What contexts of google-adk call otherwise.
_NAMED_HERE = {
    "save_artifact": "artifacts.save",
    "load_artifact": "artifacts.load",
    "list_artifacts": "artifacts.list",
    "get_artifact_version": "artifacts.describe",
}


class ReadonlyContext:
    """Who runs where, and the state to read. For instruction providers and toolset listing."""

    __slots__ = ("_inv", "_owner", "branch", "isolation_scope", "path")

    def __init__(
        self, inv: Invocation, owner: Agent | Node | None, branch: str = "", isolation_scope: str = "", path: str = ""
    ) -> None:
        self._inv = inv
        self._owner = owner
        self.branch = branch
        self.isolation_scope = isolation_scope
        self.path = path

    def __getattr__(self, name: str) -> Any:
        where = _WHERE.get(name)
        if where is not None:
            kind = InvalidRunNodeContext if name in ("run_node", "request_input") else UnsupportedInContext
            raise kind(f"{type(self).__name__} offers no {name!r}; it is to be had in {where}")
        hint = f"; it is {_NAMED_HERE[name]!r} here" if name in _NAMED_HERE else ""
        # With name and object Python itself adds what is nearest, where a traceback is shown.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    @property
    def app_name(self) -> str:
        return self._inv.app_name

    @property
    def user_id(self) -> str:
        return self._inv.user_id

    @property
    def session_id(self) -> str:
        return self._inv.session_id

    @property
    def invocation_id(self) -> str:
        return self._inv.invocation_id

    @property
    def agent_name(self) -> str:
        """The name of the agent (or node) that runs."""
        return self._owner.name if self._owner is not None else ""

    @property
    def user_content(self) -> Content | None:
        """The message of this run."""
        return self._inv.user_content

    @property
    def state(self) -> State:
        """The live state; read-only here."""
        return State(self._inv.live, None)

    @property
    def ephemeral(self) -> EphemeralScope:
        """Values of this run that are never stored (core EPH)."""
        return self._inv.ephemeral

    def readonly(self) -> ReadonlyContext:
        """This context with nothing but its readonly capabilities."""
        return ReadonlyContext(self._inv, self._owner, self.branch, self.isolation_scope, self.path)


class CallbackContext(ReadonlyContext):
    """A callback stage of an agent or a model. State and artifact writes go into the stage's own event.

    ``resuming``: the activation existed before this run. ``attempt``: from 1.
    """

    __slots__ = ("_buffer", "_place", "_runs", "_writes", "attempt", "resuming")

    def __init__(
        self,
        inv: Invocation,
        owner: Agent | Node | None,
        branch: str = "",
        isolation_scope: str = "",
        path: str = "",
        *,
        buffer: DeltaBuffer | None = None,
        place: str = "",
        resuming: bool = False,
        attempt: int = 1,
    ) -> None:
        self._inv = inv
        self._owner = owner
        self.branch = branch
        self.isolation_scope = isolation_scope
        self.path = path
        self._buffer = buffer
        self._place = place
        self._writes = 0
        self._runs: dict[str, int] | None = None
        self.resuming = resuming
        self.attempt = attempt

    @property
    def state(self) -> State:
        """The live state; writes belong to this call site (core §5.1)."""
        return State(self._inv.live, self._buffer)

    @property
    def artifacts(self) -> Artifacts:
        """Files of the session and the user."""
        return Artifacts(self)

    @property
    def session(self) -> Session:
        """The session, to read."""
        return self._inv.session

    @property
    def run_config(self) -> RunConfig:
        return self._inv.config

    @property
    def idempotency_key(self) -> str:
        """The same in a replay, a resume and every attempt at this place (tools-plugins EFF-2)."""
        inv = self._inv
        return f"{inv.invocation_id}/{self.path}/{self._place}" if self.path else f"{inv.invocation_id}/{self._place}"

    @property
    def ended(self) -> bool:
        """Whether `end_invocation` was called."""
        return self._inv.ended

    def end_invocation(self, reason: str = "") -> None:
        """Let the whole invocation end: no further model call, tool batch or child is started (core AGT-18)."""
        self._inv.ended = True
        self._inv.end_reason = self._inv.end_reason or reason

    async def search_memory(self, query: str) -> list[MemoryEntry]:
        """What the memory service finds for this app and user."""
        inv = self._inv
        return await inv.memory_service().search_memory(app_name=inv.app_name, user_id=inv.user_id, query=query)

    async def add_session_to_memory(self) -> None:
        """Let the memory service take in this session as it is now."""
        service = self._inv.memory_service()
        await self._remember("add_to_memory", {}, lambda: service.add_session_to_memory(self._inv.session))

    async def add_events_to_memory(self, events: Sequence[Event], *, flush: bool = False) -> None:
        """Let the memory service take in events of this session, beside what it has of it (services BEY-6).

        ``flush``: a service that gathers events makes memories of them now. Raises UnsupportedOperationError where the
        service takes whole sessions only.
        """
        inv = self._inv
        service = inv.memory_service()
        scope = {"app_name": inv.app_name, "user_id": inv.user_id, "session_id": inv.session_id}
        await self._remember(
            "add_events_to_memory",
            {"events": [event.id for event in events], "flush": flush},
            lambda: service.add_events_to_memory(**scope, events=events, flush=flush),
        )

    async def _remember(self, op: str, payload: dict[str, Any], add: Callable[[], Awaitable[None]]) -> None:
        """Carry a write to memory out, through the write effect when a plugin does so (services GEN-8)."""
        inv = self._inv
        if not inv.hooks.perform_write:
            await add()
            return

        async def default() -> WriteResult:
            await add()
            return WriteResult()

        key = self._write_key(op)
        await perform(
            inv.hooks.perform_write,
            "perform_write",
            lambda then: self._effect("write", key, {"op": op, "payload": payload}, then),
            default,
        )

    def next_run(self, name: str) -> int:
        """The next run number of a name under this place, from 1 (activations §4)."""
        if self._runs is None:
            self._runs = {}
        self._runs[name] = number = self._runs.get(name, 0) + 1
        return number

    def _write_key(self, op: str) -> str:
        self._writes += 1
        return f"{self.idempotency_key}/{op}/{self._writes}"

    def _effect(self, kind: str, key: str, data: dict[str, Any], default: Any, emit: Any = None) -> Any:
        from hookwork.effects import EffectCall

        inv = self._inv
        return EffectCall(
            kind=kind,
            key=key,
            app_name=inv.app_name,
            user_id=inv.user_id,
            session_id=inv.session_id,
            invocation_id=inv.invocation_id,
            agent=self.agent_name,
            branch=self.branch,
            isolation_scope=self.isolation_scope,
            path=self.path,
            state=inv.live.as_dict(),
            data=data,
            default=default,
            emit=emit,
        )


class ToolContext(CallbackContext):
    """One tool call: its id, its actions, its confirmation. ``path`` is the call's place (activations §4)."""

    __slots__ = ("actions", "emit_event", "function_call_id", "parent_path", "tool_confirmation", "tool_name")

    def __init__(
        self,
        inv: Invocation,
        owner: Agent | Node | None,
        branch: str,
        isolation_scope: str,
        path: str,
        *,
        parent_path: str,
        buffer: DeltaBuffer,
        place: str,
        function_call_id: str,
        tool_name: str = "",
        tool_confirmation: ToolConfirmation | None = None,
        resuming: bool = False,
        attempt: int = 1,
    ) -> None:
        self._inv = inv
        self._owner = owner
        self.branch = branch
        self.isolation_scope = isolation_scope
        self.path = path
        self.parent_path = parent_path
        self._buffer = buffer
        self._place = place
        self._writes = 0
        self._runs: dict[str, int] | None = None
        self.resuming = resuming
        self.attempt = attempt
        self.function_call_id = function_call_id
        self.tool_name = tool_name
        self.tool_confirmation = tool_confirmation
        self.actions = Actions(inv.live, buffer)
        #: how events of children reach the run; set by whoever runs the call.
        self.emit_event: Callable[[Event], Awaitable[None]] | None = None

    @property
    def idempotency_key(self) -> str:
        """The key of this call: the same for every attempt at it."""
        return f"{self._inv.invocation_id}/{self.parent_path}/{self._place}"

    def request_confirmation(self, hint: str = "", payload: Any = None) -> None:
        """Ask a person to approve this call. It does not stop the tool: return afterwards (HITL-01)."""
        if not self.function_call_id:
            raise UnsupportedInContext("request_confirmation needs a function call id; call it inside a tool call")
        self.actions.requested_tool_confirmations[self.function_call_id] = ToolConfirmation(
            hint=hint, confirmed=False, payload=payload
        )
        self.actions.skip_summarization = True

    def thread_pool(self) -> Executor | None:
        """Where blocking functions of this runner run; None outside a runner: the loop's own."""
        pool = self._inv.setup.pool
        return pool() if pool is not None else None

    def activate(self, target: Agent | Node, input: Any = None, **place: Any) -> Activation:
        """Run an agent or node under this call's place; see `run_node`, which also passes its events on."""
        from hookwork.starting import activate

        return activate(self, target, input, **place)

    async def run_node(self, target: Any, input: Any = None, *, run_id: str | None = None) -> Any:
        """Run an agent, a node, or what `build_node` takes, as a child of this call and give its output.

        Its events join the run's. When it waits for a person, the call pauses too (`Pause`) and stays unanswered.
        Resumed, the tool runs again from its top: a child that is done gives its recorded output without running.

        Raises:
            InvalidRunNodeContext: nobody takes up events here (a context made without a run).
            NodeRunError: the node failed. What an agent raised comes as it is.
        """
        if self.emit_event is None:
            raise InvalidRunNodeContext("run_node needs a running tool call; this context was made without one")
        from hookwork.starting import run_child

        return await run_child(self, self.emit_event, target, input, run_id)


class InvocationContext(CallbackContext):
    """For agent bodies and run hooks. ``view`` tells a resumed body what its stored events say."""

    __slots__ = ("activation", "input")

    activation: Activation | None
    input: Any

    def __init__(
        self,
        inv: Invocation,
        owner: Agent | Node | None,
        branch: str = "",
        isolation_scope: str = "",
        path: str = "",
        *,
        buffer: DeltaBuffer | None = None,
        place: str = "",
        resuming: bool = False,
        activation: Activation | None = None,
        input: Any = None,
    ) -> None:
        self._inv = inv
        self._owner = owner
        self.branch = branch
        self.isolation_scope = isolation_scope
        self.path = path
        self._buffer = buffer
        self._place = place
        self._writes = 0
        self._runs: dict[str, int] | None = None
        self.resuming = resuming
        self.attempt = 1
        self.activation = activation
        self.input = input

    @property
    def agent(self) -> Any:
        """The agent that runs (the run's agent, in run hooks)."""
        return self._owner

    @property
    def user_content(self) -> Content | None:
        """The message of this run; of the answers in it only those to calls of this place and below (core RES-4)."""
        message = self._inv.user_content
        if message is None or not self.path or not message.function_responses:
            return message
        from hookwork.asking import answers_below

        return answers_below(message, self.session.history(), self.path)

    @property
    def state(self) -> State:
        """The live state; read-only here: yield an event with a delta to write."""
        return State(self._inv.live, None)

    def enter_at(self, agent: Agent, place: str) -> None:
        """The run enters elsewhere than was decided at first; for run hooks."""
        self._owner = agent
        self._place = place

    def callback(self, buffer: DeltaBuffer, place: str) -> CallbackContext:
        """A callback context at the same place whose writes go to ``buffer``."""
        return CallbackContext(
            self._inv,
            self._owner,
            self.branch,
            self.isolation_scope,
            self.path,
            buffer=buffer,
            place=place,
            resuming=self.resuming,
        )

    def hand_over_writes(self, event: Event) -> None:
        """Let an event of this body carry away what the body saved."""
        if self._buffer is not None and self._buffer.artifacts:
            self._inv.attach(event, self._buffer)

    def close(self) -> None:
        """The body is over: later writes raise."""
        if self._buffer is not None:
            self._buffer.closed = True

    @property
    def view(self) -> View:
        """What stored events say about this activation (activations ACT-40)."""
        from hookwork.view import View

        return View(self._inv, self._inv.invocation_id, self.path)

    def activate(self, target: Agent | Node, input: Any = None, **place: Any) -> Activation:
        """Run an agent or node under this activation: an async iterator of its events with a status afterwards."""
        from hookwork.starting import activate

        return activate(self, target, input, **place)
