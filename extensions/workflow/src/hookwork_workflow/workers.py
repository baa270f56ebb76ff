"""Plain functions beside the event loop: in a worker thread, with the caller's context variables."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("hookwork.workflow")


#: Whether plain functions run in the loop: in tests whose order is decided, a thread would decide it.
_inline: contextvars.ContextVar[bool] = contextvars.ContextVar("hookwork_inline_functions", default=False)


@contextmanager
def use_inline_functions() -> Iterator[None]:
    """Run plain functions in the event loop, in the current context."""
    token = _inline.set(True)
    try:
        yield
    finally:
        _inline.reset(token)


class _Job:
    """One call for a thread; ``abandoned`` once nobody waits for it any more."""

    __slots__ = ("abandoned", "call", "node")

    def __init__(self, node: str, call: Callable[[], Any]) -> None:
        self.node = node
        self.call = call
        self.abandoned = False

    def __call__(self) -> Any:
        try:
            return self.call()
        except (StopIteration, GeneratorExit) as error:  # an awaited future cannot carry them
            raise RuntimeError(f'the function of node "{self.node}" raised {type(error).__name__}') from error
        except BaseException:
            if self.abandoned:
                logger.warning('node "%s": its thread failed after the node had ended', self.node, exc_info=True)
            raise


async def in_worker(ctx: Any, node: str, call: Callable[[], Any]) -> Any:
    """What ``call`` gives, run in a thread of the runner (the loop's own pool outside one).

    A thread cannot be interrupted. When the caller is cancelled this returns at once; what the thread gives later is
    dropped, an error of it is logged.
    """
    if _inline.get():
        return _Job(node, call)()
    pool = getattr(ctx, "thread_pool", None)
    job = _Job(node, call)
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(pool() if pool is not None else None, contextvars.copy_context().run, job)
    except asyncio.CancelledError:
        job.abandoned = True
        raise


_END = object()


class Steps:
    """A plain generator as an async one, each step in a thread. ``value``: what it returned."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None

    async def of(
        self, generator: Generator[Any, Any, Any], step: Callable[[Callable[[], Any]], Any]
    ) -> AsyncGenerator[Any, None]:
        """What the generator yields; ``step`` runs one call of it."""

        def following() -> Any:
            try:
                return next(generator)
            except StopIteration as stop:
                self.value = stop.value
                return _END

        try:
            while (item := await step(following)) is not _END:
                yield item
        finally:
            if (
                inspect.getgeneratorstate(generator) != inspect.GEN_RUNNING
            ):  # else its thread is late; it ends when the thread does
                generator.close()
