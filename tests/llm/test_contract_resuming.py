"""Who goes on, where, with what: entries, tasks and called agents line by line (core §3.2, §2.2; activations)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.llm.contract_turns import WHO, entered, pay, reply, session_of

from hookwork import (
    Content,
    Event,
    EventActions,
    ModelResponse,
    NodeInfo,
    Part,
    Runner,
    ToolContext,
    text_content,
)
from hookwork.entry import open_task_scope
from hookwork.records.event import EventCompaction
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call

# --- where a run enters (§3.2) ----------------------------------------------------------------------------------------


def desk(*, asks: bool = True) -> LlmAgent:
    """A root that hands over to a helper who asks for an approval, then chats."""
    expert = ScriptedModel([call("pay", "p1"), "noted", "paid, thanks"] if asks else ["mine", "still mine"])
    helper = LlmAgent(name="helper", model=expert, tools=[pay])
    root = ScriptedModel([call("transfer_to_agent", agent_name="helper")])
    return LlmAgent(name="root", model=root, sub_agents=[helper])


async def test_run_11_a_new_invocation_enters_where_the_talk_is_and_a_known_one_where_it_began(
    runner_factory: Any,
) -> None:
    log: list[str] = []
    async with runner_factory(desk(), plugins=[entered(log)]) as runner:
        first = await runner.run(message="pay", **WHO).wait()
        assert log == ["run at root", "root", "helper"]
        log.clear()
        await runner.run(message="hello?", **WHO).wait()
        assert log == ["run at helper", "helper"]
        log.clear()
        await runner.run(message=[reply(first.open_calls[0], {"confirmed": True})], **WHO).wait()
        assert log == ["run at root", "helper"]


async def test_run_32_an_answer_chooses_nothing_it_continues_the_invocation_of_its_call(runner_factory: Any) -> None:
    """The talk has moved on to a later invocation; the answer still goes the way down from the first one's entry."""
    async with runner_factory(desk()) as runner:
        first = await runner.run(message="pay", **WHO).wait()
        second = await runner.run(message="hello?", **WHO).wait()
        assert second.invocation_id != first.invocation_id
        third = await runner.run(message=[reply(first.open_calls[0], {"confirmed": True})], **WHO).wait()
        assert third.invocation_id == first.invocation_id
        events = (await session_of(runner)).events
    assert [(event.invocation_id == first.invocation_id, event.path) for event in events[-3:]] == [
        (True, ""),
        (True, "root@1/helper@1"),
        (True, "root@1/helper@1"),
    ]
    assert third.final_event is not None
    assert third.final_event.text == "paid, thanks"


async def test_run_25_case_conc_1_runs_of_one_runner_are_independent(runner_factory: Any) -> None:
    """Three hundred runs are in their model call at the same time; each gets its own answer and keeps its own state."""
    count = 300
    meet = asyncio.Barrier(count)

    async def answer(request: Any) -> str:
        await meet.wait()
        return f"to {request.contents[-1].text}"

    agent = LlmAgent(name="a", model=ScriptedModel(answer), output_key="said")
    async with runner_factory(agent) as runner:
        names = [f"s{i}" for i in range(count)]
        outcomes = await asyncio.gather(
            *[runner.run(user_id=f"user of {name}", session_id=name, message=name).wait() for name in names]
        )
        states = [
            (await runner.sessions.get_session(app_name="a", user_id=f"user of {name}", session_id=name)).state["said"]
            for name in names
        ]
    assert [outcome.final_event.text for outcome in outcomes] == [f"to {name}" for name in names] == states


# --- open task scopes (RUN-24) ----------------------------------------------------------------------------------------


def booking(coordinator: list[Any], booker: list[Any], **more: Any) -> tuple[LlmAgent, ScriptedModel, ScriptedModel]:
    models = ScriptedModel(coordinator), ScriptedModel(booker)
    book = LlmAgent(name="book", description="Books.", model=models[1], mode="task", **more)
    return LlmAgent(name="coord", model=models[0], sub_agents=[book]), *models


async def scope_of(runner: Runner) -> str:
    found = open_task_scope(await session_of(runner))
    return found.scope if found is not None else ""


async def test_run_24_mode_10_a_message_goes_to_the_task_that_is_open(runner_factory: Any) -> None:
    root, coordinator, booker = booking(
        [call("book", "c1", request="x"), "booked"],
        ["which day?", call("finish_task", dya="mon"), "pardon?", call("finish_task", result="mon")],
    )
    async with runner_factory(root) as runner:
        assert (await runner.run(message="book", **WHO).wait()).kind == "completed"
        assert await scope_of(runner) == "c1"
        await runner.run(message="monday", **WHO).wait()
        assert await scope_of(runner) == "c1"  # an error response of finish_task does not close it
        await runner.run(message="on monday", **WHO).wait()
        assert await scope_of(runner) == ""
        session = await session_of(runner)
    said = [(event.text, event.isolation_scope) for event in session.events if event.author == "user" and event.text]
    assert said == [("book", ""), ("monday", "c1"), ("on monday", "c1")]
    assert [content.text for content in booker.prompts[1]][-2:] == ["which day?", "monday"]
    assert coordinator.calls == 2  # it heard neither


async def test_run_24_a_task_with_a_recorded_output_is_not_open(runner_factory: Any) -> None:
    root, _, _ = booking([call("book", "c1", request="x"), "booked"], [call("finish_task", result="mon")])
    async with runner_factory(root) as runner:
        async with runner.run(message="book", **WHO) as run:
            async for event in run:
                if event.output is not None:
                    break  # as if the process died before the response was delivered
        assert [c.id for c in (await session_of(runner)).open_delegations] == ["c1"]
        assert await scope_of(runner) == ""


async def test_run_24_of_two_open_tasks_the_newest_to_speak_is_meant_and_summaries_say_nothing(
    runner_factory: Any,
) -> None:
    """The first task asks and waits. A second one of another invocation speaks later: it hears the message."""
    service = InMemorySessionService()
    session = await service.create_session(app_name="coord", **WHO)

    def at(path: str, scope: str = "", **fields: Any) -> Event:
        return Event(
            invocation_id="e-1", author="coord", node_info=NodeInfo(path=path), isolation_scope=scope, **fields
        )

    def task(call_id: str) -> Content:
        return Content(role="model", parts=[call("book", call_id, request="x")])

    await service.append_event(session, at("coord@1", content=task("c1")))
    await service.append_event(session, at("coord@1/book@c1", "c1", content=text_content("one?")))
    await service.append_event(session, at("coord@1", content=task("c2")))
    await service.append_event(session, at("coord@1/book@c2", "c2", content=text_content("two?")))
    found = open_task_scope(session)
    assert found is not None
    assert found.scope == "c2"
    summary = EventCompaction(
        start_timestamp=0.0, end_timestamp=1.0, compacted_content=text_content("once", role="model")
    )
    record = Event(invocation_id="e-2", author="user", isolation_scope="c1", actions=EventActions(compaction=summary))
    await service.append_event(session, record)
    found = open_task_scope(session)
    assert found is not None
    assert found.scope == "c2"
    spoken = Event(invocation_id="e-1", author="user", isolation_scope="c1", content=text_content("monday"))
    await service.append_event(session, spoken)
    found = open_task_scope(session)
    assert found is not None
    assert found.scope == "c1"


# --- modes (§2.2) -----------------------------------------------------------------------------------------------------

DAY = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
DAYS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "arguments", "output", "payload"),
    [
        (None, {"result": "mon"}, "mon", {"output": "mon"}),
        (DAY, {"day": "mon"}, {"day": "mon"}, {"day": "mon"}),
        (DAYS, {"result": ["mon", "tue"]}, ["mon", "tue"], {"output": ["mon", "tue"]}),
    ],
    ids=["text", "object", "wrapped"],
)
async def test_mode_5_the_success_event_carries_the_output_and_ends_the_task(
    runner_factory: Any, schema: Any, arguments: dict[str, Any], output: Any, payload: Any
) -> None:
    root, coordinator, booker = booking(
        [call("book", "c1", request="x"), "booked"], [call("finish_task", "f1", **arguments)], output_schema=schema
    )
    async with runner_factory(root) as runner:
        await runner.run(message="book", **WHO).wait()
        events = (await session_of(runner)).events
    [done] = [event for event in events if event.output is not None]
    [response] = done.function_responses
    assert (response.id, dict(response.response or {})) == ("f1", {"result": "Task completed."})
    assert (done.output, done.path, done.author) == (output, "coord@1/book@c1", "book")
    assert (booker.calls, events[-2].function_responses[0].response) == (1, payload)
    assert coordinator.calls == 2


async def test_mode_5_a_null_result_finishes_a_task_too(runner_factory: Any) -> None:
    schema = {"type": ["string", "null"]}
    root, _, _ = booking(
        [call("book", "c1", request="x"), "done"], [call("finish_task", result=None)], output_schema=schema
    )
    async with runner_factory(root) as runner:
        outcome = await runner.run(message="book", **WHO).wait()
        events = (await session_of(runner)).events
    assert outcome.open_delegations == ()
    assert events[-2].function_responses[0].response == {"output": None}


@pytest.mark.parametrize("mode", ["task", "single_turn"])
async def test_agt_12_plug_20_what_before_agent_gives_in_a_called_agents_place_is_its_result(
    runner_factory: Any, mode: str
) -> None:
    child = ScriptedModel([])
    guard = text_content("closed today", role="model")
    model = ScriptedModel([call("book", "c1", request="x"), "so be it"])
    book = LlmAgent(name="book", description="Books.", model=child, mode=mode, before_agent=[lambda ctx: guard])
    async with runner_factory(LlmAgent(name="coord", model=model, sub_agents=[book])) as runner:
        outcome = await runner.run(message="book", **WHO).wait()
    answer = model.prompts[-1][-1].function_responses[0].response
    assert answer == ({"output": "closed today"} if mode == "task" else {"result": "closed today"})
    assert (outcome.kind, outcome.open_delegations, child.calls) == ("completed", (), 0)


async def test_mode_9_a_task_that_ends_with_an_error_code_stays_open(runner_factory: Any) -> None:
    refused = ModelResponse(error_code="SAFETY", error_message="no")
    root, coordinator, _ = booking(
        [call("book", "c1", request="x"), "booked"], [refused, call("finish_task", result="mon")]
    )
    async with runner_factory(root) as runner:
        first = await runner.run(message="book", **WHO).wait()
        assert ([c.id for c in first.open_delegations], coordinator.calls) == (["c1"], 1)
        second = await runner.run(message="try again", **WHO).wait()
    assert (second.kind, second.open_delegations, coordinator.calls) == ("completed", (), 2)


async def test_mode_8_open_task_calls_are_dispatched_again_in_order_before_any_step(runner_factory: Any) -> None:
    """Both tasks were called in one turn; the process dies behind the call. At the next entry both run, in order."""
    root, coordinator, booker = booking(
        [[call("book", "c1", request="one"), call("book", "c2", request="two")], "both booked"],
        [call("finish_task", result="1"), call("finish_task", result="2")],
    )
    async with runner_factory(root) as runner:
        run = runner.run(message="book", **WHO)
        async with run:
            async for _ in run:
                break
        assert booker.calls == 0
        done = await runner.run(invocation_id=run.invocation_id, **WHO).wait()
        events = (await session_of(runner)).events
    assert done.kind == "completed"
    tasks = [event.path for event in events if event.isolation_scope]
    assert tasks == ["coord@1/book@c1"] * 2 + ["coord@1/book@c2"] * 2
    assert [json.loads(prompt[0].text) for prompt in booker.prompts] == [{"request": "one"}, {"request": "two"}]
    assert coordinator.calls == 2
    assert_valid_prompt(coordinator.prompts[-1], ids=False)


async def test_mode_8_act_26_a_task_spans_invocations_and_is_looked_up_by_its_scope(runner_factory: Any) -> None:
    root, coordinator, _ = booking(
        [call("book", "c1", request="x"), "booked"], ["which day?", "which hour?", call("finish_task", result="mon 8")]
    )
    async with runner_factory(root) as runner:
        ids = [(await runner.run(message=text, **WHO).wait()).invocation_id for text in ("book", "monday", "eight")]
        session = await session_of(runner)
    assert len(set(ids)) == 3  # a conversational root: each message is an invocation of its own
    in_task = {(event.invocation_id, event.path) for event in session.events if event.author == "book"}
    assert in_task == {(invocation_id, "coord@1/book@c1") for invocation_id in ids}
    assert coordinator.calls == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'),
        (7, "7"),
        (Content(role="model", parts=[Part(text="one"), Part(text="two")]), "onetwo"),
    ],
    ids=["text", "json", "number", "content"],
)
async def test_llm_20_the_input_of_a_node_becomes_a_user_turn(runner_factory: Any, value: Any, shown: str) -> None:
    child = LlmAgent(name="child", model=ScriptedModel(["done"]), mode="single_turn")
    model = child.model

    @tool
    async def ask(ctx: ToolContext) -> Any:
        """Asks the child."""
        return await ctx.run_node(child, value)

    root = LlmAgent(name="root", model=ScriptedModel([call("ask"), "ok"]), tools=[ask])
    async with runner_factory(root) as runner:
        await runner.run(message="hi", **WHO).wait()
    assert isinstance(model, ScriptedModel)
    first = model.prompts[0][0]
    assert first.role == "user"
    assert "".join(part.text or "" for part in first.parts).startswith(shown)


async def test_llm_20_without_an_input_there_is_only_the_history(runner_factory: Any) -> None:
    """A transfer target gets no input: its prompt begins with what the user said (ACT-16, TRF-4)."""
    expert = ScriptedModel(["mine"])
    root = LlmAgent(
        name="root",
        model=ScriptedModel([call("transfer_to_agent", agent_name="helper")]),
        sub_agents=[LlmAgent(name="helper", model=expert)],
    )
    async with runner_factory(root) as runner:
        await runner.run(message="who knows?", **WHO).wait()
    texts = [content.text for content in expert.prompts[0]]
    assert texts[0] == "who knows?"
    assert texts.count("who knows?") == 1
