"""Tool calls of a live session: the same chain as in a typed turn, beside the flow of audio (models LIVE-14)."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Container, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.records.content import Content, FunctionCall
from hookwork.records.event import Event, ToolConfirmation
from hookwork_llm.batch import Batch, approval_fault
from hookwork_llm.live.inbox import Changes, ToolsDone
from hookwork_llm.live.request import STOP_STREAMING, TASK_COMPLETED, LiveFlow, is_streaming
from hookwork_llm.live.streams import StreamStarter
from hookwork_llm.standing import sort_calls
from hookwork_llm.tool_calls import ToolCall

if TYPE_CHECKING:
    from hookwork.records.history import Call
    from hookwork_llm.live.session import LiveSession

logger = logging.getLogger("hookwork.tools")


class LiveToolCall(ToolCall):
    """A call that the model may withdraw while it runs; it is then answered in the history and not to the model."""

    __slots__ = ("_work", "limit", "where", "withdrawn")

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.withdrawn = False
        #: how many calls may run at once, None: any number.
        self.limit: asyncio.Semaphore | None = None
        #: (turn, number): which call of which turn of the agent it is.
        self.where = (0, 0)
        self._work: asyncio.Future[None] | None = None

    async def execute(self) -> None:
        if self.withdrawn:
            self._give_up()
            return
        if (ended := self.ended) is not None:  # a withdrawal is no cancellation that the tool brought upon itself
            self.ended = lambda: self.withdrawn or ended()
        self._work = asyncio.ensure_future(self._carried_out())
        try:
            await self._work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.withdrawn or task is None or task.cancelling():
                raise
            self._give_up()

    async def _carried_out(self) -> None:
        if self.limit is None:
            await super().execute()
            return
        async with self.limit:
            await super().execute()

    def withdraw(self) -> None:
        """The model wants no answer any more."""
        self.withdrawn = True
        if self._work is not None:
            self._work.cancel()

    def _give_up(self) -> None:
        self.answer({"error": "cancelled: the model withdrew this call before it had a result"})
        self.finished = True


class LiveTools:
    """Runs batches of calls, each in a task of its own, and sends their responses to the model."""

    def __init__(self, session: LiveSession, max_parallel: int | None) -> None:
        self._session = session
        self._limit = asyncio.Semaphore(max_parallel) if max_parallel else None
        self._calls: dict[str, LiveToolCall] = {}
        #: calls that are being carried out: (turn, number) → path. Each is carried out once.
        self.running: dict[tuple[int, int], str] = {}
        #: calls that wait for an answer to something they started (workflow ASK-7), likewise.
        self._paused: set[tuple[int, int]] = set()
        #: an answer came for a call whose batch was not over.
        self._look_again = False
        #: batches that run; `changes` tells when one is over.
        self.batches = 0
        self.changes = Changes()

    def run(self, made_by: Event, turn: int) -> None:
        """Carry out the calls of a model event, at the places of its turn (tools-plugins EFF-2)."""
        flow = self.own_flow()
        calls = made_by.function_calls
        self._start(flow, [self._call(flow, made_by, call, turn, i) for i, call in enumerate(calls, 1)])

    def run_released(self) -> None:
        """Carry out what answers of a person have released and what was not carried out yet.

        Calls that were approved, those whose consent was given (HITL-08, HITL-16, crosscutting AUTH-32), and those that
        wait for the answer to a question of something they started; these run again from their top.
        """
        flow = self.own_flow()
        pending = sort_calls(flow.ctx.view, flow.agent, flow.ctx)
        ready: list[LiveToolCall] = []
        for request, call, decision in pending.answered:
            if (call.turn, call.number) in self.running:  # it still asks, or runs already
                self._look_again = True
                continue
            approved = self._again(flow, call, request.position, decision)
            fault = approval_fault(flow, request, call)
            if fault:
                logger.warning("an approval was refused: %s (call %s)", fault, call.id)
                approved.answer({"error": f"refused: {fault}"})
            ready.append(approved)
        for call in pending.unrun:
            if (call.turn, call.number) in self.running:
                self._look_again = True
            elif (call.turn, call.number) in self._paused:
                ready.append(self._again(flow, call, call.position))
        if ready:
            self._start(flow, ready)

    def withdraw(self, call_ids: Iterable[str]) -> None:
        """The model withdrew calls (models LIVE-7): their bodies are cancelled."""
        for call_id in call_ids:
            call = self._calls.get(call_id)
            if call is not None:
                call.withdraw()

    # --- one batch ----------------------------------------------------------------------------------------------------

    def own_flow(self) -> LiveFlow:
        """The session's flow, with a loop of its own to end: batches run at once and none of them ends the session."""
        return copy.copy(self._session.flow)

    def _call(
        self,
        flow: LiveFlow,
        made_by: Event,
        call: FunctionCall,
        turn: int,
        number: int,
        decision: ToolConfirmation | None = None,
        group: int = 0,
    ) -> LiveToolCall:
        made = LiveToolCall(flow, made_by, call, turn, number, decision, group)
        made.limit = self._limit
        made.where = (turn, number)
        if is_streaming(made.tool):
            made.tool = StreamStarter(made.tool, self._session.streams, f"tool/{turn}.{number}")
        self._calls[call.id or ""] = made
        return made

    def _again(self, flow: LiveFlow, call: Call, group: int, decision: ToolConfirmation | None = None) -> LiveToolCall:
        """A stored call on its way again, at the place it had."""
        made_by = flow.inv.session.events[call.position]
        shown = FunctionCall(id=call.id, name=call.name, args=call.args)
        again = self._call(flow, made_by, shown, call.turn, call.number, decision, group)
        again.ctx.resuming = True
        return again

    def _start(self, flow: LiveFlow, calls: Sequence[LiveToolCall]) -> None:
        self.running |= {call.where: call.ctx.path for call in calls}
        self._paused -= {call.where for call in calls}
        self.batches += 1
        self._session.crew.start(self._carry_out(flow, calls), then=lambda: self._over(calls))

    def _over(self, calls: Sequence[LiveToolCall]) -> None:
        for call in calls:
            self.running.pop(call.where, None)
            if call.paused:
                self._paused.add(call.where)
            if self._calls.get(call.call.id or "") is call:
                del self._calls[call.call.id or ""]
        self.end_batch()
        if self._look_again and not self._session.crew.ended:
            self._look_again = False
            self.run_released()

    def end_batch(self) -> None:
        """A batch is over; who waits for that is told."""
        self.batches -= 1
        self.changes.fire()
        self._session.inbox.post(ToolsDone())

    async def _carry_out(self, flow: LiveFlow, calls: Sequence[LiveToolCall]) -> None:
        for call in calls:
            if call.call.name == STOP_STREAMING and call.response is None:
                call.answer(await self._session.streams.stop(str(call.args.get("function_name", ""))))
        batch = Batch(flow, calls)
        batch.tasks.clear()  # `LiveTasks` hands them over, once their call is stored
        async with aclosing(batch.run()) as events:
            async for event in events:
                event = await self._session.made(event)
                self.respond(event, {call.call.id for call in calls if not call.withdrawn})
        for call in calls:
            self._session.streams.call_answered(call.call.id or "")

    def respond(self, event: Event, wanted: Container[str | None]) -> None:
        """Send the responses of an event, in its stored form, to the model: to calls whose answer is ``wanted``."""
        content = event.content
        answers = [part for part in content.parts if part.function_response is not None] if content is not None else []
        answers = [part for part in answers if part.function_response and part.function_response.id in wanted]
        if not answers:
            return
        self._session.answer(Content(role="user", parts=answers))
        if any(part.function_response and part.function_response.name == TASK_COMPLETED for part in answers):
            self._session.leave_soon()
