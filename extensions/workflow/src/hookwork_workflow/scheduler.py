"""Runs a graph: ready nodes in tasks of their own, one consumer of their events (workflow §3.1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from hookwork import platform
from hookwork.inside import invocation_of, owner_of
from hookwork.merge import MergePoint
from hookwork.node import Pause
from hookwork.node_activation import Gate, NodeActivation
from hookwork.node_context import NodeContext
from hookwork.records.event import Event
from hookwork_workflow.advance import TRIGGERS, Activity, Progress, Status
from hookwork_workflow.changes import GRAPHS, check_unchanged
from hookwork_workflow.errors import MultipleTerminalOutputs

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.view import View
    from hookwork_workflow.workflow import Workflow


def run_graph(ctx: InvocationContext, workflow: Workflow, input: Any) -> AsyncGenerator[Event, None]:
    """Run a workflow at the place of ``ctx``; raises `Pause` when a node waits once all others are through (SCH-7)."""
    return Scheduler(ctx, workflow).run(input)


class _Slot(Gate):
    """A node's place among those that may run at once."""

    __slots__ = ("_held", "_limit")

    def __init__(self, limit: asyncio.Semaphore) -> None:
        self._limit = limit
        self._held = False

    async def enter(self) -> None:
        await self._limit.acquire()
        self._held = True

    def leave(self) -> None:
        if self._held:
            self._held = False
            self._limit.release()


class Scheduler:
    """One run of one graph. All of its state is changed between events only, by the tasks of this loop (SCH-1)."""

    def __init__(self, ctx: InvocationContext, workflow: Workflow) -> None:
        self.ctx = ctx
        self.workflow = workflow
        graph = workflow.graph
        again = ctx.resuming or ctx.attempt > 1
        self._view = ctx.view if again else None
        self.progress = Progress(graph, ctx.path, ctx.branch, workflow.max_activations, self._view)
        self._merge = MergePoint()
        #: who fans tasks out otherwise than asyncio does decides on each node by itself.
        self._one_by_one = platform.has_task_runner()
        limit = workflow.max_concurrency
        self._limit = asyncio.Semaphore(limit) if limit is not None and limit > 0 else None
        above = getattr(ctx.activation, "state_check", None)
        self._state_check = workflow.state_check if workflow.state_check is not None else above
        self._fingerprint = graph.fingerprint
        #: terminal nodes that gave an output in this run.
        self._giving: set[str] = set()

    async def run(self, input: Any) -> AsyncGenerator[Event, None]:
        """The events of all nodes, each acknowledged before its node goes on (SCH-2)."""
        progress = self.progress
        if self._view is not None:
            self._check_unchanged(self._view)
        producers = self._producers(progress.replay(progress.begin(input)))
        try:
            async with aclosing(self._merge.stream(producers)) as events:
                async for event in events:
                    yield event
            if not self.ctx.ended and not progress.waits:
                progress.check_complete()
        except BaseException as error:
            async with aclosing(self._undone(error)) as undone:
                async for event in undone:
                    yield event
            raise
        if self.ctx.ended:
            return
        if progress.waits:
            raise Pause

    async def _undone(self, error: BaseException) -> AsyncGenerator[Event, None]:
        """What is undone when a graph that runs as an agent fails; one that is a node may be tried again (WB-23)."""
        if isinstance(error, GeneratorExit | asyncio.CancelledError) or isinstance(self.ctx, NodeContext):
            return
        from hookwork_workflow.undoing import undo_failed

        async with aclosing(undo_failed(self.ctx, self.workflow, error)) as events:
            async for event in events:
                yield event

    def _producers(self, ready: list[Activity]) -> list[Any]:
        return [partial(self._run_node, activity) for activity in ready]

    async def _run_node(self, activity: Activity) -> None:
        """Run a node, and the first of those that it triggers, in this task; the others get tasks of their own.

        A line of nodes is one task, not one for each.
        """
        following: Activity | None = activity
        while following is not None:
            ready = await self._run_one(following)
            following = ready[0] if ready and not self._one_by_one and not self._merge.over else None
            self._merge.start(self._producers(ready if following is None else ready[1:]))

    async def _run_one(self, activity: Activity) -> list[Activity]:
        """Run a node; gives those that are ready afterwards, in order."""
        slot = _Slot(self._limit) if self._limit is not None else None
        try:
            if slot is not None:
                await slot.enter()
            if self.ctx.ended:
                return []
            activity.status = Status.RUNNING
            activation = self._activation(activity)
            activation.gate = slot
            await activation.enter(partial(self._put, activity, [True]), activation.record())
        finally:
            if slot is not None:
                slot.leave()
        return self._finished(activity, activation)

    def _activation(self, activity: Activity) -> NodeActivation:
        ctx = self.ctx
        terminal = activity.name in self.progress.graph.terminal
        activation = NodeActivation(
            invocation_of(ctx),
            activity.node,
            activity.path,
            owner=owner_of(ctx),  # type: ignore[arg-type]
            input=activity.input,
            branch=activity.branch,
            scope=ctx.isolation_scope,
            output_for=(ctx.path,) if terminal else (),
            triggered_by=activity.triggered_by,
            state_check=self._state_check,
        )
        if terminal:
            activation.on_output = partial(self._check_single_output, activity.name)
        return activation

    def _check_single_output(self, name: str) -> None:
        """Refuse the output of a second terminal node before it is emitted (RSL-1)."""
        self._giving.add(name)
        given = self._giving | self.progress.outputs.keys()
        if len(given) > 1:
            raise MultipleTerminalOutputs(list(given))

    def _put(self, activity: Activity, first: list[bool], event: Event) -> Awaitable[None]:
        """Hand an event on, the first of an activation with what triggered it. To be awaited."""
        if not event.partial and event.node_info is not None:
            extra: dict[str, Any] = {}
            if first[0]:
                first[0] = False
                if len(self.progress.graph.predecessors(activity.name)) > 1:
                    extra[TRIGGERS] = {activity.path: [trigger.source for trigger in activity.triggers]}
            talks = event.isolation_scope != self.ctx.isolation_scope  # what a task says asks too (WB-6)
            if event.long_running_tool_ids or talks:
                extra[GRAPHS] = {self.ctx.path: self._fingerprint}
            if extra:
                event = _with_extra(event, extra)
        return self._merge.put(event)

    def _finished(self, activity: Activity, activation: NodeActivation) -> list[Activity]:
        """A node is over; gives what it triggers."""
        activity.branch = activation.branch
        if activation.status == "completed":
            activity.status = Status.COMPLETED
            activity.output, activity.routes = activation.output, activation.routes
        else:
            activity.status = Status.WAITING
            if not activation.awaits_trigger:
                self.progress.wait(activity)
                return []
        if self.ctx.ended:
            return []
        return self.progress.replay(self.progress.complete(activity))

    def _check_unchanged(self, view: View) -> None:
        """Refuse to go on with another graph than the one that asked (RPL-8); answers were checked before (ANS-3)."""
        call = view.last_question
        if call is not None:
            check_unchanged(self.workflow, view.event(call.position), view.path, answer_stored=True)


def _with_extra(event: Event, more: dict[str, Any]) -> Event:
    """An event whose node info says more; graphs around each other add to one entry."""
    info = event.node_info
    assert info is not None
    extra = {**(info.extra or {})}
    for key, entries in more.items():
        extra[key] = {**extra.get(key, {}), **entries}
    return event.replace(node_info=info.replace(extra=extra))
