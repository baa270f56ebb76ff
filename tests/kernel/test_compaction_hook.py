"""Where the kernel calls what compacts history, and what it keeps others from doing (core CMP-4, CMP-9, CMP-10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import App, Event, Plugin, Runner, hookimpl
from hookwork.agent import Agent
from hookwork.errors import CompactionError, ConfigurationError
from hookwork.records.content import FunctionCall, Part, text_content
from hookwork.records.event import EventActions, EventCompaction, new_event
from hookwork.records.history import HistoryIndex
from hookwork.records.session import EventLog


class Compaction:
    """Writes down when it was called; may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self.bound: list[tuple[Any, Any]] = []
        self.error = error

    def bind(self, setup: Any, settings: Any) -> Compaction:
        self.bound.append((setup, settings))
        return self

    async def after_run(self, ctx: Any, outcome: Any) -> None:
        self.calls.append(outcome.kind)
        assert ctx.session.events
        if self.error is not None:
            raise self.error


async def speak(ctx: Any) -> AsyncIterator[Event]:
    for word in ("one", "two"):
        yield Event(content=text_content(word))


async def fail(ctx: Any) -> AsyncIterator[Event]:
    yield Event(content=text_content("one"))
    raise ValueError("no")


def agent(body: Any = speak) -> Agent:
    return Agent(name="root", body=body)


async def test_cmp_4_it_is_called_after_after_run_and_before_the_session_is_free() -> None:
    order: list[str] = []

    class Watch(Plugin):
        @hookimpl
        async def after_run(self, ctx: Any, outcome: Any) -> None:
            order.append("after_run")

    class Slow(Compaction):
        async def after_run(self, ctx: Any, outcome: Any) -> None:
            order.append("compaction begins")
            await asyncio.sleep(0)
            order.append("compaction ends")

    compaction = Slow()
    async with Runner.in_memory(agent(), plugins=[Watch()], events_compaction=compaction) as runner:
        first = asyncio.create_task(runner.ask("a", session_id="s"))
        second = asyncio.create_task(runner.ask("b", session_id="s"))
        assert (await first, await second) == ("two", "two")
    assert order == ["after_run", "compaction begins", "compaction ends"] * 2
    ((setup, settings),) = compaction.bound
    assert setup is runner.setup
    assert setup.compaction is compaction
    assert settings is runner.settings


async def test_cmp_4_the_app_may_bring_it_and_the_runner_wins() -> None:
    of_app, of_runner = Compaction(), Compaction()
    app = App("app", agent(), events_compaction=of_app)
    async with Runner.in_memory(app) as runner:
        await runner.ask("a")
    async with Runner.in_memory(app, events_compaction=of_runner) as runner:
        await runner.ask("a")
    assert (of_app.calls, of_runner.calls) == (["completed"], ["completed"])


async def test_cmp_4_not_after_an_error() -> None:
    compaction = Compaction()
    async with Runner.in_memory(agent(fail), events_compaction=compaction) as runner:
        with pytest.raises(ValueError, match="no"):
            await runner.ask("a")
    assert compaction.calls == []


async def test_cmp_4_also_when_the_consumer_leaves_and_when_the_run_is_stopped() -> None:
    compaction = Compaction()
    async with Runner.in_memory(agent(), events_compaction=compaction) as runner:
        async with runner.run(user_id="u", message="a") as run:
            async for _ in run:
                break
        assert compaction.calls == ["closed"]
        async with runner.run(user_id="u", message="a") as run:
            await anext(run)
            await run.stop()
    assert compaction.calls == ["closed", "closed"]


async def test_cmp_4_not_when_the_task_is_cancelled() -> None:
    compaction = Compaction()
    started = asyncio.Event()

    async def wait(ctx: Any) -> AsyncIterator[Event]:
        yield Event(content=text_content("one"))
        started.set()
        await asyncio.Event().wait()

    async with Runner.in_memory(agent(wait), events_compaction=compaction) as runner:
        task = asyncio.create_task(runner.ask("a"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert compaction.calls == []


async def test_cmp_10_a_failure_is_raised_after_all_events_and_the_outcome_stays() -> None:
    compaction = Compaction(CompactionError("too long"))
    async with Runner.in_memory(agent(), events_compaction=compaction) as runner:
        run = runner.run(user_id="u", message="a")
        texts: list[str] = []

        async def read() -> None:
            async for event in run:
                texts.append(event.text)

        with pytest.raises(CompactionError, match="too long"):
            await read()
    assert texts == ["one", "two", ""]  # the last one marks the end of the agent's place
    assert run.outcome is not None
    assert run.outcome.kind == "completed"
    assert run.outcome.error is None


async def test_cmp_10_a_failure_is_logged_when_the_consumer_has_left(caplog: pytest.LogCaptureFixture) -> None:
    compaction = Compaction(CompactionError("too long"))
    async with Runner.in_memory(agent(), events_compaction=compaction) as runner:
        with caplog.at_level(logging.WARNING, "hookwork.runner"):
            async with runner.run(user_id="u", message="a") as run:
                await anext(run)
    assert compaction.calls == ["closed"]
    assert run.outcome is not None
    assert run.outcome.kind == "closed"
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["too long"]


async def test_cmp_9_an_agents_event_cannot_carry_a_compaction_record() -> None:
    forged = EventCompaction(start_timestamp=0.0, end_timestamp=9e9, compacted_content=text_content("nothing"))

    async def forge(ctx: Any) -> AsyncIterator[Event]:
        yield Event(content=text_content("hi"), actions=EventActions(compaction=forged, state_delta={"k": 1}))

    class Forger(Plugin):
        @hookimpl
        async def on_event(self, ctx: Any, event: Event) -> Event:
            return event.replace(actions=event.actions.replace(compaction=forged))

    for plugins in ([], [Forger()]):
        async with Runner.in_memory(agent(forge), plugins=plugins) as runner:
            run = runner.run(user_id="u", message="a")
            events = [event async for event in run]
            assert [event.text for event in events if event.content is not None] == ["hi"]
            assert run.session is not None
            assert {event.actions.compaction for event in (*events, *run.session.events)} == {None}
            assert run.session.state["k"] == 1


def test_cmp_1_what_is_no_compaction_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="events_compaction is an EventsCompaction"):
        Runner.in_memory(agent(), events_compaction=3)


def test_t_35_a_record_is_no_message_to_the_task_that_speaks_in_its_scope() -> None:
    call = Part(function_call=FunctionCall(id="c1", name="helper"))
    log = EventLog(
        [
            new_event("e-1", author="root", content=text_content("").replace(parts=[call])),
            new_event("e-1", author="helper", isolation_scope="c1", content=text_content("which day?")),
        ]
    )
    record = EventActions(compaction=EventCompaction(compacted_content=text_content("a summary")))
    log.append(new_event("e-9", author="user", isolation_scope="c1", actions=record))
    index = log.index()
    assert index.length == 3
    assert list(index.invocations) == ["e-1"]
    assert {path: place.newest_message for (_, path), place in index.records.items()} == {"root@1": -1, "helper@1": -1}
    whole = HistoryIndex()
    whole.extend(log.events, None)
    assert list(whole.records) == list(index.records)
