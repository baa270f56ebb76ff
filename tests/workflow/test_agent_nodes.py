"""Agents as nodes of a graph (workflow §1.5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.workflow.flows import outputs, run_flow, step

from hookwork import Agent, Content, Event, FunctionResponse, Part, Plugin, text_content
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call
from hookwork_workflow import (
    START,
    LoopAgent,
    NodeFailed,
    ParallelAgent,
    Retry,
    SequentialAgent,
    Workflow,
    WorkflowAgent,
    node,
)


@dataclass
class City:
    name: str


def talker(name: str, *texts: str) -> Agent:
    async def body(ctx: Any) -> AsyncIterator[Event]:
        for text in texts:
            yield Event(content=text_content(text))

    return Agent(name=name, body=body)


def llm(name: str, respond: Any, **more: Any) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel(respond), **more)


def prompt(request: Any) -> list[Any]:
    assert_valid_prompt(request.contents)
    return [
        (content.role, part.text or part.function_call or part.function_response)
        for content in request.contents
        for part in content.parts
        if "No user will reply" not in (part.text or "")
    ]


async def test_an_1_an_llm_agent_answers_its_input_alone_and_is_not_written_to(kit: Any) -> None:
    """MODE-1; the user's message and other nodes' words are not in its prompt."""
    prompts: list[Any] = []

    def respond(request: Any) -> str:
        prompts.append(prompt(request))
        return "said"

    agent = llm("ag", respond)
    flow = Workflow("wf", START >> (talker("t", "talk"), step("a")) >> step("b") >> agent >> step("z", give=_none))
    await run_flow(kit, flow)
    assert sorted(prompts) == [[("user", "b(a(hi))")], [("user", "b(talk)")]]
    assert agent.mode is None
    assert agent.effective_mode == "chat"


def _none(value: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("text", [("user", "text")]),
        ({"a": [1]}, [("user", '{"a": [1]}')]),
        (7, [("user", "7")]),
        (Content(role="model", parts=[Part(text="c")]), [("user", "c")]),
    ],
)
async def test_llm_20_what_an_input_becomes(kit: Any, given: Any, expected: Any) -> None:
    prompts: list[Any] = []

    def respond(request: Any) -> str:
        prompts.append(prompt(request))
        return "said"

    @node
    async def parent(value: str, ctx: Any) -> Any:
        return await ctx.run_node(llm("ag", respond), given)

    await run_flow(kit, Workflow("wf", START >> parent))
    assert prompts == [expected]


async def test_an_2_the_final_text_is_the_output_and_is_stored_once(kit: Any) -> None:
    """AN-4; agent nodes keep their own author."""
    for agent in (llm("ag", ["I said"]), talker("ag", "I said")):
        lab = kit.Lab(lambda agent=agent: Workflow("wf", START >> agent >> step("end")).as_agent())
        turn = await lab.run("hi")
        assert turn.outcome.output == "end(I said)"
        stored = next(event for event in await lab.events() if event.text == "I said")
        assert (stored.author, stored.path, stored.output) == ("ag", "wf@1/ag@1", None)
        assert stored.node_info.message_as_output is True
        assert stored.node_info.output_for == ("wf@1/ag@1",)


async def test_an_2_composed_agents_give_what_their_children_gave(kit: Any) -> None:
    def graph(agent: Agent) -> Workflow:
        return Workflow("wf", START >> agent >> step("end", give=lambda value: [value]))

    a, b = talker("a", "from a"), talker("b", "from b")
    sequence = SequentialAgent(name="seq", sub_agents=[llm("x", ["from x"], mode="single_turn"), llm("y", ["from y"],
                               mode="single_turn")])  # fmt: skip
    assert (await run_flow(kit, graph(sequence))).outcome.output == ["from y"]
    both = ParallelAgent(
        name="par", sub_agents=[llm("x", ["X"], mode="single_turn"), llm("y", ["Y"], mode="single_turn")]
    )
    assert (await run_flow(kit, graph(both))).outcome.output == [{"x": "X", "y": "Y"}]
    loop = LoopAgent(name="loop", sub_agents=[llm("x", ["1", "2"], mode="single_turn")], max_iterations=2)
    assert (await run_flow(kit, graph(loop))).outcome.output == ["2"]
    turn = await run_flow(kit, graph(SequentialAgent(name="seq", sub_agents=[a, b])))
    assert [event.output for event in turn.events if event.text] == [None, None]


async def test_an_3_a_structured_answer_comes_back_structured(kit: Any) -> None:
    """Live and after a replay (NODE-3, NODE-8)."""

    @node
    async def ask(value: Any, ctx: Any) -> Any:
        return [value, await ctx.request_input("k")]

    agent = llm("ag", ['{"name": "Rome"}'] * 2, output_schema=City)
    lab = kit.Lab(lambda: Workflow("wf", START >> agent >> ask).as_agent())
    turn = await lab.run("hi")
    response = FunctionResponse(id=turn.waits_for[0], name="x", response={"result": "ok"})
    turn = await lab.run(Content(role="user", parts=[Part(function_response=response)]))
    assert turn.outcome.output == [{"name": "Rome"}, "ok"]


async def test_an_4_an_output_schema_of_the_node_is_checked(kit: Any) -> None:
    good = node(llm("ag", ['{"name": "Rome"}']), output_schema=City)
    turn = await run_flow(kit, Workflow("wf", START >> good >> step("end", give=lambda value: value["name"])))
    assert turn.outcome.output == "Rome"
    lab = kit.Lab(Workflow("wf", START >> node(llm("ag", ["no city"]), output_schema=City)).as_agent)
    assert "output validation failed" in str((await lab.run("hi")).error)


async def test_an_5_branch_scope_and_hooks_of_the_agent(kit: Any) -> None:
    """Its own hooks run inside, around it node hooks; it emits no node span."""
    lines: list[str] = []

    class Watch(Plugin):
        name = "watch"

        async def before_node(self, ctx: Any, input: Any) -> None:
            lines.append(f"node {ctx.path}")

        async def before_agent(self, ctx: Any, agent: Any) -> None:
            lines.append(f"agent {ctx.path} {ctx.branch}")

    await run_flow(kit, Workflow("wf", START >> (talker("a", "x"), step("b", give=_none))), plugins=[Watch()])
    assert sorted(lines) == sorted(["agent wf@1 ", "node wf@1/a@1", "node wf@1/b@1", "agent wf@1/a@1 a@1"])
    assert lines.index("node wf@1/a@1") < lines.index("agent wf@1/a@1 a@1")


async def test_wt_12_a_confirmed_tool_of_an_agent_node_runs_once_and_the_graph_goes_on(kit: Any) -> None:
    """CASE-HITL-2 in a graph; nothing before it runs again."""
    ran: list[str] = []

    @tool(require_confirmation=True)
    def send(to: str) -> str:
        """Sends."""
        ran.append(f"send {to}")
        return "sent"

    def respond(request: Any) -> Any:
        done = any(part.function_response for content in request.contents for part in content.parts)
        return "all done" if done else call("send", to="bob")

    def build() -> WorkflowAgent:
        return Workflow("wf", START >> step("a", ran) >> llm("ag", respond, tools=[send]) >> step("z", ran)).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert ran == ["a"]
    assert [open_call.kind for open_call in turn.outcome.open_calls] == ["confirmation"]
    response = FunctionResponse(id=turn.waits_for[0], name="adk_request_confirmation", response={"confirmed": True})
    turn = await lab.run(Content(role="user", parts=[Part(function_response=response)]))
    assert turn.outcome.output == "z(all done)"
    assert ran == ["a", "send bob", "z"]


async def test_an_agent_that_ends_with_an_error_fails_the_node(kit: Any) -> None:
    async def body(ctx: Any) -> AsyncIterator[Event]:
        yield Event(error_code="SAFETY", error_message="blocked")

    lab = kit.Lab(Workflow("wf", START >> Agent(name="ag", body=body) >> step("z")).as_agent)
    error = (await lab.run("hi")).error
    assert isinstance(error, NodeFailed)
    assert "SAFETY" in str(error)


async def test_rty_5_a_retried_agent_does_not_see_its_failed_attempt(kit: Any) -> None:
    """WT-34: it begins anew, with a full prompt of its input."""
    prompts: list[Any] = []
    ran: list[str] = []

    @tool
    def look() -> str:
        """Looks."""
        ran.append("look")
        return "seen"

    def respond(request: Any) -> Any:
        prompts.append(prompt(request))
        if len(prompts) == 2:
            raise OSError("the line broke")
        return call("look") if len(prompts[-1]) == 1 else "done"

    agent = node(llm("ag", respond, tools=[look]), retry=Retry(max_attempts=2, initial_delay=0))
    turn = await run_flow(kit, Workflow("wf", START >> agent))
    assert turn.outcome.output == "done"
    assert [len(entry) for entry in prompts] == [1, 3, 1, 3]
    assert prompts[2] == [("user", "hi")]
    assert ran == ["look", "look"]


async def test_rty_5_a_retried_chat_agent_sees_the_conversation_and_nothing_of_its_failed_attempt(kit: Any) -> None:
    prompts: list[Any] = []

    @tool
    def look() -> str:
        """Looks."""
        return "seen"

    def respond(request: Any) -> Any:
        prompts.append(prompt(request))
        if len(prompts) == 3:
            raise OSError("the line broke")
        return call("look") if len(prompts) in (2, 4) else "done"

    agent = node(llm("ag", respond, tools=[look], mode="chat"), retry=Retry(max_attempts=2, initial_delay=0))
    lab = kit.Lab(Workflow("wf", START >> agent).as_agent)
    await lab.run("hello")
    turn = await lab.run("again")
    assert turn.outcome.output == "done"
    assert [len(entry) for entry in prompts] == [1, 3, 5, 3, 5]
    assert prompts[3] == prompts[1]


async def test_rpl_3_an_agent_that_failed_for_good_goes_on_from_its_calls_when_resumed(kit: Any) -> None:
    broken = [True]
    ran: list[str] = []

    @tool
    def look() -> str:
        """Looks."""
        ran.append("look")
        return "seen"

    def respond(request: Any) -> Any:
        done = any(part.function_response for content in request.contents for part in content.parts)
        if done and broken[0]:
            raise OSError("the line broke")
        return "done" if done else call("look")

    lab = kit.Lab(lambda: Workflow("wf", START >> llm("ag", respond, tools=[look])).as_agent())
    assert isinstance((await lab.run("hi")).error, OSError)
    broken[0] = False
    turn = await lab.run(invocation_id=await lab.first_invocation())
    assert turn.outcome.output == "done"
    assert ran == ["look"]


async def test_wb_7_a_workflow_agent_is_reached_by_transfer(kit: Any) -> None:
    """HK-5; its answers reach it under an LLM root too (ANS-7)."""

    @node
    async def ask(value: str, ctx: Any) -> str:
        return f"{value} {await ctx.request_input('k')}"

    def build() -> LlmAgent:
        flow = Workflow("flow", START >> ask >> step("end")).as_agent(description="asks")
        return llm("root", [call("transfer_to_agent", agent_name="flow"), "noted"], sub_agents=[flow])

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert turn.outcome.kind == "paused"
    response = FunctionResponse(id=turn.waits_for[0], name="x", response={"result": "yes"})
    turn = await lab.run(Content(role="user", parts=[Part(function_response=response)]))
    assert outputs(turn.events) == {"root@1/flow@1/ask@1": "hi yes", "root@1/flow@1/end@1": "end(hi yes)"}
    assert turn.outcome.kind == "completed"


async def test_a_workflow_agent_in_a_sequence_and_as_a_node(kit: Any) -> None:
    def flow(name: str) -> WorkflowAgent:
        return Workflow(name, START >> step("a") >> step("b")).as_agent()

    lab = kit.Lab(lambda: SequentialAgent(name="seq", sub_agents=[flow("f1"), flow("f2")]))
    turn = await lab.run("hi")
    assert list(outputs(turn.events)) == ["seq@1/f1@1/a@1", "seq@1/f1@1/b@1", "seq@1/f2@1/a@1", "seq@1/f2@1/b@1"]
    turn = await run_flow(kit, Workflow("wf", START >> step("first") >> flow("inner") >> step("end")))
    assert turn.outcome.output == "end(b(a(first(hi))))"


async def test_wf_2_a_workflow_agent_has_callbacks_and_every_option(kit: Any) -> None:
    """WT-3: before_agent answers for the whole graph; options are those of `Workflow`."""
    ran: list[str] = []
    agent = WorkflowAgent(
        name="wf",
        edges=START >> step("a", ran),
        before_agent=lambda ctx: text_content("closed today"),
        max_concurrency=3,
        state_schema={"n": int},
        max_activations=7,
        timeout=5,
        on_message_while_waiting="restart",
    )
    assert (agent.workflow.max_concurrency, agent.workflow.max_activations, agent.workflow.config.timeout) == (3, 7, 5)
    assert agent.on_message_while_waiting == "restart"
    lab = kit.Lab(lambda: agent)
    turn = await lab.run("hi")
    assert [event.text for event in turn.events] == ["closed today"]
    assert ran == []
    assert turn.outcome.kind == "completed"


async def test_agt_14_what_after_agent_adds_is_not_the_output_of_an_llm_agent(kit: Any) -> None:
    agent = llm("ag", ["the answer"], after_agent=lambda ctx: text_content("and a remark"))
    turn = await run_flow(kit, Workflow("wf", START >> agent >> step("end")))
    assert [event.text for event in turn.events if event.text] == ["the answer", "and a remark"]
    assert turn.outcome.output == "end(the answer)"


@pytest.mark.parametrize("inner", [False, True])
async def test_node_3_schemas_of_a_workflow_are_those_of_a_node(kit: Any, inner: bool) -> None:
    """WT-13: a sub-workflow has them too; the output is converted live and in a replay."""

    def build(**schemas: Any) -> Workflow:
        flow = Workflow("flow", START >> step("a", give=lambda value: value) >> talker("t", "7"), **schemas)
        return Workflow("wf", START >> flow >> step("end", give=lambda value: [value])) if inner else flow

    turn = await run_flow(kit, build(output_schema=int))
    assert turn.outcome.output == ([7] if inner else 7)
    turn = await kit.Lab(build(output_schema=City).as_agent).run("hi")
    assert "output validation failed" in str(turn.error)
    seen: list[Any] = []
    flow = Workflow("flow", START >> step("a", give=seen.append), input_schema=int)
    await run_flow(kit, Workflow("wf", START >> flow) if inner else flow, "42")
    assert seen == [42]
    turn = await kit.Lab((Workflow("wf", START >> flow) if inner else flow).as_agent).run("no number")
    assert "input validation failed" in str(turn.error)


@pytest.mark.parametrize("crash_after", range(1, 14))
async def test_rty_5_a_crash_behind_any_event_of_a_retried_agent(kit: Any, crash_after: int) -> None:
    """The prompt is always valid and holds nothing of the failed attempt; the approved tool runs once."""
    left = [1]
    ran: list[str] = []

    @tool
    def look() -> str:
        """Looks."""
        return "seen"

    @tool(require_confirmation=True)
    def send() -> str:
        """Sends."""
        ran.append("send")
        return "sent"

    def respond(request: Any) -> Any:
        said = prompt(request)
        assert said[0] == ("user", "a(hi)")
        results = [part[1] for part in said if type(part[1]).__name__ == "FunctionResponse"]
        if not results:
            return call("look")
        if len(results) == 1:
            if left[0]:
                left[0] -= 1
                raise OSError("the line broke")
            return call("send")
        return "done"

    def build() -> WorkflowAgent:
        agent = node(llm("ag", respond, tools=[look, send]), retry=Retry(max_attempts=2, initial_delay=0))
        return Workflow("wf", START >> step("a") >> agent >> step("end")).as_agent()

    lab = kit.Lab(build)
    lab.store.crash_after = crash_after
    message: Any = "hi"
    invocation_id: str | None = None
    for _ in range(6):
        turn = await lab.run(message, invocation_id=invocation_id)
        if isinstance(turn.error, kit.Crash):
            lab.store.revive()
            message, invocation_id = None, await lab.first_invocation()
            continue
        waiting = list((await lab.session()).open_calls)
        if not waiting:
            break
        response = FunctionResponse(id=waiting[0], name="adk_request_confirmation", response={"confirmed": True})
        message, invocation_id = Content(role="user", parts=[Part(function_response=response)]), None
    assert outputs(await lab.events())["wf@1/end@1"] == "end(done)"
    assert ran == ["send"]


async def test_plug_43_a_pause_of_an_agent_node_is_told_once(kit: Any) -> None:
    told: list[tuple[str, int]] = []

    class Watch(Plugin):
        name = "watch"

        async def on_pause(self, ctx: Any, open_calls: Any) -> None:
            told.append((ctx.path, len(open_calls)))

    @tool(require_confirmation=True)
    def send() -> str:
        """Sends."""
        return "sent"

    agent = llm("ag", [call("send")], tools=[send])
    turn = await run_flow(kit, Workflow("wf", START >> agent), plugins=[Watch()])
    assert turn.outcome.kind == "paused"
    assert told == [("wf@1/ag@1", 1)]


@pytest.mark.parametrize("crash_after", [None, 1, 2, 3, 4, 5, 6])
async def test_act_17_what_an_agent_hands_over_to_speaks_for_the_node(kit: Any, crash_after: int | None) -> None:
    def build() -> WorkflowAgent:
        expert = llm("expert", ["I know"])
        first = llm("first", [call("transfer_to_agent", agent_name="expert")] * 2, mode="chat", sub_agents=[expert])
        return Workflow("wf", START >> first >> step("end")).as_agent()

    lab = kit.Lab(build)
    lab.store.crash_after = crash_after
    turn = await lab.run("hi")
    if isinstance(turn.error, kit.Crash):
        lab.store.revive()
        turn = await lab.run(invocation_id=await lab.first_invocation())
    if turn.error is None:
        assert turn.outcome.output == "end(I know)"
    found = outputs(await lab.events())
    assert found["wf@1/end@1"] == "end(I know)"
