"""The runner scenes with the LLM flow on sessions in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookwork.agent import Agent
from hookwork.model import Model
from hookwork.services import SessionService
from hookwork_inmemory import InMemorySessionService
from hookwork_llm.agent import LlmAgent
from hookwork_testkit.scenes import RunnerScenes


class TestLlmFlowInMemory(RunnerScenes):
    async def make_sessions(self) -> SessionService:
        return InMemorySessionService()

    def make_agent(
        self, name: str, model: Model, *, tools: Sequence[Any] = (), sub_agents: Sequence[Agent] = ()
    ) -> Agent:
        fields: dict[str, Any] = {"tools": tools, "sub_agents": sub_agents}
        return LlmAgent(name=name, description=f"Agent {name}.", model=model, **fields)
