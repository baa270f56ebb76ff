"""Leaving a run early, at each event: closed, stopped, cancelled (core INV-3, HND-4, HND-5; CASE-CANCEL-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwork.invocation import RunConfig
from hookwork.plugins.plugin import Plugin
from hookwork.records.event import Event
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, block, call, partial

SSE = RunConfig(streaming_mode="sse")
LEAVINGS = ("close", "stop", "cancel", "raise")


class Watch(Plugin):
    """Notes how runs ended."""

    name = "watch"

    def __init__(self) -> None:
        self.outcomes: list[Any] = []

    def after_run(self, outcome: Any) -> None:
        self.outcomes.append(outcome)


class Everything(Plugin):
    """Every around and effect hook, passing through: the long way of each stage."""

    name = "everything"

    @asynccontextmanager
    async def around_run(self) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def around_agent(self) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def around_model(self) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def around_tool(self) -> AsyncIterator[None]:
        yield

    async def perform_model(self, call: Any) -> Any:
        return await call.default()

    async def perform_tool(self, call: Any) -> Any:
        return await call.default()

    async def perform_write(self, call: Any) -> Any:
        return await call.default()


class ConsumerError(Exception):
    pass


def script() -> list[Any]:
    return [
        [partial("Let me "), partial("look."), call("look", "c1"), call("ship", "c2")],
        [partial("It is "), partial("5.")],
    ]


@tool
async def look() -> dict[str, Any]:
    """Look."""
    return {"sky": "clear"}


async def leave_at(run: Any, position: int, how: str) -> list[Event]:
    """Take events up to a position, then leave in the given way; the events that came."""
    taken: list[Event] = []

    async def consume() -> None:
        async with run:
            async for event in run:
                taken.append(event)
                if len(taken) > position:
                    if how == "close":
                        return
                    if how == "raise":
                        raise ConsumerError
                    if how == "stop":
                        await asyncio.create_task(run.stop())
                    else:
                        task = asyncio.current_task()
                        assert task is not None
                        task.cancel()
                        await asyncio.sleep(0)

    try:
        await asyncio.create_task(consume())
    except (asyncio.CancelledError, ConsumerError):
        pass
    return taken


@pytest.mark.parametrize("how", LEAVINGS)
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize("hooks", [(), (Everything(),)], ids=["no hooks", "every hook"])
async def test_inv_3_leaving_at_each_event(runner_factory: Any, hooks: Any, streaming: bool, how: str) -> None:
    """What was yielded is stored, nothing else is; after_run ran once; the next turn works on a valid prompt."""

    @tool(long_running=True)
    async def ship() -> dict[str, Any]:
        """Ship."""
        return {"status": "on its way"}

    events_of_a_whole_run = 7 if streaming else 3
    for position in range(events_of_a_whole_run):
        watch = Watch()
        model = ScriptedModel([*script(), "next"])
        agent = LlmAgent(name="a", model=model, tools=[look, ship])
        async with runner_factory(agent, plugins=[watch, *hooks]) as runner:
            run = runner.run(user_id="u", session_id="s", message="hi", config=SSE if streaming else RunConfig())
            taken = await leave_at(run, position, how)
            assert len(taken) == position + 1
            (outcome,) = watch.outcomes
            assert outcome.kind == "closed"
            session = await runner.sessions.get_session(app_name="a", user_id="u", session_id="s")
            whole = [event for event in taken if not event.partial]
            sealed = session.events[1 + len(whole) :]
            assert [event.id for event in session.events[1 : 1 + len(whole)]] == [event.id for event in whole]
            # Left at the call event, the body never ran; a cancelled task appends nothing any more (HND-5).
            body_cut = len(whole) == 1 and how != "cancel"
            assert [r.id for event in sealed for r in event.function_responses] == (["c2"] if body_cut else [])
            assert not any(task for task in asyncio.all_tasks() if task is not asyncio.current_task())
            model.add(*["next"] * 3)
            assert await runner.ask("and now?", user_id="u", session_id="s") is not None
        assert_valid_prompt(model.prompts[-1])


async def test_hnd_5_a_long_running_call_whose_body_was_cut_is_sealed(runner_factory: Any) -> None:
    cleaned: list[str] = []
    inside = asyncio.Event()

    @tool(long_running=True)
    async def ship() -> None:
        """Ship."""
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("ship")

    model = ScriptedModel([[call("ship", "c1"), call("look", "c2")], "next"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[ship, look])) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")

        async def consume() -> list[Event]:
            return [event async for event in run]

        consumer = asyncio.create_task(consume())
        await inside.wait()
        await run.stop()
        assert [event.function_calls[0].id for event in await consumer] == ["c1"]  # the iterator ends normally
        assert run.outcome.kind == "closed"
        assert run.outcome.reason == "stopped"
        assert cleaned == ["ship"]
        session = await runner.sessions.get_session(app_name="a", user_id="u", session_id="s")
        seal = session.events[-1]
        assert [(r.id, list(r.response)) for r in seal.function_responses] == [("c1", ["error"])]
        assert seal.author == "a"
        assert dict(session.open_calls) == {}
        await runner.ask("and now?", user_id="u", session_id="s")
    assert_valid_prompt(model.prompts[-1])
    answers = {r.name: dict(r.response or {}) for c in model.prompts[-1] for r in c.function_responses}
    assert "interrupted" in answers["ship"]["error"]
    assert answers["look"]["status"] == "interrupted"


async def test_hnd_5_a_result_that_was_not_stored_yet_is_no_waiting_call(runner_factory: Any) -> None:
    """The long-running tool is done, its sibling is not: stopped now, the call must not look like one that waits."""
    shipped = asyncio.Event()
    inside = asyncio.Event()

    @tool(long_running=True)
    async def ship() -> dict[str, Any]:
        """Ship."""
        shipped.set()
        return {"status": "on its way"}

    @tool
    async def slow() -> None:
        """Be slow."""
        inside.set()
        await asyncio.Event().wait()

    model = ScriptedModel([[call("ship", "c1"), call("slow", "c2")]])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[ship, slow])) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        consumer = asyncio.create_task(run.wait())
        await asyncio.gather(shipped.wait(), inside.wait())
        await asyncio.sleep(0)
        await run.stop()
        await consumer
        assert await runner.open_calls(user_id="u", session_id="s") == []


async def test_hnd_5_a_call_that_rightly_waits_is_not_sealed(runner_factory: Any, play: Any) -> None:
    inside = asyncio.Event()

    @tool(long_running=True)
    async def ship() -> None:
        """Ship; the answer comes later."""

    @tool
    async def slow() -> None:
        """Be slow."""
        inside.set()
        await asyncio.Event().wait()

    model = ScriptedModel([[call("ship", "c1"), call("slow", "c2")]])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[ship, slow])) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        consumer = asyncio.create_task(run.wait())
        await inside.wait()
        await asyncio.sleep(0)
        await run.stop()
        await consumer
        assert [c.id for c in await runner.open_calls(user_id="u", session_id="s")] == ["c1"]


async def test_hnd_5_after_a_cancelled_task_nothing_is_appended(runner_factory: Any) -> None:
    inside = asyncio.Event()

    @tool(long_running=True)
    async def ship() -> None:
        """Ship."""
        inside.set()
        await asyncio.Event().wait()

    sessions = InMemorySessionService()
    model = ScriptedModel([call("ship", "c1")])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[ship]), sessions=sessions) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        consumer = asyncio.create_task(run.wait())
        await inside.wait()
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
        session = await sessions.get_session(app_name="a", user_id="u", session_id="s")
        assert [bool(event.function_calls) for event in session.events] == [False, True]


async def test_mod_4_a_model_stream_is_closed_when_the_consumer_leaves(runner_factory: Any) -> None:
    model = ScriptedModel([[partial("It "), partial("is "), *block("late")]])
    async with runner_factory(LlmAgent(name="a", model=model), config=SSE) as runner:
        async with runner.run(user_id="u", session_id="s", message="hi") as run:
            async for _ in run:
                break
        assert model.cut_short == 1
        assert run.outcome.kind == "closed"


async def test_inv_3_siblings_are_cancelled_and_awaited(runner_factory: Any) -> None:
    order: list[str] = []
    inside = [asyncio.Event(), asyncio.Event()]

    def waiting(number: int) -> Any:
        @tool(name=f"t{number}")
        async def wait() -> None:
            """Wait."""
            inside[number].set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                order.append(f"t{number} cleaned")

        return wait

    class Note(Plugin):
        def after_run(self, outcome: Any) -> None:
            order.append(f"after_run {outcome.kind}")

    model = ScriptedModel([[call("t0"), call("t1")]])
    agent = LlmAgent(name="a", model=model, tools=[waiting(0), waiting(1)])
    async with runner_factory(agent, plugins=[Note()]) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        consumer = asyncio.create_task(run.wait())
        await asyncio.gather(*(event.wait() for event in inside))
        await run.stop()
        await consumer
    assert sorted(order[:2]) == ["t0 cleaned", "t1 cleaned"]
    assert order[2:] == ["after_run closed"]
