"""What waits in a graph besides questions of nodes: tasks, chat agents, long-running tools (ACT-20 … ACT-26)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.workflow.flows import answers, outputs, run_flow, step

from hookwork import Content, FunctionCall, FunctionResponse, NodeInfo, Part
from hookwork.records.codec import dump, load
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import START, NodeContext, Retry, Workflow, node, parallel


def responses(request: Any) -> int:
    return sum(part.function_response is not None for content in request.contents for part in content.parts)


def texts(request: Any) -> list[str]:
    return [part.text for content in request.contents for part in content.parts if part.text]


def answer(call_id: str, payload: Any) -> Content:
    response = FunctionResponse(id=call_id, name="x", response=payload)
    return Content(role="user", parts=[Part(function_response=response)])


async def test_act_26_a_task_of_an_agent_node_talks_with_the_user(kit: Any) -> None:
    """RES-11: an open task takes the message first, in the waiting invocation; then the graph goes on."""

    def book(request: Any) -> Any:
        return call("finish_task", result="booked") if "monday" in texts(request) else "which day?"

    def coordinate(request: Any) -> Any:
        if responses(request):
            return "all booked"
        return Content(
            role="model", parts=[Part(function_call=FunctionCall(id="c1", name="book", args={"request": "x"}))]
        )

    def build() -> Any:
        task = LlmAgent(name="book", mode="task", model=ScriptedModel(book))
        coordinator = LlmAgent(name="coord", model=ScriptedModel(coordinate), sub_agents=[task])
        return Workflow("wf", START >> step("a") >> coordinator >> step("end")).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("go")
    assert turn.error is None
    assert (turn.outcome.kind, turn.waits_for) == ("paused", [])
    assert [delegation.id for delegation in turn.outcome.open_delegations] == ["c1"]
    first = turn.outcome.invocation_id
    turn = await lab.run("monday")
    assert turn.error is None
    assert turn.outcome.invocation_id == first
    assert turn.outcome.output == "end(all booked)"


async def test_cpa_7_a_chat_agent_that_waits_in_a_graph_hears_the_message(kit: Any) -> None:
    """Its long-running call stays open; answered, the graph goes on."""
    seen: list[list[str]] = []

    @tool(long_running=True)
    def wait() -> None:
        """Waits."""

    def respond(request: Any) -> Any:
        seen.append(texts(request))
        if "still there?" in seen[-1] and len(seen) == 2:
            return "yes, waiting"
        return "done" if responses(request) and len(seen) > 2 else call("wait")

    def build() -> Any:
        agent = LlmAgent(name="chatty", mode="chat", model=ScriptedModel(respond), tools=[wait])
        return Workflow("wf", START >> agent >> step("end")).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    (open_call,) = turn.waits_for
    turn = await lab.run("still there?")
    assert turn.error is None
    assert (turn.outcome.kind, turn.waits_for) == ("paused", [open_call])
    assert [event.text for event in turn.events if event.text] == ["yes, waiting"]
    turn = await lab.run(answer(open_call, {"result": "now"}))
    assert turn.error is None
    assert turn.outcome.output == "end(done)"


async def test_ask_3_a_long_running_tool_of_an_agent_node(kit: Any) -> None:
    """A status does not close it (PND-1); the answer lets the agent finish and the graph go on."""

    @tool(long_running=True)
    def order() -> dict[str, Any]:
        """Orders."""
        return {"status": "pending"}

    def respond(request: Any) -> Any:
        if not responses(request):
            return call("order")
        return f"said {sum('shipped' in str(p.function_response) for c in request.contents for p in c.parts)}"

    def build() -> Any:
        agent = LlmAgent(name="ag", model=ScriptedModel(respond), tools=[order])
        return Workflow("wf", START >> agent >> step("end")).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert turn.outcome.kind == "paused"
    (open_call,) = turn.waits_for
    turn = await lab.run(answer(open_call, {"status": "shipped"}))
    assert turn.error is None
    assert turn.outcome.kind == "completed"
    assert turn.outcome.output == "end(said 1)"


async def test_dyn_25_a_pending_child_agent_pauses_its_parent(kit: Any) -> None:
    @tool(long_running=True)
    def order() -> dict[str, Any]:
        """Orders."""
        return {"status": "pending"}

    def respond(request: Any) -> Any:
        return "ordered" if responses(request) else call("order")

    def build() -> Any:
        agent = LlmAgent(name="ag", model=ScriptedModel(respond), tools=[order])

        @node
        async def parent(value: str, ctx: NodeContext) -> str:
            return f"child said {await ctx.run_node(agent, value)}"

        return Workflow("wf", START >> parent).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert turn.outcome.kind == "paused"
    turn = await lab.run(answer(turn.waits_for[0], {"status": "shipped"}))
    assert turn.error is None
    assert turn.outcome.output == "child said ordered"


async def test_br_3_retries_keep_the_branch_items_and_handed_on_answers_too(kit: Any) -> None:
    seen: list[tuple[str, str]] = []

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def flaky(value: str, ctx: NodeContext) -> None:
        seen.append(("flaky", ctx.branch))
        if ctx.attempt == 1:
            raise OSError("once")

    @node
    async def item(value: int, ctx: NodeContext) -> None:
        seen.append(("item", ctx.branch))

    @node
    async def ask(value: str) -> Any:
        from hookwork_workflow import RequestInput

        return RequestInput(interrupt_id="q")

    @node
    async def after(value: str, ctx: NodeContext) -> None:
        seen.append(("after", ctx.branch))

    listing = step("listing", give=lambda value: [1, 2])
    flow = Workflow("wf", START >> (flaky, listing >> parallel(item, name="all"), ask >> after))
    lab = kit.Lab(flow.as_agent)
    await lab.run("hi")
    await lab.run(answers({"q": {"result": "yes"}}))
    assert seen == [
        ("flaky", "flaky@1"),
        ("flaky", "flaky@1"),
        ("item", "listing@1.item@1"),
        ("item", "listing@1.item@2"),
        ("after", "ask@1"),
    ]


def test_per_1_node_info_on_the_wire() -> None:
    """The names of other kits, and keys that are not known are kept."""
    info = NodeInfo(path="wf@1/a@1", message_as_output=True, output_for=("wf@1/a@1", "wf@1"), status="completed")
    wire = {"path": "wf@1/a@1", "messageAsOutput": True, "outputFor": ["wf@1/a@1", "wf@1"], "status": "completed"}
    assert dump(info) == wire
    assert load(NodeInfo, {**wire, "somethingElse": 1}).extra == {"somethingElse": 1}
    assert dump(load(NodeInfo, {**wire, "somethingElse": 1})) == {**wire, "somethingElse": 1}


async def test_path_4_children_of_a_resumed_activation_keep_their_paths(kit: Any) -> None:
    """WT-9: a run and its resume agree."""

    def build() -> Any:
        @node
        async def parent(value: str, ctx: NodeContext) -> Any:
            first = await ctx.run_node(step("child"), value)
            return [first, await ctx.request_input("k"), await ctx.run_node(step("child"), "again")]

        return Workflow("wf", START >> Workflow("inner", START >> parent)).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    turn = await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    assert turn.outcome.output == ["child(hi)", "x", "child(again)"]
    assert list(outputs(await lab.events())) == [
        "wf@1/inner@1/parent@1/child@1",
        "wf@1/inner@1/parent@1/child@2",
        "wf@1/inner@1/parent@1",
    ]


@pytest.mark.parametrize("streaming", [False, True])
async def test_sch_2_agents_stream_through_a_graph(kit: Any, streaming: bool) -> None:
    from hookwork_testkit import stream, text

    def respond(request: Any) -> Any:
        return stream(text("he"), text("llo"))

    agent = LlmAgent(name="ag", model=ScriptedModel(respond))
    turn = await run_flow(kit, Workflow("wf", START >> agent >> step("end")), streaming=streaming)
    assert turn.outcome.output == "end(hello)"
    assert any(event.partial for event in turn.events) is streaming
