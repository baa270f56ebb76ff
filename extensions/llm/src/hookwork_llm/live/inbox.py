"""How the tasks of a live session meet in the one place that yields events.

One connection, one reader of what the user sends and any number of tools work at once, each in a task of its own. They
put items into one inbox; the session's generator takes them one by one, so that only it makes, orders and yields
events (core INV-1, INV-2).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from hookwork.merge import cancel_and_wait
from hookwork.records.content import Content
from hookwork.records.event import Event
from hookwork.records.metadata import ModelResponse

#: Server messages that may wait before the reader of the connection has to.
MAX_WAITING = 64


class Changes:
    """Wakes everybody who waits for something to change; they look for themselves whether it is what they wanted."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def fire(self) -> None:
        """Something changed."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def next(self) -> None:
        """Until the next change."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter


# --- items ------------------------------------------------------------------------------------------------------------


class Item:
    """Something for the session. ``done`` is set when it was dealt with, its events stored and handed on."""

    __slots__ = ("done", "taken")

    def __init__(self) -> None:
        self.done: asyncio.Future[None] | None = None
        self.taken = False


class LineUp(Item):
    """A connection is open."""

    __slots__ = ()


class LineDown(Item):
    """The connection is gone. ``error`` None: nothing was opened, because a hook answered."""

    __slots__ = ("error",)

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error


class Received(Item):
    """A server message, after ``after_model``."""

    __slots__ = ("response",)

    def __init__(self, response: ModelResponse) -> None:
        super().__init__()
        self.response = response


class Answered(Received):
    """What ``before_model`` gave in the model's place: the whole answer."""

    __slots__ = ()


class Said(Item):
    """A content that the user sent."""

    __slots__ = ("content",)

    def __init__(self, content: Content) -> None:
        super().__init__()
        self.content = content


class Made(Item):
    """An event of a tool."""

    __slots__ = ("event",)

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event


class ToolsDone(Item):
    """A batch of calls is over."""

    __slots__ = ()


class Closed(Item):
    """The user sends nothing more."""

    __slots__ = ()


class Leave(Item):
    """The session ends now."""

    __slots__ = ()


class Redial(Item):
    """The wait before the next connection is over."""

    __slots__ = ()


class Failed(Item):
    """A task of the session raised."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


# --- the inbox and who fills it ---------------------------------------------------------------------------------------


class Inbox:
    """Items in the order in which they came."""

    __slots__ = ("_changes", "_items")

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._changes = Changes()

    def post(self, item: Item) -> None:
        """Put an item in; nobody waits for it."""
        self._items.append(item)
        self._changes.fire()

    async def offer(self, item: Item) -> None:
        """Put an item in once there is room: a slow consumer slows the server down."""
        while len(self._items) >= MAX_WAITING:
            await self._changes.next()
        self.post(item)

    async def hand_over(self, item: Item) -> None:
        """Put an item in and wait until it was dealt with."""
        item.done = asyncio.get_running_loop().create_future()
        self.post(item)
        await item.done

    async def take(self) -> Item:
        """The next item."""
        while not self._items:
            await self._changes.next()
        item = self._items.popleft()
        item.taken = True
        self._changes.fire()
        return item


def acknowledge(item: Item) -> None:
    """An item was dealt with: who waits for it goes on."""
    if item.done is not None and not item.done.done():
        item.done.set_result(None)


class Crew:
    """The tasks of a session: what one of them raises comes in as `Failed`, and none outlives `end` (models LIVE-13).

    They run in the context variables of the session's beginning, so that what an around hook of a connection sets does
    not reach a tool.
    """

    __slots__ = ("_context", "_inbox", "_tasks", "ended")

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._tasks: set[asyncio.Task[None]] = set()
        self._context = contextvars.copy_context()
        #: no task is to be started any more.
        self.ended = False

    def start(self, work: Coroutine[Any, Any, None], then: Callable[[], None] | None = None) -> asyncio.Task[None]:
        """Run something beside the session; ``then`` is called when it is over, however it ended."""
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._tasks.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if then is not None:
                then()
            if error is not None and not self.ended:
                self._inbox.post(Failed(error))

        task.add_done_callback(over)
        return task

    @staticmethod
    async def cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
        """Cancel some tasks and wait until they have ended."""
        await cancel_and_wait([task for task in tasks if not task.done()])

    async def end(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        self.ended = True
        await self.cancel(list(self._tasks))
