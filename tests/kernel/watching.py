"""What a run that is left or stopped did, seen from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tests.kernel.running import said

from hookwork import (
    Event,
    FunctionPlugin,
    InvocationContext,
    Runner,
    RunOutcome,
)
from hookwork.records.session import Session


class Watch:
    """Counts `after_run` and keeps the outcomes."""

    def __init__(self) -> None:
        self.outcomes: list[RunOutcome] = []

    def plugin(self) -> FunctionPlugin:
        def after_run(ctx: InvocationContext, outcome: RunOutcome) -> None:
            self.outcomes.append(outcome)

        return FunctionPlugin("watch", after_run=after_run)

    @property
    def kinds(self) -> list[str]:
        return [outcome.kind for outcome in self.outcomes]


async def stored(runner: Runner, session: str = "s") -> Session:
    return await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id=session)


async def texts_of(runner: Runner, session: str = "s") -> list[str]:
    return [event.text for event in (await stored(runner, session)).events if event.content is not None]


async def settle(turns: int = 20) -> None:
    """Let everything that is ready to run do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Gate:
    """A body that says one thing, waits to be let on, and notes how it ended."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.ended = ""

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        try:
            yield said("first")
            self.entered.set()
            await self.open.wait()
            yield said("second")
            self.ended = "done"
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise
        except GeneratorExit:
            self.ended = "closed"
            raise
