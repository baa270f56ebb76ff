"""A run ended at any point leaves nothing behind (core INV-3): every event, every loop step, every way of ending it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from hookwork import (
    Agent,
    CallbackContext,
    Event,
    EventActions,
    InvocationContext,
    Plugin,
    Runner,
    RunOutcome,
    Settings,
    Stage,
    ToolContext,
    text_content,
)
from hookwork.merge import MergePoint
from hookwork.policy import locks_of
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call

WAYS = ("cancel", "stop", "aclose")


class Probe(Plugin):
    """Async hooks at every stage, so that there is an await to be cut at; counts what is entered, left and told."""

    name = "probe"

    def __init__(self) -> None:
        self.entered = 0
        self.left = 0
        self.outcomes: list[RunOutcome] = []
        self.contexts = 0
        self.bodies = 0
        self.bodies_ended = 0

    async def on_user_message(self, ctx: InvocationContext, message: Any) -> None:
        self.contexts += 1
        await asyncio.sleep(0)

    async def before_run(self, ctx: InvocationContext) -> None:
        await asyncio.sleep(0)

    async def on_event(self, ctx: InvocationContext, event: Event) -> None:
        await asyncio.sleep(0)

    async def before_agent(self, ctx: CallbackContext, agent: Agent) -> None:
        ctx.state["before"] = agent.name
        await asyncio.sleep(0)

    async def after_agent(self, ctx: CallbackContext, agent: Agent) -> None:
        await asyncio.sleep(0)

    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        self.outcomes.append(outcome)
        await asyncio.sleep(0)

    @asynccontextmanager
    async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
        async with self._counted():
            yield

    @asynccontextmanager
    async def around_agent(self, ctx: CallbackContext, agent: Agent, stage: Stage) -> AsyncIterator[None]:
        async with self._counted():
            yield

    @asynccontextmanager
    async def around_tool(self, ctx: ToolContext, tool: Any, args: Any, stage: Stage) -> AsyncIterator[None]:
        async with self._counted():
            yield

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self.entered += 1
        try:
            await asyncio.sleep(0)
            yield
        finally:
            try:
                await asyncio.sleep(0)
            finally:  # that await may be where the run is ended
                self.left += 1

    @asynccontextmanager
    async def _body(self) -> AsyncIterator[None]:
        self.bodies += 1
        try:
            yield
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                self.bodies_ended += 1

    def assert_all_ended(self) -> None:
        assert self.left == self.entered
        assert self.bodies_ended == self.bodies


def custom(probe: Probe) -> Agent:
    async def leaf(ctx: InvocationContext) -> AsyncIterator[Event]:
        async with probe._body():
            for number in range(2):
                await asyncio.sleep(0)
                yield Event(
                    content=text_content(f"{ctx.agent_name} {number}"), actions=EventActions(state_delta={"n": number})
                )

    children = [Agent(name=f"child{i}", body=leaf) for i in range(2)]

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        async with probe._body():
            for child in children:
                async with aclosing(ctx.activate(child)) as events:
                    async for event in events:
                        yield event
            yield Event(content=text_content("over"))

    return Agent(name="root", body=body, sub_agents=children)


def merged(probe: Probe) -> Agent:
    """Children with tasks of their own."""
    tree = custom(probe)
    children = tree.sub_agents

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        merge = MergePoint()

        def producer(child: Agent) -> Callable[[], Any]:
            async def produce() -> None:
                async with aclosing(ctx.activate(child, branch=child.name)) as events:
                    async for event in events:
                        await merge.put(event)

            return produce

        async with probe._body(), aclosing(merge.stream([producer(child) for child in children])) as events:
            async for event in events:
                yield event

    return Agent(name="root", body=body, sub_agents=children)


def with_tools(probe: Probe) -> Agent:
    async def note(ctx: ToolContext, item: str) -> str:
        async with probe._body():
            ctx.state[item] = True
            for _ in range(3):
                await asyncio.sleep(0)
            return item

    turn: list[Any] = [call("note", item="a"), call("note", item="b")]
    return LlmAgent(name="root", model=ScriptedModel(lambda request: _step(request, turn)), tools=[note])


async def _step(request: Any, turn: list[Any]) -> Any:
    await asyncio.sleep(0)
    answered = any(part.function_response for part in request.contents[-1].parts)
    return "over" if answered else turn


AGENTS = (custom, merged, with_tools)


async def settle(turns: int = 30) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def count_steps(make: Callable[[Probe], Agent]) -> int:
    """Loop steps that an undisturbed run takes."""
    probe = Probe()
    runner = Runner.in_memory(make(probe), plugins=[probe], settings=Settings())
    task = asyncio.create_task(runner.run(user_id="u", session_id="s", message="hi").wait())
    steps = 0
    while not task.done():
        await asyncio.sleep(0)
        steps += 1
    assert (await task).kind == "completed"
    probe.assert_all_ended()
    return steps


async def end(way: str, run: Any, task: asyncio.Task[Any]) -> None:
    if way == "cancel":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    elif way == "stop":
        await run.stop()
        await task
        assert task.cancelling() == 0
    else:
        await run.aclose()
        await task


async def assert_nothing_is_left(runner: Runner, probe: Probe, run: Any) -> None:
    """INV-3, INV-6, RUN-22, POL-6; then a further turn works."""
    probe.assert_all_ended()
    expected = 1 if probe.contexts else 0
    assert len(probe.outcomes) in ((expected,) if expected else (0, 1))  # around_run comes before the first hook
    assert len(locks_of(runner.sessions)) == 0
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    before = await stored_events(runner)
    if run.session is not None:
        assert [event.id for event in run.session.events] == [event.id for event in before]
        assert dict(run.session.state) == dict((await session_of(runner)).state)
    told = len(probe.outcomes)
    async with asyncio.timeout(5):
        outcome = await runner.run(user_id="u", session_id="s", message="again").wait()
    assert outcome.kind == "completed"
    assert len(probe.outcomes) == told + 1
    after = await stored_events(runner)
    assert [event.id for event in after[: len(before)]] == [event.id for event in before]
    assert all(event.invocation_id == outcome.invocation_id for event in after[len(before) :])


async def session_of(runner: Runner) -> Any:
    return await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")


async def stored_events(runner: Runner) -> list[Event]:
    if not await runner.sessions.list_sessions(app_name="root"):
        return []
    return list((await session_of(runner)).events)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", AGENTS)
async def test_inv_3_ended_at_each_loop_step(
    make: Callable[[Probe], Agent], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    ended_early = 0
    for step in range(await count_steps(make)):
        probe = Probe()
        runner = Runner.in_memory(make(probe), plugins=[probe], settings=Settings())
        run = runner.run(user_id="u", session_id="s", message="hi")
        task = asyncio.create_task(run.wait())
        for _ in range(step):
            await asyncio.sleep(0)
        if task.done():
            break
        await end(way, run, task)
        assert run.outcome is not None or not run._core.started
        if run.outcome is not None and run.outcome.kind == "closed":
            ended_early += 1
        await assert_nothing_is_left(runner, probe, run)
    assert ended_early > 10
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("way", [*WAYS, "break", "drop"])
@pytest.mark.parametrize("make", AGENTS)
async def test_inv_3_ended_after_each_event(
    make: Callable[[Probe], Agent], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    number = 0
    while True:
        number += 1
        probe = Probe()
        runner = Runner.in_memory(make(probe), plugins=[probe], settings=Settings())
        run: Any = runner.run(user_id="u", session_id="s", message="hi")
        seen = 0
        if way == "drop":
            async for _ in run:
                seen += 1
                if seen == number:
                    break
            outcome_known = seen < number
            session = run.session
            del run
            await settle()
            run = type("Dropped", (), {"session": session})
        elif way == "cancel":
            seen = await cancelled_at_event(run, number)
            outcome_known = True
        else:
            async with run:
                async for _ in run:
                    seen += 1
                    if seen == number:
                        if way == "stop":
                            await run.stop()
                        elif way == "aclose":
                            await run.aclose()
                        break
            outcome_known = True
        if seen < number:
            break
        assert len(probe.outcomes) == 1
        assert probe.outcomes[0].kind == "closed"
        assert outcome_known or way == "drop"
        await assert_nothing_is_left(runner, probe, run)
    assert number > 2
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def cancelled_at_event(run: Any, number: int) -> int:
    """Consume in a task of its own that is cancelled while it looks at the n-th event."""
    seen = 0
    reached = asyncio.Event()

    async def consume() -> None:
        nonlocal seen
        async with run:
            async for _ in run:
                seen += 1
                if seen == number:
                    reached.set()
                    await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    if seen == number:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task
        waiting.cancel()
        await asyncio.wait([waiting])
    return seen


async def test_run_22_a_cancellation_during_after_run_cuts_none_of_its_hooks_off() -> None:
    told: list[str] = []
    entered = asyncio.Event()

    class First(Plugin):
        name = "first"

        async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
            entered.set()
            await asyncio.Event().wait()

    class Second(Plugin):
        name = "second"

        async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
            told.append(outcome.kind)

    runner = Runner.in_memory(custom(Probe()), plugins=[First(), Second()], settings=Settings())
    task = asyncio.create_task(runner.run(user_id="u", session_id="s", message="hi").wait())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["completed"]
    assert len(locks_of(runner.sessions)) == 0


async def test_run_22_a_stray_cancelled_error_of_an_observer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Stray(Plugin):
        name = "stray"

        async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
            raise asyncio.CancelledError

    runner = Runner.in_memory(custom(Probe()), plugins=[Stray()], settings=Settings())
    assert (await runner.run(user_id="u", message="hi").wait()).kind == "completed"
    assert "'stray' raised in 'after_run'" in caplog.text


async def test_inv_3_what_a_swallowing_branch_says_later_is_not_stored(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of its own that swallows cancellation is abandoned with a warning; its later events go nowhere."""
    import hookwork.merge

    monkeypatch.setattr(hookwork.merge.cancel_and_wait, "__defaults__", (0.01,))
    later = asyncio.Event()
    put: list[str] = []
    started = asyncio.Event()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        merge = MergePoint()

        async def stubborn() -> None:
            started.set()
            while not later.is_set():
                try:
                    await later.wait()
                except asyncio.CancelledError:
                    continue
            try:
                await merge.put(Event(content=text_content("ghost")))
            except asyncio.CancelledError:
                put.append("refused")
                raise

        async with aclosing(merge.stream([stubborn])) as events:
            async for event in events:
                yield event

    runner = Runner.in_memory(Agent(name="root", body=body), settings=Settings())
    run = runner.run(user_id="u", session_id="s", message="hi")
    task = asyncio.create_task(run.wait())
    await started.wait()
    await run.stop()
    await task
    assert "abandoned" in caplog.text
    later.set()
    await settle()
    assert put == ["refused"]
    assert [event.text for event in await stored_events(runner)] == ["hi"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
