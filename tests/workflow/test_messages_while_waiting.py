"""A message that answers nothing, while a composed root waits (workflow CPA-7, ANS-7; core RES-11; ACT-24)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Agent, Content, Event, FunctionCall, Part, Pause, Plugin, text_content
from hookwork.errors import ConfigurationError
from hookwork_testkit import assert_valid_prompt, call
from hookwork_workflow import ParallelAgent, SequentialAgent


def asker(name: str, call_id: str) -> Agent:
    """A custom agent that waits for the answer to one question."""

    async def body(ctx: Any) -> Any:
        known = ctx.view.calls
        if not known:
            asked = FunctionCall(id=call_id, name="adk_request_input", args={"message": "?"})
            yield Event(
                content=Content(role="model", parts=[Part(function_call=asked)]), long_running_tool_ids=(call_id,)
            )
            raise Pause
        if known[0].answer is None:
            raise Pause
        yield Event(content=text_content(f"{name} got it"))

    return Agent(name=name, body=body)


def custom_sequence(_: Any = None, **options: Any) -> Agent:
    async def after(ctx: Any) -> Any:
        yield Event(content=text_content("after"))

    return SequentialAgent(name="seq", sub_agents=[asker("ask", "q1"), Agent(name="after", body=after)], **options)


def approval_sequence(kit: Any, ran: list[str], prompts: list[Any]) -> Agent:
    def turn(request: Any) -> Any:
        prompts.append(request.contents)
        last = request.contents[-1]
        if last.text == "hi":
            return call("x", id="c1")
        return "noted" if last.text == "wait" else "after a"

    plan = kit.llm("plan", turn, tools=[kit.body_of(ran, "x", require_confirmation=True)])
    return SequentialAgent(name="seq", sub_agents=[plan, kit.llm("report", "report text")])


async def test_cpa_7_a_waiting_chat_leaf_hears_the_message_and_stays_paused(kit: Any) -> None:
    ran: list[str] = []
    prompts: list[Any] = []
    lab = kit.Lab(lambda: approval_sequence(kit, ran, prompts))
    await lab.run("hi")
    before = len(await lab.lines())
    waiting = await lab.run("wait")
    assert (await lab.lines())[before:] == ["U seq@1/plan@1 'wait'", "seq@1/plan@1 'noted' ✓"]
    assert waiting.outcome.kind == "paused"
    assert [open_call.name for open_call in waiting.outcome.open_calls] == ["adk_request_confirmation"]
    assert {event.invocation_id for event in await lab.events()} == {await lab.first_invocation()}
    assert_valid_prompt(list(prompts[-1]))
    pending = [r for content in prompts[-1] for r in content.function_responses]
    assert [(r.id, r.response["status"]) for r in pending] == [("c1", "pending")]
    assert ran == []
    before = len(await lab.lines())
    done = await lab.run(await lab.answer({"r1": {"confirmed": True}}))
    assert (await lab.lines())[before + 1 :] == [
        "seq@1/plan@1 response x#c1",
        "seq@1/plan@1 'after a' ✓",
        "seq@1/report@1 'report text' ✓",
    ]
    assert done.outcome.kind == "completed"
    assert ran == ["x"]


async def test_cpa_7_several_messages_in_a_row_all_reach_the_leaf(kit: Any) -> None:
    lab = kit.Lab(lambda: approval_sequence(kit, [], []))
    await lab.run("hi")
    for _ in range(3):
        assert (await lab.run("wait")).outcome.kind == "paused"
    assert (await lab.lines())[4:] == ["U seq@1/plan@1 'wait'", "seq@1/plan@1 'noted' ✓"] * 3


async def test_cpa_7_the_newest_chat_leaf_hears_it_when_several_wait(kit: Any) -> None:
    def build() -> Any:
        def child(name: str) -> Any:
            wait = kit.body_of([], f"wait_{name}", None, long_running=True)
            return kit.llm(name, call(f"wait_{name}", id=f"{name}1"), f"{name} heard", tools=[wait])

        return ParallelAgent(name="par", sub_agents=[child("a"), child("b")])

    lab = kit.Lab(build)
    first = await lab.run("hi")
    newest = first.waits_for[-1][0]
    turn = await lab.run("hello?")
    assert (await lab.lines())[3:] == [
        f"U par@1/{newest}@1 'hello?'",
        f"par@1/{newest}@1 {{par.{newest}}} '{newest} heard' ✓",
    ]
    assert turn.waits_for == first.waits_for


async def test_cpa_7_a_chat_leaf_hears_it_beside_an_older_custom_one(kit: Any) -> None:
    def build() -> Any:
        wait = kit.body_of([], "wait", None, long_running=True)
        chat = kit.llm("chat", call("wait", id="w1"), "heard", tools=[wait])
        return SequentialAgent(
            name="seq", sub_agents=[ParallelAgent(name="par", sub_agents=[asker("ask", "q1"), chat])]
        )

    lab = kit.Lab(build)
    await lab.run("hi")
    turn = await lab.run("hello?")
    assert [line for line in await lab.lines() if "h" in line][-2:] == [
        "U seq@1/par@1/chat@1 'hello?'",
        "seq@1/par@1/chat@1 {par.chat} 'heard' ✓",
    ]
    assert sorted(turn.waits_for) == ["q1", "w1"]


async def test_cpa_7_a_message_that_a_crash_kept_from_the_leaf_is_heard_with_the_next(kit: Any) -> None:
    lab = kit.Lab(lambda: approval_sequence(kit, [], []))
    await lab.run("hi")
    lab.store.crash_after = lab.store.stored + 1
    assert isinstance((await lab.run("wait")).error, kit.Crash)
    lab.store.revive()
    assert (await lab.run("wait")).outcome.kind == "paused"
    assert (await lab.lines())[4:] == ["U seq@1/plan@1 'wait'", "U seq@1/plan@1 'wait'", "seq@1/plan@1 'noted' ✓"]


async def test_ans_7_a_message_is_held_when_no_chat_agent_waits(kit: Any) -> None:
    lab = kit.Lab(custom_sequence)
    await lab.run("hi")
    for number in (1, 2):
        held = await lab.run("hello?")
        assert held.outcome.kind == "paused"
        assert held.waits_for == ["q1"]
        assert held.events == []
        events = await lab.events()
        assert (await lab.lines())[2:] == ["U 'hello?'"] * number
        assert events[-1].invocation_id == held.outcome.invocation_id != events[0].invocation_id
    done = await lab.run(await lab.answer({"q1": {"value": 1}}))
    assert [event.text for event in done.events if event.text] == ["ask got it", "after"]
    assert done.outcome.invocation_id == await lab.first_invocation()
    fresh = await lab.run("next")
    assert fresh.waits_for == ["q1"]
    assert fresh.outcome.invocation_id != done.outcome.invocation_id


async def test_ans_7_restart_starts_a_new_invocation_and_leaves_the_old_one(kit: Any) -> None:
    lab = kit.Lab(lambda: custom_sequence(on_message_while_waiting="restart"))
    await lab.run("hi")
    again = await lab.run("hello?")
    assert again.outcome.invocation_id != await lab.first_invocation()
    assert (await lab.lines())[2:] == ["U 'hello?'", "seq@1/ask@1 call adk_request_input#q1"]


async def test_ans_7_hooks_meet_a_held_message_and_may_answer_it(kit: Any) -> None:
    seen: list[str] = []

    class Desk(Plugin):
        name = "desk"

        async def before_run(self, ctx: Any) -> Content | None:
            seen.append(ctx.user_content.text)
            return text_content("please answer first") if ctx.user_content.text == "hello?" else None

        async def after_run(self, ctx: Any, outcome: Any) -> None:
            seen.append(outcome.kind)

    lab = kit.Lab(custom_sequence)
    await lab.run("hi")
    answered = await lab.run("hello?", plugins=[Desk()])
    assert [event.text for event in answered.events] == ["please answer first"]
    held = await lab.run("still there?", plugins=[Desk()])
    assert held.waits_for == ["q1"]
    assert seen == ["hello?", "completed", "still there?", "paused"]


async def test_res_11_what_failed_does_not_hold_messages(kit: Any) -> None:
    def build() -> Any:
        async def broken(ctx: Any) -> Any:
            yield Event(content=text_content("about to fail"))
            if ctx.user_content.text == "hi":
                raise ValueError("broken")

        return ParallelAgent(name="par", sub_agents=[asker("ask", "q1"), Agent(name="broken", body=broken)])

    lab = kit.Lab(build)
    failed = await lab.run("hi")
    assert isinstance(failed.error, ValueError)
    again = await lab.run("again")
    assert again.outcome.invocation_id != await lab.first_invocation()
    assert again.waits_for == ["q1"]


async def test_cpa_7_a_leaf_hears_a_message_even_when_a_new_invocation_id_was_given(kit: Any) -> None:
    lab = kit.Lab(lambda: approval_sequence(kit, [], []))
    await lab.run("hi")
    turn = await lab.run("wait", invocation_id="given")
    assert turn.outcome.invocation_id == await lab.first_invocation()
    assert (await lab.lines())[-1] == "seq@1/plan@1 'noted' ✓"


async def test_ans_7_a_held_message_takes_the_given_invocation_id(kit: Any) -> None:
    lab = kit.Lab(custom_sequence)
    await lab.run("hi")
    turn = await lab.run("wait", invocation_id="given")
    assert (turn.outcome.kind, turn.outcome.invocation_id) == ("paused", "given")


def test_cpa_7_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'hold' or 'restart'"):
        SequentialAgent(name="seq", on_message_while_waiting="drop")
