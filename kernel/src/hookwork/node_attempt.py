"""One attempt at a node: its body, what comes out of it, and how it ends (workflow NODE-4 … NODE-9, RTY-3, TMO-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from hookwork import platform
from hookwork.activation import COMPLETED
from hookwork.asking import request_input_event, waiting_event
from hookwork.errors import (
    ConsentRequiredError,
    ContextClosedError,
    InputValidationError,
    MultipleOutputs,
    MultipleRoutes,
    NodeFailed,
    NodeTimeout,
    OutputAlreadyDelegated,
)
from hookwork.merge import cancel_and_wait
from hookwork.node import NodeOutcome, Pause, Standing
from hookwork.node_cuts import came_from_below, failure_in, note_cut, set_context, take_cuts
from hookwork.node_events import checked_output, stamped, without_output
from hookwork.node_standing import NODE_WAITING
from hookwork.records.event import Event, NodeInfo, RequestInput
from hookwork.state import DeltaBuffer
from hookwork.timed import EXPIRED_ROUTE, WaitExpired
from hookwork.view import View

if TYPE_CHECKING:
    from hookwork.node import Node
    from hookwork.node_activation import NodeActivation

#: Key of the interrupt id under which a node asks for a consent; a further one of the same activation is numbered.
CONSENT = "wf_auth"


class NodeAttempt:
    """The accumulator of one attempt. ``delegated``: path of the child whose output is this node's (DYN-24).

    ``detached``: tasks, other than the body's own, in which children run now (DYN-7).
    ``child_idles``: a child waits for its next trigger, and no question is open for it (DYN-26).
    """

    __slots__ = (
        "_buffer",
        "_ended",
        "_final",
        "_given",
        "_node",
        "_output",
        "_paused",
        "_routes",
        "_waits",
        "activation",
        "child_idles",
        "ctx",
        "delegated",
        "delegated_output",
        "detached",
    )

    def __init__(self, activation: NodeActivation) -> None:
        self.activation = activation
        self._node = activation.node
        self._buffer = DeltaBuffer()
        self.ctx = activation.context(self._buffer)
        self.ctx.attempt_run = self
        self._output: Any = None
        self._routes: tuple[str, ...] = ()
        self._final: Event | None = None
        #: an output of its own was let out; an output, a route or a marker, also a child's output that is its own.
        self._given = self._ended = False
        #: a call was raised here or below; the body itself said that it waits.
        self._waits = self._paused = False
        self.delegated = ""
        self.delegated_output: Any = None
        self.detached: set[asyncio.Task[Any]] = set()
        self.child_idles = False

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Check the input, run the body, settle how it ended."""
        ctx, node = self.ctx, self._node
        try:
            ctx.node_input = self._checked_input()
            seconds = node.config.timeout
            if seconds:
                await self._within(seconds, self._body())
            else:
                await self._body()
            await self._finish()
        except BaseException as error:
            self.activation.inv.live.discard(self._buffer)
            await self._end_detached()
            if isinstance(error, asyncio.CancelledError) and not _cancelled_from_outside():
                raise RuntimeError(
                    f'node "{node.name}" let a CancelledError escape though nobody cancels it (a stray one)'
                ) from error
            if isinstance(error, GeneratorExit):
                raise RuntimeError(f'GeneratorExit was raised inside node "{node.name}"') from error
            raise

    async def give(self, outcome: NodeOutcome) -> None:
        """Let a hook's outcome count as what the body gave."""
        if outcome.output is not None or outcome.routes:
            await self.take(Event(output=outcome.output, routes=outcome.routes))
        await self._finish()

    def _checked_input(self) -> Any:
        try:
            return self._node.validate_input(self.activation.input)
        except InputValidationError:
            raise
        except Exception as error:
            raise InputValidationError(self._node.name, str(error)) from error

    async def _within(self, seconds: float, body: Coroutine[Any, Any, None]) -> None:
        """The body with a limit from the platform's clock; what swallows the cancellation is abandoned (TMO-1)."""
        task = asyncio.ensure_future(body)
        timer = asyncio.ensure_future(platform.sleep(seconds))
        try:
            await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as cancelled:
            self._buffer.closed = True
            await cancel_and_wait([task, timer])
            self._keep_own_failure(failure_in(task), cancelled)
            raise
        if not task.done():
            self._buffer.closed = True
            await cancel_and_wait([task])
            met = failure_in(task)
            if (failure := await self._failure_below(met)) is not None:
                raise failure
            raise NodeTimeout(self._node.name, seconds) from met
        timer.cancel()
        await task

    def _keep_own_failure(self, error: BaseException | None, cancelled: asyncio.CancelledError) -> None:
        """The body, in a task of its own, failed while it was being ended (FAIL-3)."""
        activation = self.activation
        if error is None:
            return
        if not came_from_below(error, activation.path):
            note_cut(activation.inv, self._node.name, activation.failure_event(error), error)
        set_context(cancelled, error)

    async def _failure_below(self, met: BaseException | None) -> BaseException | None:
        """The failure of a node below that this one's deadline met or provoked; what is not stored yet is (FAIL-3)."""
        activation = self.activation
        cuts = take_cuts(activation.inv, activation.path)
        for cut in cuts:
            await activation.put(cut.event)
        if met is not None and came_from_below(met, activation.path):
            return met
        return cuts[0].error if cuts else None

    async def _body(self) -> None:
        ctx = self.ctx
        ctx.body_task = asyncio.current_task()
        try:
            if self.activation.inv.hooks.perform_node and is_effect(self._node):
                from hookwork.node_effects import perform_body

                await perform_body(self)
            else:
                await self._pull(self._node.run(ctx, ctx.node_input))
            await self._await_detached()
            if self.ctx.given is not None and (event := self.ctx.take_given()) is not None:
                await self.take(event)
        except Pause:
            self._paused = True
        except ConsentRequiredError as required:
            await self._ask_consent(required)
        except WaitExpired:
            await self.take(Event(routes=(EXPIRED_ROUTE,)))
        except BaseExceptionGroup as group:
            errors = group.split(Pause)[1]  # of a task group that ended by nothing but pauses: none (ASK-7)
            if errors is not None and errors.split(WaitExpired)[1] is not None:
                raise errors from None
            if errors is not None:
                await self.take(Event(routes=(EXPIRED_ROUTE,)))
            else:
                self._paused = True
        if self._paused and self.detached:
            await self._end_detached()

    async def _ask_consent(self, required: ConsentRequiredError) -> None:
        """The node waits until somebody has consented; then its body runs again (crosscutting AUTH-30, WB-3)."""
        node, ctx = self._node, self.ctx
        if node.continues or node.config.rerun_on_resume is False:  # an agent asks for itself; this one could not go on
            raise required
        self._paused = True
        asked = [call for call in ctx.view.calls if call.kind == "credential"]
        if any(call.is_open for call in asked):
            self._waits = True
            return
        from hookwork.credentials import consent_request

        key = f"{CONSENT}-{len(asked) + 1}" if asked else CONSENT
        call = consent_request(required, ctx.interrupt_id(key), ctx.interrupt_id("wf_node"))
        await self.take(waiting_event(call, rerun=True))

    async def _pull(self, body: Any) -> None:
        try:
            async for item in body:
                await self.take(item)
        finally:
            if hasattr(body, "aclose"):
                await body.aclose()

    async def _await_detached(self) -> None:
        """Children started in tasks that outlive the body end before it does; their failure is its own (DYN-7)."""
        while self.ctx.children:
            running = list(self.ctx.children.values())
            await asyncio.wait(running)
            for future in running:
                if not future.cancelled() and future.result()[0] == "paused":  # raises what the child failed with
                    raise NodeFailed(
                        f'node "{self._node.name}": a child that was started in a task of its own paused after the '
                        "body had ended; await it in the body"
                    )

    async def _end_detached(self) -> None:
        tasks = [task for task in self.detached if task is not asyncio.current_task()]
        self.detached.clear()
        await cancel_and_wait(tasks)

    # --- what comes out -----------------------------------------------------------------------------------------------

    async def take(self, item: Event | RequestInput) -> None:
        """Take up what the body gave: complete it, check an output, let it out (NODE-4, NODE-6, NODE-7).

        Raises:
            MultipleOutputs, MultipleRoutes, OutputValidationError: nothing of the event is stored.
        """
        if self._buffer.closed:
            raise ContextClosedError(f'node "{self._node.name}" emitted an event after it had ended; it is dropped')
        if isinstance(item, RequestInput):
            await self.ask(item, rerun=False)
            return
        if not isinstance(item, Event):
            raise NodeFailed(
                f'node "{self._node.name}" yielded {type(item).__name__}; a node yields Event objects and RequestInput'
            )
        if item.path and item.path != self.activation.path:
            await self.forward(item)
            return
        if item.requested_input is not None and not item.long_running_tool_ids:
            item = request_input_event(item.requested_input)
        if item.partial:
            event = stamped(item, self.activation)
            plain = event.output is None and not event.routes
            await self.activation.put(event if plain else event.replace(output=None, routes=()))
            return
        decided = await self._decided(item)
        if decided is not None:
            await self._put(decided)

    async def forward(self, event: Event) -> None:
        """Hand an event of a child on; it is no output of this node unless it says so (DYN-3, RSL-4)."""
        if not event.partial:
            if self.activation.state_check is not None and self._node.continues:
                self._check_writes(event)
            event = await self._passed_up(event)
            self._note(event)
        await self.activation.put(event)

    def _check_writes(self, event: Event) -> None:
        """What an event of a body or an agent writes, against the schema of the innermost workflow (STATE-3)."""
        inv, check = self.activation.inv, self.activation.state_check
        if check is None or (event.id and event.id in inv.checked):
            return
        for key, value in event.actions.state_delta.items():
            check(key, value)
        for buffer in inv.unsettled.get(event.id, ()):  # of tools, while their responses are on the way
            for key, (_, value) in buffer.writes.items():
                check(key, value)
        if event.id:
            inv.checked.add(event.id)

    async def _passed_up(self, event: Event) -> Event:
        """An output that is this node's too: seen and checked like one (NODE-3), and that of those above (RSL-3)."""
        activation, info = self.activation, event.node_info
        if info is None or not info.output_for or activation.path not in info.output_for:
            return event
        output = event.output
        if activation.inv.hooks.after_node:
            replaced = await activation.hook("after_node", self.ctx, NodeOutcome(output=output))
            if replaced is not None:
                output = replaced.output
                info = info.replace(message_as_output=None)
        output = checked_output(self._node, output)
        if activation.on_output is not None:
            activation.on_output()
        if activation.output_for:
            info = info.replace(output_for=(*(info.output_for or ()), *activation.output_for))
        return event.replace(output=output, node_info=info)

    async def ask(self, request: RequestInput | Event, *, rerun: bool = True) -> None:
        """Ask a person, or wait by an event of one call; what is open already is not asked again (ASK-8)."""
        event = request if isinstance(request, Event) else request_input_event(request, rerun=rerun)
        if self.activation.resuming and event.long_running_tool_ids[0] in {c.id for c in self.ctx.view.open_calls}:
            self._waits = True
            return
        await self.take(event)

    def delegate(self, path: str) -> None:
        """A child's output becomes this node's (DYN-24). Raises OutputAlreadyDelegated."""
        if self.delegated and self.delegated != path:
            raise OutputAlreadyDelegated(self._node.name, self.delegated, path)
        self.delegated = path

    async def _decided(self, event: Event) -> Event | None:
        """An event with its output and routes counted, seen by ``after_node`` and checked before it leaves (NODE-4)."""
        node, activation = self._node, self.activation
        if activation.state_check is not None:
            self._check_writes(event)
        info = event.node_info or activation.info
        output = event.text if event.output is None and info.message_as_output else event.output
        if output is None and not event.routes:
            return stamped(event, activation)
        if self.delegated and output is not None:
            return without_output(stamped(event, activation))
        if output is not None and self._given and not node.replaces_output:
            raise MultipleOutputs(node.name)
        if event.routes and self._routes:
            raise MultipleRoutes(node.name)
        if output is None:
            return stamped(event, activation)
        routes = event.routes
        if activation.inv.hooks.after_node:
            replaced = await activation.hook("after_node", self.ctx, NodeOutcome(output=output, routes=routes))
            if replaced is not None:
                output, routes = replaced.output, tuple(replaced.routes)
                info = info.replace(message_as_output=None)  # the text is not the output any more
        return self._with_output(event, output, info, routes)

    def _with_output(self, event: Event, output: Any, info: NodeInfo, routes: tuple[str, ...]) -> Event:
        activation = self.activation
        if output is not None:
            output = checked_output(self._node, output)
            if activation.on_output is not None:
                activation.on_output()
            self._given = True
            info = info.replace(output_for=(activation.path, *activation.output_for))
        return stamped(event, activation, output=output, node_info=info, routes=routes)

    def _note(self, event: Event) -> None:
        """Remember what decides how this attempt ends; an output stays when a route or a marker follows."""
        info = event.node_info
        path = self.activation.path
        if event.long_running_tool_ids:
            self._waits = True
        if info is None or info.path != path:
            if info is not None and info.output_for and path in info.output_for:
                self._ended, self._output = True, event.output
            return
        self._final = event
        self.activation.raised.extend(event.long_running_tool_ids)
        if event.output is not None:
            self._ended, self._output = True, event.output
        if event.routes:
            self._ended, self._routes = True, event.routes
        if info.status == COMPLETED:
            self._ended = True

    async def _put(self, event: Event) -> None:
        """Let an event of this place out, with what the attempt and the hooks wrote."""
        activation = self.activation
        if activation.state_check is not None:  # what a tool of this node wrote is checked here, the rest when written
            for key, (_, value) in self._buffer.writes.items():
                activation.state_check(key, value)
            activation.inv.checked.add(event.id)
        activation.inv.attach(event, self._buffer, activation.hook_buffer)
        self._note(event)
        await activation.put(event)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """The body is over without an error: does it wait, is it done, what is still to be stored."""
        activation, node = self.activation, self._node
        inv = activation.inv
        if self._waits or self._paused or activation.resuming:
            view = View(inv, inv.invocation_id, activation.path)
            activation.open_calls = view.open_calls
            if activation.open_calls or self._paused:
                await self._wait(unused_answer=view.news or (self.child_idles and not activation.open_calls))
                return
        if self.delegated and not self._ended and self.delegated_output is not None:
            # It was recorded before the last answer; recorded again, it is this node's end.
            await self._put(self._with_output(self._made(activation.info), self.delegated_output, activation.info, ()))
        elif not self._ended and node.config.wait_for_output:
            await self._wait(unused_answer=True)
            return
        derived = node.derives_end and not self._ended and not inv.ended
        if derived:
            self._output = node.output(View(inv, inv.invocation_id, activation.path))
        if self._output is None and not self.delegated and inv.hooks.after_node:
            await self._end_by_hook()
        if not inv.ended and not self._ended and not node.derives_end:
            await self._put(self._made(NodeInfo(path=activation.path, status=COMPLETED)))
        await self._put_leftovers()
        self.ctx.close()
        activation.take_result(COMPLETED, self._output, self._routes, self._final)

    async def _end_by_hook(self) -> None:
        """``after_node`` for a body that gave no output."""
        activation = self.activation
        replaced = await activation.hook("after_node", self.ctx, NodeOutcome(routes=self._routes))
        if replaced is None:
            return
        routes = () if self._routes else tuple(replaced.routes)
        if replaced.output is not None or routes:
            event = self._made(activation.info)
            await self._put(self._with_output(event, replaced.output, activation.info, routes))

    def _made(self, info: NodeInfo) -> Event:
        return stamped(Event(node_info=info), self.activation)

    async def _wait(self, *, unused_answer: bool) -> None:
        """It waits. An answer that brought no event is used up by one without content (ACT-25)."""
        if unused_answer and not self._node.derives_end:
            await self._put(self._made(NodeInfo(path=self.activation.path, status=NODE_WAITING)))
        await self._put_leftovers()
        self.ctx.close()
        activation = self.activation
        activation.take_result("paused", None, (), self._final)
        if not activation.open_calls:
            view = View(activation.inv, activation.inv.invocation_id, activation.path)
            stands = self._node.standing(view) is Standing.WAITING and not view.open_delegations
            activation.awaits_trigger = stands or bool(self._node.config.wait_for_output)

    async def _put_leftovers(self) -> None:
        """Writes that no event took go onto one without content (workflow STATE-1)."""
        if self._buffer or self.activation.hook_buffer:
            await self._put(self._made(self.activation.info))


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_effect(node: Node) -> bool:
    """Whether an engine may carry the body out (EFF-8)."""
    declared = node.config.effect
    return not node.takes_context if declared is None else declared
