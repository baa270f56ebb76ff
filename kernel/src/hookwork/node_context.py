"""What the body of a node may do (workflow HK-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from hookwork import platform
from hookwork.actions import Actions
from hookwork.asking import request_input_event
from hookwork.context import InvocationContext
from hookwork.errors import (
    ContextClosedError,
    InvalidResumeResponse,
    InvalidRunNodeContext,
    MultipleOutputs,
    MultipleRoutes,
    NodeFailed,
    ValidationError,
)
from hookwork.node import Pause
from hookwork.records.event import Event, RequestInput
from hookwork.state import DeltaBuffer, State
from hookwork.timed import EXPIRED, NO_DEFAULT, WaitExpired, epoch, wait_event_of, with_deadline

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hookwork.agent import Agent
    from hookwork.invocation import Invocation
    from hookwork.node_activation import NodeActivation
    from hookwork.node_attempt import NodeAttempt

#: What `NodeContext.resumed_input` gives for a question that has no answer (yet).
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING", "__bool__": lambda self: False})()

StateCheck = Callable[[str, Any], None]


class CheckedState(State):
    """State whose writes are checked first, against the schema of a workflow (workflow STATE-3)."""

    __slots__ = ("_check",)

    def __init__(self, live: Any, buffer: DeltaBuffer | None, check: StateCheck) -> None:
        super().__init__(live, buffer)
        self._check = check

    def __setitem__(self, key: str, value: Any) -> None:
        self._check(key, value)
        super().__setitem__(key, value)


class NodeContext(InvocationContext):
    """One attempt at a node: its input, its state writes, its children and its questions to people.

    Attributes:
        node: the node that runs. ``agent`` is the one it belongs to.
        run_id, attempt: which activation of the node this is (`path` names it), and which attempt, from 1.
        node_input: the input after its check. triggered_by: the node that triggered it, ``"START"``, or ``""``.
        actions: the side effects of this attempt; ``state_delta`` is its own buffer.
    """

    __slots__ = (
        "actions",
        "attempt_run",
        "body_task",
        "children",
        "given",
        "given_answers",
        "is_effect",
        "node",
        "node_input",
        "run_id",
        "triggered_by",
    )

    activation: NodeActivation

    def __init__(
        self,
        inv: Invocation,
        owner: Agent | None,
        activation: NodeActivation,
        buffer: DeltaBuffer,
    ) -> None:
        super().__init__(
            inv,
            owner,
            activation.branch,
            activation.isolation_scope,
            activation.path,
            buffer=buffer,
            place="node/1",
            resuming=activation.resuming,
            activation=activation,
            input=activation.input,
        )
        self.node = activation.node
        self.attempt = activation.attempt
        self.run_id = activation.path.rpartition("@")[2]
        self.node_input = activation.input
        self.triggered_by = activation.triggered_by
        self.actions = Actions(inv.live, buffer)
        #: the body is carried out as an effect: it can start and ask nothing (EFF-8).
        self.is_effect = False
        #: what the body gave by `output` and `route`; None: nothing.
        self.given: dict[str, Any] | None = None
        #: the answers, where they come with the description of an effect and there is no history to read (EFF-10).
        self.given_answers: dict[str, Any] | None = None
        #: path → outcome of children that run now, so that two calls of one run id share one execution (DYN-22).
        self.children: dict[str, asyncio.Future[Any]] = {}
        self.body_task: asyncio.Task[Any] | None = None
        #: the attempt whose body has this context; None in hooks, which can start and ask nothing.
        self.attempt_run: NodeAttempt | None = None

    @property
    def state(self) -> State:
        """The live state; writes go onto this attempt's next event (workflow STATE-1)."""
        check = self.activation.state_check
        if check is None:
            return State(self._inv.live, self._buffer)
        return CheckedState(self._inv.live, self._buffer, check)

    @property
    def output(self) -> Any:
        """What this attempt gives, set instead of yielding or returning it (workflow WB-5); it leaves behind the body.

        Raises:
            MultipleOutputs: it is set a second time. ContextClosedError: the node has ended.
        """
        return self.given.get("output") if self.given is not None else None

    @output.setter
    def output(self, value: Any) -> None:
        self._give("output", value, MultipleOutputs)

    @property
    def route(self) -> Any:
        """Where to go on, one route or several, set instead of yielding it; see `output`.

        Raises:
            MultipleRoutes: it is set a second time. ContextClosedError: the node has ended.
        """
        return self.given.get("route") if self.given is not None else None

    @route.setter
    def route(self, value: Any) -> None:
        self._give("route", value, MultipleRoutes)

    def _give(self, what: str, value: Any, twice: type[NodeFailed]) -> None:
        if not self.is_effect:
            self._attempt(f"setting ctx.{what}")
        given = self.given = self.given if self.given is not None else {}
        if what in given:
            raise twice(self.node.name)
        given[what] = value

    def take_given(self) -> Event | None:
        """The event of what `output` and `route` were set to, once; None when nothing was."""
        given, self.given = self.given, None
        if not given or (given.get("output") is None and given.get("route") is None):
            return None
        return self.node.result_event(given.get("output"), given.get("route"))

    def thread_pool(self) -> Executor | None:
        """Where blocking functions of this runner run; None outside a runner: the loop's own."""
        pool = self._inv.setup.pool
        return pool() if pool is not None else None

    async def emit(self, event: Event) -> None:
        """Let an event of this node out; returns once it is stored and handed on."""
        await self._attempt("emit").take(event)

    # --- children -----------------------------------------------------------------------------------------------------

    async def run_node(
        self,
        node: Any,
        input: Any = None,
        *,
        run_id: str | None = None,
        sub_branch: bool = False,
        branch: str | None = None,
        scope: str | None = None,
        use_as_output: bool = False,
        raise_on_wait: bool = True,
    ) -> Any:
        """Run a node, or what `build_node` takes, as a child and give its output (workflow §6.1).

        A child that is done already, in this run or an earlier one, gives its recorded output without running. When
        it waits for a person this node pauses, after the children that run beside it have ended.

        Args:
            run_id: its own name among the children of that node; None: the next number.
            sub_branch: on a branch of its own, so that LLM agents among the children do not see each other.
            branch, scope: None: those of this node. ``scope="path"``: the child's path.
            use_as_output: its output is this node's output (DYN-24).
            raise_on_wait: False: None for a child that waits, instead of pausing here.

        Raises:
            NodeRunError: the child failed. InvalidRunId: the run id is not free.
            InvalidRunNodeContext: this body may not start children. OutputAlreadyDelegated: see ``use_as_output``.
        """
        from hookwork.starting import run_node

        self._attempt("run_node")
        if self.node.config.rerun_on_resume is False:
            raise InvalidRunNodeContext(
                f'node "{self.node.name}" has rerun_on_resume=False, so its body could not finish after a pause of a '
                "child; leave it out, or set it to True"
            )
        return await run_node(
            self,
            node,
            input,
            run_id=run_id,
            sub_branch=sub_branch,
            branch=branch,
            scope=scope,
            use_as_output=use_as_output,
            raise_on_wait=raise_on_wait,
        )

    def _attempt(self, what: str) -> NodeAttempt:
        """The attempt whose body this is; also bodies that are carried out elsewhere may emit (EFF-8)."""
        if self.is_effect and what != "emit":
            raise InvalidRunNodeContext(
                f'{what} in node "{self.node.name}", whose body is carried out as an effect; leave out effect=True'
            )
        if self.attempt_run is None:
            raise InvalidRunNodeContext(f'{what} in a hook of node "{self.node.name}"; only its body can do this')
        if self._buffer is not None and self._buffer.closed:
            raise ContextClosedError(
                f'{what} in node "{self.node.name}" after it had ended; nothing of it is done. Await background work '
                "before the body returns"
            )
        return self.attempt_run

    # --- questions ----------------------------------------------------------------------------------------------------

    async def request_input(
        self,
        key: str,
        message: str = "",
        *,
        payload: Any = None,
        schema: Any = None,
        deadline: datetime | float | None = None,
        default: Any = NO_DEFAULT,
    ) -> Any:
        """The answer to a question; without one the person is asked and the node pauses.

        Once it is answered the body runs again from its top, so ask before you act (workflow ASK-6, WT-35).

        Args:
            key: names the question within this activation.
            schema: a JSON schema or a type; the answer is checked before it is stored and given as that type.
            deadline: a moment (with a time zone, or seconds since 1970) after which a timer may answer instead.
            default: what it answers then; without one `WaitExpired` is raised here.

        Raises:
            ValidationError: ``default`` does not fit ``schema``, or comes without a deadline.
            WaitExpired: the deadline passed. A body that lets it pass ends without output, with the route ``expired``.
            InvalidResumeResponse: ``schema`` has changed since the answer was stored, and the answer does not fit it.
        """
        json_schema, convert = self.node.answer_schema(schema)
        request = RequestInput(
            interrupt_id=self.interrupt_id(key), message=message, payload=payload, response_schema=json_schema
        )
        asking = with_deadline(request_input_event(request, rerun=True), deadline, default)
        value = await self._answer("request_input", key, asking, partial(_check_default, key, default, convert))
        return self._converted(value, key, convert)

    async def sleep_until(self, moment: datetime | float, *, key: str | None = None) -> None:
        """Pause until a moment (with a time zone, or seconds since 1970); at once when it has passed (workflow WB-22).

        The run ends as paused; whoever keeps the time lets it go on (`hookwork_workflow.due_waits`), in this process or
        another. The body runs again from its top, where this returns.

        Args:
            key: names the wait within this activation; None: its number.
        """
        until = epoch(moment)
        key = key if key is not None else f"sleep-{self.next_run('sleep_until()')}"
        asked_before = self.resuming and any(call.id == self.interrupt_id(key) for call in self.view.calls)
        if not asked_before and platform.now().timestamp() >= until:
            self._attempt("sleep_until")
            return
        await self._answer("sleep_until", key, wait_event_of(self.interrupt_id(key), until=until))

    async def wait_event(
        self, event: str, *, schema: Any = None, deadline: datetime | float | None = None, default: Any = NO_DEFAULT
    ) -> Any:
        """Pause until an event of that name is sent to the session, and give what came with it (workflow WB-22).

        Sent by `hookwork_workflow.send_event`. The body runs again from its top. Waited for twice, an event is two
        events. ``schema``, ``deadline`` and ``default`` as in `request_input`.
        """
        json_schema, convert = self.node.answer_schema(schema)
        number = self.next_run(f"wait_event({event})")
        key = event if number == 1 else f"{event}#{number}"
        asking = wait_event_of(self.interrupt_id(key), event=event, schema=json_schema)
        asking = with_deadline(asking, deadline, default)
        value = await self._answer("wait_event", key, asking, partial(_check_default, key, default, convert))
        return self._converted(value, key, convert)

    def _converted(self, value: Any, key: str, convert: Callable[[Any], Any]) -> Any:
        """An answer as the type that is asked for now; it was checked by what the question said when it was raised."""
        try:
            return convert(value)
        except ValueError as fault:  # those of msgspec and of pydantic are ValueErrors
            raise InvalidResumeResponse(
                f"the stored answer to {self.interrupt_id(key)!r} does not fit what node {self.node.name!r} asks for "
                f"now: {fault}; give the question its former schema, or ask under another key"
            ) from fault

    async def _answer(self, what: str, key: str, asking: Event, check: Callable[[], None] | None = None) -> Any:
        """The answer to a call; without one it is made, unless it is open, and the node pauses.

        ``check``: called before the call is made.
        """
        attempt = self._attempt(what)
        value = self.resumed_input(asking.long_running_tool_ids[0])
        if value is EXPIRED:
            raise WaitExpired(key, self.path)
        if value is not MISSING:
            return value
        if check is not None:
            check()
        await attempt.ask(asking)
        from hookwork.starting import others_finish

        await others_finish(self)
        raise Pause

    def interrupt_id(self, key: str) -> str:
        """``<key>:<invocation id>:<path>``, the same whenever this activation runs."""
        return f"{key}:{self._inv.invocation_id}:{self.path}"

    def resumed_input(self, interrupt_id: str) -> Any:
        """The answer to a question of this activation, or `MISSING`."""
        return self.resume_inputs.get(interrupt_id, MISSING)

    @property
    def resume_inputs(self) -> dict[str, Any]:
        """Interrupt id → answer, for all answers given to this activation so far (workflow ANS-10)."""
        if self.given_answers is not None:
            return self.given_answers
        if not self.resuming:
            return {}
        view = self.view
        record = view.record
        found: dict[str, Any] = {}
        for call in record.calls if record is not None else ():
            if call.long_running and call.answer is not None:
                try:
                    found[call.id] = view.answer_value(call)
                except InvalidResumeResponse:
                    found.pop(call.id, None)  # recorded by another kit without a check: as good as none (ANS-3)
        return found


def _check_default(key: str, default: Any, convert: Callable[[Any], Any]) -> None:
    """Raises ValidationError when a default answer does not fit: whoever keeps the time could never give it."""
    if default is NO_DEFAULT:
        return
    try:
        convert(default)
    except ValueError as fault:
        raise ValidationError(
            f"the default answer to {key!r} does not fit its schema: {fault}; give another one, or a schema that takes "
            "it",
            path="default",
        ) from fault
