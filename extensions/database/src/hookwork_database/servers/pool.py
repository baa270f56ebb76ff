"""A pool of driver connections, as small as the hot paths need it: taking one costs no statement and no task.

The drivers' own pools reset a connection with a statement each time it comes back, which would double the round trips
of an append in autocommit (spec DBP-5).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from hookwork.errors import BackendError


class Connections(Protocol):
    """Where a store gets its connections from."""

    def connection(self) -> Any:
        """An async context manager that lends one; what it raises breaks the connection unless ``is_sound`` says no."""

    async def close(self) -> None:
        """Close those that are not lent."""


class Pool:
    """Up to ``size`` connections, the one used last first.

    Args:
        connect: makes one.
        disconnect: ends one and waits until the server knows. abandon: ends one at once.
        is_sound: whether one can be lent again after an error was raised while it was lent.
        where: names the database in errors.
        size: how many there may be. timeout: seconds to wait for one.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        disconnect: Callable[[Any], Awaitable[None]],
        abandon: Callable[[Any], None],
        is_sound: Callable[[Any, BaseException], bool],
        where: str,
        *,
        size: int,
        timeout: float,
    ) -> None:
        self._connect = connect
        self._disconnect = disconnect
        self._abandon = abandon
        self._is_sound = is_sound
        self._where = where
        self._size = size
        self._timeout = timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[Any] = []
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._opened = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend a connection.

        Raises:
            BackendError: none became free in time; ``retryable``.
        """
        taken = await self._take()
        try:
            yield taken
        except BaseException as error:
            if self._is_sound(taken, error):
                self._give_back(taken)
            else:
                self._drop(taken)
            raise
        self._give_back(taken)

    async def _take(self) -> Any:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Connections belong to a loop; those of one that has ended are of no use.
            self._loop, self._idle, self._opened = loop, [], 0
            self._waiting.clear()
        while True:
            if self._idle:
                return self._idle.pop()
            if self._opened < self._size:
                return await self._open()
            await self._wait(loop)

    async def _open(self) -> Any:
        self._opened += 1
        try:
            return await self._connect()
        except BaseException:
            self._opened -= 1
            self._wake()
            raise

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        turn = loop.create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self._timeout):
                await turn
        except TimeoutError:
            raise BackendError(
                f"{self._where}: no connection became free in {self._timeout:g} s; raise pool_size "
                f"(it is {self._size}) or look for appends that hang",
                code="pool_timeout",
                retryable=True,
            ) from None
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake()  # it was our turn: somebody else's now
            raise
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)

    def _give_back(self, connection: Any) -> None:
        self._idle.append(connection)
        self._wake()

    def _drop(self, connection: Any) -> None:
        self._opened -= 1
        self._wake()
        self._abandon(connection)

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def close(self) -> None:
        """Close the connections that are not lent."""
        idle, self._idle = self._idle, []
        if self._loop is not asyncio.get_running_loop():
            return
        for connection in idle:
            self._opened -= 1
            await self._disconnect(connection)
