"""SDK clients, one per configuration, process and event loop (models SDK-15).

A client's connections belong to the loop in which they were opened, and building a client is slow. So models that are
configured alike share one per loop; it is closed when the last of them is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

C = TypeVar("C")


class Same:
    """An object as part of a key: equal to itself alone, and kept alive, so that no other takes its place."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return f"Same({type(self.value).__name__})"  # it may be a secret


class _Shared(Generic[C]):
    """A client, how many models use it, and the generator whose end closes it."""

    __slots__ = ("client", "life", "users")

    def __init__(self, client: C, life: AsyncGenerator[None, None]) -> None:
        self.client = client
        self.life = life
        self.users = 0
        with suppress(StopIteration):  # as far as its yield, without waiting for anything
            life.asend(None).send(None)


class ClientPool(Generic[C]):
    """All clients of one SDK in this process; make it once per adapter.

    ``close`` shuts a client down; it is awaited in the loop that the client belongs to. A client that is still open
    when its loop is shut down, as `asyncio.run` does at its end, is closed then: the connections of a closed loop
    could not be closed any more, and a program that calls `asyncio.run` again and again would run out of them.
    """

    def __init__(self, close: Callable[[C], Awaitable[None]]) -> None:
        self._close = close
        self._lock = threading.Lock()  # models may be used from loops of several threads
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _Shared[C]]] = WeakKeyDictionary()

    def acquire(self, key: Hashable, make: Callable[[], C]) -> C:
        """The running loop's client of a configuration, made when there is none yet; one more user counts."""
        loop = asyncio.get_running_loop()
        with self._lock:
            known = self._of(loop)
            shared = known.get(key)
            if shared is None:
                client = make()
                shared = known[key] = _Shared(client, self._life(known, key, client))
            shared.users += 1
            return shared.client

    def _of(self, loop: asyncio.AbstractEventLoop) -> dict[Hashable, _Shared[C]]:
        """A loop's clients. Those of loops that were closed without being shut down are let go of."""
        known = self._loops.get(loop)
        if known is None:
            for other in [other for other in self._loops if other.is_closed()]:
                del self._loops[other]
            known = self._loops[loop] = {}
        return known

    async def _life(self, known: dict[Hashable, _Shared[C]], key: Hashable, client: C) -> AsyncGenerator[None, None]:
        """Lives as long as the client; `shutdown_asyncgens` of the loop ends it as `release` does."""
        try:
            yield
        finally:
            with self._lock:
                shared = known.get(key)
                if shared is not None and shared.client is client:
                    del known[key]
            await self._close(client)

    def share(self, key: Hashable) -> C | None:
        """The running loop's client of a configuration if there is one; one more user counts."""
        with self._lock:
            shared = self._loops.get(asyncio.get_running_loop(), {}).get(key)
            if shared is None:
                return None
            shared.users += 1
            return shared.client

    async def adopt(self, key: Hashable, client: C) -> C:
        """Take in a client that was made elsewhere; when somebody was faster it is closed and theirs is given."""
        taken = self.acquire(key, lambda: client)
        if taken is not client:
            await self._close(client)
        return taken

    async def release(self, loop: asyncio.AbstractEventLoop, key: Hashable) -> None:
        """One user less of a loop's client; the last one closes it. A loop that has ended takes its client along."""
        with self._lock:
            known = self._loops.get(loop, {})
            shared = known.get(key)
            if shared is None:
                return
            shared.users -= 1
            if shared.users > 0:
                return
            del known[key]
        if loop is asyncio.get_running_loop():
            await shared.life.aclose()
        elif loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ended(shared.life), loop))

    async def _ended(self, life: AsyncGenerator[None, None]) -> None:
        await life.aclose()

    def count(self) -> int:
        """How many clients are held, over all loops."""
        with self._lock:
            return sum(len(known) for known in self._loops.values())


class ModelClients(Generic[C]):
    """What one model holds of a pool: at most one client per loop, taken at the first call there."""

    __slots__ = ("_held", "_lock", "_pool")

    def __init__(self, pool: ClientPool[C]) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Hashable, C]] = WeakKeyDictionary()

    def get(self, key: Hashable, make: Callable[[], C]) -> C:
        """The client to call with. ``key``: everything that ``make`` depends on; it is asked at the first call only."""
        held = self.held()
        return held if held is not None else self._keep(key, self._pool.acquire(key, make))

    def held(self) -> C | None:
        """The running loop's client, if this model has one already."""
        held = self._held.get(asyncio.get_running_loop())
        return None if held is None else held[1]

    def share(self, key: Hashable) -> C | None:
        """Take the client that another model made for this loop; None when there is none."""
        client = self._pool.share(key)
        return None if client is None else self._keep(key, client)

    async def adopt(self, key: Hashable, client: C) -> C:
        """Take a client that was made just now, in a thread for example, and share it. Not twice at once: hold a lock
        from `held` to here."""
        return self._keep(key, await self._pool.adopt(key, client))

    def _keep(self, key: Hashable, client: C) -> C:
        with self._lock:
            for loop in [loop for loop in self._held if loop.is_closed()]:
                del self._held[loop]
            self._held[asyncio.get_running_loop()] = (key, client)
        return client

    async def close(self) -> None:
        """Let go of all clients; idempotent. A call made afterwards takes one anew."""
        with self._lock:
            held = list(self._held.items())
            self._held.clear()
        for loop, (key, _) in held:
            await self._pool.release(loop, key)
