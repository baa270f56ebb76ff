"""Runs for callers without an event loop: their own loop in a thread, and an iterator that blocks (core RUN-4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hookwork.records.event import Event

if TYPE_CHECKING:
    from hookwork.run import Run, RunOutcome
    from hookwork.runner import Runner


class LoopThread:
    """An event loop in a daemon thread, for blocking callers."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="hookwork-run-sync", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def end(self) -> None:
        """Let the thread end after what it does now; the loop cannot be used any more."""
        self.loop.call_soon_threadsafe(self.loop.stop)


class SyncRun:
    """A blocking iterator of a run's events; ``outcome`` afterwards."""

    def __init__(self, runner: Runner, loop: LoopThread, arguments: dict[str, Any]) -> None:
        self._loop = loop

        async def start() -> Run:
            return runner.run(**arguments)

        self._run: Run = loop.call(start())

    def __iter__(self) -> Iterator[Event]:
        async def following() -> Event | None:
            try:
                return await self._run.__anext__()
            except StopAsyncIteration:
                return None

        aiter(self._run)  # refuses a second iteration
        try:
            while True:
                event = self._loop.call(following()) if self._run.outcome is None else None
                if event is None:
                    return
                yield event
        finally:
            if self._run.outcome is None:
                self._loop.call(self._run.aclose())

    @property
    def outcome(self) -> RunOutcome | None:
        """How the run ended."""
        return self._run.outcome

    @property
    def session_id(self) -> str:
        return self._run.session_id
