"""Models that compute in this process: one thread per engine does all its work, one call at a time (models LOC-1)."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from hookwork.errors import ModelError
from hookwork_modelkit.errors import model_error, refusal

T = TypeVar("T")

#: Hands an item on; False: nobody wants any more, stop.
Emit = Callable[[T], bool]
Work = Callable[[Emit[T]], None]


class Engine(Generic[T]):
    """A queue of calls in front of one thread. ``T`` is what a call gives, piece by piece.

    The thread is the lock: a call that is cancelled while it waits for its turn never runs, and no thread is spent on
    waiting. One engine may be used from several event loops, but only in the process in which it was made: a fork
    takes no threads along.

    Args:
        name: of the thread. provider, model: whose engine it is, for errors.
    """

    def __init__(self, name: str, *, provider: str = "", model: str = "") -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._process = os.getpid()
        self._provider = provider
        self._model = model or name

    async def stream(self, work: Work[T]) -> AsyncGenerator[T, None]:
        """What ``work(emit)`` emits, as it comes; what it raises is raised here.

        Closing early makes ``emit`` return False; the end of the work is awaited, so nothing runs on unseen.

        Raises:
            ModelError: the engine was closed before the work began (kind ``connection``), or belongs to the process
                that this one was forked from (``invalid_request``).
        """
        if os.getpid() != self._process:
            raise refusal(
                self._provider,
                self._model,
                "its engine did not come along when the process was forked; make the model anew in this process",
                code="forked",
            )
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[T | None] = asyncio.Queue()
        left = threading.Event()

        def emit(piece: T) -> bool:
            if left.is_set():
                return False
            loop.call_soon_threadsafe(pieces.put_nowait, piece)
            return True

        def ended(_: Future[None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(pieces.put_nowait, None)

        try:
            call = self._worker.submit(contextvars.copy_context().run, work, emit)
        except RuntimeError as error:
            raise self._closed() from error
        call.add_done_callback(ended)
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            if call.cancelled():
                raise self._closed()
            call.result()
        finally:
            left.set()
            if not call.cancel():
                await _ended(call)

    def _closed(self) -> ModelError:
        detail = "its engine was closed before the call had its turn; call it again"
        return model_error(self._provider, self._model, kind="connection", retryable=True, detail=detail)

    async def call(self, work: Callable[[], T]) -> T:
        """What ``work()`` returns, run on the engine's thread."""
        found: list[T] = []

        def run(emit: Emit[T]) -> None:
            found.append(work())

        async for _ in self.stream(run):
            pass
        return found[0]

    def close(self) -> None:
        """No further calls; the thread ends after the one that runs."""
        self._worker.shutdown(wait=False, cancel_futures=True)


async def _ended(call: Future[None]) -> None:
    """Until a running call has ended, whatever is cancelled meanwhile; the cancellation goes on afterwards."""
    if call.done():
        return
    waiting = asyncio.wrap_future(call)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError as error:
            cancelled = error
    if not waiting.cancelled():
        waiting.exception()  # seen: the consumer has left and asks for no error
    if cancelled is not None:
        raise cancelled
