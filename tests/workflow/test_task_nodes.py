"""Task agents as nodes: many turns with the user, in a scope of their own (workflow WB-6, GV-4; activations S5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.workflow.flows import answers, outputs, step

from hookwork import Agent, Part, Plugin, Runner
from hookwork.errors import NothingToResume, RunPaused
from hookwork_llm import LlmAgent, tool
from hookwork_llm.compaction.timeline import open_scopes
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import (
    DEFAULT,
    START,
    Join,
    NodeContext,
    RequestInput,
    Retry,
    SequentialAgent,
    Workflow,
    node,
    routed,
)
from hookwork_workflow.statuses import statuses_of


def texts(request: Any) -> list[str]:
    return [part.text for content in request.contents for part in content.parts if part.text]


class Booker:
    """A task agent that asks two questions and finishes with the answers. ``heard``: its prompts."""

    def __init__(self, name: str = "book", questions: int = 2, **more: Any) -> None:
        self.name, self.questions, self.more = name, questions, more
        self.heard: list[list[str]] = []

    def respond(self, request: Any) -> Any:
        heard = texts(request)
        self.heard.append(heard)
        said = [text for text in heard[1:] if not text.startswith(self.name)]
        if len(said) < self.questions:
            return f"{self.name} asks {len(said) + 1}"
        return call("finish_task", result=", ".join(said))

    def agent(self) -> LlmAgent:
        return LlmAgent(name=self.name, mode="task", model=ScriptedModel(self.respond), **self.more)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else ""


async def said(lab: Any, *messages: Any, **options: Any) -> list[Any]:
    turns = []
    for message in messages:
        turn = await lab.run(message, **options)
        if turn.error is not None:
            raise turn.error
        turns.append(turn)
    return turns


async def test_wb_6_plain_text_continues_the_invocation_under_its_scope(kit: Any, url: str) -> None:
    """Three processes, one invocation; the brief stays first, the user's turns follow (WB-6; ≠py)."""
    ran: list[str] = []
    booker = Booker()
    lab = kit.Lab(
        lambda: Workflow("wf", START >> step("brief", ran) >> booker.agent() >> step("end", ran)).as_agent(), url=url
    )
    first, second, third = await said(lab, "a trip", "monday", "noon")
    assert [turn.outcome.kind for turn in (first, second, third)] == ["paused", "paused", "completed"]
    assert [turn.outcome.open_calls for turn in (first, second)] == [(), ()]
    assert [turn.outcome.open_tasks for turn in (first, second, third)] == [("wf@1/book@1",), ("wf@1/book@1",), ()]
    assert len({turn.outcome.invocation_id for turn in (first, second, third)}) == 1
    assert booker.heard == [
        ["brief(a trip)"],
        ["brief(a trip)", "book asks 1", "monday"],
        ["brief(a trip)", "book asks 1", "monday", "book asks 2", "noon"],
    ]
    assert third.outcome.output == "end(monday, noon)"
    assert ran == ["brief", "end"]
    events = await lab.events()
    scope = next(event.isolation_scope for event in events if event.text == "book asks 1")
    assert scope
    assert [e.isolation_scope for e in events if e.author == "user"] == ["", scope, scope]
    assert {e.isolation_scope for e in events if e.path == "wf@1/end@1"} == {""}


async def test_wb_6_a_finished_task_lets_the_next_message_begin_anew(kit: Any) -> None:
    """Another invocation has another scope: nothing of the first talk is heard in it."""
    booker = Booker(questions=1)
    lab = kit.Lab(lambda: Workflow("wf", START >> booker.agent()).as_agent())
    turns = await said(lab, "one", "a", "two", "b")
    assert [turn.outcome.output for turn in turns] == [None, "a", None, "b"]
    assert turns[0].outcome.invocation_id != turns[2].outcome.invocation_id
    assert booker.heard[2:] == [["two"], ["two", "book asks 1", "b"]]


async def test_act_26_a_late_message_after_a_crash_behind_the_result_continues_by_id(kit: Any, url: str) -> None:
    """The task's model is not called again; a crash behind any event comes to the same end."""

    def flow(booker: Booker) -> Workflow:
        return Workflow("wf", START >> booker.agent() >> step("end"))

    whole = kit.Lab(lambda: flow(Booker()).as_agent(), url=url)
    turns = await said(whole, "a trip", "monday", "noon")
    stored = len(await whole.events())
    for crash_after in range(1, stored):
        booker = Booker()
        lab = kit.Lab(lambda booker=booker: flow(booker).as_agent(), url=url and f"{url}.{crash_after}")
        lab.store.crash_after = crash_after
        for message in ("a trip", "monday", "noon"):
            turn = await lab.run(message)
            if turn.error is not None:
                assert isinstance(turn.error, kit.Crash)
                lab.store.revive()
                again = await lab.run(invocation_id=await lab.first_invocation())
                assert again.error is None or isinstance(again.error, NothingToResume)
        lines = await lab.lines()
        assert lines[-1] == (await whole.lines())[-1]
        ends = [event.output for event in await lab.events() if event.path == "wf@1/end@1"]
        assert ends == [turns[-1].outcome.output], crash_after


async def test_wb_6_others_do_not_hear_the_talk(kit: Any) -> None:
    """CON-3: neither a chat agent at START nor a later single turn sees what is said in the scope."""
    heard: list[list[str]] = []

    def listen(request: Any) -> str:
        heard.append(texts(request))
        return "ok"

    booker = Booker(questions=1)

    def build() -> Any:
        chatty = LlmAgent(name="chatty", mode="chat", model=ScriptedModel(listen))
        return Workflow("wf", START >> (booker.agent(), chatty) >> Join("both")).as_agent()

    lab = kit.Lab(build)
    await said(lab, "go", "secret", "again")
    assert heard == [["go"], ["go", "ok", "again"]]


async def test_wb_6_the_node_behind_gets_the_result_alone(kit: Any) -> None:
    heard: list[list[str]] = []

    def listen(request: Any) -> str:
        heard.append(texts(request))
        return "ok"

    booker = Booker(questions=1)
    lab = kit.Lab(
        lambda: Workflow("wf", START >> booker.agent() >> LlmAgent(name="last", model=ScriptedModel(listen))).as_agent()
    )
    (_, turn) = await said(lab, "go", "monday")
    assert turn.outcome.output == "ok"
    assert [text for text in heard[0] if "monday" in text] == ["monday"]
    assert "go" not in heard[0]


async def test_wb_6_other_branches_go_on_and_join(kit: Any, url: str) -> None:
    """SCH-7: the rest runs as far as it goes; the join fires once the task has its result (JOIN-2)."""
    ran: list[str] = []
    booker = Booker(questions=1)

    def build() -> Agent:
        return Workflow(
            "wf", START >> (booker.agent(), step("side", ran)) >> Join("both") >> step("end", give=lambda found: found)
        ).as_agent()

    lab = kit.Lab(build, url=url)
    first, second = await said(lab, "go", "monday")
    assert (first.outcome.kind, outputs(first.events)) == ("paused", {"wf@1/side@1": "side(go)"})
    assert second.outcome.output == {"book": "monday", "side": "side(go)"}
    assert ran == ["side"]


async def test_run_24_of_two_tasks_the_one_that_spoke_last_hears_the_message(kit: Any) -> None:
    """Then the other one is heard of again."""
    early, late = Booker("early", questions=1), Booker("late", questions=1)

    def build() -> Agent:
        return Workflow("wf", START >> (early.agent(), step("x") >> late.agent()) >> Join("both")).as_agent()

    lab = kit.Lab(build)
    turns = await said(lab, "go", "one", "two")
    assert [turn.outcome.kind for turn in turns] == ["paused", "paused", "completed"]
    assert turns[-1].outcome.output == {"early": "two", "late": "one"}


async def test_res_11_a_task_takes_the_message_before_open_questions_hold_it(kit: Any, url: str) -> None:
    """ANS-7: an open task scope takes it first; the question is answered by its id as ever."""
    booker = Booker(questions=1)

    @node
    async def ask(value: str) -> RequestInput:
        return RequestInput(interrupt_id="q", message="?")

    lab = kit.Lab(lambda: Workflow("wf", START >> (booker.agent(), ask) >> Join("both")).as_agent(), url=url)
    first, second = await said(lab, "go", "monday")
    assert (first.waits_for, second.waits_for, second.outcome.kind) == (["q"], ["q"], "paused")
    (third,) = await said(lab, answers({"q": {"result": "yes"}}))
    assert third.outcome.output == {"book": "monday", "ask": "yes"}


async def test_res_11_restart_restarts_only_when_no_task_is_open(kit: Any) -> None:
    booker = Booker(questions=1)
    flow = Workflow("wf", START >> booker.agent(), on_message_while_waiting="restart")
    turns = await said(kit.Lab(flow.as_agent), "go", "monday")
    assert turns[1].outcome.output == "monday"


async def test_s5_an_approval_inside_the_task_continues_it(kit: Any, url: str) -> None:
    """The answer carries the scope of its call (RUN-16); the talk goes on afterwards."""
    paid: list[str] = []

    @tool(require_confirmation=True)
    def pay() -> str:
        """Pays."""
        paid.append("paid")
        return "paid"

    def respond(request: Any) -> Any:
        done = sum(part.function_response is not None for content in request.contents for part in content.parts)
        if done and "thanks" in texts(request):
            return call("finish_task", result="booked")
        return "paid; anything else?" if done else call("pay", id="p1")

    def build() -> Agent:
        agent = LlmAgent(name="book", mode="task", model=ScriptedModel(respond), tools=[pay])
        return Workflow("wf", START >> agent >> step("end")).as_agent()

    lab = kit.Lab(build, url=url)
    (first,) = await said(lab, "go")
    [request] = first.outcome.open_calls
    (second,) = await said(lab, await lab.answer({request.id: {"confirmed": True}}))
    assert (second.outcome.kind, second.waits_for, paid) == ("paused", [], ["paid"])
    (third,) = await said(lab, "thanks")
    assert (third.outcome.output, paid) == ("end(booked)", ["paid"])
    assert len({turn.outcome.invocation_id for turn in (first, second, third)}) == 1


async def test_wb_6_in_a_cycle_each_round_is_a_talk_of_its_own(kit: Any, url: str) -> None:
    """Another activation has another path, hence another scope (PATH-1, DYN-21)."""
    booker = Booker(questions=1)

    async def check(value: str) -> Any:
        return routed("again", f"not {value}") if value == "monday" else routed("good", value)

    def build() -> Agent:
        judge, book = node(check), node(booker.agent())
        return Workflow("wf", START >> book >> judge, judge.on({"again": book, DEFAULT: step("end")})).as_agent()

    lab = kit.Lab(build, url=url)
    turns = await said(lab, "go", "monday", "tuesday")
    assert [turn.outcome.kind for turn in turns] == ["paused", "paused", "completed"]
    assert turns[-1].outcome.output == "end(tuesday)"
    assert booker.heard[2:] == [["not monday"], ["not monday", "book asks 1", "tuesday"]]


@pytest.mark.parametrize("where", ["body", "inner"])
async def test_wb_6_below_a_body_and_in_an_inner_workflow(kit: Any, where: str, url: str) -> None:
    """A body that runs the task as its child waits with it; so does a workflow inside the graph (ACT-24)."""
    ran: list[str] = []
    booker = Booker(questions=2)

    @node
    async def desk(value: str, ctx: NodeContext) -> str:
        ran.append("desk")
        return "desk: " + await ctx.run_node(booker.agent(), value)

    def build() -> Agent:
        middle = desk if where == "body" else Workflow("inner", START >> booker.agent() >> step("shown"))
        return Workflow("wf", START >> step("a", ran) >> middle >> step("end")).as_agent()

    lab = kit.Lab(build, url=url)
    turns = await said(lab, "go", "monday", "noon")
    assert [turn.outcome.kind for turn in turns] == ["paused", "paused", "completed"]
    inside = "desk: monday, noon" if where == "body" else "shown(monday, noon)"
    assert turns[-1].outcome.output == f"end({inside})"
    assert ran.count("a") == 1
    assert booker.heard[-1] == ["a(go)", "book asks 1", "monday", "book asks 2", "noon"]


async def test_wb_6_a_waiting_run_only_waits(kit: Any) -> None:
    """RES-10: continued by its id there is nothing to do; the hooks of waiting nodes are not called."""
    hooked: list[str] = []

    class Watch(Plugin):
        async def before_node(self, ctx: NodeContext, input: Any) -> None:
            hooked.append(ctx.node.name)

    booker = Booker(questions=1)

    @node
    async def desk(value: str, ctx: NodeContext) -> Any:
        return await ctx.run_node(booker.agent(), value)

    lab = kit.Lab(lambda: Workflow("wf", START >> desk).as_agent())
    await said(lab, "go")
    turn = await lab.run(invocation_id=await lab.first_invocation(), plugins=[Watch()])
    assert isinstance(turn.error, NothingToResume)
    assert hooked == []


@pytest.mark.parametrize("how", ["tool", "transfer"])
async def test_wb_6_under_an_llm_root_the_text_goes_to_the_task(kit: Any, how: str, url: str) -> None:
    """WB-7: as a tool, and by transfer. Who was entered last decides how a run counts that a task holds (core §3.0)."""
    booker = Booker(questions=2)

    def respond(request: Any) -> Any:
        done = [p.function_response for c in request.contents for p in c.parts if p.function_response is not None]
        if done:
            return f"all done: {dict(done[-1].response or {})}"
        return call("wf", input="a trip") if how == "tool" else call("transfer_to_agent", agent_name="wf")

    def build() -> Agent:
        flow = Workflow("wf", START >> booker.agent() >> step("end"), description="Books trips.")
        if how == "tool":
            return LlmAgent(name="root", model=ScriptedModel(respond), tools=[flow.as_tool()])
        return LlmAgent(name="root", model=ScriptedModel(respond), sub_agents=[flow.as_agent()])

    lab = kit.Lab(build, url=url)
    turns = await said(lab, "book it", "monday", "noon")
    held = "completed" if how == "tool" else "paused"
    assert [turn.outcome.kind for turn in turns] == [held, held, "completed"]
    assert len({turn.outcome.invocation_id for turn in turns}) == 1
    ends = [event.output for event in await lab.events() if event.path.endswith("/end@1")]
    assert ends == ["end(monday, noon)"]
    if how == "tool":
        assert turns[-1].events[-1].text == "all done: {'result': 'end(monday, noon)'}"


async def test_wb_6_a_sequence_around_the_graph_waits_for_it(kit: Any, url: str) -> None:
    """CPA-2: the next child is not started while the task is open."""
    booker = Booker(questions=1)

    def build() -> Agent:
        flow = Workflow("wf", START >> booker.agent()).as_agent()
        return SequentialAgent(name="seq", sub_agents=[flow, kit.llm("after", "bye")])

    lab = kit.Lab(build, url=url)
    first, second = await said(lab, "go", "monday")
    assert (first.outcome.kind, [event.author for event in first.events]) == ("paused", ["book"])
    assert (second.outcome.kind, second.events[-1].text) == ("completed", "bye")


async def test_wb_6_a_task_that_hands_over_keeps_the_scope_and_the_brief(kit: Any, url: str) -> None:
    """Its helper speaks in the same scope and is told of the brief first (CON-9)."""
    heard: list[list[str]] = []

    def helper(request: Any) -> Any:
        heard.append(texts(request))
        return "which seat?" if len(heard) == 1 else call("transfer_to_agent", agent_name="book")

    def respond(request: Any) -> Any:
        seats = [text for text in texts(request) if "aisle" in text]
        return call("finish_task", result="aisle") if seats else call("transfer_to_agent", agent_name="helper")

    def build() -> Agent:
        seat = LlmAgent(name="helper", model=ScriptedModel(helper))
        agent = LlmAgent(name="book", mode="task", model=ScriptedModel(respond), sub_agents=[seat])
        return Workflow("wf", START >> step("brief") >> agent >> step("end")).as_agent()

    lab = kit.Lab(build, url=url)
    turns = await said(lab, "a trip", "aisle")
    assert [turn.outcome.kind for turn in turns] == ["paused", "completed"]
    assert turns[-1].outcome.output == "end(aisle)"
    assert [contents[0] for contents in heard] == ["brief(a trip)"] * 2
    assert heard[1].count("aisle") == 1


async def test_wb_6_a_failed_task_goes_on_with_the_next_message(kit: Any) -> None:
    """The run failed, the talk did not end: what is said next continues the invocation (RUN-24)."""
    booker = Booker(questions=2)
    failures = [False, True]

    def respond(request: Any) -> Any:
        if failures and failures.pop(0):
            raise OSError("no line")
        return booker.respond(request)

    def build() -> Agent:
        agent = LlmAgent(name="book", mode="task", model=ScriptedModel(respond))
        return Workflow("wf", START >> step("brief") >> agent).as_agent()

    lab = kit.Lab(build)
    await said(lab, "go")
    turn = await lab.run("monday")
    assert isinstance(turn.error, OSError)
    turns = await said(lab, "noon")
    assert turns[-1].outcome.invocation_id == await lab.first_invocation()
    assert turns[-1].outcome.output == "monday, noon"


async def test_rty_5_a_retried_task_keeps_brief_and_user_turns(kit: Any) -> None:
    booker = Booker(questions=1)
    failures = [False, True]

    def respond(request: Any) -> Any:
        if failures and failures.pop(0):
            raise OSError("no line")
        return booker.respond(request)

    def build() -> Agent:
        agent = node(
            LlmAgent(name="book", mode="task", model=ScriptedModel(respond)),
            retry=Retry(max_attempts=2, initial_delay=0, jitter=0),
        )
        return Workflow("wf", START >> step("brief") >> agent).as_agent()

    lab = kit.Lab(build)
    turns = await said(lab, "go", "monday")
    assert turns[-1].outcome.output == "monday"
    assert booker.heard[-1][0] == "brief(go)"


async def test_wb_6_a_run_that_ended_without_the_task_takes_new_messages(kit: Any) -> None:
    """DYN-25: a body that did not wait for the task; the next message is not swallowed by its scope."""
    booker = Booker(questions=1)

    @node
    async def desk(value: str, ctx: NodeContext) -> str:
        await ctx.run_node(booker.agent(), value, raise_on_wait=False)
        return f"left {value}"

    lab = kit.Lab(lambda: Workflow("wf", START >> desk).as_agent())
    turns = await said(lab, "one")
    if turns[0].outcome.kind == "completed":
        turns += await said(lab, "two")
        assert turns[-1].outcome.output == "left two"


async def test_dur_8_a_new_invocation_id_does_not_take_the_message_away(kit: Any) -> None:
    """Engines give every run an id; what is said to a task continues the run that it belongs to (RUN-12)."""
    lab = kit.Lab(lambda: Workflow("wf", START >> Booker(questions=1).agent()).as_agent())
    first = await lab.run("go", invocation_id="e-1")
    second = await lab.run("monday", invocation_id="e-2")
    assert [turn.outcome.invocation_id for turn in (first, second)] == ["e-1", "e-1"]
    assert second.outcome.output == "monday"


async def test_rew_2_a_talk_that_was_rewound_is_over(kit: Any) -> None:
    lab = kit.Lab(lambda: Workflow("wf", START >> Booker(questions=1).agent()).as_agent())
    await said(lab, "go")
    async with lab.store.opened() as service, Runner(lab.build(), sessions=service) as runner:
        await runner.rewind(user_id="u", session_id="s", before_invocation_id=await lab.first_invocation())
    assert (await lab.session()).open_tasks == []
    (turn,) = await said(lab, "anew")
    assert turn.outcome.invocation_id != await lab.first_invocation()
    assert [event.text for event in turn.events] == ["book asks 1"]


async def test_cmp_9_a_talk_is_kept_in_compaction_until_it_ends(kit: Any) -> None:
    """What is said in the scope of a node is left out once nobody is shown it again, as with delegations."""
    lab = kit.Lab(lambda: Workflow("wf", START >> Booker(questions=1).agent()).as_agent())
    await said(lab, "go")
    session = await lab.session()
    scope = next(event.isolation_scope for event in session.events if event.author == "book")
    assert open_scopes(session) == {scope}
    await said(lab, "monday")
    assert open_scopes(await lab.session()) == set()


async def test_wb_27_a_node_that_talks_is_shown_as_waiting(kit: Any) -> None:
    flow = Workflow("wf", START >> step("brief") >> Booker(questions=1).agent() >> step("end"))
    lab = kit.Lab(flow.as_agent)
    await said(lab, "go")
    statuses = {names: status for names, status in statuses_of(await lab.session()).items() if names[0] == "wf"}
    assert statuses == {("wf",): "waiting", ("wf", "brief"): "done", ("wf", "book"): "waiting"}
    await said(lab, "monday")
    assert statuses_of(await lab.session())["wf", "book"] == "done"


async def test_ask_raises_run_paused(kit: Any) -> None:
    """RUN-4: a workflow root that talks is paused."""
    async with Runner(Workflow("wf", START >> Booker().agent()).as_agent(), sessions="memory:") as runner:
        with pytest.raises(RunPaused):
            await runner.ask("go")


async def test_wf_3_a_message_with_parts_reaches_the_task(kit: Any) -> None:
    """The first node gets the whole message; further ones come as they are."""
    booker = Booker(questions=2)
    lab = kit.Lab(lambda: Workflow("wf", START >> booker.agent()).as_agent())
    turns = await said(lab, [Part(text="a"), Part(text="b")], [Part(text="c")])
    assert booker.heard[-1] == ["a", "b", "book asks 2", "c"]
    assert turns[-1].outcome.output == "b, c"
