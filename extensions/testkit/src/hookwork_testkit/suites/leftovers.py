"""What ended work must not leave behind, and how work is ended at every point: shared by suites and scenes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from typing import Any

from hookwork.records.event import Event

#: Seconds after which a suite says that something hangs. Only a fault is ever waited for that long.
PATIENCE = 5.0


async def settle(turns: int = 20) -> None:
    """Let everything that is ready run: ``turns`` turns of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


@asynccontextmanager
async def no_tasks_left(what: str) -> AsyncIterator[None]:
    """Assert that the body leaves no task behind."""
    before = asyncio.all_tasks()
    yield
    await settle()
    left = [task for task in asyncio.all_tasks() - before if not task.done()]
    assert not left, f"{what} left running tasks behind: {left}"


async def within(seconds: float, what: str, work: Awaitable[Any]) -> Any:
    """The result of work that must not take longer.

    Raises:
        AssertionError: it did.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(f"{what} took longer than {seconds:g} s") from None


async def assert_cancellable(what: str, work: Callable[[], Coroutine[Any, Any, Any]], *, at_most: int = 200) -> int:
    """Cancel fresh work after 1, 2, 3 … turns of the event loop, until it ends before it can be cancelled.

    Each cancelled one must end with `asyncio.CancelledError`, and leave no task behind. Returns how often it was cut.
    """
    for turns in range(1, at_most + 1):
        async with no_tasks_left(f"{what}, cancelled after {turns} turns of the loop,"):
            task = asyncio.create_task(work())
            for _ in range(turns):
                await asyncio.sleep(0)
                if task.done():
                    break
            if task.done():
                task.result()
                return turns - 1
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=PATIENCE)
            assert done, f"{what} goes on {PATIENCE:g} s after it was cancelled"
            assert task.cancelled(), f"{what} swallowed its cancellation after {turns} turns of the loop"
    return at_most


async def take(run: Any, count: int, way: str) -> list[Event]:
    """Events of a run up to a count; then it is left, stopped, or its consumer is cancelled. Returns when it is over.

    ``way``: ``leave`` closes the handle, ``stop`` stops the run from another task, ``cancel`` cancels the consumer
    while it asks for the next event; what comes before the cancellation arrives is among the events.
    """
    taken: list[Event] = []

    async def consume() -> None:
        async with run:
            events = aiter(run)
            while len(taken) < count:
                try:
                    taken.append(await anext(events))
                except StopAsyncIteration:
                    return
            if way == "stop":
                await asyncio.create_task(run.stop())
            elif way == "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                while (event := await anext(events, None)) is not None:  # steps that need no turn of the loop go on
                    taken.append(event)
                await asyncio.sleep(0)  # the run is over; the cancellation comes now

    consumer = asyncio.create_task(consume())
    await asyncio.wait([consumer])
    if not consumer.cancelled():
        consumer.result()
    elif way != "cancel":
        raise AssertionError("the consumer of a run was cancelled by the run itself")
    return taken


def keys_in(value: Any, *, depth: int = 4) -> set[Hashable]:
    """Keys and set members in an object's attributes and containers, a few levels down."""
    found: set[Hashable] = set()
    if depth < 0:
        return found
    if isinstance(value, dict):
        found |= set(value)
        inner: list[Any] = list(value.values())
    elif isinstance(value, set | frozenset):
        found |= set(value)
        inner = []
    elif isinstance(value, list | tuple):
        inner = list(value)
    else:
        inner = list(attributes_of(value).values())
    for item in inner:
        if isinstance(item, dict | set | frozenset | list | tuple) or attributes_of(item):
            found |= keys_in(item, depth=depth - 1)
    return found


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes that an object has of its own, in a ``__dict__`` or in slots; empty for classes and modules."""
    if isinstance(value, type) or type(value).__module__ == "builtins":
        return {}
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found
