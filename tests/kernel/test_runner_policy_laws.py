"""Many runs on one session, ended at random moments: turns never mix and nothing is left (core POL, INV-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import groupby
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork import Agent, Event, EventActions, FunctionPlugin, InvocationContext, Runner, Settings, text_content
from hookwork.errors import SessionBusyError
from hookwork.policy import locks_of
from hookwork_inmemory import InMemorySessionService

#: what happens to a run: ended in some way after some loop steps, or left alone.
ENDINGS = st.tuples(st.sampled_from(["cancel", "stop", "aclose", "supersede", "nothing"]), st.integers(0, 25))


async def work(ctx: InvocationContext) -> AsyncIterator[Event]:
    for number in range(3):
        await asyncio.sleep(0)
        actions = EventActions(state_delta={"last": f"{ctx.invocation_id}/{number}"})
        yield Event(content=text_content(f"step {number}"), actions=actions)
        await asyncio.sleep(0)


async def play(runner: Runner, starts: list[int], endings: list[tuple[str, int]], sessions: int) -> list[Any]:
    """Start runs at given distances, end each as told; what became of each."""
    tasks: list[asyncio.Task[Any]] = []

    async def one(number: int, way: str, steps: int) -> Any:
        run = runner.run(user_id="u", session_id=f"s{number % sessions}", message=f"message {number}")
        consumer = asyncio.create_task(run.wait())
        for _ in range(steps):
            await asyncio.sleep(0)
        if way == "cancel":
            consumer.cancel()
        elif way == "stop":
            await run.stop()
        elif way == "aclose":
            await run.aclose()
        elif way == "supersede":
            await asyncio.gather(run.stop("superseded"), run.stop("twice"), run.aclose())
        await asyncio.wait([consumer])
        if not consumer.cancelled():
            consumer.exception()
        return run

    for number, (gap, (way, steps)) in enumerate(zip(starts, endings, strict=True)):
        for _ in range(gap):
            await asyncio.sleep(0)
        tasks.append(asyncio.create_task(one(number, way, steps)))
    async with asyncio.timeout(20):
        return await asyncio.gather(*tasks)


@given(
    script=st.lists(st.tuples(st.integers(0, 6), ENDINGS), min_size=1, max_size=10),
    policy=st.sampled_from(["queue", "reject", "supersede"]),
    sessions=st.integers(1, 2),
)
@settings(max_examples=150, deadline=None)
async def test_pol_turns_never_mix_however_runs_are_ended(
    script: list[tuple[int, tuple[str, int]]], policy: str, sessions: int
) -> None:
    told: dict[str, int] = {}

    def after_run(ctx: InvocationContext) -> None:
        told[ctx.invocation_id] = told.get(ctx.invocation_id, 0) + 1

    store = InMemorySessionService()
    plugin = FunctionPlugin("watch", after_run=after_run)
    runner = Runner(
        Agent(name="root", body=work), sessions=store, session_policy=policy, plugins=[plugin], settings=Settings()
    )
    runs = await play(runner, [gap for gap, _ in script], [ending for _, ending in script], sessions)

    assert len(locks_of(store)) == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert set(told.values()) <= {1}
    for run in runs:
        if run.outcome is None:
            assert run.session is None  # its consumer was cancelled before it began
        elif run.outcome.kind == "failed":
            assert policy == "reject"
            assert isinstance(run.outcome.error, SessionBusyError)
    for session in await store.list_sessions(app_name="root"):
        full = await store.get_session(app_name="root", user_id="u", session_id=session.id)
        turns = [list(group) for _, group in groupby(full.events, key=lambda event: event.invocation_id)]
        ids = [turn[0].invocation_id for turn in turns]
        assert len(set(ids)) == len(ids)  # each invocation in one piece
        assert set(ids) <= set(told)
        for turn in turns:
            texts = [event.text for event in turn]
            assert texts[0].startswith("message")
            assert texts[1:] == ["step 0", "step 1", "step 2", ""][: len(texts) - 1]
        if policy == "queue":
            numbers = [int(turn[0].text.split()[1]) for turn in turns]
            assert numbers == sorted(numbers)  # first come, first served
        last = next((event for event in reversed(full.events) if event.actions.state_delta), None)
        if last is not None:
            assert full.state["last"] == last.actions.state_delta["last"]
