"""Cases HITL and FLOW: questions to a person, and who answers next."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.errors import LimitExceeded, ToolError
from hookwork.invocation import RunConfig
from hookwork.tool import Finished
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call


async def test_case_hitl_1_a_long_running_tool_that_fails_at_once(in_memory: Any, say: Any) -> None:
    @tool(long_running=True)
    async def order(qty: int) -> Any:
        """Order; 99 is done at once."""
        if qty <= 0:
            raise ToolError("quantity must be positive")
        return Finished({"ordered": qty}) if qty == 99 else None

    model = ScriptedModel([call("order", "c1", qty=0), "Sorry.", call("order", "c2", qty=2)])
    async with in_memory.runner(LlmAgent(name="a", model=model, tools=[order])) as runner:
        events, outcome = await say(runner)
        assert events[1].function_responses[0].response == {"error": "quantity must be positive"}
        assert (model.calls, outcome.kind, outcome.open_calls) == (2, "completed", ())
        assert await runner.open_calls(user_id="u", session_id="s") == []
        events, outcome = await say(runner, "two then")
        assert (outcome.kind, [one.id for one in outcome.open_calls]) == ("paused", ["c2"])
        model.add(call("order", "c3", qty=99), "Ordered.")
        events, outcome = await say(runner, "99", session_id="s2")
    assert events[1].function_responses[0].response == {"ordered": 99}
    assert (outcome.kind, outcome.open_calls) == ("completed", ())


class Two:
    """One tool function under two names, both need approval."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

        async def act(ctx: ToolContext) -> dict[str, Any]:
            """Act."""
            decision = ctx.tool_confirmation
            self.ran.append((ctx.tool_name, decision.payload if decision else None))
            return {"done": ctx.tool_name}

        self.model = ScriptedModel([[call("a", "c1"), call("b", "c2")], "after b", "noted", "after a"])
        tools = [tool(name=name, require_confirmation=True)(act) for name in ("a", "b")]
        self.agent = LlmAgent(name="asker", model=self.model, tools=tools)


async def test_case_hitl_3_two_questions_answered_one_at_a_time(backend: Any, say: Any, replies: Any) -> None:
    two = Two()
    async with backend.runner(two.agent) as runner:
        _, outcome = await say(runner)
    first, second = (one.id for one in outcome.open_calls)
    async with backend.runner(two.agent) as runner:
        events, outcome = await say(runner, replies((second, {"confirmed": True, "payload": {"v": 2}})))
    assert two.ran == [("b", {"v": 2})]
    assert [one.id for one in outcome.open_calls] == [first]
    shown = {r.name: r.response for c in two.model.prompts[-1] for r in c.function_responses}
    assert shown["b"] == {"done": "b"}
    assert (shown["a"] or {})["status"] == "pending"
    async with backend.runner(two.agent) as runner:
        await say(runner, "wait")
    assert len(two.ran) == 1
    async with backend.runner(two.agent) as runner:
        events, outcome = await say(runner, replies((first, {"confirmed": False})))
    assert "rejected" in (events[0].function_responses[0].response or {})["error"]
    assert two.ran == [("b", {"v": 2})]
    assert (outcome.kind, outcome.open_calls) == ("completed", ())
    assert_valid_prompt(two.model.prompts[-1])


async def test_case_hitl_3_both_in_one_message_the_second_first(backend: Any, say: Any, replies: Any) -> None:
    two = Two()
    async with backend.runner(two.agent) as runner:
        _, outcome = await say(runner)
    first, second = (one.id for one in outcome.open_calls)
    async with backend.runner(two.agent) as runner:
        both = replies(
            (second, {"confirmed": True, "payload": "for b"}), (first, {"confirmed": True, "payload": "for a"})
        )
        events, outcome = await say(runner, both)
    assert sorted(two.ran) == [("a", "for a"), ("b", "for b")]
    assert [r.response for r in events[0].function_responses] == [{"done": "a"}, {"done": "b"}]
    assert outcome.kind == "completed"


def helper_and_root(**flags: Any) -> LlmAgent:
    helper = LlmAgent(name="h", model=ScriptedModel(["h one", "h two"]), **flags)
    root_model = ScriptedModel([call("transfer_to_agent", agent_name="h"), "root two"])
    return LlmAgent(name="root", model=root_model, sub_agents=[helper])


@pytest.mark.parametrize(
    ("flags", "second"),
    [({}, "h"), ({"disallow_transfer_to_parent": True, "disallow_transfer_to_peers": True}, "root")],
    ids=["(a) plain transfer", "(b) both flags"],
)
async def test_case_flow_2_who_answers_next(backend: Any, say: Any, flags: dict[str, Any], second: str) -> None:
    root = helper_and_root(**flags)
    async with backend.runner(root) as runner:
        events, _ = await say(runner)
        assert [event.author for event in events] == ["root", "root", "h"]
    async with backend.runner(root) as runner:
        events, _ = await say(runner, "next")
        assert [(event.author, event.text) for event in events] == [(second, f"{second} two")]


async def test_case_flow_2_a_ping_pong_ends_at_the_call_limit(in_memory: Any, say: Any) -> None:
    helper = LlmAgent(name="h", model=ScriptedModel(lambda request: call("transfer_to_agent", agent_name="root")))
    root = LlmAgent(
        name="root",
        model=ScriptedModel(lambda request: call("transfer_to_agent", agent_name="h")),
        sub_agents=[helper],
    )
    async with in_memory.runner(root) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi", config=RunConfig(max_llm_calls=20))
        with pytest.raises(LimitExceeded, match="20"):
            await run.wait()
    assert run.outcome.kind == "limit"
