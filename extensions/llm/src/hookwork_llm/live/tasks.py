"""Tasks that a live agent hands over to a ``task`` sub-agent, which talks with the user in writing (core MODE-8 …)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING

from hookwork.entry import open_task_scope
from hookwork.records.event import Event
from hookwork_llm.delegation import delegate
from hookwork_llm.standing import sort_calls

if TYPE_CHECKING:
    from hookwork.records.history import Call
    from hookwork_llm.live.session import LiveSession


class LiveTasks:
    """Hands tasks over one by one, once their calls are stored, and goes on with one when the user has answered it.

    A task runs typed, in its own scope. While it waits for the user, what is sent as a content is its to hear, as in a
    typed conversation (MODE-10); what is spoken goes to the live model as ever. The model's call is answered when the
    task is finished.
    """

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._names = session.flow.prepared.tasks
        self._work: asyncio.Task[None] | None = None
        self._current: Call | None = None
        #: calls that were tried since anything new was said: a task that neither waits nor ends is not run in circles.
        self._tried: set[tuple[int, int]] = set()
        #: ids of calls that the model withdrew and that have no response yet.
        self._withdrawn: set[str] = set()

    def listening(self) -> str:
        """The isolation scope of the task of this agent that hears what the user writes, ``""`` when there is none."""
        ctx = self._session.ctx
        session = self._session.inv.session
        if not self._names or not session.log.has_scopes:
            return ""
        call = open_task_scope(session)
        if call is None or call.invocation_id != ctx.invocation_id:
            return ""
        return call.scope if call.path == ctx.path or call.path.startswith(f"{ctx.path}/") else ""

    def stored(self, event: Event) -> None:
        """An event is in the log: the tasks in it may be handed over."""
        if self._names and any(call.name in self._names for call in event.function_calls):
            self.go_on()

    def go_on(self) -> None:
        """Something new was said, or became due: work on the tasks that do not wait."""
        self._tried.clear()
        self.work()

    def work(self) -> None:
        """Work on the tasks that are due, unless that is being done."""
        if self._names and self._work is None and self._next() is not None:
            self._session.tools.batches += 1
            self._work = self._session.crew.start(self._all_due(), then=self._done)

    def _done(self) -> None:
        self._work = None
        self._session.tools.end_batch()

    def _next(self) -> Call | None:
        """The first task that is due: none of its turn's other calls runs any more (MODE-11)."""
        flow = self._session.flow
        running = {turn for turn, _ in self._session.tools.running}
        for call in sort_calls(flow.ctx.view, flow.agent, flow.ctx).tasks:
            own = call.invocation_id == flow.ctx.invocation_id
            if own and call.turn not in running and (call.position, call.number) not in self._tried:
                return call
        return None

    async def _all_due(self) -> None:
        session = self._session
        while (call := self._next()) is not None:
            self._tried.add((call.position, call.number))
            self._current = call
            try:
                async with aclosing(delegate(session.tools.own_flow(), call)) as events:
                    async for event in events:
                        event = await session.made(event)
                        session.tools.respond(event, {call.id} - self._withdrawn)
            finally:
                self._current = None

    def withdraw(self, call_ids: Iterable[str]) -> None:
        """The model wants no answer any more: the work on it ends, and its call is closed (models LIVE-7)."""
        session = self._session
        wanted = set(call_ids) - self._withdrawn
        if not self._names or not wanted:
            return
        gone = {call.id for call in self._unanswered() if call.id in wanted}
        self._withdrawn |= gone
        if gone:
            session.crew.start(self._close(gone))

    def _unanswered(self) -> list[Call]:
        session = self._session
        return [call for call in session.ctx.view.unanswered(session.agent.name) if call.name in self._names]

    async def _close(self, call_ids: set[str]) -> None:
        session = self._session
        if self._work is not None and self._current is not None and self._current.id in call_ids:
            await session.crew.cancel([self._work])
        left = [call for call in self._unanswered() if call.id in call_ids]  # none is answered twice
        if left:
            await session.made(session.maker.withdrawn_calls(left))
        self._withdrawn -= call_ids
        self.work()
