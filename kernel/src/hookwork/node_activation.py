"""One execution of a node under a path: hooks, attempts, failure, pause (workflow HK-2, §7).

Events are pushed: `NodeActivation.drive` hands each to a function that returns once the event is stored. So a graph
runs a node in one task of its own, and a body may emit from wherever it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from hookwork import platform
from hookwork.activation import Activation, checked
from hookwork.merge import MergePoint
from hookwork.node import NodeOutcome
from hookwork.node_attempt import NodeAttempt
from hookwork.node_context import NodeContext, StateCheck
from hookwork.node_cuts import is_failure, note_cut, say_where
from hookwork.plugins.dispatch import first, notify
from hookwork.records.event import Event, NodeInfo
from hookwork.records.history import CLOSED_CALLS, NODE_FAILED, NODE_VOIDED, Record
from hookwork.stages import InContext, Stage, StageOutcome, around_call
from hookwork.state import DeltaBuffer
from hookwork.view import View

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.invocation import Invocation
    from hookwork.node import Node

Put = Callable[[Event], Awaitable[None]]


class Gate:
    """Lets a limited number of nodes run; one that waits for its next attempt holds no place (workflow SCH-6)."""

    async def enter(self) -> None:
        """Wait for a place."""

    def leave(self) -> None:
        """Give it back."""


class NodeActivation(Activation):
    """See the module; the outcome is read as on any `Activation`.

    Attributes:
        owner: the agent whose name its events carry.
        output_for: paths of the activations whose output this node's output is, innermost first (workflow RSL-3).
        triggered_by: the node that triggered it, ``"START"``, or ``""``.
        state_check: what checks writes of state (workflow STATE-3).
        on_output: called before an output leaves; may raise.
        gate: left during the delay before a further attempt. retry: the node's policy, or another.
        resuming: the place had a record before this entry.
        awaits_trigger: paused, but no question is open here or below: it may be activated again (NODE-9, DYN-26).
    """

    __slots__ = (
        "_in_hook",
        "attempt",
        "awaits_trigger",
        "gate",
        "hook_buffer",
        "info",
        "inv",
        "node",
        "on_output",
        "output_for",
        "owner",
        "put",
        "raised",
        "resuming",
        "retry",
        "state_check",
        "triggered_by",
    )

    def __init__(
        self,
        inv: Invocation,
        node: Node,
        path: str,
        *,
        owner: Agent | None,
        input: Any = None,
        branch: str = "",
        scope: str = "",
        output_for: tuple[str, ...] = (),
        triggered_by: str = "",
        state_check: StateCheck | None = None,
    ) -> None:
        super().__init__(inv, node, path, input=input, branch=branch, scope=scope)  # type: ignore[arg-type]
        self.inv = inv
        self.node = node
        self.owner = owner
        self.output_for = output_for
        self.triggered_by = triggered_by
        self.state_check = state_check
        self.on_output: Callable[[], None] | None = None
        self.gate: Gate | None = None
        self.info = NodeInfo(path=path)
        self.retry: Any = node.config.retry
        self.attempt = 1
        self.resuming = False
        self.awaits_trigger = False
        #: ids of the questions that this entry raised.
        self.raised: list[str] = []
        self.put: Put = _nowhere
        self.hook_buffer = DeltaBuffer()
        self._in_hook = False

    # --- entering -----------------------------------------------------------------------------------------------------

    async def _run(self) -> AsyncGenerator[Event, None]:
        merge = MergePoint()
        async with aclosing(merge.stream([lambda: self.drive(merge.put)])) as events:
            async for event in events:
                yield event

    def record(self) -> Record | None:
        """What stored events say about this place, None for a place that can have none."""
        inv = self.inv
        if inv.known or self.path in inv.entered:
            return inv.history().record(inv.invocation_id, self.path)
        return None

    @property
    def was_entered(self) -> bool:
        """Whether it ran, as opposed to being answered from its record."""
        return self.put is not _nowhere

    async def drive(self, put: Put) -> None:
        """Run to the end, or find out that it is done or waits; then ``status`` says which."""
        record = self.record()
        if record is not None and self._stands() is not None:
            if self.status == "paused" and not self.open_calls:
                self.awaits_trigger = not View(self.inv, self.inv.invocation_id, self.path).open_delegations
            return
        await self.enter(put, record)

    async def enter(self, put: Put, record: Record | None) -> None:
        """Run a place that does not stand done or waiting, inside its around hooks."""
        inv = self.inv
        inv.entered.add(self.path)
        self.put = put
        self.resuming = record is not None
        if record is not None:  # an activation keeps its recorded branch and scope (ACT-16)
            self.branch, self.isolation_scope = record.branch or self.branch, record.scope or self.isolation_scope
        chain = inv.hooks.around_node
        try:
            if not chain:
                await self._stages()
                return
            stage = Stage("node")
            values = (self.context(self.hook_buffer), self.node, self.input)
            inner = around_call(chain, values, stage, lambda: self._in_stage(stage), own_task=True)
            await InContext(copy_context(), inner)
        except asyncio.CancelledError:
            self.status = "cancelled"
            raise
        except BaseException as error:
            self.status = "failed"
            say_where(error, self.node.name, self.path)
            raise

    async def _in_stage(self, stage: Stage) -> None:
        await self._stages()
        value = NodeOutcome(status=self.status, output=self.output, routes=self.routes)
        stage.outcome = StageOutcome(value, source=self._decided_by)

    def context(self, buffer: DeltaBuffer) -> NodeContext:
        """A context of this node whose writes go to ``buffer``."""
        return NodeContext(self.inv, self.owner, self, buffer)

    async def _stages(self) -> None:
        """``before_node``, the attempts, ``on_node_error``, ``on_pause`` (HK-2)."""
        hooks = self.inv.hooks
        try:
            given: NodeOutcome | None = None
            if hooks.before_node:
                given = await self.hook("before_node", self.context(self.hook_buffer), self.input)
            if given is None:
                await self._attempts()
            else:
                await NodeAttempt(self).give(given)
        except BaseException as error:
            if not is_failure(error) or not self._in_hook:
                raise
            self._in_hook = False
            await self._record_failure(error)
            await self._recover(error)
        # An agent at this place has told of its own calls already (PLUG-43).
        if self.status == "paused" and self.raised and hooks.on_pause and not self.node.continues:
            own = [call for call in self.open_calls if call.path == self.path and call.id in self.raised]
            if own:
                await notify(hooks.on_pause, "on_pause", self.context(self.hook_buffer), own)

    async def hook(self, name: str, *values: Any) -> NodeOutcome | None:
        """A value hook of this node. What it raises is the node's failure, without a further attempt."""
        self._in_hook = True
        decided = await first(getattr(self.inv.hooks, name), name, *values)
        outcome = checked(decided[0], NodeOutcome, decided[1], name) if decided is not None else None
        self._in_hook = False
        if decided is not None:
            self._decided_by = decided[1]
        return outcome

    # --- attempts -----------------------------------------------------------------------------------------------------

    async def _attempts(self) -> None:
        retry = self.retry
        untraced = self.inv.tracer is None or self.node.config.emits_own_span
        while True:
            try:
                attempt = NodeAttempt(self)
                await (attempt.run() if untraced else self._spanned(attempt))
                return
            except BaseException as error:
                if not is_failure(error) or self._in_hook:
                    raise
                failure = error
            final = retry is None or getattr(failure, "never_retried", False)
            again = not final and retry.should_retry(failure, self.attempt)
            await self._record_failure(failure, again=again)
            if not again:
                await self._recover(failure)
                return
            await self._delay(retry.delay(self.attempt, platform.random))
            self.attempt += 1

    async def _delay(self, seconds: float) -> None:
        if self.gate is None:
            await platform.sleep(seconds)
            return
        self.gate.leave()
        await platform.sleep(seconds)
        await self.gate.enter()

    async def _recover(self, error: BaseException) -> None:
        """``on_node_error``: an outcome replaces the failure, else it is raised."""
        if self.inv.hooks.on_node_error:
            ctx = self.context(self.hook_buffer)
            outcome = await self.hook("on_node_error", ctx, error, self.attempt)
            if outcome is not None:
                await NodeAttempt(self).give(outcome)
                return
        raise error

    async def _spanned(self, attempt: NodeAttempt) -> None:
        """An attempt in its span (HK-4)."""
        inv, node = self.inv, self.node
        from hookwork.telemetry import record_error, span_context, start_span

        span = start_span(inv.tracer, f"invoke_node {node.name}", span_attributes(node, inv.session_id))
        spans: list[Any] = inv.run.spans if inv.run is not None else []
        spans.append(span)
        try:
            await InContext(span_context(span), attempt.run())
        except BaseException as error:
            if is_failure(error):
                record_error(span, error)
            raise
        finally:
            if span in spans:
                spans.remove(span)
            if span.is_recording():
                span.end()

    async def _record_failure(self, error: BaseException, *, again: bool = False) -> None:
        """One event for each failed attempt (workflow PER table); a node that is being ended keeps it (FAIL-3)."""
        event = self.failure_event(error, again=again)
        try:
            await self.put(event)
        except asyncio.CancelledError:
            note_cut(self.inv, self.node.name, event, error)
            raise

    def failure_event(self, error: BaseException, *, again: bool = False) -> Event:
        """What is stored of a failed attempt; questions it raised wait no longer (ASK-5).

        An agent that is tried again begins anew (RTY-5); one that is not goes on from its calls when it is resumed.
        """
        from hookwork.node_events import stamped
        from hookwork.telemetry import error_text, error_type

        self.inv.live.discard(self.hook_buffer, close=False)
        closed = [] if self.node.continues else list(self.raised)
        event = Event(
            error_code=error_type(error),
            error_message=error_text(error),
            node_info=NodeInfo(path=self.path, status=NODE_VOIDED if again and self.node.continues else NODE_FAILED),
            custom_metadata={CLOSED_CALLS: closed} if closed else None,
        )
        return stamped(event, self)

    def take_result(self, status: str, output: Any, routes: tuple[str, ...], final: Event | None) -> None:
        """How the last attempt ended."""
        self.status, self.output, self.routes, self._final = status, output, routes, final


def span_attributes(node: Node, session_id: str) -> dict[str, str]:
    """What a node's span says (HK-4)."""
    return {
        "gen_ai.operation.name": "invoke_node",
        "gen_ai.node.name": node.name,
        "gen_ai.conversation.id": session_id,
    }


async def _nowhere(event: Event) -> None:
    raise RuntimeError("this node does not run")
