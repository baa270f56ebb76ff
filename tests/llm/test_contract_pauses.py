"""Pauses and answers, what an entry runs first and how an agent stands, line by line (core §3.3; activations)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.llm.contract_turns import WHO, pay, reply, session_of, wait

from hookwork import (
    Pause,
    ToolContext,
)
from hookwork.errors import NothingToResume
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

# --- pause and resume (§3.3) ------------------------------------------------------------------------------------------


@tool
async def pauses(ctx: ToolContext) -> None:
    """Pauses by itself, behind a child that asks."""
    waiting = LlmAgent(name="waiting", model=ScriptedModel([call("wait", "w1")]), tools=[wait], mode="single_turn")
    await ctx.run_node(waiting)
    raise Pause


@pytest.mark.parametrize(
    ("step", "kind", "name"),
    [
        (call("wait", "c1"), "tool", "wait"),
        (call("pauses", "c1"), "tool", "wait"),
        (call("pay", "c1"), "confirmation", "adk_request_confirmation"),
    ],
    ids=["long-running", "pause", "confirmation"],
)
async def test_res_1_a_pause_is_an_end_and_what_it_waits_for_is_read_off_the_stored_events(
    runner_factory: Any, step: Any, kind: str, name: str
) -> None:
    sessions = InMemorySessionService()
    agent = LlmAgent(name="a", model=ScriptedModel([step]), tools=[wait, pauses, pay])
    async with runner_factory(agent, sessions=sessions) as runner:
        outcome = await runner.run(message="go", **WHO).wait()
    assert [(c.kind, c.name) for c in outcome.open_calls] == [(kind, name)]
    stored = await sessions.get_session(app_name="a", **WHO)
    assert dict(stored.state) == {}  # no other record of a pause
    async with runner_factory(agent, sessions=sessions) as later:  # another process
        found = await later.open_calls(**WHO)
    assert [(c.kind, c.id) for c in found] == [(kind, outcome.open_calls[0].id)]


async def test_pnd_5_servers_are_given_the_open_calls_in_the_order_of_raising(runner_factory: Any) -> None:
    model = ScriptedModel([[call("pay", "c1", amount=3), call("wait", "c2")]])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[wait, pay])) as runner:
        prompted: list[int] = []
        async with runner.run(message="go", **WHO) as run:
            async for event in run:
                prompted.append(len(event.long_running_tool_ids or ()))
        assert run.outcome is not None
        found = await runner.open_calls(**WHO)
    # What passes by names ids that may never wait; the list and the outcome, after the run, say what does.
    assert prompted == [1, 0, 1]
    assert [(c.kind, c.name, c.author, c.path) for c in found] == [
        ("tool", "wait", "a", "a@1"),
        ("confirmation", "adk_request_confirmation", "a", "a@1"),
    ]
    assert [c.id for c in run.outcome.open_calls] == [c.id for c in found]
    asked = found[1]
    assert asked.args["originalFunctionCall"] == {"id": "c1", "name": "pay", "args": {"amount": 3}}


async def test_res_4_an_llm_agent_goes_on_over_its_history_and_the_old_text_is_not_fed_again(
    runner_factory: Any,
) -> None:
    model = ScriptedModel([call("wait", "c1"), "done"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[wait])) as runner:
        first = await runner.run(message="order a tea", **WHO).wait()
        await runner.run(message=[reply(first.open_calls[0], {"tea": "hot"})], **WHO).wait()
    prompt = model.prompts[-1]
    assert [content.text for content in prompt if content.text] == ["order a tea"]
    assert [[r.response for r in content.function_responses] for content in prompt] == [[], [], [{"tea": "hot"}]]


async def test_res_5_a_plain_long_running_call_takes_the_response_as_it_is(runner_factory: Any) -> None:
    given = {"result": {"deep": [1, None, "x"]}, "confirmed": False, "response": '{"not": "parsed"}'}
    model = ScriptedModel([call("wait", "c1"), "done"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[wait])) as runner:
        first = await runner.run(message="go", **WHO).wait()
        await runner.run(message=[reply(first.open_calls[0], given)], **WHO).wait()
    assert model.prompts[-1][-1].function_responses[0].response == given


async def test_res_8_hitl_12_one_answer_of_several_resumes_that_one_alone(runner_factory: Any) -> None:
    ran: list[int] = []

    @tool(require_confirmation=True, inline=True)
    def act(n: int) -> dict[str, int]:
        """Acts."""
        ran.append(n)
        return {"did": n}

    model = ScriptedModel([[call("act", "c1", n=1), call("act", "c2", n=2)], "two is done", "all done"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[act])) as runner:
        first = await runner.run(message="go", **WHO).wait()
        one, two = first.open_calls
        second = await runner.run(message=[reply(two, {"confirmed": True})], **WHO).wait()
        assert (second.kind, [c.id for c in second.open_calls], ran) == ("paused", [one.id], [2])
        shown = {r.id: dict(r.response or {}) for c in model.prompts[-1] for r in c.function_responses}
        assert (shown["c1"]["status"], shown["c2"]) == ("pending", {"did": 2})
        await runner.run(message=[reply(one, {"confirmed": True}), reply(two, {"confirmed": True})], **WHO).wait()
    assert ran == [2, 1]
    assert_valid_prompt(model.prompts[-1])


async def test_act_31_eff_2_numbers_are_read_off_stored_events(runner_factory: Any) -> None:
    """The same turns, once in one run and once broken by a pause and another process: the same keys and places."""

    def staged(broken: bool) -> tuple[LlmAgent, list[str]]:
        keys: list[str] = []

        @tool(inline=True)
        def note(ctx: ToolContext) -> dict[str, str]:
            """Notes its key."""
            keys.append(f"{ctx.idempotency_key.partition('/')[2]} at {ctx.path}")
            return {}

        @tool(long_running=True, inline=True)
        def maybe() -> dict[str, str] | None:
            """Waits, or not."""
            return None if broken else {"status": "going"}

        steps: list[Any] = [
            [call("note", "call_0"), call("note", "call_1")],
            call("maybe", "call_0"),
            [call("note", "call_0")],
            "done",
        ]
        return LlmAgent(name="a", model=ScriptedModel(steps), tools=[note, maybe]), keys

    whole, expected = staged(broken=False)
    async with runner_factory(whole) as runner:
        await runner.run(message="go", **WHO).wait()
    assert expected == ["a@1/tool/1.1 at a@1/note@1-1", "a@1/tool/1.2 at a@1/note@1-2", "a@1/tool/3.1 at a@1/note@3-1"]
    broken, keys = staged(broken=True)
    sessions = InMemorySessionService()
    async with runner_factory(broken, sessions=sessions) as runner:
        first = await runner.run(message="go", **WHO).wait()
    async with runner_factory(broken, sessions=sessions) as runner:
        await runner.run(message=[reply(first.open_calls[0], {"ok": 1})], **WHO).wait()
    assert keys == expected


# --- what an entry runs first (ACT-20), and how an agent stands (ACT-21) ----------------------------------------------


async def test_act_20_an_entry_runs_what_was_left_as_one_batch_then_goes_on(runner_factory: Any) -> None:
    """Two ordinary calls and one gated are behind the agent when the process dies; one batch answers the ordinary."""
    ran: list[str] = []

    @tool(inline=True)
    def look(what: str) -> dict[str, str]:
        """Looks."""
        ran.append(what)
        return {"saw": what}

    model = ScriptedModel([[call("look", "c1", what="a"), call("look", "c2", what="b")], "done"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[look])) as runner:
        run = runner.run(message="go", **WHO)
        async with run:
            async for _ in run:
                break
        outcome = await runner.run(invocation_id=run.invocation_id, **WHO).wait()
        events = (await session_of(runner)).events
    assert outcome.kind == "completed"
    assert ran == ["a", "b"]
    assert [[r.id for r in event.function_responses] for event in events if event.function_responses] == [["c1", "c2"]]
    assert model.calls == 2


@pytest.mark.parametrize(
    ("steps", "cut", "answer", "kind", "calls"),
    [
        ([call("look", "c1"), "done"], 1, None, "completed", 2),  # (1) an ordinary call is executable
        ([call("look", "c1"), "done"], 2, None, "completed", 2),  # (5) a model turn is due
        ([call("wait", "c1"), "done"], 9, None, "NothingToResume", 1),  # (6) it waits
        ([call("wait", "c1"), "done"], 9, {"x": 1}, "completed", 2),  # (4) news
        (["done"], 1, None, "NothingToResume", 1),  # (8) its stamp is an end
    ],
    ids=["executable", "turn due", "waits", "news", "done"],
)
async def test_act_21_the_standing_of_an_llm_agent_by_first_match(
    runner_factory: Any, steps: list[Any], cut: int, answer: Any, kind: str, calls: int
) -> None:
    @tool(inline=True)
    def look() -> dict[str, int]:
        """Looks."""
        return {"n": 1}

    model = ScriptedModel(steps)
    async with runner_factory(LlmAgent(name="a", model=model, tools=[look, wait])) as runner:
        run = runner.run(message="go", **WHO)
        seen = 0
        async with run:
            async for _ in run:
                seen += 1
                if seen == cut:
                    break
        more: dict[str, Any] = {"invocation_id": run.invocation_id}
        if answer is not None:
            [asked] = await runner.open_calls(**WHO)
            more = {"message": [reply(asked, answer)]}
        try:
            found = (await runner.run(**more, **WHO).wait()).kind
        except NothingToResume as error:
            found = type(error).__name__
    assert (found, model.calls) == (kind, calls)
