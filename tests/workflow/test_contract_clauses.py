"""Halves of contract lines that the other tests of this folder leave out (workflow §1, §3, §5, §6)."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import attrs
import msgspec
import pydantic
import pytest
from tests.workflow.flows import answered, answers, step

from hookwork import (
    Agent,
    Blob,
    Content,
    Event,
    EventActions,
    FunctionCall,
    FunctionPlugin,
    FunctionResponse,
    NodeOutcome,
    Part,
    Runner,
    text_content,
)
from hookwork.errors import ValidationError
from hookwork.platform import use_sleep
from hookwork.records.event import NodeInfo
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import (
    START,
    Edge,
    GraphNode,
    Join,
    MultipleTerminalOutputs,
    NodeContext,
    RequestInput,
    Retry,
    Workflow,
    node,
    parallel,
    routed,
)


class Yields(GraphNode[Any, Any]):
    """Yields what it is given, as it is."""

    def __init__(self, name: str, *events: Event) -> None:
        self.name = name
        self.events = events

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        for event in self.events:
            yield event


def long_running(call_id: str) -> Event:
    part = Part(function_call=FunctionCall(id=call_id, name="look"))
    return Event(content=Content(role="model", parts=[part]), long_running_tool_ids=(call_id,))


def response(call_id: str) -> Content:
    part = Part(function_response=FunctionResponse(id=call_id, name="look", response={"v": 1}))
    return Content(role="user", parts=[part])


# --- input and output -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "given"),
    [(None, None), (Content(role="user", parts=[Part(inline_data=Blob(data=b"x", mime_type="image/png"))]), "")],
)
async def test_wf_3_no_message_and_a_message_without_text(kit: Any, message: Any, given: Any) -> None:
    seen: list[Any] = []
    lab = kit.Lab(Workflow("wf", START >> step("a", give=seen.append)).as_agent)
    assert (await lab.run(message)).error is None
    assert seen == [given]


async def test_node_8_an_empty_text_is_an_output(kit: Any) -> None:
    seen: list[Any] = []
    silent = Yields("a", Event(content=text_content(""), node_info=NodeInfo(message_as_output=True)))
    turn = await kit.Lab(Workflow("wf", START >> silent >> step("b", give=seen.append)).as_agent).run("hi")
    assert turn.error is None
    assert seen == [""]


async def test_node_6_output_and_routes_of_a_partial_event_are_ignored(kit: Any) -> None:
    events = Event(partial=True, output="no", routes=("r",), content=text_content("x")), Event(output="yes")
    turn = await kit.Lab(Workflow("wf", START >> Yields("a", *events) >> step("b")).as_agent).run("hi")
    assert turn.outcome.output == "b(yes)"


async def test_sch_9_a_transfer_means_nothing_to_a_graph(kit: Any) -> None:
    away = Yields("a", Event(output="x", actions=EventActions(transfer_to_agent="nobody")))
    turn = await kit.Lab(Workflow("wf", START >> away >> step("b")).as_agent).run("hi")
    assert (turn.error, turn.outcome.output) == (None, "b(x)")


async def test_rsl_3_an_output_names_every_graph_whose_output_it_is(kit: Any) -> None:
    inner = Workflow("inner", START >> Workflow("core", START >> step("a")))
    turn = await kit.Lab(Workflow("wf", START >> inner).as_agent).run("hi")
    [event] = [event for event in turn.events if event.output is not None]
    assert tuple(event.node_info.output_for) == (
        *("wf@1/inner@1/core@1/a@1", "wf@1/inner@1/core@1"),
        *("wf@1/inner@1", "wf@1"),
    )


# --- questions --------------------------------------------------------------------------------------------------------


@dataclass
class Plain:
    amount: int


@attrs.define
class Attrs:
    amount: int


class Struct(msgspec.Struct):
    amount: int


class Model(pydantic.BaseModel):
    amount: int


PAYLOADS = [Plain(1), Attrs(1), Struct(1), Model(amount=1)]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("style", ["asked", "yielded", "nested"])
async def test_per_2_what_a_person_is_shown_is_written_as_json(kit: Any, payload: Any, style: str) -> None:
    @node
    async def ask(value: Any, ctx: NodeContext) -> Any:
        if style == "yielded":
            return RequestInput(message="?", payload=payload)
        return await ctx.request_input("k", "?", payload=payload if style == "asked" else {"it": [payload]})

    turn = await kit.Lab(Workflow("wf", START >> ask).as_agent).run("hi")
    [call] = turn.outcome.open_calls
    assert call.payload == ({"amount": 1} if style != "nested" else {"it": [{"amount": 1}]})


def test_per_2_a_date_is_text_and_what_json_cannot_hold_is_refused() -> None:
    """Binary data is an artifact's (PER-2), not text in disguise."""
    assert RequestInput(payload={"on": datetime.date(2026, 1, 2)}).payload == {"on": "2026-01-02"}
    for wrong in (object(), b"x", {"data": b"x"}, {"n": float("nan")}, Plain(b"x")):  # type: ignore[arg-type]
        with pytest.raises(ValidationError, match="payload"):
            RequestInput(payload=wrong)


async def test_dyn_25_a_status_of_a_long_running_tool_is_a_wait_of_the_child(kit: Any) -> None:
    @tool(long_running=True)
    def order() -> dict[str, str]:
        """Orders."""
        return {"status": "pending"}

    def build() -> Agent:
        clerk = LlmAgent(name="clerk", model=ScriptedModel([call("order"), "it is ordered", "arrived"]), tools=[order])

        @node
        async def parent(value: Any, ctx: NodeContext) -> Any:
            return await ctx.run_node(clerk, value)

        return Workflow("wf", START >> parent >> step("end")).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert turn.outcome.kind == "paused"
    assert [open_call.name for open_call in turn.outcome.open_calls] == ["order"]


async def test_dyn_25_a_response_in_the_same_run_clears_the_wait(kit: Any) -> None:
    child = Yields("child", long_running("c1"), Event(author="user", content=response("c1")), Event(output="done"))

    @node
    async def parent(value: Any, ctx: NodeContext) -> Any:
        return await ctx.run_node(child)

    turn = await kit.Lab(Workflow("wf", START >> parent >> step("end")).as_agent).run("hi")
    assert turn.outcome.output == "end(done)"


async def test_ans_9_an_object_chooses_the_edge_by_its_route(kit: Any) -> None:
    def build() -> Agent:
        @node
        async def ask(value: Any) -> RequestInput:
            return RequestInput(interrupt_id="q", message="?")

        return Workflow("wf", START >> ask, ask.on({"y": step("yes"), "n": step("no")})).as_agent()

    for route, taken in (("y", "yes"), ("n", "no")):
        lab = kit.Lab(build)
        await lab.run("hi")
        turn = await answered(lab, {"q": {"route": route, "why": "so"}})
        assert turn.outcome.output.startswith(taken)


async def test_sch_5_a_trigger_that_waited_behind_a_question_asks_its_own(kit: Any) -> None:
    """In a new process each time."""
    ended: list[Any] = []

    def build() -> Agent:
        @node
        async def ask(value: Any, ctx: NodeContext) -> str:
            return f"{value}: {await ctx.request_input('k', '?')}"

        return Workflow("wf", START >> (step("a"), step("b")) >> ask >> step("end", give=ended.append)).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    for number in ("1", "2"):
        [question] = turn.waits_for
        turn = await answered(lab, {question: number})
    assert turn.outcome.kind == "completed"
    assert ended == ["a(hi): 1", "b(hi): 2"]


# --- children, retries ------------------------------------------------------------------------------------------------


async def test_rpl_6_a_child_keeps_its_branch_and_scope(kit: Any) -> None:
    seen: list[tuple[str, str]] = []

    async def body(ctx: Any) -> AsyncIterator[Event]:
        seen.append((ctx.branch, ctx.isolation_scope))
        yield Event(content=text_content("done")) if ctx.view.calls else long_running("c1")

    agent = Agent(name="ag", body=body)

    @node
    async def parent(value: Any, ctx: NodeContext) -> Any:
        return await ctx.run_node(agent, sub_branch=True, scope="path")

    lab = kit.Lab(Workflow("wf", START >> (parent, step("b")) >> Join("j")).as_agent)
    await lab.run("hi")
    assert (await lab.run(answers({"c1": {"x": 1}}))).outcome.kind == "completed"
    assert seen == [("parent@1.ag@1", "wf@1/parent@1/ag@1")] * 2


async def test_para_1_what_items_say_and_write_is_kept(kit: Any) -> None:
    """WT-2: in the reference everything but their outputs is dropped."""

    @node
    async def item(value: int, ctx: NodeContext) -> int:
        ctx.state[f"k{value}"] = value
        await ctx.emit(Event(content=text_content(f"t{value}")))
        return value

    flow = Workflow("wf", START >> step("list", give=lambda value: [1, 2]) >> parallel(item, name="all"))
    lab = kit.Lab(flow.as_agent)
    turn = await lab.run("hi")
    assert turn.outcome.output == [1, 2]
    assert {event.text for event in turn.events if event.text} == {"t1", "t2"}
    assert dict((await lab.session()).state) == {"k1": 1, "k2": 2}


async def test_rty_3_each_round_of_a_loop_has_its_full_budget(kit: Any) -> None:
    tries: list[tuple[str, int]] = []

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def flaky(value: Any, ctx: NodeContext) -> Any:
        tries.append((ctx.run_id, ctx.attempt))
        if ctx.attempt == 1:
            raise OSError("not yet")
        return routed("again" if int(ctx.run_id) < 3 else "on", value)

    flow = Workflow("wf", START >> step("a") >> flaky, [Edge(flaky, flaky, "again")], flaky.on({"on": step("end")}))
    assert (await kit.Lab(flow.as_agent).run("hi")).outcome.kind == "completed"
    assert tries == [(str(run), attempt) for run in (1, 2, 3) for attempt in (1, 2)]


async def test_rty_4_a_cancellation_stops_the_timer_and_siblings_went_on(kit: Any) -> None:
    inside, ran = asyncio.Event(), []

    async def sleep(seconds: float) -> None:
        inside.set()
        await asyncio.Event().wait()

    @node(retry=Retry(max_attempts=3))
    async def broken(value: Any) -> None:
        raise OSError("no")

    sessions = InMemorySessionService()
    flow = Workflow("wf", START >> (broken, step("a", ran) >> step("b", ran)))
    with use_sleep(sleep):
        async with Runner(flow.as_agent(), sessions=sessions) as runner:
            asking = asyncio.ensure_future(runner.ask("hi", user_id="u", session_id="s"))
            await inside.wait()
            while len(ran) < 2:
                await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
    stored = await sessions.get_session(app_name="wf", user_id="u", session_id="s")
    assert [event.error_code for event in stored.events if event.error_code] == ["OSError"]


# --- what is an output ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", PAYLOADS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("by", ["event", "hook"])
async def test_per_2_an_output_is_written_as_json_however_it_is_given(kit: Any, value: Any, by: str) -> None:
    given = FunctionPlugin(
        "gives",
        before_node=lambda ctx, input: NodeOutcome(output=value) if by == "hook" and ctx.node.name == "a" else None,
    )

    @node(name="a")
    async def yields(value_in: Any) -> AsyncIterator[Event]:
        yield Event(output=value)

    seen: list[Any] = []
    lab = kit.Lab(Workflow("wf", START >> yields >> step("b", give=seen.append)).as_agent)
    assert (await lab.run("hi", plugins=[given])).error is None
    assert seen == [{"amount": 1}]
    assert [event.output for event in await lab.events() if event.output is not None] == [{"amount": 1}]


def test_per_2_what_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValidationError, match="contains itself"):
        Event(output=circle)


@pytest.mark.parametrize("first", ["output", "answer"])
async def test_rsl_1_an_answer_that_is_a_second_terminal_output_fails_the_run(kit: Any, first: str) -> None:
    """Not the first one silently; the answer is kept, so the run fails in the same way again (RPL-9)."""

    def ask(name: str) -> Any:
        @node(name=name)
        async def asking(value: Any) -> RequestInput:
            return RequestInput(interrupt_id=name, message="?")

        return asking

    def build() -> Agent:
        other = step("a") if first == "output" else ask("a")
        return Workflow("wf", START >> (other, ask("b"))).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert turn.outcome.kind == "paused"
    for error in (
        (await lab.run(answers({name: {"result": "x"} for name in turn.waits_for}))).error,
        (await lab.run(invocation_id=await lab.first_invocation())).error,
    ):
        assert isinstance(error, MultipleTerminalOutputs)
        assert error.nodes == ("a", "b")
