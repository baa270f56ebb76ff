"""ParallelAgent: children at once, each on a branch of its own (core §1.2, WFA-1 … WFA-3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define

from hookwork.merge import MergePoint
from hookwork.node import Pause, Standing
from hookwork_workflow.composed import ComposedAgent, child_output, child_standing, ended_by_hook

if TYPE_CHECKING:
    from hookwork.activation import Activation
    from hookwork.agent import Agent
    from hookwork.context import InvocationContext
    from hookwork.records.event import Event
    from hookwork.view import View


@define(eq=False, kw_only=True, frozen=True)
class ParallelAgent(ComposedAgent):
    """Runs its sub-agents at once. They do not see each other: each has the branch ``[<branch>.]<this>.<child>``.

    Events of one child stay in order; between children the order is free. When a child waits for a person the others
    finish first. The first error cancels the others, which are awaited, and is raised with a note naming the child.
    ``escalate`` means nothing here. Fields: those of `ComposedAgent`.
    """

    async def _run_children(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        if not self.sub_agents:
            return
        merge = MergePoint()
        started: list[Activation] = []
        producers = [partial(self._produce, ctx, child, merge, started) for child in self.sub_agents]
        async with aclosing(merge.stream(producers)) as events:
            async for event in events:
                yield event
        if any(activation.status == "paused" for activation in started):
            raise Pause

    async def _produce(
        self, ctx: InvocationContext, child: Agent, merge: MergePoint, started: list[Activation]
    ) -> None:
        if ctx.ended:
            return
        here = f"{self.name}.{child.name}"
        branch = f"{ctx.branch}.{here}" if ctx.branch else here
        activation = ctx.activate(child, segment=f"{child.name}@1", branch=branch)
        started.append(activation)
        try:
            async with aclosing(activation) as events:
                async for event in events:
                    await merge.put(event)
        except Exception as error:
            error.add_note(f"raised in {child.name!r}, a child of the parallel agent {self.name!r}")
            raise

    def standing(self, view: View) -> Standing:
        """All done, or one that can go on, or one that waits (activations ACT-23)."""
        if ended_by_hook(view):
            return Standing.DONE
        waits = False
        for child in self.sub_agents:
            found = child_standing(view, child, f"{child.name}@1")
            if found is None or found is Standing.PENDING:
                return Standing.PENDING
            waits = waits or found is Standing.WAITING
        return Standing.WAITING if waits else Standing.DONE

    def output(self, view: View) -> Any:
        """Child name → output, for the children that gave one; None when none did (workflow AN-2)."""
        outputs = {child.name: child_output(view, child, f"{child.name}@1") for child in self.sub_agents}
        return {name: output for name, output in outputs.items() if output is not None} or None
