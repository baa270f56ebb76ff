"""A deterministic scheduler for tests: which of the nodes that could begin does so next (workflow WB-26).

A node that is about to begin waits until it is chosen. Then it runs to its end, or until it waits for something (a
child, another node, a person); only then the next one is chosen. So concurrent nodes come in an order that a test says,
and every order can be tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from hookwork.errors import GraphError
from hookwork.merge import cancel_and_wait
from hookwork.platform import use_sleep
from hookwork.plugins.plugin import Plugin
from hookwork_workflow.workers import use_inline_functions

if TYPE_CHECKING:
    from hookwork.node import Node
    from hookwork.node_context import NodeContext
    from hookwork.stages import Stage

#: Turns of the event loop without any news after which whoever runs is taken to wait for something.
_QUIET = 60

#: Names or (ends of) paths in the order in which they are to come; a seed; or a function of the paths that could begin.
Order = Sequence[str] | int | Callable[[Sequence[str]], int]


class Conductor(Plugin):
    """Lets nodes begin one after the other; as a plugin of one runner.

    Attributes:
        chosen: the paths in the order in which they began.
        choices: for each moment at which several could begin: (which one was chosen, of how many).
    """

    name = "conductor"

    def __init__(self, choose: Callable[[Sequence[str]], int]) -> None:
        self._choose = choose
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._news = asyncio.Event()
        self._changes = 0
        self.chosen: list[str] = []
        self.choices: list[tuple[int, int]] = []

    @asynccontextmanager
    async def around_node(self, ctx: NodeContext, node: Node, input: Any, stage: Stage) -> AsyncIterator[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[ctx.path] = turn
        self._note()
        try:
            await turn
            yield
        finally:
            self._waiting.pop(ctx.path, None)
            self._note()

    async def on_event(self, ctx: Any, event: Any) -> None:
        self._note()

    def _note(self) -> None:
        self._changes += 1
        self._news.set()

    @asynccontextmanager
    async def conducting(self) -> AsyncIterator[None]:
        """Choose inside the block. Delays take no time there, and plain functions run in the loop."""
        with use_sleep(lambda seconds: asyncio.sleep(0)), use_inline_functions():
            task = asyncio.ensure_future(self._conduct())
            task.add_done_callback(self._ended)
            try:
                yield
            finally:
                await cancel_and_wait([task])

    def _ended(self, task: asyncio.Task[None]) -> None:
        """What the choosing function raises is raised by whoever waits to be chosen."""
        error = None if task.cancelled() else task.exception()
        for turn in self._waiting.values():
            if error is not None and not turn.done():
                turn.set_exception(error)

    async def _conduct(self) -> None:
        while True:
            await self._quiet()
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
                continue
            paths = sorted(self._waiting)
            number = self._choose(paths) if len(paths) > 1 else 0
            if len(paths) > 1:
                self.choices.append((number, len(paths)))
            self.chosen.append(paths[number])
            turn = self._waiting.pop(paths[number])
            if not turn.done():
                turn.set_result(None)

    async def _quiet(self) -> None:
        quiet = 0
        while quiet < _QUIET:
            before = self._changes
            await asyncio.sleep(0)
            quiet = quiet + 1 if before == self._changes else 0


def chooser(order: Order) -> Callable[[Sequence[str]], int]:
    """What chooses by an order.

    Raises:
        GraphError: it is no order.
    """
    if callable(order):
        return order
    if isinstance(order, int) and not isinstance(order, bool):
        random = Random(order)
        return lambda paths: random.randrange(len(paths))
    if isinstance(order, str | bytes) or not isinstance(order, Sequence):
        raise GraphError(f"order is a list of node names, a seed or a function, not {order!r}", code="bad_setting")
    return _Listed(order)


class _Listed:
    """Whoever comes first in a list; names in it are used up, others come last."""

    def __init__(self, names: Sequence[str]) -> None:
        self._left = list(names)

    def __call__(self, paths: Sequence[str]) -> int:
        ranks = [self._rank(path) for path in paths]
        number = ranks.index(min(ranks))
        if ranks[number] < len(self._left):
            del self._left[ranks[number]]
        return number

    def _rank(self, path: str) -> int:
        name = path.rpartition("/")[2].partition("@")[0]
        for rank, listed in enumerate(self._left):
            if listed == name or f"/{path}".endswith(f"/{listed}"):
                return rank
        return len(self._left)


class Prefix:
    """Goes on along a list of choices, and takes the first one behind it; to enumerate all orders."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices = list(choices)
        self._at = 0

    def __call__(self, paths: Sequence[str]) -> int:
        number = self._choices[self._at] if self._at < len(self._choices) else 0
        self._at += 1
        return min(number, len(paths) - 1)


def next_prefix(choices: Sequence[tuple[int, int]]) -> list[int] | None:
    """The choices of the order after this one; None when there is none left."""
    for position in range(len(choices) - 1, -1, -1):
        number, of = choices[position]
        if number + 1 < of:
            return [chosen for chosen, _ in choices[:position]] + [number + 1]
    return None
