"""Several requests at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from hookwork.errors import HookworkError

T = TypeVar("T")


async def settle(requests: Iterable[Callable[[], Awaitable[T]]], *, at_once: int = 16) -> list[T]:
    """The results in order; every request is carried out, then the first error is raised (services GCS-6)."""
    gate = asyncio.Semaphore(at_once)

    async def one(request: Callable[[], Awaitable[T]]) -> T | HookworkError:
        async with gate:
            try:
                return await request()
            except HookworkError as error:
                return error

    async with asyncio.TaskGroup() as group:  # one that is cancelled cancels and awaits them all
        tasks = [group.create_task(one(request)) for request in requests]
    results: list[T] = []
    for task in tasks:
        result = task.result()
        if isinstance(result, HookworkError):
            raise result
        results.append(result)
    return results
