"""Two runs on one session (core POL; CASE-SESS-1, SESS-2, CONC-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import (
    Agent,
    Event,
    EventActions,
    FunctionPlugin,
    InvocationContext,
    RunConfig,
    Runner,
    RunOutcome,
    Settings,
    ToolContext,
    text_content,
)
from hookwork.errors import ConfigurationError, SessionBusyError, StaleSessionError
from hookwork.policy import locks_of
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call


def said(text: str, **fields: Any) -> Event:
    return Event(content=text_content(text), **fields)


class Held:
    """An agent whose runs on the message ``hold`` wait until they are let go; notes how each run ended."""

    def __init__(self, **options: Any) -> None:
        self.entered = asyncio.Event()
        self.let_go = asyncio.Event()
        self.outcomes: list[tuple[str, str]] = []
        self.sessions = options.pop("sessions", None) or InMemorySessionService()
        watch = FunctionPlugin("watch", after_run=self._note)
        self.runner = Runner(
            Agent(name="root", body=self.body), sessions=self.sessions, plugins=[watch], settings=Settings(), **options
        )

    def _note(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        self.outcomes.append((outcome.kind, outcome.reason))

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        assert ctx.user_content is not None
        asked = ctx.user_content.text
        if asked.startswith("hold"):
            self.entered.set()
            await self.let_go.wait()
        yield said(f"re {asked}")

    def start(self, message: str, session: str = "s", user: str = "u", runner: Runner | None = None) -> Any:
        run = (runner or self.runner).run(user_id=user, session_id=session, message=message)
        return run, asyncio.create_task(run.wait())

    async def hold(self, message: str = "hold") -> Any:
        run, task = self.start(message)
        await self.entered.wait()
        return run, task

    async def texts(self, session: str = "s") -> list[str]:
        found = await self.sessions.get_session(app_name="root", user_id="u", session_id=session)
        return [event.text for event in found.events if event.content is not None]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_pol_2_case_sess_1_runs_queue_first_come_first_served() -> None:
    held = Held()
    _, first = await held.hold("hold one")
    others = [held.start(f"n{i}")[1] for i in range(5)]
    await settle()
    assert await held.texts() == ["hold one"]  # the waiting ones have stored nothing
    held.let_go.set()
    await asyncio.gather(first, *others)
    expected = ["hold one", "re hold one"]
    for i in range(5):
        expected += [f"n{i}", f"re n{i}"]
    assert await held.texts() == expected
    assert len(locks_of(held.sessions)) == 0  # POL-6


async def test_pol_1_two_runners_on_one_service_object_share_the_line() -> None:
    held = Held()
    other = Held(sessions=held.sessions)
    _, first = await held.hold()
    _, second = other.start("two")
    await settle()
    assert not second.done()
    held.let_go.set()
    await asyncio.gather(first, second)
    assert await held.texts() == ["hold", "re hold", "two", "re two"]


@pytest.mark.parametrize(("session", "user"), [("other", "u"), ("s", "other")])
async def test_pol_6_other_sessions_and_users_never_wait(session: str, user: str) -> None:
    held = Held()
    _, first = await held.hold()
    _, second = held.start("two", session, user)
    async with asyncio.timeout(5):
        assert (await second).kind == "completed"
    assert not first.done()
    held.let_go.set()
    await first


@pytest.mark.parametrize("how", ["cancel", "stop"])
@pytest.mark.parametrize("which", [0, 1])
async def test_pol_2_a_waiting_run_may_be_ended_wherever_it_stands(how: str, which: int) -> None:
    held = Held()
    _, first = await held.hold()
    waiting = [held.start("two"), held.start("three")]
    await settle()
    run, task = waiting[which]
    if how == "cancel":
        task.cancel()
    else:
        await run.stop()
    held.let_go.set()
    await asyncio.gather(first, *(task for _, task in waiting), return_exceptions=True)
    left = ["three", "two"][which]
    assert await held.texts() == ["hold", "re hold", left, f"re {left}"]
    assert held.outcomes == [("completed", ""), ("completed", "")]  # the ended one met no hook (RUN-22)
    assert len(locks_of(held.sessions)) == 0


async def test_pol_2_cancelling_a_waiter_in_the_moment_its_turn_comes_passes_the_turn_on() -> None:
    """Cancelled before and after the holder gives up, without a loop turn in between."""
    for cancel_first in (True, False):
        held = Held()
        _, first = await held.hold()
        _, second = held.start("two")
        _, third = held.start("three")
        await settle()
        line = locks_of(held.sessions)._lines["root", "u", "s"]
        if cancel_first:
            second.cancel()
            locks_of(held.sessions).release(("root", "u", "s"), line.holder)
        else:
            locks_of(held.sessions).release(("root", "u", "s"), line.holder)
            second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert (await third).kind == "completed"
        held.let_go.set()
        await first
        assert len(locks_of(held.sessions)) == 0


async def test_pol_3_reject_raises_before_anything_is_stored() -> None:
    held = Held(session_policy="reject")
    _, first = await held.hold()
    run, second = held.start("two")
    with pytest.raises(SessionBusyError, match="session policy is 'reject'") as raised:
        await second
    assert isinstance(raised.value, StaleSessionError)
    assert run.outcome.kind == "failed"
    held.let_go.set()
    assert (await first).kind == "completed"
    assert await held.texts() == ["hold", "re hold"]
    assert held.outcomes == [("completed", "")]


async def test_pol_5_a_bare_break_is_no_rival_under_reject() -> None:
    held = Held(session_policy="reject")
    run = held.runner.run(user_id="u", session_id="s", message="one")
    async for _ in run:
        break
    assert await held.runner.ask("two", user_id="u", session_id="s") == "re two"
    assert held.outcomes == [("closed", "left"), ("completed", "")]


async def test_pol_4_supersede_stops_the_running_one_and_starts_after_it() -> None:
    held = Held(session_policy="supersede")
    first, first_task = await held.hold()
    _, second = held.start("two")
    assert (await second).kind == "completed"
    assert (await first_task).reason == "superseded"
    assert first.outcome.kind == "closed"
    assert await held.texts() == ["hold", "two", "re two"]
    assert held.outcomes == [("closed", "superseded"), ("completed", "")]


async def test_pol_4_supersede_takes_a_run_that_is_suspended_at_an_event() -> None:
    held = Held(session_policy="supersede")
    run = held.runner.run(user_id="u", session_id="s", message="one")
    async for event in run:
        assert event.text == "re one"
        assert (await held.start("two")[1]).kind == "completed"
    assert run.outcome is not None
    assert run.outcome.reason == "superseded"
    assert await held.texts() == ["one", "re one", "two", "re two"]


async def test_pol_4_of_many_that_supersede_the_newest_wins() -> None:
    held = Held(session_policy="supersede")
    _, first = await held.hold("hold 0")
    held.entered.clear()
    others = [held.start(f"hold {i}")[1] for i in range(1, 4)]
    await settle()
    held.let_go.set()
    outcomes = await asyncio.gather(first, *others)
    assert [outcome.reason for outcome in outcomes] == ["superseded"] * 3 + [""]
    assert (await held.texts())[-2:] == ["hold 3", "re hold 3"]
    assert len(locks_of(held.sessions)) == 0


async def test_pol_4_superseding_a_dropped_run_cancels_no_stranger() -> None:
    """The holder's handle is gone and its finaliser at work: the task that once drove it has other things to do."""
    held = Held(session_policy="supersede")
    in_teardown, finish = asyncio.Event(), asyncio.Event()

    async def slow_body(ctx: InvocationContext) -> AsyncIterator[Event]:
        try:
            yield said("one")
        finally:
            in_teardown.set()
            await finish.wait()

    slow = Runner(
        Agent(name="root", body=slow_body), sessions=held.sessions, session_policy="supersede", settings=Settings()
    )
    async for _ in slow.run(user_id="u", session_id="s", message="drop me"):
        break
    await in_teardown.wait()
    _, second = held.start("two")
    await settle()
    finish.set()
    assert (await second).kind == "completed"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("policy", ["queue", "reject", "supersede"])
@pytest.mark.parametrize("where", ["body", "task", "tool", "hook"])
async def test_pol_5_a_run_never_waits_for_the_run_it_was_started_from(policy: str, where: str) -> None:
    errors: list[Exception] = []

    async def nested() -> None:
        try:
            await runner.ask("nested", user_id="u", session_id="s")
        except SessionBusyError as error:
            errors.append(error)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        if where == "body":
            await nested()
        elif where == "task":
            async with asyncio.TaskGroup() as group:
                group.create_task(nested())
        yield said("outer")

    async def on_event(ctx: InvocationContext, event: Event) -> None:
        if where == "hook" and not errors:
            await nested()

    async def helper(ctx: ToolContext) -> str:
        await nested()
        return "ok"

    agent: Agent = Agent(name="root", body=body)
    if where == "tool":
        agent = LlmAgent(name="root", model=ScriptedModel([call("helper"), "outer"]), tools=[helper])
    plugins = [FunctionPlugin("p", on_event=on_event)]
    runner = Runner.in_memory(agent, session_policy=policy, plugins=plugins, settings=Settings())
    async with asyncio.timeout(5):
        assert await runner.ask("hi", user_id="u", session_id="s") == "outer"
    assert errors
    assert "use another session, or ctx.activate" in str(errors[0])


async def test_pol_5_a_nested_run_on_another_session_works_and_one_back_on_the_first_does_not() -> None:
    caught: list[SessionBusyError] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        if ctx.session_id == "s":
            text = await asyncio.create_task(runner.ask("inner", user_id="u", session_id="t"))
            yield said(f"got {text}")
        else:
            try:
                await asyncio.create_task(runner.ask("back", user_id="u", session_id="s"))
            except SessionBusyError as error:
                caught.append(error)
            yield said("inner")

    runner = Runner.in_memory(Agent(name="root", body=body), settings=Settings())
    async with asyncio.timeout(5):
        assert await runner.ask("hi", user_id="u", session_id="s") == "got inner"
    assert len(caught) == 1


async def test_run_1_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="queue, reject, supersede, not 'first'"):
        Held(session_policy="first")


async def test_run_26_closing_the_runner_stops_waiting_runs_before_their_turn_comes() -> None:
    held = Held()
    first, first_task = await held.hold()
    tasks = [held.start(f"n{i}")[1] for i in range(3)]
    await settle()
    await held.runner.close()
    outcomes = await asyncio.gather(first_task, *tasks)
    assert [outcome.kind for outcome in outcomes] == ["closed"] * 4
    assert await held.texts() == ["hold"]
    assert held.outcomes == [("closed", "the runner was closed")]
    assert first.outcome.reason == "the runner was closed"


# --- foreign appends (RUN-27, CASE-SESS-2) ----------------------------------------------------------------------------


async def foreign(runner: Runner, ctx: InvocationContext, **delta: Any) -> None:
    """Another writer appends through a handle of its own."""
    handle = await runner.sessions.get_session(app_name=ctx.app_name, user_id=ctx.user_id, session_id=ctx.session_id)
    event = Event(author="bridge", content=text_content("note"), actions=EventActions(state_delta=delta))
    await runner.sessions.append_event(handle, event)


async def test_run_27_case_sess_2_a_foreign_append_without_a_common_key_is_absorbed() -> None:
    seen: list[str] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("before", actions=EventActions(state_delta={"mine": 1}))
        await foreign(runner, ctx, note=1)
        yield said("after", actions=EventActions(state_delta={"mine": 2}))
        seen.extend(event.text for event in ctx.session.events)
        assert ctx.state["note"] == 1

    on_event: list[str] = []
    watch = FunctionPlugin("watch", on_event=lambda ctx, event: on_event.append(event.text))
    runner = Runner.in_memory(Agent(name="root", body=body), plugins=[watch], settings=Settings())
    run = runner.run(user_id="u", session_id="s", message="hi")
    yielded = [event.text async for event in run]
    session = await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")
    texts = [event.text for event in session.events if event.content is not None]
    assert texts == ["hi", "before", "note", "after"]
    assert seen == texts
    assert dict(session.state) == {"mine": 2, "note": 1}
    assert "note" not in yielded  # neither yielded nor shown to hooks
    assert "note" not in on_event


async def test_run_27_a_foreign_write_of_a_key_of_this_run_is_stale() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("before", actions=EventActions(state_delta={"key": 1}))
        await foreign(runner, ctx, key="theirs")
        yield said("after", actions=EventActions(state_delta={"key": 2}))

    told: list[RunOutcome] = []
    watch = FunctionPlugin("watch", after_run=lambda ctx, outcome: told.append(outcome))
    runner = Runner.in_memory(Agent(name="root", body=body), plugins=[watch], settings=Settings())
    with pytest.raises(StaleSessionError, match="key"):
        await runner.run(user_id="u", session_id="s", message="hi").wait()
    session = await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")
    assert [event.text for event in session.events] == ["hi", "before", "note"]
    assert session.state["key"] == "theirs"
    assert [outcome.kind for outcome in told] == ["failed"]


# --- many users (CASE-CONC-1) -----------------------------------------------------------------------------------------


async def test_case_conc_1_two_hundred_users_do_not_mix() -> None:
    async def who(ctx: ToolContext) -> str:
        """Who asks."""
        ctx.state["user:seen"] = ctx.user_id
        return ctx.user_id

    async def answer(request: Any) -> Any:
        await asyncio.sleep(0)
        if any(part.function_response for part in request.contents[-1].parts):
            return request.instruction
        return call("who")

    model = ScriptedModel(answer)
    agent = LlmAgent(name="root", model=model, instruction="You serve {user:name}.", tools=[who])
    runner = Runner.in_memory(agent, settings=Settings())

    async def one(number: int) -> str:
        config = RunConfig(streaming_mode="sse" if number % 2 else "none")
        name = f"user{number}"
        return await runner.ask(
            "who am I?", user_id=name, session_id="s", config=config, state_delta={"user:name": name}
        )

    texts = await asyncio.gather(*(one(number) for number in range(200)))
    for number, text in enumerate(texts):
        assert f"You serve user{number}." in text
        session = await runner.sessions.get_session(app_name="root", user_id=f"user{number}", session_id="s")
        assert len(session.events) == 4
        assert session.state["user:seen"] == f"user{number}"
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert len(locks_of(runner.sessions)) == 0
