"""Traps of the peers (core, Traps): that the kit does not step into them, where no contract line's test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import Agent, Content, Event, Part, text_content
from hookwork.errors import DuplicateToolError
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel
from hookwork_workflow import LoopAgent, ParallelAgent

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


@pytest.mark.parametrize("place", ["before_agent", "after_agent", "before_model", "after_model"])
async def test_t_4_an_artifact_saved_by_any_callback_is_on_a_stored_event(runner_factory: Any, place: str) -> None:
    """Of agent callbacks, by an event of its own; of model callbacks, by the model's event."""

    async def save(ctx: Any, *_: Any) -> None:
        await ctx.artifacts.save(f"{place}.txt", Part(text="kept"))

    sessions = InMemorySessionService()
    options: dict[str, Any] = {place: save}
    agent = LlmAgent(name="a", model=ScriptedModel(["hello"]), **options)
    async with runner_factory(agent, sessions=sessions, artifacts="memory:") as runner:
        await runner.run(**WHO, message="hi").wait()
        session = await sessions.get_session(app_name=runner.app_name, **WHO)
    noted = [(event.author, event.text, dict(event.actions.artifact_delta)) for event in session.events]
    found = [(author, said) for author, said, delta in noted if delta == {f"{place}.txt": 1}]
    assert found == [("a", "hello" if place.endswith("model") else "")]
    assert sum(bool(delta) for *_, delta in noted) == 1


async def test_t_5_a_hand_made_event_in_a_branch_is_stamped_and_hidden_from_siblings(runner_factory: Any) -> None:
    class HandMade(Agent):
        async def body(self, ctx: Any) -> AsyncIterator[Event]:
            yield Event(content=text_content("mine", role="model"))

    sibling = ScriptedModel(["first", "second"])
    twice = LoopAgent(name="twice", sub_agents=[LlmAgent(name="sibling", model=sibling)], max_iterations=2)
    root = ParallelAgent(name="par", sub_agents=[HandMade(name="made"), twice])
    async with runner_factory(root) as runner:
        run = runner.run(**WHO, message="hi")
        events = [event async for event in run]
    [made] = [event for event in events if event.text == "mine"]
    assert (made.author, made.branch) == ("made", "par.made")
    assert made.invocation_id == run.invocation_id
    assert made.id
    assert made.timestamp > 0
    assert all("mine" not in content.text for prompt in sibling.prompts for content in prompt)


def test_t_37_tools_of_one_name_clash_when_the_agent_is_built() -> None:
    def look() -> str:
        """Looks."""
        return "seen"

    with pytest.raises(DuplicateToolError, match="look"):
        LlmAgent(name="a", model=ScriptedModel([]), tools=[look, tool(look)])
    for mode in ("task", "single_turn"):
        called = LlmAgent(name="look", model=ScriptedModel([]), mode=mode)
        with pytest.raises(DuplicateToolError, match="a sub-agent of that name"):
            LlmAgent(name="a", model=ScriptedModel([]), tools=[look], sub_agents=[called])
    talks = LlmAgent(name="look", model=ScriptedModel([]))
    assert LlmAgent(name="a", model=ScriptedModel([]), tools=[look], sub_agents=[talks]).sub_agents == (talks,)


async def test_t_38_a_message_without_a_role_reaches_the_model_as_the_users(runner_factory: Any) -> None:
    model = ScriptedModel(["hello"])
    async with runner_factory(LlmAgent(name="a", model=model)) as runner:
        await runner.run(**WHO, message=Content(parts=[Part(text="hi")])).wait()
    assert model.prompts == [[text_content("hi", role="user")]]


async def test_t_44_no_user_turn_is_made_up_behind_the_agents_own(runner_factory: Any) -> None:
    """The second round of a loop ends with what the agent said in the first; this model takes that."""
    model = ScriptedModel(["one", "two"])
    root = LoopAgent(name="loop", sub_agents=[LlmAgent(name="a", model=model)], max_iterations=2)
    async with runner_factory(root) as runner:
        await runner.run(**WHO, message="hi").wait()
    assert [(content.role, content.text) for content in model.prompts[1]] == [("user", "hi"), ("model", "one")]
