"""LoopAgent: children in order, again and again, until one escalates (core §1.2, WFA-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import count
from typing import TYPE_CHECKING, Any

from attrs import define, field

from hookwork.errors import ConfigurationError
from hookwork.node import Pause, Standing
from hookwork_workflow.composed import (
    CancelWatch,
    ComposedAgent,
    child_output,
    child_standing,
    ended_by_hook,
    is_empty,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hookwork.context import InvocationContext
    from hookwork.records.event import Event
    from hookwork.view import View

ESCALATE = ("any", "direct")


@define(eq=False, kw_only=True, frozen=True)
class LoopAgent(ComposedAgent):
    """Runs its sub-agents in order, round after round, on one session history.

    It ends after ``max_iterations`` rounds, or when an event with ``actions.escalate`` passes: the child that sent it
    finishes, later children do not run. A child that waits for a person stops the round; the answer lets it finish,
    then the round goes on.

    Args:
        max_iterations: rounds; 0: as many as it takes.
        escalate: whose ``escalate`` ends the loop: ``any`` (every descendant's; an inner loop's ends the outer ones
            too) or ``direct`` (only that of the loop's own children).

    Raises:
        ConfigurationError: ``max_iterations`` is no whole number from 0, or ``escalate`` is unknown.
    """

    max_iterations: int = 0
    escalate: str = field(default="any")

    def __attrs_post_init__(self) -> None:
        ComposedAgent.__attrs_post_init__(self)
        if type(self.max_iterations) is not int or self.max_iterations < 0:
            raise ConfigurationError(
                f"loop agent {self.name!r}: max_iterations is a whole number from 0 (0: unbounded), "
                f"not {self.max_iterations!r}"
            )
        if self.escalate not in ESCALATE:
            raise ConfigurationError(f"loop agent {self.name!r}: escalate is 'any' or 'direct', not {self.escalate!r}")

    def _rounds(self) -> Iterable[int]:
        if not self.sub_agents:
            return ()
        return range(1, self.max_iterations + 1) if self.max_iterations else count(1)

    async def _run_children(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        escalated_before = ctx.resuming and self._escalated_before(ctx.view)
        escalated = False
        watch = CancelWatch()
        for number in self._rounds():
            if number > 1:
                await asyncio.sleep(0)  # a round in which nothing waits still lets others run, and be cancelled
            for child in self.sub_agents:
                segment = f"{child.name}@{number}"
                if ctx.ended or escalated:
                    return
                if escalated_before and ctx.view.child(segment).record is None:
                    if is_empty(child):
                        continue  # without a trace it cannot be told from one that was never reached
                    return
                watch.start()
                activation = ctx.activate(child, segment=segment)
                try:
                    async for event in activation:
                        if event.actions.escalate and self._heeds(event, ctx.path):
                            escalated = True
                        yield event
                finally:
                    await activation.aclose()
                if activation.status == "paused":
                    raise Pause
                watch.check()

    def _heeds(self, event: Event, path: str) -> bool:
        """Whether the escalate of an event ends this loop. Partial events are not stored, so they decide nothing."""
        if event.partial:
            return False
        return self.escalate == "any" or event.path.rpartition("/")[0] == path

    def _escalated_before(self, view: View) -> bool:
        """Whether a stored event ends this loop once the child that is due has finished."""
        record = view.record
        if record is None:
            return False
        if self.escalate == "any":
            return record.escalated_below
        children = (view.child(path.rpartition("/")[2]).record for path in record.children)
        return any(child is not None and child.escalated for child in children)

    def standing(self, view: View) -> Standing:
        """Done after the last round or behind an escalate, else the due child decides (activations ACT-23)."""
        if ended_by_hook(view) or not self.sub_agents:
            return Standing.DONE
        if is_empty(self):
            return Standing.DONE if self.max_iterations else Standing.PENDING
        for number in self._rounds():
            for child in self.sub_agents:
                found = child_standing(view, child, f"{child.name}@{number}")
                if found is None:
                    return Standing.DONE if self._escalated_before(view) else Standing.PENDING
                if found is not Standing.DONE:
                    return found
        return Standing.DONE

    def output(self, view: View) -> Any:
        """The output of the child that ran last; children that run nothing are passed over (workflow AN-2)."""
        output = None
        children = [child for child in self.sub_agents if not is_empty(child)]
        for number in self._rounds() if children else ():
            for child in children:
                segment = f"{child.name}@{number}"
                if view.child(segment).record is None:
                    return output
                output = child_output(view, child, segment)
        return output
