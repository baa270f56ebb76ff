"""The sessions of one toolset in one event loop (tools-plugins MCP-04, MCP-06, MCP-07, MCP-12)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from hookwork import platform
from hookwork_mcp.errors import McpConnectionError, text_of, was_delivered, was_lost
from hookwork_mcp.session import McpSession

T = TypeVar("T")

logger = logging.getLogger("hookwork.mcp")

#: Tries to connect again after a connection was lost, and seconds before the second, third … of them, at most.
_RECONNECTS, _FIRST_DELAY, _LONGEST_DELAY = 3, 0.2, 2.0


def key_of(headers: Mapping[str, str]) -> str:
    """What tells sessions apart: a digest, so that no token is kept as a key (MCP-12)."""
    digest = hashlib.sha256()
    for name, value in sorted((name.lower(), value) for name, value in headers.items()):
        digest.update(f"{name}\0{value}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class SessionPool:
    """Sessions by credentials. One that is in use is never closed to make room; whoever needs room waits then."""

    def __init__(self, open_session: Callable[[dict[str, str], Callable[[], None]], McpSession], limit: int) -> None:
        self._open = open_session
        self._limit = limit
        self._sessions: dict[str, McpSession] = {}
        self._ending: set[McpSession] = set()
        self._freed = asyncio.Event()
        self._closing = False

    def __len__(self) -> int:
        return len(self._sessions) + len(self._ending)

    async def use(
        self,
        headers: dict[str, str],
        request: Callable[[McpSession], Awaitable[T]],
        *,
        resend: Callable[[BaseException], bool],
    ) -> T:
        """The result of ``request(session)`` on the session of these headers.

        After a lost connection it is sent once more on a live one when ``resend`` agrees (MCP-06, MCP-07).
        """
        try:
            return await self._once(headers, request, tries=1)
        except Exception as error:
            if not was_lost(error) or (isinstance(error, McpConnectionError) and not error.delivered):
                raise
            await self._drop_if_dead(headers)
            if not resend(error):
                raise
            logger.debug("the connection was lost (%s); once more", text_of(error))
        return await self._once(headers, request, tries=_RECONNECTS)

    async def _once(self, headers: dict[str, str], request: Callable[[McpSession], Awaitable[T]], *, tries: int) -> T:
        session = await self._taken(headers, tries)
        try:
            return await session.run(request)
        finally:
            session.release()

    async def _taken(self, headers: dict[str, str], tries: int) -> McpSession:
        """A connected session, held by the caller."""
        for attempt in range(1, tries + 1):
            try:
                return await self._connected(headers)
            except McpConnectionError as error:
                if attempt == tries:
                    raise
                delay = min(_FIRST_DELAY * 2 ** (attempt - 1), _LONGEST_DELAY) * (0.5 + platform.random() / 2)
                logger.debug("%s; again in %.1f s", error, delay)
                await platform.sleep(delay)
        raise AssertionError("unreachable: tries is at least 1")

    async def _connected(self, headers: dict[str, str]) -> McpSession:
        key = key_of(headers)
        while True:
            session = self._sessions.get(key)
            if session is None or session.ending:
                await self._make_room(key)
                session = self._sessions.get(key)
            if session is None or session.ending:
                session = self._opened(key, session, headers)
            session.hold()
            try:
                await self._until_connected(key, session)
            except BaseException:
                session.release()
                raise
            if not session.ending:
                return session
            session.release()  # it ended in the moment it was connected

    def _opened(self, key: str, former: McpSession | None, headers: dict[str, str]) -> McpSession:
        """A new session on its way, in place of one that ends."""
        if former is not None:
            self._set_aside(key, former)
        if self._closing:
            raise McpConnectionError("the toolset is being closed", delivered=False)
        session = self._sessions[key] = self._open(headers, self._on_release)
        session.owner.add_done_callback(self._forgetting(key, session))
        return session

    async def _until_connected(self, key: str, session: McpSession) -> None:
        """Wait for a connection others may wait for too; the last one to give up takes it along (MCP-04)."""
        try:
            await asyncio.shield(session.connected)
        except asyncio.CancelledError:
            given_up = session.connected.cancelled()
            if session.users == 1 and not session.connected.done():
                session.ending = True
                self._set_aside(key, session)
                session.owner.cancel()
            if given_up and not _being_cancelled():
                raise McpConnectionError("the connection was given up while it was made", delivered=False) from None
            raise

    async def _make_room(self, key: str) -> None:
        while len(self._sessions) >= self._limit and key not in self._sessions:
            idle = [(s.last_used, k) for k, s in self._sessions.items() if not s.users or s.ending]
            if idle:
                oldest = min(idle)[1]
                session = self._sessions[oldest]
                self._set_aside(oldest, session)
                session.end()
                await asyncio.wait({session.owner})
            else:
                self._freed.clear()
                await self._freed.wait()

    async def _drop_if_dead(self, headers: dict[str, str]) -> None:
        """Set the session aside unless it answers; someone may have made a new one already."""
        key = key_of(headers)
        session = self._sessions.get(key)
        if session is None or not session.connected.done():
            return
        session.hold()
        try:
            alive = await session.alive()
        finally:
            session.release()
        if not alive and self._sessions.get(key) is session:
            self._set_aside(key, session)
            session.end()

    def _set_aside(self, key: str, session: McpSession) -> None:
        if self._sessions.get(key) is session:
            del self._sessions[key]
        if not session.owner.done():
            self._ending.add(session)

    def _forgetting(self, key: str, session: McpSession) -> Callable[[Any], None]:
        def forget(_: Any) -> None:
            self._ending.discard(session)
            if self._sessions.get(key) is session:
                del self._sessions[key]
            self._on_release()

        return forget

    def _on_release(self) -> None:
        self._freed.set()

    async def close(self, timeout: float) -> None:
        """End all sessions; those that do not end within ``timeout`` seconds are cancelled. Raises nothing."""
        self._closing = True
        try:
            owners = {session.owner for session in (*self._sessions.values(), *self._ending)}
            for session in (*self._sessions.values(), *self._ending):
                if session.connected.done():
                    session.end()
                else:
                    session.owner.cancel()
            if not owners:
                return
            _, late = await asyncio.wait(owners, timeout=timeout)
            for owner in late:
                owner.cancel()
            if late:
                logger.warning("%d MCP session(s) did not close within %g s and were cancelled", len(late), timeout)
                await asyncio.wait(late, timeout=1.0)
        finally:
            self._closing = False


def resend_if_not_delivered(error: BaseException) -> bool:
    """Whether a request that must not be carried out twice may be sent again (MCP-07)."""
    return not was_delivered(error)


def always_resend(_: BaseException) -> bool:
    """For requests that only read."""
    return True


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
