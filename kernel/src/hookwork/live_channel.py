"""The way from `LiveRun.send` to the agent that listens (core LIVE-1, LIVE-3)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hookwork.errors import RunStateError

if TYPE_CHECKING:
    from hookwork.live import LiveRequest, LiveRunConfig
    from hookwork.records.content import Content

#: Realtime inputs that may wait to be taken before `send` waits for room (10 s of audio in pieces of 10 ms).
MAX_WAITING = 1024


class LiveChannel:
    """Requests in the order in which they were sent; one agent at a time takes them.

    Attributes:
        config: the run's live settings.
        closed: the sender said that nothing more comes; what was sent before is still handed out.
        listening: False while no agent takes requests (between the children of a sequence): `send` raises then.
    """

    __slots__ = ("_changed", "_handle_taken", "_judge", "_requests", "_take", "closed", "config", "listening", "over")

    def __init__(
        self,
        config: LiveRunConfig,
        *,
        take: Callable[[Content, str], Awaitable[Content | None]],
        judge: Callable[[Content], None],
    ) -> None:
        self.config = config
        self.closed = False
        self.over = False
        self.listening = True
        self._take = take
        self._judge = judge
        self._handle_taken = False
        self._requests: deque[LiveRequest] = deque()
        self._changed = asyncio.Event()

    # --- the sending side ---------------------------------------------------------------------------------------------

    async def send(self, request: LiveRequest) -> None:
        """Queue a request. Raises what `LiveRun.send` raises."""
        self._check_open()
        if request.content is not None:
            self._judge(request.content)
        else:
            while len(self._requests) >= MAX_WAITING:
                await self._change()
                self._check_open()
        self._requests.append(request)
        self._changed.set()

    def _check_open(self) -> None:
        if self.over:
            raise RunStateError("the live run is over; start another one with runner.run_live(...)")
        if self.closed:
            raise RunStateError("the live run was closed; nothing more can be sent")
        if not self.listening:
            raise RunStateError("no agent listens right now; send when the next one has begun")

    def close(self) -> None:
        """Nothing more is sent."""
        self.closed = True
        self._changed.set()

    def end(self) -> None:
        """The run is over: what waits in `send` raises."""
        self.closed = self.over = True
        self._requests.clear()
        self._changed.set()

    # --- the agent's side ---------------------------------------------------------------------------------------------

    async def next(self) -> LiveRequest | None:
        """The next request, None when the channel is closed and all were handed out. Safe to cancel."""
        while not self._requests:
            if self.closed:
                return None
            await self._change()
        request = self._requests.popleft()
        self._changed.set()
        return request

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def put_back(self, request: LiveRequest) -> None:
        """A request that was taken and not used, for whoever listens next."""
        self._requests.appendleft(request)
        self._changed.set()

    async def take(self, content: Content, scope: str = "") -> Content | None:
        """``on_user_message`` and the user's event, for a content that is about to be sent (LIVE-3, LIVE-7).

        To be awaited by the agent's live body itself, in the task that yields its events. Gives what is to be sent, as
        it was stored: without the credentials in it (crosscutting AUTH-32); None when it was dropped.

        Args:
            scope: isolation scope of the event: that of a task which hears it in the model's place (core RUN-16).
                Answers carry the scopes of their calls.
        """
        return await self._take(content, scope)

    def take_handle(self) -> str | None:
        """The resumption handle that the caller gave, once: it belongs to the first connection of the run (LIVE-9)."""
        if self._handle_taken or self.config.session_resumption is None:
            return None
        self._handle_taken = True
        return self.config.session_resumption.handle
