"""Ending a run from outside: stop, leave, supersede, close (core HND-2 … HND-5, POL-5)."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from typing import Any

from hookwork.run import RunOutcome

#: The runs that the current code works for, outermost first; tasks that it starts inherit it.
_inside: contextvars.ContextVar[tuple[RunControl, ...]] = contextvars.ContextVar("hookwork_inside", default=())


class RunControl:
    """Where a run stands and how it is ended. It holds no handle, so a dropped handle is finalised at once (HND-3).

    The run's code is an async generator. It is *running* while somebody awaits its next event, else *suspended* at an
    event. A running one is stopped by cancelling the task that drives it, a suspended one by closing it.
    """

    __slots__ = (
        "__weakref__",
        "_outer",
        "_within",
        "abandoned",
        "cancels",
        "driver",
        "ending",
        "generator",
        "loop",
        "outcome",
        "over",
        "started",
        "stop_reason",
        "stop_sent",
        "waiters",
    )

    #: the run takes input while it goes on: waiting for its end may take for ever (core POL-5).
    live = False

    def __init__(self) -> None:
        self.generator: weakref.ref[Any] | None = None
        #: the runs around this one when it was last entered, and the same with this one.
        self._outer: tuple[RunControl, ...] | None = None
        self._within: tuple[RunControl, ...] = ()
        self.loop: asyncio.AbstractEventLoop | None = None
        #: the task that asked for the newest event, or that closes the run.
        self.driver: asyncio.Task[Any] | None = None
        #: cancellations of the driver from before it asked for the newest event.
        self.cancels = 0
        #: it is closed because its consumer's task was cancelled at an event: no way to end it by choice (HND-5).
        self.abandoned = False
        self.started = False
        #: the teardown has begun: it is waited for, never interrupted.
        self.ending = False
        self.over = False
        self.stop_reason = ""
        self.stop_sent = False
        self.outcome: RunOutcome | None = None
        self.waiters: list[asyncio.Future[None]] = []

    # --- where it stands ----------------------------------------------------------------------------------------------

    def _generator(self) -> Any:
        return self.generator() if self.generator is not None else None

    def is_running(self) -> bool:
        """Whether the run's own code is being driven right now (not suspended at an event)."""
        generator = self._generator()
        return generator is not None and generator.ag_running

    def runs_inside_caller(self) -> bool:
        """Whether the current task works for this run."""
        return self in _inside.get() or (self.is_running() and self.driver is asyncio.current_task())

    def left_by_caller(self) -> bool:
        """Whether the run is suspended at an event and its last consumer is the current task."""
        return not self.over and self.started and not self.is_running() and self.driver is asyncio.current_task()

    def enter(self) -> tuple[RunControl, ...]:
        """The current task drives the run from here on; what `leave_to` gets back."""
        driver = self.driver = asyncio.current_task(self.loop)
        if driver is not None:
            self.cancels = driver.cancelling()
        outer = _inside.get()
        if outer is not self._outer:
            self._outer, self._within = outer, (*outer, self)
        _inside.set(self._within)
        return outer

    @staticmethod
    def leave_to(outer: tuple[RunControl, ...]) -> None:
        """The caller's own code runs again: it is not inside the run."""
        _inside.set(outer)

    # --- ending it ----------------------------------------------------------------------------------------------------

    async def wait_finished(self) -> None:
        """Until the run is over, after_run included."""
        if not self.over:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            await waiter

    def _finish(self) -> None:
        self.over = True
        self._outer, self._within = None, ()  # it holds this run: no cycle is left
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    def _refuse_inside(self, what: str) -> None:
        if self.runs_inside_caller():
            raise RuntimeError(f"{what} was called from inside the run; use ctx.end_invocation() there")

    async def stop(self, reason: str = "stopped") -> None:
        """See `Run.stop`."""
        if self.over:
            return
        self._refuse_inside("run.stop()")
        self.stop_reason = self.stop_reason or reason
        await self._end_now()

    async def close(self) -> None:
        """The consumer leaves: see `Run.aclose`."""
        if self.over:
            return
        self._refuse_inside("run.aclose()")
        if not self.started or self.is_running():
            self.stop_reason = self.stop_reason or "left"
        else:
            self.note_how_left()
        await self._end_now()

    def note_how_left(self) -> None:
        """Before a run that is suspended at an event is closed: whether that is its consumer's cancellation."""
        driver = self.driver
        if driver is not None and not self.stop_reason and not self.ending:
            self.abandoned = driver.cancelled() or driver.cancelling() > self.cancels

    async def _end_now(self) -> None:
        generator = self._generator()
        if not self.started:
            self.never_start(self.stop_reason)
        elif generator is None or self.ending:  # its finaliser, or somebody else, is at it
            await self.wait_finished()
        elif generator.ag_running:
            self._cancel_driver()
            await self.wait_finished()
        else:
            self.ending = True
            self.driver = asyncio.current_task()
            await generator.aclose()

    def never_start(self, reason: str) -> None:
        """Close a run that has not begun."""
        self.stop_reason = self.stop_reason or reason
        self.outcome = RunOutcome("closed", reason=self.stop_reason)
        self._finish()

    def _cancel_driver(self) -> None:
        driver = self.driver
        # A driver that is being cancelled already is in its teardown; a second one would only cut that short.
        if driver is not None and not self.stop_sent and driver.cancelling() <= self.cancels:
            self.stop_sent = True
            driver.cancel()

    def _take_back_stop(self) -> bool:
        """Undo our own cancellation of the driver; whether somebody else cancelled it too."""
        task = asyncio.current_task()
        return task is not None and task.uncancel() > self.cancels
