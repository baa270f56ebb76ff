"""A run in order: session, message, hooks, events, end (core RUN-10 … RUN-26; tools-plugins §7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kernel.running import Log, run_of, runner_of, said, stored, talking

from hookwork import (
    Agent,
    Blob,
    CallbackContext,
    Content,
    Event,
    EventActions,
    FunctionPlugin,
    InvocationContext,
    NodeInfo,
    Part,
    RunConfig,
    Runner,
    RunOutcome,
    Settings,
    text_content,
)
from hookwork.errors import SessionNotFoundError
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel


async def test_hooks_of_a_run_in_order_and_around_hooks_inside_out() -> None:
    log: list[str] = []
    await run_of(runner_of(talking("hello"), Log(log, "a"), Log(log, "b")))
    stages = ["(run", "on_user_message", "before_run", "(agent", "before_agent", "on_event hello", "after_agent"]
    stages.append("on_event ")  # the end marker (ACT-14 c)
    expected = [f"{name}: {stage}" for stage in stages for name in "ab"]
    expected += ["b: agent) completed", "a: agent) completed", "b: run) completed", "a: run) completed"]
    assert log == [*expected, "a: after_run completed", "b: after_run completed"]


# --- session and message (RUN-10 … RUN-17) ----------------------------------------------------------------------------


async def test_run_10_an_absent_session_is_created_unless_told_otherwise() -> None:
    assert len(await run_of(runner_of(talking("hello")))) == 2
    strict = runner_of(talking("hello"), auto_create_session=False)
    with pytest.raises(SessionNotFoundError):
        await run_of(strict)
    assert await strict.sessions.list_sessions(app_name="root") == []


async def test_run_10_another_failure_of_the_store_is_raised_not_hidden_behind_a_create() -> None:
    class Broken(InMemorySessionService):
        async def get_session(self, **arguments: Any) -> Any:
            raise ConnectionError("store is down")

    log: list[str] = []
    with pytest.raises(ConnectionError, match="store is down"):
        await run_of(Runner(Agent(name="root", body=talking("x")), sessions=Broken(), plugins=[Log(log)]))
    assert log == []  # from before RUN-13: it meets no hook (RUN-23)


async def test_run_10_another_process_that_creates_the_session_first_loses_nobodys_message() -> None:
    class Late(InMemorySessionService):
        """Another process creates the session between this one's look and its own attempt."""

        async def create_session(self, **arguments: Any) -> Any:
            await super().create_session(**arguments)
            return await super().create_session(**arguments)

    runner = Runner(Agent(name="root", body=talking("hello")), sessions=Late(), settings=Settings())
    assert (await run_of(runner))[0].text == "hello"
    session = await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")
    assert [event.text for event in session.events][:2] == ["hi", "hello"]


async def test_hnd_a_generator_exit_raised_by_an_agent_is_a_failure_and_no_consumer_that_left() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("x")
        raise GeneratorExit

    run = runner_of(body).run(user_id="u", session_id="s", message="hi")
    with pytest.raises(RuntimeError, match="GeneratorExit was raised inside agent 'root'"):
        await run.wait()
    assert run.outcome is not None
    assert run.outcome.kind == "failed"


async def test_run_14_on_user_message_replaces_the_message_everywhere() -> None:
    seen: list[str] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        assert ctx.user_content is not None
        seen.append(ctx.user_content.text)
        yield said("ok")

    later: list[str] = []
    plugins = [
        FunctionPlugin("redact", on_user_message=lambda ctx, message: Content(role="model", parts=[Part(text="***")])),
        FunctionPlugin("late", on_user_message=lambda ctx, message: later.append("called")),
        FunctionPlugin("look", before_run=lambda ctx: seen.append(ctx.user_content.text)),
    ]
    runner = runner_of(body, *plugins)
    await run_of(runner, "secret")
    first = (await stored(runner))[0]
    assert (first.text, first.author, first.content.role if first.content else "") == ("***", "user", "user")
    assert seen == ["***", "***"]
    assert later == []  # the first value wins


async def test_run_14_the_invocation_keeps_the_id_that_hooks_have_seen() -> None:
    ids: list[str] = []

    def replace(ctx: InvocationContext) -> Content:
        ids.append(ctx.invocation_id)
        return text_content("new")

    plugins = [
        FunctionPlugin("a", on_user_message=replace),
        FunctionPlugin("b", before_run=lambda ctx: ids.append(ctx.invocation_id)),
    ]
    runner = runner_of(talking("hello"), *plugins)
    await run_of(runner)
    assert len(set(ids)) == 1
    assert {event.invocation_id for event in await stored(runner)} == set(ids)


async def test_run_14_a_given_new_invocation_id_survives_a_replaced_message() -> None:
    plugin = FunctionPlugin("a", on_user_message=lambda ctx, message: text_content("new"))
    runner = runner_of(talking("hello"), plugin)
    await run_of(runner, invocation_id="e-given")
    assert {event.invocation_id for event in await stored(runner)} == {"e-given"}


async def test_run_14_a_raise_ends_the_run_with_nothing_stored() -> None:
    log: list[str] = []

    def refuse(ctx: InvocationContext) -> None:
        raise PermissionError("not you")

    runner = runner_of(talking("hello"), FunctionPlugin("refuse", on_user_message=refuse), Log(log))
    with pytest.raises(PermissionError) as raised:
        await run_of(runner)
    assert raised.value.__notes__ == ["raised by plugin 'refuse' in 'on_user_message'"]
    assert await stored(runner) == []
    assert log == ["log: (run", "log: run) failed", "log: on_run_error not you", "log: after_run failed"]


async def test_run_14_on_user_message_is_not_called_without_a_message() -> None:
    log: list[str] = []
    await run_of(runner_of(talking("hello"), Log(log)), None)
    assert "log: on_user_message" not in log


async def test_run_15_inline_data_becomes_an_artifact_on_a_copy_of_the_message() -> None:
    message = Content(role="user", parts=[Part(text="look"), Part(inline_data=Blob(mime_type="image/png", data=b"x"))])
    runner = runner_of(talking("hello"), config=RunConfig(save_input_blobs_as_artifacts=True))
    await run_of(runner, message)
    first = (await stored(runner))[0]
    name = f"artifact_{first.invocation_id}_1"
    assert dict(first.actions.artifact_delta) == {name: 1}
    assert first.content is not None
    assert first.content.parts[1].inline_data is None
    assert name in (first.content.parts[1].text or "")
    assert message.parts[1].inline_data is not None
    assert runner.artifacts is not None
    saved = await runner.artifacts.load_artifact(app_name="root", user_id="u", session_id="s", filename=name)
    assert saved.inline_data == message.parts[1].inline_data


async def test_run_16_the_state_delta_rides_on_the_user_event_and_is_seen_by_every_hook() -> None:
    seen: list[Any] = []
    plugin = FunctionPlugin(
        "look",
        before_run=lambda ctx: seen.append(ctx.state["k"]),
        before_agent=lambda ctx: seen.append(ctx.state["k"]),
    )
    runner = runner_of(talking("hello"), plugin)
    await run_of(runner, state_delta={"k": [1], "temp:t": 2})
    first = (await stored(runner))[0]
    assert dict(first.actions.state_delta) == {"k": [1]}
    assert seen == [[1], [1]]


async def test_run_16_a_state_delta_without_a_message_is_stored_on_a_content_less_user_event() -> None:
    runner = runner_of(talking("hello"))
    await run_of(runner, None, state_delta={"k": 1})
    first = (await stored(runner))[0]
    assert (first.author, first.content, dict(first.actions.state_delta)) == ("user", None, {"k": 1})


async def test_run_17_the_user_event_is_yielded_first_when_asked_for_and_meets_no_on_event() -> None:
    log: list[str] = []
    events = await run_of(runner_of(talking("hello"), Log(log)), yield_user_message=True)
    assert [(event.author, event.text) for event in events[:2]] == [("user", "hi"), ("root", "hello")]
    assert "log: on_event hi" not in log


# --- before_run (RUN-18, CASE-PLUG-1) ---------------------------------------------------------------------------------


async def test_run_18_case_plug_1_an_early_answer_passes_on_event() -> None:
    outcomes: list[RunOutcome] = []

    def redact(ctx: InvocationContext, event: Event) -> Event:
        return event.replace(content=text_content("***"))

    model = ScriptedModel([])
    runner = runner_of(
        LlmAgent(name="root", model=model),
        FunctionPlugin("guard", before_run=lambda ctx: text_content("secret-42")),
        FunctionPlugin("redactor", on_event=redact, after_run=lambda ctx, outcome: outcomes.append(outcome)),
    )
    events = await run_of(runner)
    last = (await stored(runner))[-1]
    assert [(event.text, event.author, event.id) for event in events] == [("***", "root", last.id)]
    assert last.text == "***"
    assert model.calls == 0
    assert [outcome.kind for outcome in outcomes] == ["completed"]
    assert outcomes[0].final_event is not None


# --- events (RUN-19 … RUN-21) -----------------------------------------------------------------------------------------


async def test_agt_17_what_a_body_leaves_unset_is_completed() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("mine")
        yield Event(content=text_content("by the user", role="user"))
        yield said("named", author="bot", id="my-id", timestamp=12.5, invocation_id="e-mine")

    runner = runner_of(body)
    mine, by_user, named = (await run_of(runner))[:3]
    assert mine.id
    assert mine.timestamp > 0
    assert (mine.author, mine.path) == ("root", "root@1")
    assert mine.invocation_id == (await stored(runner))[0].invocation_id
    assert by_user.author == "user"
    assert (named.author, named.id, named.timestamp, named.invocation_id) == ("bot", "my-id", 12.5, "e-mine")


async def test_run_19_the_yielded_event_is_the_stored_one() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("a\x00b", actions=EventActions(state_delta={"k": 1, "temp:t": 2}))
        assert ctx.state["temp:t"] == 2

    runner = runner_of(body)
    first = (await run_of(runner))[0]
    assert first == (await stored(runner))[1]
    assert first.text == "a\ufffdb"
    assert dict(first.actions.state_delta) == {"k": 1}


async def test_run_19_a_message_that_is_the_output_is_not_stored_twice() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("42", output="42", node_info=NodeInfo(message_as_output=True))

    runner = runner_of(body)
    outcome = await runner.run(user_id="u", session_id="s", message="hi").wait()
    assert (await stored(runner))[1].output is None
    assert outcome.output == "42"


async def test_run_20_a_replacement_keeps_what_identifies_the_event() -> None:
    def replace(ctx: InvocationContext, event: Event) -> Event:
        return Event(content=text_content("new"), author="forger", id="forged", branch="b", invocation_id="x")

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("old", id="mine", long_running_tool_ids=("c1",), branch="a", isolation_scope="sc")

    runner = runner_of(body, FunctionPlugin("p", on_event=replace))
    event = (await run_of(runner))[0]
    assert event == (await stored(runner))[1]
    assert (event.text, event.id, event.author, event.branch) == ("new", "mine", "root", "a")
    assert (event.isolation_scope, event.long_running_tool_ids, event.path) == ("sc", ("c1",), "root@1")
    assert event.invocation_id != "x"
    assert event.timestamp > 0


async def test_run_20_partial_events_pass_on_event_and_are_never_stored() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("par", partial=True)
        yield said("partial")

    log: list[str] = []
    runner = runner_of(body, Log(log))
    assert [event.text for event in await run_of(runner)] == ["par", "partial", ""]
    assert [event.text for event in await stored(runner)] == ["hi", "partial", ""]
    assert "log: on_event par" in log


async def test_dlt_7_a_replaced_delta_is_the_one_that_counts() -> None:
    seen: list[Any] = []

    def replace(ctx: InvocationContext, event: Event) -> Event | None:
        if "k" not in event.actions.state_delta:
            return None
        return event.replace(actions=EventActions(state_delta={"other": 2}))

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("one", actions=EventActions(state_delta={"k": 1}))
        seen.append(ctx.state.to_dict())

    runner = runner_of(body, FunctionPlugin("p", on_event=replace))
    await run_of(runner)
    assert seen == [{"other": 2}]


@pytest.mark.parametrize("fault", ["on_event", "append"])
async def test_dlt_7_run_21_an_event_that_cannot_be_stored_takes_its_writes_along(fault: str) -> None:
    left: list[Any] = []

    def on_event(ctx: InvocationContext, event: Event) -> None:
        if fault == "on_event" and event.text == "bad":
            raise OSError("no room")

    class Full(InMemorySessionService):
        async def append_event(self, session: Any, event: Event, *, redelivery: bool = False) -> Event:
            if fault == "append" and event.text == "bad":
                raise OSError("no room")
            return await super().append_event(session, event, redelivery=redelivery)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("good", actions=EventActions(state_delta={"k": 1}))
        yield said("bad", actions=EventActions(state_delta={"k": 2, "new": True}))
        left.append("the producer went on")

    def after_run(ctx: InvocationContext, outcome: RunOutcome) -> None:
        left.append((outcome.kind, ctx.state.to_dict()))

    plugin = FunctionPlugin("p", on_event=on_event, after_run=after_run)
    runner = Runner(Agent(name="root", body=body), sessions=Full(), plugins=[plugin], settings=Settings())
    got: list[str] = []

    async def consume() -> None:
        async for event in runner.run(user_id="u", session_id="s", message="hi"):
            got.append(event.text)

    with pytest.raises(OSError, match="no room"):
        await consume()
    assert got == ["good"]
    assert left == [("failed", {"k": 1})]
    assert [event.text for event in await stored(runner)] == ["hi", "good"]


async def test_inv_6_writes_on_an_event_that_a_parent_swallows_do_not_outlive_the_child() -> None:
    """A parent that catches a child's failure sees the state without what could not be stored."""
    seen: list[Any] = []

    def note(ctx: CallbackContext) -> Content:
        ctx.state["k"] = "never stored"
        return text_content("early")

    child = Agent(name="child", body=talking("x"), before_agent=note)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        activation = ctx.activate(child)
        await anext(activation)
        seen.append(ctx.state.get("k"))
        await activation.aclose()
        seen.append(ctx.state.get("k"))
        yield said("went on")

    await run_of(runner_of(Agent(name="root", body=body, sub_agents=[child])))
    assert seen == ["never stored", None]


async def test_custom_metadata_is_merged_into_every_event() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("one", custom_metadata={"own": 1, "tag": "mine"})

    runner = runner_of(body, config=RunConfig(custom_metadata={"tag": "run"}))
    await run_of(runner)
    assert [dict(event.custom_metadata or {}) for event in await stored(runner)] == [
        {"tag": "run"},
        {"tag": "mine", "own": 1},
        {"tag": "run"},
    ]
