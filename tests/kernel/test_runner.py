"""A run in order: session, message, hooks, events, end (core RUN-10 … RUN-26; tools-plugins §7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwork import (
    Agent,
    App,
    Blob,
    CallbackContext,
    Content,
    Event,
    EventActions,
    FunctionPlugin,
    InvocationContext,
    NodeInfo,
    Part,
    Plugin,
    RunConfig,
    Runner,
    RunOutcome,
    Settings,
    Stage,
    text_content,
)
from hookwork.errors import RunStateError, SessionNotFoundError, UnsupportedInContext
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel

Body = Callable[[InvocationContext], AsyncIterator[Event]]


def said(text: str, **fields: Any) -> Event:
    return Event(content=text_content(text), **fields)


def talking(*texts: str) -> Body:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        for text in texts:
            yield said(text)

    return body


def runner_of(body: Body | Agent, *plugins: Any, **options: Any) -> Runner:
    agent = body if isinstance(body, Agent) else Agent(name="root", body=body)
    return Runner.in_memory(agent, plugins=list(plugins), settings=Settings(), **options)


async def stored(runner: Runner) -> list[Event]:
    session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    return list(session.events)


async def run_of(runner: Runner, message: Any = "hi", **arguments: Any) -> list[Event]:
    return [event async for event in runner.run(user_id="u", session_id="s", message=message, **arguments)]


class Log(Plugin):
    """Writes down every hook of a run and an agent."""

    def __init__(self, log: list[str], name: str = "log") -> None:
        self.log = log
        self.name = name

    def _note(self, text: str) -> None:
        self.log.append(f"{self.name}: {text}")

    @asynccontextmanager
    async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
        self._note("(run")
        try:
            yield
        finally:
            assert stage.outcome is not None
            self._note(f"run) {stage.outcome.value.kind}")

    @asynccontextmanager
    async def around_agent(self, ctx: CallbackContext, agent: Agent, stage: Stage) -> AsyncIterator[None]:
        self._note("(agent")
        yield
        self._note(f"agent) {stage.outcome.value.status if stage.outcome else '?'}")

    def on_user_message(self, message: Content) -> None:
        self._note("on_user_message")

    def before_run(self) -> None:
        self._note("before_run")

    def before_agent(self) -> None:
        self._note("before_agent")

    def after_agent(self) -> None:
        self._note("after_agent")

    def on_event(self, event: Event) -> None:
        self._note(f"on_event {event.text}")

    def on_agent_error(self, error: Exception) -> None:
        self._note(f"on_agent_error {error}")

    def on_run_error(self, error: Exception) -> None:
        self._note(f"on_run_error {error}")

    def after_run(self, outcome: RunOutcome) -> None:
        self._note(f"after_run {outcome.kind}")


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
    plugins = [
        FunctionPlugin("a", on_user_message=lambda ctx, message: ids.append(ctx.invocation_id) or text_content("new")),
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


# --- agent callbacks (AGT-10 … AGT-16) --------------------------------------------------------------------------------


async def test_agt_12_before_agent_content_skips_body_and_after_agent() -> None:
    ran: list[str] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        ran.append("body")
        yield said("x")

    def early(ctx: CallbackContext) -> Content:
        ctx.state["k"] = 1
        return text_content("early")

    agent = Agent(name="root", body=body, before_agent=[early], after_agent=lambda ctx: ran.append("after"))
    runner = runner_of(agent)
    events = await run_of(runner)
    assert [(event.text, event.author, dict(event.actions.state_delta)) for event in events] == [
        ("early", "root", {"k": 1})
    ]
    assert events[0].node_info is not None
    assert events[0].node_info.status == "completed"  # ACT-14 b
    assert ran == []


async def test_agt_13_case_plug_3_a_state_only_event_is_stored_and_is_not_the_answer() -> None:
    def note(key: str) -> Callable[[CallbackContext], None]:
        def callback(ctx: CallbackContext) -> None:
            ctx.state[key] = 1

        return callback

    agent = LlmAgent(
        name="root", model=ScriptedModel(["hello"]), before_agent=note("before"), after_agent=note("after")
    )
    runner = runner_of(agent)
    events = await run_of(runner)
    assert [event.text for event in events if event.is_final_response()] == ["hello"]
    assert [dict(event.actions.state_delta) for event in events] == [{"before": 1}, {}, {"after": 1}]
    assert [event.content is None for event in events] == [True, False, True]
    assert (await stored(runner))[1:] == events


async def test_agt_11_plugins_come_before_the_agents_own_callbacks_and_the_first_content_wins() -> None:
    log: list[str] = []

    def noting(name: str, value: Content | None = None) -> Callable[[CallbackContext], Content | None]:
        def callback(ctx: CallbackContext) -> Content | None:
            log.append(name)
            return value

        return callback

    agent = Agent(
        name="root",
        body=talking("body"),
        after_agent=[noting("own1"), noting("own2", text_content("more")), noting("own3", text_content("never"))],
    )
    events = await run_of(runner_of(agent, FunctionPlugin("p", after_agent=noting("plugin"))))
    assert log == ["plugin", "own1", "own2"]
    assert [event.text for event in events] == ["body", "more"]  # AGT-14: one extra event, nothing is replaced
    assert events[-1].node_info is not None
    assert events[-1].node_info.status == "completed"  # it is the end, so no marker (ACT-14 c)


async def test_agt_16_a_failing_body_skips_after_agent_and_errors_are_told_innermost_first() -> None:
    log: list[str] = []

    async def fails(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("one")
        raise LookupError("broken")

    child = Agent(name="child", body=fails)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        async for event in ctx.activate(child):
            yield event

    def told(ctx: CallbackContext, agent: Agent, error: Exception) -> None:
        log.append(f"{agent.name}: {error}")

    def run_told(ctx: InvocationContext, error: Exception) -> None:
        log.append(f"run: {error}")

    plugin = FunctionPlugin(
        "p", on_agent_error=told, on_run_error=run_told, after_agent=lambda ctx: log.append("after_agent")
    )
    with pytest.raises(LookupError):
        await run_of(runner_of(Agent(name="root", body=body, sub_agents=[child]), plugin))
    assert log == ["child: broken", "root: broken", "run: broken"]


@pytest.mark.parametrize("where", ["before_agent", "body", "on_event", "before_run"])
async def test_agt_18_end_invocation_ends_everything_from_anywhere(where: str) -> None:
    ran: list[str] = []

    def end_here(name: str) -> Callable[..., None]:
        def hook(ctx: InvocationContext) -> None:
            if name == where:
                ctx.end_invocation("enough")

        return hook

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("one")
        end_here("body")(ctx)

    plugin = FunctionPlugin(
        "p",
        before_run=end_here("before_run"),
        before_agent=end_here("before_agent"),
        on_event=end_here("on_event"),
        after_agent=lambda ctx: ran.append("after_agent"),
    )
    outcome = await runner_of(body, plugin).run(user_id="u", session_id="s", message="hi").wait()
    assert (outcome.kind, outcome.reason) == ("ended", "enough")
    assert ran == []


async def test_plug_05_run_hooks_may_not_write_state() -> None:
    async def before_run(ctx: InvocationContext) -> None:
        ctx.state["k"] = 1

    with pytest.raises(UnsupportedInContext, match="'k' was not written"):
        await run_of(runner_of(talking("x"), FunctionPlugin("p", before_run=before_run)))


# --- around_run (ARD) -------------------------------------------------------------------------------------------------


async def test_ard_13_a_raise_on_entering_fails_the_run_and_after_run_is_still_told() -> None:
    log: list[str] = []

    class Bad(Plugin):
        name = "bad"

        def around_run(self, ctx: InvocationContext, stage: Stage) -> Any:
            raise LookupError("no entry")

    runner = runner_of(talking("x"), Log(log), Bad())
    with pytest.raises(LookupError, match="no entry"):
        await run_of(runner)
    assert [line for line in log if not line.startswith("log: run)")] == [
        "log: (run",
        "log: on_run_error no entry",
        "log: after_run failed",
    ]
    assert await stored(runner) == []


async def test_ard_13_a_raise_on_leaving_fails_a_run_that_had_completed() -> None:
    log: list[str] = []

    class Bad(Plugin):
        name = "bad"

        @asynccontextmanager
        async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
            yield
            raise LookupError("no exit")

    with pytest.raises(LookupError, match="no exit"):
        await run_of(runner_of(talking("x"), Bad(), Log(log)))
    assert log[-2:] == ["log: on_run_error no exit", "log: after_run failed"]


async def test_ard_14_an_early_close_leaves_the_managers_with_cancelled_error() -> None:
    seen: list[str] = []

    class Look(Plugin):
        name = "look"

        @asynccontextmanager
        async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
            try:
                yield
            except BaseException as error:
                assert stage.outcome is not None
                seen.append(f"{type(error).__name__} {stage.outcome.value.kind}")
                raise

    async with runner_of(talking("x", "y"), Look()).run(user_id="u", message="hi") as run:
        async for _ in run:
            break
    assert seen == ["CancelledError closed"]


# --- observers --------------------------------------------------------------------------------------------------------


async def test_run_22_a_raise_in_after_run_is_logged_and_masks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []

    def broken(ctx: InvocationContext) -> None:
        raise ValueError("observer")

    plugins = [FunctionPlugin("broken", after_run=broken, on_run_error=broken), Log(log)]

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("x")
        raise LookupError("the run's own")

    with pytest.raises(LookupError, match="the run's own"):
        await run_of(runner_of(body, *plugins))
    assert log[-2:] == ["log: on_run_error the run's own", "log: after_run failed"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]


# --- closing (RUN-26, PLUG-41) ----------------------------------------------------------------------------------------


class Closing(Plugin):
    def __init__(self, name: str, log: list[str], close: Callable[[], Any] | None = None) -> None:
        self.name = name
        self._log = log
        self._how = close

    async def close(self) -> None:
        self._log.append(self.name)
        if self._how is not None:
            await self._how()


async def test_plug_41_close_goes_on_after_failures_and_raises_them_together() -> None:
    log: list[str] = []

    async def hang() -> None:
        await asyncio.Event().wait()

    async def fail() -> None:
        raise OSError("disk")

    plugins = [Closing("slow", log, hang), Closing("bad", log, fail), Closing("good", log)]
    runner = runner_of(talking("x"), *plugins, plugin_close_timeout=0.01)
    with pytest.raises(ExceptionGroup, match="app 'root' failed in part") as raised:
        await runner.close()
    assert [str(error) for error in raised.value.exceptions] == ["plugin 'slow' did not close within 0.01 s", "disk"]
    assert raised.value.exceptions[1].__notes__ == ["while closing plugin 'bad'"]
    assert log == ["slow", "bad", "good"]
    await runner.close()  # idempotent
    assert log == ["slow", "bad", "good"]


async def test_plug_41_a_cancellation_is_raised_last() -> None:
    log: list[str] = []
    entered = asyncio.Event()

    async def hang() -> None:
        entered.set()
        await asyncio.Event().wait()

    runner = runner_of(talking("x"), Closing("slow", log, hang), Closing("good", log))
    task = asyncio.create_task(runner.close())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["slow", "good"]


async def test_run_26_close_stops_running_runs_first_and_refuses_new_ones() -> None:
    log: list[str] = []
    entered = asyncio.Event()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("x")
        entered.set()
        await asyncio.Event().wait()

    runner = runner_of(body, Log(log), Closing("p", log))
    late = runner.run(user_id="u", message="begun too late")
    task = asyncio.create_task(runner.run(user_id="u", session_id="s", message="hi").wait())
    await entered.wait()
    await runner.close()
    assert (await task).kind == "closed"
    assert log[-2:] == ["log: after_run closed", "p"]
    with pytest.raises(RunStateError, match="build a new one"):
        runner.run(user_id="u", message="hi")
    with pytest.raises(RunStateError, match="build a new one"):
        await late.wait()


async def test_run_26_close_from_inside_a_run_is_refused_before_anything_is_closed() -> None:
    log: list[str] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        with pytest.raises(RuntimeError, match="from inside one of its runs"):
            await runner.close()
        yield said("went on")

    runner = runner_of(body, Closing("p", log))
    assert await runner.ask("hi") == "went on"
    assert log == []
    await runner.close()
    assert log == ["p"]


async def test_run_26_a_toolset_shared_by_two_agents_is_closed_once_and_services_given_stay_open() -> None:
    closed: list[str] = []

    class Toolset:
        name = "shared"

        async def close(self) -> None:
            closed.append("toolset")

    class WithToolset(Agent):
        def closables(self) -> list[Any]:
            return [toolset]

    toolset = Toolset()
    sessions = InMemorySessionService()
    child = WithToolset(name="child", body=talking("x"))
    root = WithToolset(name="root", body=talking("x"), sub_agents=[child])
    async with Runner(App("app", root), sessions=sessions, settings=Settings()) as runner:
        await runner.ask("hi")
    assert closed == ["toolset"]
    assert await sessions.list_sessions(app_name="app") != []
