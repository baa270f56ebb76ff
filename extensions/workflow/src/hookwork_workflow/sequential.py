"""SequentialAgent: children one after the other (core §1.2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from attrs import define

from hookwork.errors import UnsupportedOperationError
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
    from hookwork.agent import Agent
    from hookwork.context import InvocationContext
    from hookwork.records.event import Event
    from hookwork.view import View


@define(eq=False, kw_only=True, frozen=True)
class SequentialAgent(ComposedAgent):
    """Runs its sub-agents in order, once each, on one session history.

    A child that waits for a person stops the sequence; the answer lets it finish, then the rest runs. An error ends
    the run. ``escalate`` means nothing here. Live too, if all sub-agents are. Fields: those of `ComposedAgent`.
    """

    async def _run_children(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        watch = CancelWatch()
        for child in self.sub_agents:
            if ctx.ended:
                return
            watch.start()
            activation = ctx.activate(child, segment=f"{child.name}@1")
            try:
                async for event in activation:
                    yield event
            finally:
                await activation.aclose()
            if activation.status == "paused":
                raise Pause
            watch.check()

    @property
    def live(self) -> bool:
        return True

    def check_live(self) -> None:
        """Each child holds its part of a live run; see `Agent.check_live`."""
        for child in self.sub_agents:
            if not child.live:
                raise UnsupportedOperationError(
                    f"agent {child.name!r} ({type(child).__name__}) in the live sequence {self.name!r} does not "
                    "support live; only LLM and sequential agents do"
                )
            child.check_live()

    async def live_body(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """The children live, one after the other in one session (core LIVE-20).

        An LLM child gets a tool `task_completed` for this run; calling it ends the child's connection and the next
        child begins. Between children nobody listens: `LiveRun.send` raises.

        Raises:
            UnsupportedOperationError: a child that does not support live.
        """
        from hookwork.live_run import activate_live, channel_of

        self.check_live()
        channel = channel_of(ctx)
        channel.listening = False
        for child in self.sub_agents:
            if ctx.ended or channel.closed:
                return
            channel.listening = True
            activation = activate_live(ctx, child, segment=f"{child.name}@1", ends_by_tool=True)
            try:
                async for event in activation:
                    yield event
            finally:
                channel.listening = False
                await activation.aclose()
            if activation.status == "paused":
                raise Pause

    def standing(self, view: View) -> Standing:
        """Done when the last child is, else the first child that is not done decides (activations ACT-23)."""
        last = self._last()
        if ended_by_hook(view) or last is None:
            return Standing.DONE
        # Asked once: a second question at each level would double the work with every level of nesting.
        found_last = child_standing(view, last, f"{last.name}@1")
        if found_last is Standing.DONE:
            return Standing.DONE
        for child in self.sub_agents:
            found = found_last if child is last else child_standing(view, child, f"{child.name}@1")
            if found is not Standing.DONE:
                return found or Standing.PENDING
        return Standing.DONE

    def output(self, view: View) -> Any:
        """The last child's output; children that run nothing are passed over (workflow AN-2)."""
        last = self._last()
        return child_output(view, last, f"{last.name}@1") if last is not None else None

    def _last(self) -> Agent | None:
        """The last child that runs anything."""
        return next((child for child in reversed(self.sub_agents) if not is_empty(child)), None)
