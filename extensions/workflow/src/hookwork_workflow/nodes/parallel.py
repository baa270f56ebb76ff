"""A node that runs another one once for each item of a list (workflow §6.4)."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork import platform
from hookwork.errors import GraphError, NodeFailed, NodeRunError
from hookwork.merge import cancel_and_wait
from hookwork.node import Node, NodeConfig, Pause, build_node
from hookwork.records.event import Event
from hookwork_workflow.nodes.base import GraphNode

if TYPE_CHECKING:
    from hookwork.node_context import NodeContext


class ParallelNode(GraphNode[Any, list[Any]]):
    """See `parallel`. ``wrapped``: the node that runs for each item."""

    kind = "parallel"
    reruns = True

    def __init__(self, node: Node, *, name: str, max_workers: int | None, config: NodeConfig) -> None:
        self.name = name
        self.description = node.description
        #: without the policy that is applied to each item.
        self.wrapped = node
        self.max_workers = max_workers
        self.config = msgspec.structs.replace(config, retry=None, parallel=False)
        self.item_retry = config.retry

    @property
    def agent_nodes(self) -> tuple[Any, ...]:
        """What a runner has to know the agents of."""
        return tuple(getattr(self.wrapped, "agent_nodes", ()))

    @property
    def depth(self) -> int:
        """How many workflows lie in each other in the wrapped node."""
        return getattr(self.wrapped, "depth", 0)

    def validate_input(self, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise NodeFailed(f"parallel node {self.name} expects a list input, got {type(value).__name__}")
        return value

    async def run(self, ctx: NodeContext, input: Any) -> AsyncIterator[Event]:
        results: list[Any] = [None] * len(input)
        paused = False
        numbers = iter(range(len(input)))
        failed = False

        async def work() -> None:
            nonlocal paused, failed
            for number in numbers:
                if paused or failed or ctx.ended:
                    return
                try:
                    results[number] = await self._item(ctx, number + 1, input[number])
                except Pause:
                    paused = True
                except BaseException:
                    failed = True
                    raise

        workers = len(input) if self.max_workers is None else min(self.max_workers, len(input))
        await _run_all([work for _ in range(workers)])
        if paused:
            raise Pause
        yield Event(output=results)

    async def _item(self, ctx: NodeContext, number: int, item: Any) -> Any:
        """One item, as a child with a number of its own, so that a resume meets the same places (PARA-1)."""
        from hookwork.starting import run_item

        try:
            return await run_item(ctx, self.wrapped, item, number, retry=self.item_retry)
        except NodeRunError as error:
            failure = error.__cause__ or error
        raise failure  # what the item itself raised, with its own cause


async def _run_all(work: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run all; the first error cancels the others, which are awaited, and is raised as it is (PARA-4)."""
    if not work:
        return
    if platform.has_task_runner():
        await platform.run_tasks(work)
        return
    tasks = [asyncio.ensure_future(item()) for item in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task in done and not task.cancelled() and (error := task.exception()) is not None:
                raise error
    finally:
        await cancel_and_wait([task for task in tasks if not task.done()])


def parallel(
    value: Any,
    *,
    name: str | None = None,
    max_workers: int | None = None,
    retry: Any = None,
    timeout: float | None = None,
) -> ParallelNode:
    """A node that runs ``value`` once for each item of its input, a list; its output is the list of their outputs.

    Args:
        value: a node, or anything `build_node` takes.
        name: default: that of the node.
        max_workers: items that run at once; None: all.
        retry: a `Retry` for each item; the node itself must have none (GV-17).
        timeout: seconds for all items together.

    Raises:
        GraphError: no node can be made of the value, or ``max_workers`` is no number from 1.
    """
    number = isinstance(max_workers, int) and not isinstance(max_workers, bool) and max_workers >= 1
    if max_workers is not None and not number:
        raise GraphError(f"max_workers of parallel() is a whole number from 1, not {max_workers!r}", code="bad_setting")
    node = build_node(value)
    config = NodeConfig(retry=retry, timeout=timeout)
    if node.config.parallel:  # made by node(…, parallel=True): its settings are the parallel node's
        config = msgspec.structs.replace(node.config, retry=retry or node.config.retry, parallel=False)
        node = copy.copy(node)
        node.config = NodeConfig(emits_own_span=config.emits_own_span, effect=config.effect)
    return ParallelNode(node, name=name or node.name, max_workers=max_workers, config=config)
