"""``output_key``: which event's text becomes the reply in state (core LLM-10)."""

from __future__ import annotations

from typing import Any

from hookwork.context import ToolContext
from hookwork.invocation import RunConfig
from hookwork.model import Model
from hookwork.tool import Tool
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call, stream, thought

SSE = RunConfig(streaming_mode="sse")


@tool
async def look(city: str) -> dict[str, Any]:
    """Look at a city."""
    return {"sky": "clear", "city": city}


def agent_of(model: Model | None, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


async def test_llm_10_output_key_takes_the_final_text_without_thoughts(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([["Let me look.", call("look", "c1", city="Rome")], [thought("hm"), "It is ", "5."]])
    async with runner_factory(agent_of(model, look, output_key="out")) as runner:
        turn = await play(runner)
    assert [dict(event.actions.state_delta) for event in turn.events] == [{}, {}, {"out": "It is 5."}]


async def test_llm_10_a_pause_does_not_wipe_the_previous_value(runner_factory: Any, play: Any, stored: Any) -> None:
    @tool(long_running=True)
    async def wait() -> None:
        """Wait."""

    model = ScriptedModel([call("wait", "c1")])
    async with runner_factory(agent_of(model, wait, output_key="out")) as runner:
        await play(runner, state_delta={"out": "old"})
        assert (await stored(runner)).state["out"] == "old"


async def test_llm_10_text_beside_a_call_that_waits_is_the_reply(runner_factory: Any, play: Any, stored: Any) -> None:
    """The event is a final response (EVT-20): it is the last thing the user sees in this run."""

    @tool(long_running=True)
    async def wait() -> None:
        """Wait."""

    model = ScriptedModel([["I have asked.", call("wait", "c1")]])
    async with runner_factory(agent_of(model, wait, output_key="out")) as runner:
        turn = await play(runner)
        assert turn.events[0].is_final_response()
        assert (await stored(runner)).state["out"] == "I have asked."


async def test_llm_10_a_result_that_a_tool_shows_is_the_reply(runner_factory: Any, play: Any, stored: Any) -> None:
    class Shows(Tool):
        name = "shows"

        def display_result_on_skip_summarization(self) -> bool:
            return True

        async def run(self, ctx: ToolContext, args: Any) -> str:
            ctx.actions.skip_summarization = True
            return "the answer"

    model = ScriptedModel([call("shows")])
    async with runner_factory(agent_of(model, Shows(), output_key="out")) as runner:
        await play(runner)
        assert (await stored(runner)).state["out"] == "the answer"


async def test_llm_10_partials_write_nothing(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([stream("It is ", "5.")])
    async with runner_factory(agent_of(model, output_key="out"), config=SSE) as runner:
        turn = await play(runner)
    assert [dict(event.actions.state_delta) for event in turn.events] == [{}, {}, {"out": "It is 5."}]
