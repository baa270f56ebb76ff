"""Blocking functions in worker threads, with the caller's context variables (tools-plugins FN-22)."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

_log = logging.getLogger(__name__)


class _Job:
    """One call for a worker thread; ``abandoned`` once nobody waits for it any more."""

    __slots__ = ("abandoned", "call", "tool")

    def __init__(self, tool: str, call: Callable[[], Any]) -> None:
        self.tool = tool
        self.call = call
        self.abandoned = False

    def __call__(self) -> Any:
        try:
            return self.call()
        except (StopIteration, GeneratorExit) as error:  # an awaited future cannot carry them: they mean its own end
            raise RuntimeError(f"the function raised {type(error).__name__}") from error
        except BaseException:
            if self.abandoned:
                _log.warning("tool %r: its thread failed after the call had ended", self.tool, exc_info=True)
            raise


async def run_in_thread(executor: Executor | None, tool: str, call: Callable[[], Any]) -> Any:
    """What ``call`` gives, run in a thread of ``executor`` (None: the loop's own pool).

    A thread cannot be cancelled. When this coroutine is, it returns at once: a call that still waits for a thread is
    never started, and what a running one gives later is dropped; an error of it is logged.
    """
    job = _Job(tool, call)
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(executor, contextvars.copy_context().run, job)
    except asyncio.CancelledError:
        job.abandoned = True
        raise
