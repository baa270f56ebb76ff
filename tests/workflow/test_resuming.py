"""Pause and resume of composed agents beyond the scenes (ACT-16, ACT-23, AGT-16; workflow CPA-2, CPA-3, CPA-8)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Agent, Content, Event, EventActions, FunctionCall, Part, Pause, Plugin, text_content
from hookwork.errors import NothingToResume
from hookwork.view import View
from hookwork_testkit import assert_valid_prompt, call
from hookwork_workflow import LoopAgent, ParallelAgent, SequentialAgent

ANSWER = {"value": 1}


def say(name: str) -> Agent:
    async def body(ctx: Any) -> Any:
        yield Event(content=text_content(name))

    return Agent(name=name, body=body)


def ask(name: str, call_id: str, *, escalate: str = "", fail: bool = False, again: str = "") -> Agent:
    """Asks once; ``escalate``: ``before`` the question or ``after`` the answer; ``again``: id of a second question."""

    def question(question_id: str, escalates: bool) -> Event:
        asked = FunctionCall(id=question_id, name="adk_request_input", args={})
        return Event(
            content=Content(role="model", parts=[Part(function_call=asked)]),
            long_running_tool_ids=(question_id,),
            actions=EventActions(escalate=escalates or None),
        )

    async def body(ctx: Any) -> Any:
        calls = {asked.id: asked for asked in ctx.view.calls}
        for question_id in (call_id, again) if again else (call_id,):
            if question_id not in calls:
                yield question(question_id, escalate == "before")
                raise Pause
            if calls[question_id].answer is None:
                raise Pause
        if fail:
            raise ValueError("the answer is no good")
        yield Event(content=text_content(name), actions=EventActions(escalate=(escalate == "after") or None))

    return Agent(name=name, body=body)


async def texts_after_answer(lab: Any, call_id: str) -> list[str]:
    turn = await lab.run(await lab.answer({call_id: ANSWER}))
    if turn.error is not None:
        raise turn.error
    return [event.text for event in turn.events if event.text]


@pytest.mark.parametrize("escalate", ["before", "after"])
@pytest.mark.parametrize("mode", ["any", "direct"])
async def test_cpa_8_escalate_of_a_resumed_child_ends_the_loop(kit: Any, escalate: str, mode: str) -> None:
    def build() -> Any:
        children = [say("a"), ask("b", "q1", escalate=escalate), say("c")]
        return SequentialAgent(name="s", sub_agents=[LoopAgent(name="l", sub_agents=children, escalate=mode), say("z")])

    lab = kit.Lab(build)
    assert (await lab.run("hi")).waits_for == ["q1"]
    assert await texts_after_answer(lab, "q1") == ["b", "z"]
    with pytest.raises(NothingToResume):
        raise (await lab.run(invocation_id=await lab.first_invocation())).error


async def test_cpa_4_direct_ignores_a_deeper_escalate_after_a_resume_too(kit: Any) -> None:
    def build() -> Any:
        inner = SequentialAgent(name="inner", sub_agents=[ask("b", "q1", escalate="before")])
        return LoopAgent(name="l", sub_agents=[inner, say("c")], escalate="direct", max_iterations=1)

    lab = kit.Lab(build)
    await lab.run("hi")
    assert await texts_after_answer(lab, "q1") == ["b", "c"]


async def test_cpa_8_an_empty_child_in_front_does_not_hide_the_one_that_is_due_after_an_escalate(kit: Any) -> None:
    def build() -> Any:
        children = [SequentialAgent(name="empty"), ask("b", "q1", escalate="before"), say("c")]
        return LoopAgent(name="l", sub_agents=children)

    lab = kit.Lab(build)
    await lab.run("hi")
    assert await texts_after_answer(lab, "q1") == ["b"]


async def test_cpa_8_a_failure_of_a_resumed_child_ends_the_run(kit: Any) -> None:
    lab = kit.Lab(lambda: SequentialAgent(name="s", sub_agents=[ask("a", "q1", fail=True), say("z")]))
    await lab.run("hi")
    turn = await lab.run(await lab.answer({"q1": ANSWER}))
    assert str(turn.error) == "the answer is no good"
    assert turn.events == []


async def test_cpa_8_a_second_pause_pauses_again(kit: Any) -> None:
    lab = kit.Lab(lambda: SequentialAgent(name="s", sub_agents=[ask("a", "q1", again="q2"), say("z")]))
    assert (await lab.run("hi")).waits_for == ["q1"]
    second = await lab.run(await lab.answer({"q1": ANSWER}))
    assert (second.outcome.kind, second.waits_for) == ("paused", ["q2"])
    assert await texts_after_answer(lab, "q2") == ["a", "z"]


async def test_cpa_8_output_key_state_written_before_the_pause_is_there(kit: Any) -> None:
    seen: list[Any] = []

    def build() -> Any:
        async def read(ctx: Any) -> Any:
            seen.append(ctx.state["draft"])
            yield Event(content=text_content("read"))

        write = kit.llm("write", "the draft", output_key="draft")
        return SequentialAgent(name="s", sub_agents=[write, ask("a", "q1"), Agent(name="read", body=read)])

    lab = kit.Lab(build)
    await lab.run("hi")
    assert await texts_after_answer(lab, "q1") == ["a", "read"]
    assert seen == ["the draft"]


async def test_agt_16_hooks_run_per_entry_and_not_for_what_is_done_or_waits(kit: Any) -> None:
    met: list[str] = []

    class Hooks(Plugin):
        name = "hooks"

        async def before_agent(self, ctx: Any, agent: Agent) -> None:
            met.append(f">{agent.name}{'+' if ctx.resuming else ''}")

        async def after_agent(self, ctx: Any, agent: Agent) -> None:
            met.append(f"<{agent.name}")

    def build() -> Any:
        par = ParallelAgent(name="p", sub_agents=[ask("b", "q1"), ask("c", "q2")])
        return SequentialAgent(name="s", sub_agents=[say("a"), par, say("z")])

    lab = kit.Lab(build)
    await lab.run("hi", plugins=[Hooks()])
    assert met == [">s", ">a", "<a", ">p", ">b", ">c", "<b", "<c", "<p", "<s"]
    met.clear()
    await lab.run(await lab.answer({"q2": ANSWER}), plugins=[Hooks()])
    assert met == [">s+", ">p+", ">c+", "<c", "<p", "<s"]
    met.clear()
    await lab.run(await lab.answer({"q1": ANSWER}), plugins=[Hooks()])
    assert met == [">s+", ">p+", ">b+", "<b", "<p", ">z", "<z", "<s"]


async def test_case_flow_1_the_next_step_is_not_even_begun_while_the_first_one_waits(kit: Any) -> None:
    """CASE-FLOW-1, CPA-2, WT-32."""
    begun: list[str] = []

    def build() -> Any:
        wait = kit.body_of([], "wait", None, long_running=True)
        first = kit.llm("ask", call("wait", id="a1"), "ask done", tools=[wait])
        use = kit.llm("use", "used", before_agent=lambda ctx: begun.append(ctx.agent_name))
        return SequentialAgent(name="seq", sub_agents=[first, use])

    lab = kit.Lab(build)
    assert (await lab.run("hi")).waits_for == ["a1"]
    assert begun == []
    assert await texts_after_answer(lab, "a1") == ["ask done", "used"]
    assert begun == ["use"]


async def test_act_16_branch_and_input_of_a_resumed_child_are_those_of_before(kit: Any) -> None:
    seen: list[tuple[str, Any, str]] = []

    def build() -> Any:
        inner = ask("a", "q1")

        async def body(ctx: Any) -> Any:
            seen.append((ctx.branch, ctx.input, ctx.path))
            async for event in inner.body(ctx):
                yield event

        deep = ParallelAgent(name="q", sub_agents=[Agent(name="a", body=body)])
        return ParallelAgent(name="p", sub_agents=[deep, say("b")])

    lab = kit.Lab(build)
    await lab.run("hi")
    await lab.run(await lab.answer({"q1": ANSWER}))
    assert seen == [("p.q.q.a", None, "p@1/q@1/a@1")] * 2


async def test_act_23_children_that_leave_no_trace_hold_nothing_up(kit: Any) -> None:
    def build() -> Any:
        empty = [SequentialAgent(name="e1"), ParallelAgent(name="e2", sub_agents=[LoopAgent(name="e3")])]
        nothing = LoopAgent(name="e4", sub_agents=[SequentialAgent(name="e5")], max_iterations=2)
        return SequentialAgent(name="s", sub_agents=[empty[0], ask("a", "q1"), empty[1], say("z"), nothing])

    lab = kit.Lab(build)
    await lab.run("hi")
    assert await texts_after_answer(lab, "q1") == ["a", "z"]
    with pytest.raises(NothingToResume):
        raise (await lab.run(invocation_id=await lab.first_invocation())).error


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent])
async def test_act_12_a_bare_pause_pauses_all_parents_and_can_be_continued_by_id(kit: Any, kind: Any) -> None:
    ready: list[bool] = []

    def build() -> Any:
        async def body(ctx: Any) -> Any:
            if not ctx.view.events:
                yield Event(content=text_content("not yet"))
            if not ready:
                raise Pause
            yield Event(content=text_content("now"))

        rounds = {"max_iterations": 1} if kind is LoopAgent else {}
        inner = kind(name="p", sub_agents=[Agent(name="a", body=body)], **rounds)
        return SequentialAgent(name="s", sub_agents=[inner, say("z")])

    lab = kit.Lab(build)
    first = await lab.run("hi")
    assert (first.outcome.kind, first.waits_for) == ("paused", [])
    invocation = await lab.first_invocation()
    again = await lab.run(invocation_id=invocation)
    assert (again.outcome.kind, again.events) == ("paused", [])
    ready.append(True)
    done = await lab.run(invocation_id=invocation)
    assert [event.text for event in done.events if event.text] == ["now", "z"]
    assert done.outcome.kind == "completed"


async def test_act_12_a_failed_parallel_child_runs_again_beside_one_that_waits(kit: Any) -> None:
    broken = [True]

    def build() -> Any:
        async def body(ctx: Any) -> Any:
            yield Event(content=text_content("try"))
            if broken:
                raise ValueError("broken")

        par = ParallelAgent(name="p", sub_agents=[ask("a", "q1"), Agent(name="b", body=body)])
        return SequentialAgent(name="s", sub_agents=[par, say("z")])

    lab = kit.Lab(build)
    assert str((await lab.run("hi")).error) == "broken"
    broken.clear()
    again = await lab.run(invocation_id=await lab.first_invocation())
    assert [event.text for event in again.events if event.text] == ["try"]
    assert again.waits_for == ["q1"]
    assert await texts_after_answer(lab, "q1") == ["a", "z"]


async def test_case_hist_2_history_off_inside_a_parallel_agent(kit: Any) -> None:
    """Interleaved a:call, b:call, a:response, b:text; a's second prompt holds nothing of b."""
    models: dict[str, Any] = {}

    def build() -> Any:
        a = kit.llm("a", call("ta", id="a1"), "a done", tools=[kit.body_of([], "ta")], include_contents="none")
        b = kit.llm("b", call("tb", id="b1"), "b done", tools=[kit.body_of([], "tb")], include_contents="none")
        models.update(a=a.model, b=b.model)
        return ParallelAgent(name="p", sub_agents=[a, b])

    turn = await kit.Lab(build).run("hi")
    assert sorted(event.text for event in turn.events if event.text) == ["a done", "b done"]
    for name in "ab":
        prompt = models[name].prompts[1]
        assert_valid_prompt(prompt)
        assert [content.role for content in prompt] == ["user", "model", "user"]
        assert prompt[0].text == "hi"
        assert [c.id for c in prompt[1].function_calls] == [f"{name}1"]
        assert [r.id for r in prompt[2].function_responses] == [f"{name}1"]


async def questions_of_a_resume(kit: Any, build: Any, expected: list[str]) -> int:
    """How often a resume of the tree looks a place up in the records."""
    lab = kit.Lab(build)
    await lab.run("hi")
    answer = await lab.answer({"q1": ANSWER})
    asked = 0
    record = View.record.fget  # type: ignore[attr-defined]

    def counted(view: View) -> Any:
        nonlocal asked
        asked += 1
        return record(view)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(View, "record", property(counted))
        assert [event.text for event in (await lab.run(answer)).events if event.text] == expected
    return asked


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent])
async def test_act_6_resuming_many_children_is_linear(kit: Any, kind: Any) -> None:
    """Twice the children ask at most two and a half times as many questions of the records."""

    def tree(count: int) -> Any:
        rounds = {"max_iterations": 1} if kind is LoopAgent else {}
        children = [say(f"c{number}") for number in range(count)]
        many = kind(name="many", sub_agents=[*children, ask("a", "q1")], **rounds)
        return SequentialAgent(name="s", sub_agents=[many, say("z")])

    few, many = [await questions_of_a_resume(kit, lambda n=n: tree(n), ["a", "z"]) for n in (50, 100)]
    assert few > 50
    assert many <= 2.5 * few


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent])
async def test_act_6_resuming_a_deep_tree_is_no_worse_than_quadratic(kit: Any, kind: Any) -> None:
    def tree(depth: int) -> Any:
        rounds = {"max_iterations": 1} if kind is LoopAgent else {}
        agent = ask("a", "q1")
        for number in range(depth):
            agent = kind(name=f"n{number}", sub_agents=[say(f"c{number}"), agent], **rounds)
        return agent

    flat, deep = [await questions_of_a_resume(kit, lambda n=n: tree(n), ["a"]) for n in (8, 16)]
    assert deep <= 5 * flat


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent])
async def test_act_14_an_agent_that_its_before_hook_answered_for_is_done(kit: Any, kind: Any) -> None:
    met: list[str] = []

    def build() -> Any:
        def instead(ctx: Any) -> Any:
            met.append(ctx.agent_name)
            return text_content("instead")

        inner = kind(name="inner", sub_agents=[say("never")], before_agent=instead)
        return SequentialAgent(name="s", sub_agents=[inner, ask("a", "q1"), say("z")])

    lab = kit.Lab(build)
    await lab.run("hi")
    assert await texts_after_answer(lab, "q1") == ["a", "z"]
    assert met == ["inner"]


class Answers(Plugin):
    """Answers one run in the agents' place."""

    name = "answers"

    async def before_run(self, ctx: Any) -> Content:
        return text_content("busy")


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent])
async def test_run_18_an_answer_that_before_run_kept_from_being_used_is_used_with_the_next(kit: Any, kind: Any) -> None:
    def build() -> Any:
        par = ParallelAgent(name="p", sub_agents=[ask("a", "q1"), ask("b", "q2")])
        rounds = {"max_iterations": 1} if kind is LoopAgent else {}
        return kind(name="root", sub_agents=[par], **rounds)

    lab = kit.Lab(build)
    await lab.run("hi")
    busy = await lab.run(await lab.answer({"q1": ANSWER}), plugins=[Answers()])
    assert [event.text for event in busy.events] == ["busy"]
    assert sorted(await texts_after_answer(lab, "q2")) == ["a", "b"]


async def test_cpa_7_a_message_that_before_run_answered_leaves_the_run_waiting(kit: Any) -> None:
    def build() -> Any:
        wait = kit.body_of([], "wait", None, long_running=True)
        return SequentialAgent(name="s", sub_agents=[kit.llm("a", call("wait", id="w1"), "heard", tools=[wait])])

    lab = kit.Lab(build)
    await lab.run("hi")
    await lab.run("hello?", plugins=[Answers()])
    turn = await lab.run("still there?")
    assert (await lab.lines())[-2:] == ["U s@1/a@1 'still there?'", "s@1/a@1 'heard' ✓"]
    assert turn.waits_for == ["w1"]


async def test_act_17_the_end_of_a_chain_of_hand_overs_stands_for_the_child(kit: Any) -> None:
    def build() -> Any:
        async def body(ctx: Any) -> Any:
            if not ctx.view.events:
                yield Event(content=text_content("helped"), output={"help": 1})

        def handing(name: str, target: Agent) -> Any:
            step = call("transfer_to_agent", id=f"{name}1", agent_name=target.name)
            return kit.llm(name, step, sub_agents=[target])

        first = handing("a", SequentialAgent(name="empty"))
        second = handing("b", Agent(name="helper", body=body))
        return SequentialAgent(name="s", sub_agents=[first, second])

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert turn.outcome.output == {"help": 1}
    assert (await lab.lines())[-1] == "s@1/b@1/helper@1 'helped'"
    assert (await lab.events())[-1].output == {"help": 1}
    with pytest.raises(NothingToResume):
        raise (await lab.run(invocation_id=await lab.first_invocation())).error
