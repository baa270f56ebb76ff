"""Resources that few nodes may use at once, in all runs of a process together (workflow WB-29)."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError
from hookwork.node_activation import Gate
from hookwork.plugins.plugin import Plugin

if TYPE_CHECKING:
    from hookwork.node import Node
    from hookwork.node_context import NodeContext
    from hookwork.stages import Stage

#: (limits object, resource) → the permits that the innermost node around has to lend.
_lent: ContextVar[Mapping[tuple[int, str], _Permits]] = ContextVar("hookwork_lent_permits", default={})  # noqa: B039


class ResourceLimits(Plugin):
    """A plugin that lets a limited number of nodes use a resource at once.

    A resource is a tag of nodes (``node(…, tags=["gpu"])``) or a node's name. The limits hold for all nodes of all runs
    of the runners that are given this object: nodes of graphs, items, and what bodies start; in any event loop. Who
    waits is served in order; it waits before its first attempt, holds nothing during the delay before a further one,
    and nothing while it waits for a person. A child that needs what its caller holds uses that, one at a time.

    Args:
        limits, more: resource → how many at once, from 1.

    Raises:
        ConfigurationError: a limit is no whole number from 1, or there is none.
    """

    name = "resource_limits"

    def __init__(self, limits: Mapping[str, int] | None = None, **more: int) -> None:
        found = {**(limits or {}), **more}
        if not found:
            raise ConfigurationError("ResourceLimits needs a limit, e.g. ResourceLimits(gpu=1)")
        for resource, limit in found.items():
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
                raise ConfigurationError(f"ResourceLimits: {resource} is a whole number from 1, not {limit!r}")
        self._permits = {resource: _Permits(limit) for resource, limit in found.items()}

    def in_use(self, resource: str) -> int:
        """How many use a resource now. Raises KeyError: it has no limit."""
        return self._permits[resource].in_use

    @asynccontextmanager
    async def around_node(self, ctx: NodeContext, node: Node, input: Any, stage: Stage) -> AsyncIterator[None]:
        names = {node.name, *getattr(node, "tags", ())}
        # Always in one order, so that two nodes never wait for what the other one holds.
        resources = sorted(names & self._permits.keys())
        if not resources:
            yield
            return
        lent = _lent.get()
        permits = [lent.get((id(self), resource)) or self._permits[resource] for resource in resources]
        activation = ctx.activation
        gate = _Held(permits, activation.gate)
        token = _lent.set({**lent, **{(id(self), resource): _Permits(1) for resource in resources}})
        before, activation.gate = activation.gate, gate
        try:
            await gate.take()
            yield
        finally:
            activation.gate = before
            gate.give_back()
            _lent.reset(token)


class _Held(Gate):
    """Permits of one node, given back while it waits for its next attempt; around another gate of the node."""

    def __init__(self, permits: Sequence[_Permits], inner: Gate | None) -> None:
        self._permits = permits
        self._inner = inner
        self._taken: list[_Permits] = []

    async def take(self) -> None:
        for permits in self._permits:
            await permits.acquire()
            self._taken.append(permits)

    def give_back(self) -> None:
        while self._taken:
            self._taken.pop().release()

    async def enter(self) -> None:
        await self.take()
        if self._inner is not None:
            await self._inner.enter()

    def leave(self) -> None:
        if self._inner is not None:
            self._inner.leave()
        self.give_back()


class _Permits:
    """A number of permits, handed out in the order of asking, to tasks of any event loop."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._number = number
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()

    @property
    def in_use(self) -> int:
        return self._number - self._free

    async def acquire(self) -> None:
        with self._lock:
            if self._free and not self._waiting:
                self._free -= 1
                return
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            with self._lock:
                handed = future not in self._waiting
                if not handed:
                    self._waiting.remove(future)
            if handed:  # it was given the permit while it was being cancelled
                self.release()
            raise

    def release(self) -> None:
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            future = self._waiting.popleft()
        loop = future.get_loop()
        try:
            loop.call_soon_threadsafe(_settle, future)
        except RuntimeError:  # its loop is closed: whoever waited there is gone
            self.release()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
