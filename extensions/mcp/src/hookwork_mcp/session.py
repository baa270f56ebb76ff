"""One MCP session: opened, kept and closed by one task of its own (tools-plugins MCP-10, MCP-11).

The SDK's client holds cancel scopes, so it has to be left in the task that entered it. Callers send their requests from
tasks of their own meanwhile: a cancelled caller cancels its request and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from hookwork_mcp.calls import Calls
from hookwork_mcp.errors import McpConnectionError, leaf, status_of, text_of
from hookwork_mcp.transports import Endpoint, Link

T = TypeVar("T")

logger = logging.getLogger("hookwork.mcp")

#: Seconds a request may still take to notice that its session has ended.
_GRACE = 0.5
#: Seconds a cancelled request may take to tell the server so; the SDK's own bound is shorter.
_FAREWELL = 5.0
#: Seconds within which a live server answers a ping.
_PING_TIMEOUT = 2.0


class McpSession:
    """A session on its way from connecting to its end.

    ``users``: callers that hold it now; it does not end by idleness while there are any. ``ending``: nobody may take it
    up any more.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        headers: dict[str, str],
        make_client: Callable[[Any, McpSession], Any],
        *,
        connect_timeout: float,
        idle_after: float,
        released: Callable[[], None],
    ) -> None:
        self.endpoint = endpoint
        self.users = 0
        self.ending = False
        self.last_used = 0.0
        self._fault = ""
        self._status: int | None = None
        self._make_client = make_client
        self._connect_timeout = connect_timeout
        self._idle_after = idle_after
        self._released = released
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self.client: Any = None
        self.calls = Calls()
        #: tools as they were listed last, and until when they may be shown again; see `McpToolset.cache_ttl`.
        self.listed: tuple[float, Any] | None = None
        self.connected: asyncio.Future[None] = self._loop.create_future()
        self._link = Link(headers=headers, ended=self._lost, failed=self._fail)
        self.owner = self._loop.create_task(self._own(), name=f"mcp session of {endpoint.place}")

    # --- the owner's life ---------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._connect_timeout):
                    self.client = await stack.enter_async_context(
                        self._make_client(self.endpoint.open(self._link), self)
                    )
                self.last_used = self._loop.time()
                if not self.connected.done():
                    self.connected.set_result(None)
                await self._until_over()
        except asyncio.CancelledError:
            if not self.connected.done():
                self.connected.cancel()
            if _cancelled():
                raise
            logger.debug("the transport of %s cancelled its session", self.endpoint.place)
        except Exception as error:  # noqa: BLE001 - the callers are told; nobody awaits this task for its result
            self._settle(error)
        except BaseExceptionGroup as error:
            self._settle(error)
        finally:
            self.ending = True
            if not self.connected.done():
                self.connected.set_exception(self._unreachable(None))
            if not self.connected.cancelled():
                self.connected.exception()  # whoever waited was told; nobody may have waited
            self._released()

    def _settle(self, error: BaseException) -> None:
        if self.connected.done():
            logger.debug("the session with %s ended: %s", self.endpoint.place, text_of(error))
            self._fault = self._fault or text_of(error)
        else:
            self.connected.set_exception(self._unreachable(error))

    def _unreachable(self, error: BaseException | None) -> McpConnectionError:
        """The error for a connection that could not be made; its text holds no credential (MCP-04)."""
        if error is None:
            why = self._fault or "the connection ended"
        elif isinstance(error, TimeoutError):
            why = f"no answer within {self._connect_timeout:g} s"
        else:
            why = text_of(error)
        made = McpConnectionError(
            f"cannot connect to {self.endpoint.place}: {why}",
            status=status_of(leaf(error)) if error is not None else self._status,
            delivered=False,
        )
        made.__cause__ = error
        return made

    async def _until_over(self) -> None:
        """Wait until someone ends the session or nobody has used it for a while."""
        while not self.ending:
            left = None
            if not self.users:
                left = self.last_used + self._idle_after - self._loop.time()
                if left <= 0:
                    self.ending = True
                    return
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _lost(self) -> None:
        """The server closed the connection: whoever comes next connects afresh."""
        self._fault = self._fault or "the server closed the connection"
        self.end()

    def _fail(self, text: str) -> None:
        """A transport whose answers come elsewhere could not send: no answer can come."""
        self._fault = text
        self._status = int(text.split()[1]) if text.startswith("HTTP ") else None
        self.end()

    def end(self) -> None:
        """Let the owner close the session; returns at once."""
        self.ending = True
        self._changed.set()

    # --- for callers --------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Take the session up."""
        self.users += 1

    def release(self) -> None:
        """Let it go again."""
        self.users -= 1
        self.last_used = self._loop.time()
        self._changed.set()
        if not self.users:
            self._released()

    async def run(self, request: Callable[[McpSession], Awaitable[T]]) -> T:
        """The result of ``request(session)``; ends at once when the session does.

        Raises:
            McpConnectionError: the session ended meanwhile. Otherwise whatever the request raises.
        """
        if self.ending:
            raise self._gone()
        task = asyncio.ensure_future(request(self))
        task.add_done_callback(_seen)
        try:
            await asyncio.wait({task, self.owner}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=_GRACE)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_FAREWELL)
        if task.cancelled() or not task.done():
            raise self._gone()
        error = task.exception()
        if error is None:
            return task.result()
        if self.ending and self._fault:
            raise self._gone() from error
        raise error

    def _gone(self) -> McpConnectionError:
        why = self._fault or "the session was closed"
        return McpConnectionError(f"{why} ({self.endpoint.place})", status=self._status)

    async def alive(self) -> bool:
        """Whether the server still answers (MCP-06)."""
        if self.ending:
            return False
        try:
            async with asyncio.timeout(_PING_TIMEOUT):
                await self.run(_ping)
        except Exception as error:  # noqa: BLE001 - any failure says that it does not
            logger.debug("no sign of life from %s: %s", self.endpoint.place, text_of(error))
            return False
        return True


def _seen(task: asyncio.Future[Any]) -> None:
    """Take note of a request's error even if its caller has gone: nothing is to be logged about it."""
    if not task.cancelled():
        task.exception()


async def _ping(session: McpSession) -> None:
    """A ping; newer protocol versions have none, there discovery is as cheap."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    client = session.client
    version = client.protocol_version
    if version in MODERN_PROTOCOL_VERSIONS:
        await client.session.send_discover(version)
    else:
        await client.session.send_ping()


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
