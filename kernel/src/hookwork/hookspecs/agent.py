"""Provider hooks of agents, nodes and summarizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookspec

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.node import Node


class AgentProviders:
    """Who makes agents and nodes."""

    @hookspec
    def create_agent(self, kind: str, config: dict[str, Any]) -> Agent | None:
        """Called for an agent of a kind named in YAML; the first agent wins."""

    @hookspec
    def build_node(self, value: Any) -> Node | None:
        """Called for a value used as a node that is none (workflow HK-1); the first node wins."""

    @hookspec
    def create_summarizer(self, kind: str, settings: dict[str, Any]) -> Any:
        """Called for a context summarizer named in settings; the first object wins."""
