"""Sequential agents live: one child after the other in one session (core LIVE-20)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.llm.live_talks import Talk, shown

from hookwork import Agent, Event, LiveRunConfig, Runner, Settings, text_content
from hookwork.errors import DuplicateToolError, RunStateError, UnsupportedOperationError
from hookwork.platform import use_sleep
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import Hear, call
from hookwork_testkit.live import turn_complete
from hookwork_workflow import LoopAgent, SequentialAgent


def pair(model: Any) -> SequentialAgent:
    ask = LlmAgent(name="ask", model=model, instruction="Ask for the city.")
    book = LlmAgent(name="book", model=model, instruction="Book it.")
    return SequentialAgent(name="desk", sub_agents=[ask, book])


@pytest.fixture
def waits() -> Any:
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)
        await asyncio.sleep(0)

    with use_sleep(sleep):
        yield found


async def test_live_20_a_child_that_says_it_is_done_is_followed_by_the_next(waits: list[float]) -> None:
    talk = await Talk(
        [Hear(1), "Paris, then.", turn_complete(), call("task_completed", "c1"), Hear(1)],
        ["Booked.", turn_complete()],
        root=pair,
    ).hold("to Paris")
    assert shown(await talk.stored()) == [
        "user: to Paris",
        "ask: Paris, then.",
        "ask: turn_complete",
        "ask: task_completed?",
        "ask: task_completed!",
        "ask: (end)",
        "book: Booked.",
        "book: turn_complete",
    ]
    first, second = talk.connections
    assert first.closed
    assert [response.id for response in first.responses] == ["c1"]
    assert waits == [0.1]
    assert "to Paris" in [content.text for content in second.history or ()]
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"


async def test_live_20_each_llm_child_gets_the_tool_and_an_instruction_and_the_objects_stay_as_they_are(
    waits: list[float],
) -> None:
    agents: list[SequentialAgent] = []

    def tree(model: Any) -> SequentialAgent:
        agents.append(pair(model))
        return agents[0]

    talk = await Talk([Hear(1), call("task_completed", "c1"), Hear(1)], ["ok"], root=tree).hold("a")
    for line in talk.connections:
        assert line.request.declared == ["task_completed"]
        assert "'task_completed'" in line.request.instruction
    for child in agents[0].sub_agents:
        assert isinstance(child, LlmAgent)
        assert child.tools == ()
        assert "task_completed" not in child.instruction


async def test_live_20_what_was_sent_and_not_taken_yet_is_for_the_next_child(waits: list[float]) -> None:
    async def more(_: Any) -> None:
        await talk.run.send("and back")

    talk = Talk(
        [Hear(1), call("task_completed", "c1"), Hear(1)],
        [more, Hear(1), "Both booked.", turn_complete()],
        root=pair,
    )
    await talk.hold("there")
    assert [line.texts[0] for line in talk.connections] == ["there", "and back"]


async def test_live_20_sending_while_no_child_listens_raises() -> None:
    seen: list[str] = []

    async def try_to_send(ctx: Any) -> None:
        try:
            await talk.run.send("hello?")
        except RunStateError as error:
            seen.append(str(error))

    def tree(model: Any) -> SequentialAgent:
        ask = LlmAgent(name="ask", model=model)
        return SequentialAgent(name="desk", sub_agents=[ask], after_agent=try_to_send)

    talk = Talk([Hear(1), call("task_completed", "c1"), Hear(1)], root=tree, close=False)
    await talk.hold("hi")
    assert len(seen) == 1
    assert "no agent listens" in seen[0]


async def test_live_20_closing_ends_the_sequence_where_it_is() -> None:
    talk = await Talk([Hear(1), "hm", turn_complete()], root=pair).hold("hi")
    assert len(talk.connections) == 1
    assert {event.author for event in talk.events} == {"ask"}


async def test_live_20_sequences_nest(waits: list[float]) -> None:
    def tree(model: Any) -> SequentialAgent:
        last = LlmAgent(name="last", model=model)
        return SequentialAgent(name="whole", sub_agents=[pair(model), last])

    done = call("task_completed", "c")
    talk = await Talk([Hear(1), done, Hear(1)], [done, Hear(1)], ["end", turn_complete()], root=tree).hold("go")
    authors = [event.author for event in talk.events if event.text or event.function_calls]
    assert authors == ["ask", "book", "last", "last"]
    paths = {event.author: event.node_info.path for event in talk.events if event.node_info}
    assert paths == {"ask": "whole@1/desk@1/ask@1", "book": "whole@1/desk@1/book@1", "last": "whole@1/last@1"}


async def test_live_20_a_child_without_live_support_is_named_before_anything_is_opened() -> None:
    async def body(ctx: Any) -> Any:
        yield Event(content=text_content("hi"))

    def tree(model: Any) -> SequentialAgent:
        return SequentialAgent(
            name="desk", sub_agents=[LlmAgent(name="ask", model=model), Agent(name="old", body=body)]
        )

    talk = Talk([], close=False, root=tree)
    with pytest.raises(UnsupportedOperationError, match=r"'old' .*'desk'"):
        await talk.hold("hi")
    assert talk.connections == []


async def test_live_20_loops_and_parallel_agents_are_not_live() -> None:
    talk = Talk(
        [], close=False, root=lambda model: LoopAgent(name="again", sub_agents=[LlmAgent(name="a", model=model)])
    )
    with pytest.raises(UnsupportedOperationError, match="'again'"):
        await talk.hold("hi")


async def test_live_20_a_tool_of_that_name_is_refused() -> None:
    @tool
    def task_completed() -> dict[str, Any]:
        """Mine."""
        return {}

    talk = Talk(
        [],
        close=False,
        root=lambda model: SequentialAgent(
            name="desk", sub_agents=[LlmAgent(name="ask", model=model, tools=[task_completed])]
        ),
    )
    with pytest.raises(DuplicateToolError, match="task_completed"):
        await talk.hold("hi")


async def test_live_20_an_empty_sequence_ends_at_once() -> None:
    runner = Runner.in_memory(SequentialAgent(name="nobody"), settings=Settings())
    run = runner.run_live(user_id="u", session_id="s", config=LiveRunConfig())
    assert [event async for event in run] == []
    assert run.outcome is not None
    assert run.outcome.kind == "completed"
