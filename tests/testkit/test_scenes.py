"""The runner scenes with the LLM flow on sessions in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.context import InvocationContext
from hookwork.errors import HookworkError
from hookwork.model import Model, ModelRequest
from hookwork.node import Standing
from hookwork.records.content import text_content
from hookwork.records.event import Event
from hookwork.records.metadata import ModelResponse
from hookwork.records.session import Session
from hookwork.services import SessionService
from hookwork.view import View
from hookwork_inmemory import InMemorySessionService
from hookwork_llm.agent import LlmAgent
from hookwork_testkit.scenes import RunnerScenes
from hookwork_testkit.scripted import ScriptedModel
from hookwork_workflow import ParallelAgent, SequentialAgent


class TestLlmFlowInMemory(RunnerScenes):
    async def make_sessions(self) -> SessionService:
        return InMemorySessionService()

    def make_agent(
        self, name: str, model: Model, *, tools: Sequence[Any] = (), sub_agents: Sequence[Agent] = ()
    ) -> Agent:
        fields: dict[str, Any] = {"tools": tools, "sub_agents": sub_agents}
        return LlmAgent(name=name, description=f"Agent {name}.", model=model, **fields)

    def make_task(
        self, name: str, model: Model, *, tools: Sequence[Any] = (), sub_agents: Sequence[Agent] = ()
    ) -> Agent:
        fields: dict[str, Any] = {"tools": tools, "sub_agents": sub_agents, "mode": "task"}
        return LlmAgent(name=name, description=f"Task {name}.", model=model, **fields)

    def make_sequence(self, name: str, sub_agents: Sequence[Agent]) -> Agent:
        return SequentialAgent(name=name, sub_agents=sub_agents)

    def make_parallel(self, name: str, sub_agents: Sequence[Agent]) -> Agent:
        return ParallelAgent(name=name, sub_agents=sub_agents)


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


class Busy(LlmAgent):
    """Leaves a task running when it is left early."""

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        keeper = asyncio.create_task(asyncio.Event().wait())
        async for event in super().body(ctx):
            yield event
        keeper.cancel()


class Stubborn(LlmAgent):
    """Does not let itself be cancelled."""

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        async for event in super().body(ctx):
            yield event


class Silent(LlmAgent):
    """Shows nothing of a stream."""

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        async for event in super().body(ctx):
            if not event.partial:
                yield event


class Shy(ScriptedModel):
    """Is never shown what tools answered: the prompts that the suite sees are not valid."""

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        request.contents = [content for content in request.contents if not content.function_responses]
        async for response in super().generate(request, stream=stream):
            yield response


@pytest.mark.parametrize(
    ("kind", "test", "arguments", "what"),
    [
        (Busy, "test_inv_3_a_scene_ended_at_each_event", ("text", "none", "leave"), "left running tasks behind"),
        (Busy, "test_inv_3_a_scene_cancelled_at_any_time", ("tool_call", "none"), "left running tasks behind"),
        (Stubborn, "test_inv_3_a_scene_cancelled_at_any_time", ("tool_call", "none"), "swallowed its cancellation"),
        (Silent, "test_scene", ("text", "sse"), "0 partial events"),
    ],
)
async def test_b_28_a_broken_flow_fails_when_its_scenes_are_cut(
    kind: type[LlmAgent], test: str, arguments: tuple[str, ...], what: str
) -> None:
    class Scenes(TestLlmFlowInMemory):
        def make_agent(self, name: str, model: Model, **fields: Any) -> Agent:
            return kind(name=name, model=model, **fields)

    with pytest.raises(AssertionError, match=what):
        await getattr(Scenes(), test)(*arguments)


class Amnesiac(LlmAgent):
    """Never finds that it was done already."""

    def standing(self, view: View, agent: Any = None) -> Standing:
        return Standing.PENDING


async def test_b_28_act_41_a_flow_that_repeats_itself_after_a_crash_does_not_pass() -> None:
    class Scenes(TestLlmFlowInMemory):
        def make_agent(self, name: str, model: Model, **fields: Any) -> Agent:
            return Amnesiac(name=name, model=model, **fields)

    with pytest.raises(AssertionError, match="crashed behind event"):
        await Scenes().test_act_41_a_scene_crashed_behind_each_event("tool_call", "none")


@pytest.mark.parametrize(("scene", "missing"), [("task", "agents for tasks"), ("parallel_agents", "parallel agents")])
async def test_b_28_scenes_of_agents_that_the_suite_does_not_make_are_skipped_with_the_reason(
    scene: str, missing: str
) -> None:
    class Scenes(TestLlmFlowInMemory):
        def make_task(self, name: str, model: Model, **fields: Any) -> None:  # type: ignore[override]
            return None

        def make_parallel(self, name: str, sub_agents: Sequence[Agent]) -> None:  # type: ignore[override]
            return None

    with pytest.raises(pytest.skip.Exception, match=missing):
        await Scenes().test_scene(scene, "none")


async def test_b_28_the_order_of_agents_side_by_side_is_free_and_nothing_else_is() -> None:
    staged = TestLlmFlowInMemory().stage("parallel_agents")
    staged.assert_lines(["b: text", "a: call ship"], ["a: call ship", "b: text"], "here")
    with pytest.raises(AssertionError, match="here"):
        staged.assert_lines(["b: text"], ["a: call ship", "b: text"], "here")
    with pytest.raises(AssertionError, match="here"):
        TestLlmFlowInMemory().stage("text").assert_lines(["b", "a"], ["a", "b"], "here")


async def test_inv_7_a_prompt_that_is_not_valid_fails_the_scene() -> None:
    class Scenes(TestLlmFlowInMemory):
        def make_agent(self, name: str, model: Model, **fields: Any) -> Agent:
            assert isinstance(model, ScriptedModel)
            model.__class__ = Shy
            return super().make_agent(name, model, **fields)

    with pytest.raises(AssertionError, match="the prompt is not valid"):
        await Scenes().test_scene("tool_call", "none")


@pytest.mark.parametrize("broken", [Forgetful, Deaf])
async def test_b_28_a_broken_backend_fails_a_scene(broken: type[InMemorySessionService]) -> None:
    class Scenes(TestLlmFlowInMemory):
        async def make_sessions(self) -> SessionService:
            return broken()

    with pytest.raises((AssertionError, HookworkError)):
        await Scenes().test_scene("parallel_tools", "none")
