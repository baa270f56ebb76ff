"""Agents as nodes (workflow §1.5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.activation import COMPLETED, Activation
from hookwork.errors import NodeFailed
from hookwork.inside import invocation_of
from hookwork.node import NodeConfig, Pause, Standing
from hookwork.records.history import place_scope
from hookwork_workflow.nodes.base import GraphNode

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.node_context import NodeContext
    from hookwork.records.event import Event
    from hookwork.view import View


class AgentNode(GraphNode[Any, Any]):
    """An agent that runs at the place of the node, with its own hooks, callbacks, span and name on its events.

    An LLM agent without a mode answers its input alone (``single_turn``, AN-1). Its text, or the value of its
    ``output_schema``, is the output; a composed agent gives what its children gave (AN-2).
    """

    kind = "agent"
    reruns = True
    continues = True
    replaces_output = True
    config = NodeConfig(emits_own_span=True)

    def __init__(self, agent: Agent) -> None:
        self.given = agent
        self.agent = agent.as_node()
        self.name = agent.name
        self.description = agent.description

    @property
    def agent_nodes(self) -> tuple[AgentNode, ...]:
        """What a runner has to know the agents of."""
        return (self,)

    @property
    def depth(self) -> int:
        """How many workflows lie in each other in this agent and those below it."""
        pending, deepest = [self.agent], 0
        while pending:
            agent = pending.pop()
            deepest = max(deepest, getattr(getattr(agent, "workflow", None), "depth", 0))
            pending.extend(agent.sub_agents)
        return deepest

    @property
    def derives_end(self) -> bool:  # type: ignore[override]
        """LLM agents stamp their last event, composed ones are asked by their children (ACT-14)."""
        return self.agent.derives_end

    @property
    def takes_content(self) -> bool:
        """The first node of a workflow gets the whole message (WF-3)."""
        return getattr(self.agent, "input_schema", None) is None

    def validate_input(self, value: Any) -> Any:
        from hookwork_workflow.checks import checked_input

        return checked_input(self, value)

    def validate_output(self, value: Any) -> Any:
        from hookwork_workflow.checks import checked_output

        return checked_output(self, value)

    async def run(self, ctx: NodeContext, input: Any) -> AsyncIterator[Event]:
        inv, scope = invocation_of(ctx), ctx.isolation_scope
        if self.agent.delegate:  # it talks with the user apart from the rest, and is told of its input first (WB-6)
            scope = place_scope(ctx.invocation_id, ctx.path)
            inv.briefs[scope] = input
        activation = Activation(inv, self.agent, ctx.path, input=input, branch=ctx.branch, scope=scope)
        given = said = False
        async with aclosing(activation) as events:
            async for event in events:
                if event.path == ctx.path and not event.partial:
                    said = said or event.output is not None  # the agent says itself what its output is
                    event = event if said else self._with_output(event)
                    given = given or event.output is not None
                yield event
        if activation.status == "paused" or (self.agent.delegate and not activation.target.delegate):
            raise Pause  # also when somebody it handed over to has answered: that is no end of a task
        final = activation.final_event
        if final is not None and final.error_code and final.path == ctx.path:
            raise NodeFailed(f'agent "{self.name}" ended with {final.error_code}: {final.error_message}')
        output = activation.output
        if output is None and final is not None and final.path != ctx.path and not self.agent.delegate:
            output = final.text or None  # what the agent said that this one handed over to
        if not given and output is not None:
            from hookwork.records.event import Event

            yield Event(author=self.agent.name, output=output)

    def _with_output(self, event: Event) -> Event:
        """A final answer of the agent itself is the output; its text is stored once (AN-2, AN-4)."""
        info = event.node_info
        if event.output is not None or info is None or event.error_code:
            return event
        if self.agent.delegate and info.status != COMPLETED:  # a task that speaks asks (ACT-14)
            return event
        content = event.content
        if content is None or content.role != "model" or event.long_running_tool_ids or not event.is_final_response():
            return event
        text = event.text
        if event.author != self.agent.name or not text:
            return event
        return event.replace(output=text, node_info=info.replace(message_as_output=True))

    def standing(self, view: View) -> Standing:
        """The agent's, or that of the agent its hand-overs lead to."""
        record = view.record
        if record is not None and record.own and record.failed == record.own[-1]:
            return Standing.PENDING
        standing = self.agent.standing(view)
        if standing is not Standing.HANDED:
            return standing
        end = view.follow()
        standing = end.standing() or Standing.PENDING
        if standing is Standing.DONE and self.agent.delegate and end.agent is not self.agent:
            return Standing.WAITING  # somebody it handed over to has answered, which is no end of a task
        return standing

    def output(self, view: View) -> Any:
        record = view.record
        if record is None:
            return None
        if record.handover < 0 or record.end > record.handover:
            output = self.agent.output(view)
        else:
            end = view.follow()
            agent = end.agent
            output = agent.output(end) if agent is not None else None
            if output is None and not self.agent.delegate:
                output = next((event.text for event in reversed(end.events) if event.is_final_response()), None) or None
        return self.validate_output(output)
