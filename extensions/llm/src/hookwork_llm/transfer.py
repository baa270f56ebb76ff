"""Handing a conversation over to another agent (core §2.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.errors import ToolError
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool

if TYPE_CHECKING:
    from hookwork.agent import Agent, AgentTree
    from hookwork.context import ToolContext
    from hookwork_llm.agent import LlmAgent

TRANSFER = "transfer_to_agent"


def transfer_targets(agent: LlmAgent, tree: AgentTree | None) -> tuple[Agent, ...]:
    """Whom an agent may hand over to: its sub-agents, then its parent and its parent's other children (TRF-1).

    Agents that are called (``task``, ``single_turn``) are no targets, and have none but their own sub-agents (TRF-2). A
    task may be handed back to by its sub-agents: they speak inside it.
    """
    from hookwork_llm.agent import LlmAgent

    targets: list[Agent] = list(agent.sub_agents)
    parent = tree.parent(agent) if tree is not None and agent in tree else None
    if isinstance(parent, LlmAgent) and agent.conversational:
        if not agent.disallow_transfer_to_parent:
            targets.append(parent)
        if not agent.disallow_transfer_to_peers:
            targets.extend(peer for peer in parent.sub_agents if peer is not agent)
    return tuple(
        target
        for target in targets
        if not isinstance(target, LlmAgent) or target.conversational or (target is parent and target.delegate)
    )


def transfer_instruction(agent: LlmAgent, targets: tuple[Agent, ...], tree: AgentTree | None) -> str:
    """What the model is told about its targets."""
    lines = [
        f"Other agents can take this conversation over. If one of them fits the request better than you do, call "
        f"`{TRANSFER}` with its name and nothing else; otherwise answer yourself.",
        *(f"- {target.name}: {target.description or 'no description'}" for target in targets),
    ]
    parent = tree.parent(agent) if tree is not None and agent in tree else None
    if parent is not None and parent in targets:
        lines.append(f"If neither you nor any of them fits, transfer to {parent.name}.")
    return "\n".join(lines)


class TransferTool(Tool):
    """`transfer_to_agent`: one required name out of the declared targets."""

    name = TRANSFER
    description = "Hands this conversation over to another agent."

    def __init__(self, targets: tuple[Agent, ...]) -> None:
        self.targets = targets
        self._declaration = FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={
                "type": "object",
                "properties": {
                    "agent_name": {
                        "type": "string",
                        "description": "The agent to hand over to.",
                        "enum": [target.name for target in targets],
                    }
                },
                "required": ["agent_name"],
            },
        )

    def declaration(self) -> FunctionDeclaration:
        return self._declaration

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        name = args.get("agent_name")
        if not isinstance(name, str) or not name.strip():
            known = ", ".join(target.name for target in self.targets)
            raise ToolError(f"agent_name must name an agent; the choices are: {known}")
        ctx.actions.transfer_to_agent = name
        return {}
