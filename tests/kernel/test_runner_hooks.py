"""Agent callbacks, around hooks, observers and closing in a run (core AGT-10 … AGT-18, RUN-22, RUN-26; ARD)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.kernel.running import Log, run_of, runner_of, said, stored, talking

from hookwork import (
    Agent,
    App,
    CallbackContext,
    Content,
    Event,
    FunctionPlugin,
    InvocationContext,
    Plugin,
    Runner,
    Settings,
    Stage,
    text_content,
)
from hookwork.errors import RunStateError, UnsupportedInContext
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel


@pytest.mark.parametrize(
    ("decides", "source"),
    [(None, "default"), ("agent", "agent"), ("before_agent", "decider"), ("after_agent", "decider")],
)
async def test_ard_11_the_outcome_of_an_agent_call_names_who_decided(decides: str | None, source: str) -> None:
    sources: list[str] = []

    class Look(Plugin):
        @asynccontextmanager
        async def around_agent(self, ctx: CallbackContext, agent: Agent, stage: Stage) -> AsyncIterator[None]:
            yield
            assert stage.outcome is not None
            sources.append(stage.outcome.source)

    async def decide(self: Any, ctx: CallbackContext) -> Content:
        return text_content("decided")

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("x")

    methods = {decides: decide} if decides not in (None, "agent") else {}
    decider = type("Decider", (Plugin,), {"name": "decider", **methods})()
    callbacks: Any = {"after_agent": [lambda ctx: text_content("own")]} if decides == "agent" else {}
    agent = Agent(name="root", body=body, before_agent=[lambda ctx: None], **callbacks)
    await run_of(runner_of(agent, Look(), decider))
    assert sources == [source]


async def test_ard_14_after_an_early_close_the_outcome_holds_the_error_that_the_managers_saw() -> None:
    seen: list[BaseException | None] = []

    class Look(Plugin):
        @asynccontextmanager
        async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
            try:
                yield
            except BaseException as error:
                seen.append(error)
                raise
            finally:
                assert stage.outcome is not None
                seen.append(stage.outcome.error)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("x")
        yield said("y")

    async with runner_of(body, Look()).run(user_id="u", message="hi") as run:
        async for _ in run:
            break
    assert isinstance(seen[0], asyncio.CancelledError)
    assert seen[0] is seen[1]
    assert run.outcome is not None
    assert run.outcome.kind == "closed"


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
        self._log.append(str(self.name))
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


async def test_plug_41_what_cannot_be_closed_does_not_hide_the_error_that_came_before() -> None:
    async def fail() -> None:
        raise OSError("disk")

    with pytest.raises(ValueError, match="the first") as caught:
        async with runner_of(talking("x"), Closing("bad", [], fail)):
            raise ValueError("the first")
    assert caught.value.__notes__ == ["closing the runner of app 'root' failed in part: disk"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
async def test_plug_41_whatever_one_raises_all_are_closed(error: BaseException) -> None:
    log: list[str] = []

    async def fail() -> None:
        raise error

    runner = runner_of(talking("x"), Closing("bad", log, fail), Closing("good", log))
    with pytest.raises((type(error), ExceptionGroup)) as caught:
        await runner.close()
    assert log == ["bad", "good"]
    assert caught.value is error or repr(error) in str(caught.value.exceptions[0])  # type: ignore[attr-defined]


async def test_run_22_whatever_one_raises_every_after_run_is_called() -> None:
    class Fatal(BaseException):
        pass

    def fatal(ctx: Any) -> None:
        raise Fatal

    log: list[str] = []
    plugins = [FunctionPlugin("a", after_run=fatal), FunctionPlugin("b", after_run=lambda ctx: log.append("b"))]
    with pytest.raises(Fatal) as caught:
        await run_of(runner_of(talking("x"), *plugins))
    assert log == ["b"]
    assert caught.value.__notes__ == ["raised by plugin 'a' in 'after_run'"]


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
