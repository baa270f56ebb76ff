"""Streams and cancellation of a step, line by line (core STR-1, CTX-6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookwork import (
    ModelRequest,
    ToolContext,
    text_content,
)
from hookwork.errors import ModelError
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call, stream, thought

REQUEST = "adk_request_confirmation"


def agent_of(model: Any, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


@tool(inline=True)
def look() -> dict[str, Any]:
    """Looks."""
    return {}


# --- streams (core STR-1) ---------------------------------------------------------------------------------------------


async def test_str_1_partials_first_then_one_whole_response_with_all_parts_in_order(
    runner_factory: Any, play: Any
) -> None:
    from hookwork import RunConfig

    turn_parts = stream(thought("hm"), "It is ", call("look", "c1"))
    model = ScriptedModel([turn_parts, "5."])
    async with runner_factory(agent_of(model, look)) as runner:
        turn = await play(runner, config=RunConfig(streaming_mode="sse"))
    assert turn.scene == ["a:~(hm)", "a:~It is ", "a:~+look", "a: (hm) It is  +look", "a: -look", "a: 5."]
    assert_valid_prompt(model.prompts[-1])


@pytest.mark.parametrize("broken", [ModelError("gone", kind="connection", retryable=True), None], ids=["raise", "end"])
async def test_str_1_a_stream_that_breaks_raises_and_stores_nothing(
    runner_factory: Any, play: Any, stored: Any, broken: Any
) -> None:
    from hookwork import Model, ModelResponse, RunConfig

    class Breaks(Model):
        name = "breaks"

        async def generate(self, request: ModelRequest, *, stream: bool = False) -> Any:
            yield ModelResponse(content=text_content("half", role="model"), partial=True)
            if broken is not None:
                raise broken

    async with runner_factory(agent_of(Breaks())) as runner:
        turn = await play(runner, config=RunConfig(streaming_mode="sse"))
        session = await stored(runner)
    assert isinstance(turn.error, ModelError)
    assert turn.scene == ["a:~half"]
    assert [event.author for event in session.events] == ["user"]


# --- cancellation (core CTX-6) ----------------------------------------------------------------------------------------


class Blocked:
    """Code that waits for ever and notes that it was cancelled, and that its cleanup was awaited."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.log: list[str] = []

    async def wait(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            self.log.append("cleaned up")


def blocked_agent(where: str, blocked: Blocked) -> LlmAgent:
    async def model_turn(request: Any) -> str:
        await blocked.wait()
        return "never"

    @tool
    async def works(ctx: ToolContext) -> dict[str, Any]:
        """Works."""
        if where == "child":
            await ctx.run_node(LlmAgent(name="child", model=ScriptedModel([model_turn]), mode="single_turn"))
        await blocked.wait()
        return {}

    return agent_of(ScriptedModel([model_turn] if where == "model" else [call("works", "c1")]), works)


@pytest.mark.parametrize("how", ["cancel", "deadline"])
@pytest.mark.parametrize("where", ["model", "tool", "child"])
async def test_ctx_6_cancellation_and_deadlines_of_the_consumer_reach_everything_below(
    runner_factory: Any, where: str, how: str
) -> None:
    blocked = Blocked()

    async def consume(runner: Any) -> None:
        async with asyncio.timeout(None) as deadline:
            if how == "deadline":
                blocked_until = asyncio.create_task(blocked.started.wait())
                blocked_until.add_done_callback(
                    lambda _: deadline.reschedule(asyncio.get_running_loop().time())
                )  # it runs out as soon as the work has begun
            async for _ in runner.run(user_id="u", session_id="s", message="hi"):
                pass

    async with runner_factory(blocked_agent(where, blocked)) as runner:
        before = asyncio.all_tasks()
        task = asyncio.create_task(consume(runner))
        if how == "cancel":
            await blocked.started.wait()
            task.cancel()
        with pytest.raises(TimeoutError if how == "deadline" else asyncio.CancelledError):
            await task
        assert blocked.log == ["cancelled", "cleaned up"]
        assert asyncio.all_tasks() == before


async def test_ctx_6_tool_3_a_stray_cancellation_is_an_error_of_its_tool_only(runner_factory: Any, play: Any) -> None:
    @tool
    async def breaks() -> dict[str, Any]:
        """Its library cancels its own scope."""
        raise asyncio.CancelledError("dead server")

    model = ScriptedModel([[call("breaks", "c1"), call("look", "c2")], "told"])
    async with runner_factory(agent_of(model, breaks, look)) as runner:
        turn = await play(runner)
    failed, fine = turn.events[1].function_responses
    assert ("cancelled" in failed.response["error"], fine.response) == (True, {})
    assert turn.scene[-1] == "a: told"
