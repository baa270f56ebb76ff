"""What sequential, parallel and loop agents share: no body of the user's, and questions to their children.

A composed agent stores nothing of its own but what its hooks give. Entered again it runs from its top, and each child
is answered from its records or goes on (activations ACT-23).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from attrs import define

from hookwork.agent import Agent
from hookwork.errors import ConfigurationError
from hookwork.node import Standing
from hookwork.view import View, segment_name

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.records.event import Event

WHILE_WAITING = ("hold", "restart")


@define(eq=False, kw_only=True, frozen=True)
class ComposedAgent(Agent):
    """An agent that runs its sub-agents and has no work of its own.

    Args:
        on_message_while_waiting: as a root, what a message that answers nothing does while a run waits: ``hold``
            (a waiting chat agent hears it, else nothing runs) or ``restart`` (a new invocation begins; CPA-7).
        replay_safe: its own part does no I/O, so a durable engine may run it again (durable DUR-10).

    Raises:
        ConfigurationError: a body, or an unknown ``on_message_while_waiting``.
    """

    replay_safe: bool = True
    on_message_while_waiting: str = "hold"

    def __attrs_post_init__(self) -> None:
        Agent.__attrs_post_init__(self)
        kind = type(self).__name__
        if self._body is not None or type(self).body is not ComposedAgent.body:
            raise ConfigurationError(
                f"agent {self.name!r}: a {kind} runs its sub_agents and takes no body; use Agent for one of your own"
            )
        if self.on_message_while_waiting not in WHILE_WAITING:
            raise ConfigurationError(
                f"agent {self.name!r}: on_message_while_waiting is 'hold' or 'restart', "
                f"not {self.on_message_while_waiting!r}"
            )

    def body(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        return self._run_children(ctx)

    def _run_children(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        raise ConfigurationError(f"{type(self).__name__} is no kind of composed agent; use one of its subclasses")

    @property
    def derives_end(self) -> bool:
        return True


def is_empty(agent: Agent) -> bool:
    """Whether an agent runs nothing that could leave a trace: composed of no agents, or of such agents alone."""
    return isinstance(agent, ComposedAgent) and all(is_empty(child) for child in agent.sub_agents)


def ended_by_hook(view: View) -> bool:
    """Whether a before hook answered in the agent's place, later than every answer to a call below (ACT-14 b).

    While a call below is open the children are asked: a hook that answers one message ends no waiting run.
    """
    record = view.record
    if record is None or record.end < 0 or record.end < record.newest_answer:
        return False
    return not view.open_calls


def child_standing(view: View, child: Agent, segment: str) -> Standing | None:
    """Where a child stands, or the agent its hand-overs lead to; None when it was never entered (ACT-23).

    A child that can leave no trace is done as soon as it is asked.
    """
    place = view.child(segment)
    standing = _standing_at(place, child)
    if standing is not Standing.HANDED:
        return standing
    return _standing_at(*_end_of_chain(place, child))


def _standing_at(place: View, agent: Agent) -> Standing | None:
    if place.record is None:
        return Standing.DONE if is_empty(agent) else None
    return agent.standing(place)


def child_output(view: View, child: Agent, segment: str) -> Any:
    """What a child, or the agent its hand-overs lead to, gave (workflow AN-2)."""
    place = view.child(segment)
    record = place.record
    if record is None:
        return None
    if record.handover < 0:
        return child.output(place)
    end, target = _end_of_chain(place, child)
    return target.output(end)


def _end_of_chain(place: View, child: Agent) -> tuple[View, Agent]:
    end = place.follow()
    return end, child.find_agent(segment_name(end.path)) or child


class CancelWatch:
    """Tells whether the running task was asked to stop while a child ran, even if the child kept it to itself."""

    __slots__ = ("_count", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._count = 0

    def start(self) -> None:
        """Remember what was asked of the task so far."""
        self._task = asyncio.current_task()
        self._count = self._task.cancelling() if self._task is not None else 0

    def check(self) -> None:
        """Raise `CancelledError` when the same task was cancelled since `start` (workflow CPA-5)."""
        task = self._task
        if task is not None and task is asyncio.current_task() and task.cancelling() > self._count:
            raise asyncio.CancelledError
