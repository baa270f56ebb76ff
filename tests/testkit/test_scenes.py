"""The runner scenes with the LLM flow on sessions in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.context import InvocationContext
from hookwork.errors import HookworkError
from hookwork.model import Model
from hookwork.records.content import text_content
from hookwork.records.event import Event
from hookwork.records.session import Session
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


class Forgetful(InMemorySessionService):
    """Stores events and forgets what they did to the state."""

    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        actions = event.actions.replace(state_delta={})
        return await super().append_event(session, event.replace(actions=actions), redelivery=redelivery)


class Deaf(InMemorySessionService):
    """Says that it stored an event and does not."""

    async def append_event(self, session: Session, event: Event, *, redelivery: bool = False) -> Event:
        return event if event.author != "user" else await super().append_event(session, event, redelivery=redelivery)


@pytest.mark.parametrize("broken", [Forgetful, Deaf])
async def test_b_28_a_broken_backend_does_not_pass(broken: type[InMemorySessionService]) -> None:
    scenes = TestLlmFlowInMemory()
    with pytest.raises((AssertionError, HookworkError)):
        await scenes.test_inv_6_parallel_writes_are_kept_in_the_order_in_which_they_were_made(broken())


class Careless(LlmAgent):
    """An agent that says more after its final answer than it was asked for."""

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        async for event in super().body(ctx):
            yield event
        yield Event(content=text_content("by the way"))


async def test_b_28_a_broken_flow_does_not_pass() -> None:
    class Scenes(TestLlmFlowInMemory):
        def make_agent(self, name: str, model: Model, **fields: Any) -> Agent:
            return Careless(name=name, model=model, **fields)

    with pytest.raises(AssertionError, match="a: text"):
        await Scenes().test_tool_call(InMemorySessionService())
