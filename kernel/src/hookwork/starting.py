"""Starting agents and nodes below a place: `activate`, and `run_node` for bodies that want the output (workflow §6)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.activation import COMPLETED, Activation
from hookwork.errors import InvalidRunId, NodeRunError
from hookwork.node import Node, Pause, build_node

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.node_attempt import NodeAttempt
    from hookwork.node_context import NodeContext
    from hookwork.records.event import Event

Put = Callable[["Event"], Awaitable[None]]

_KERNEL_RUN_ID = re.compile(r"t\d+|\d+-\d+")
_KERNEL_CHARACTERS = re.compile(r"[/@.~]")
_NUMBER = re.compile(r"[0-9]+")


def check_run_id(run_id: str) -> str:
    """A run id that a caller may give (ACT-30). Raises InvalidRunId."""
    if not isinstance(run_id, str):
        raise InvalidRunId(f"a run id is text, not {type(run_id).__name__}")
    if not run_id or _KERNEL_CHARACTERS.search(run_id) or _KERNEL_RUN_ID.fullmatch(run_id):
        raise InvalidRunId(
            f"run id {run_id!r} is not free: ids are non-empty, without / @ . ~, and not of the form t<n> or <n>-<n>"
        )
    return run_id


def activate(
    ctx: Any,
    target: Agent | Node,
    input: Any = None,
    *,
    run_id: str | None = None,
    branch: str | None = None,
    scope: str | None = None,
    segment: str | None = None,
) -> Activation:
    """Run an agent or a node under the place of ``ctx`` (core ACV-1).

    ``run_id``: None = the next number of that name under the place. ``branch`` and ``scope``: None = those of the
    context. ``segment`` is for agents and schedulers that give the whole path segment (activations §4).

    Raises:
        InvalidRunId: a run id that belongs to the kernel.
    """
    if segment is None:
        if run_id is None:
            run_id = str(ctx.next_run(target.name))
        else:
            check_run_id(run_id)
        segment = f"{target.name}@{run_id}"
    return _activation(
        ctx,
        target,
        f"{ctx.path}/{segment}" if ctx.path else segment,
        input,
        ctx.branch if branch is None else branch,
        ctx.isolation_scope if scope is None else scope,
    )


def _activation(ctx: Any, target: Agent | Node, path: str, input: Any, branch: str, scope: str) -> Activation:
    if not isinstance(target, Node):
        return Activation(ctx._inv, target, path, input=input, branch=branch, scope=scope)
    from hookwork.node_activation import NodeActivation

    if target.undo is not None:
        ctx._inv.undoable[path] = target
    above = getattr(ctx, "activation", None)
    return NodeActivation(
        ctx._inv,
        target,
        path,
        owner=ctx._owner,
        input=input,
        branch=branch,
        scope=scope,
        state_check=getattr(above, "state_check", None),
    )


async def run_node(
    ctx: NodeContext,
    target: Any,
    input: Any,
    *,
    run_id: str | None,
    sub_branch: bool,
    branch: str | None,
    scope: str | None,
    use_as_output: bool,
    raise_on_wait: bool,
) -> Any:
    """Run a child of a node and give its output; see `NodeContext.run_node`."""
    node = _node(ctx, target)
    if run_id is not None and _NUMBER.fullmatch(check_run_id(run_id)):
        raise InvalidRunId(f"run id {run_id!r} is not free: numbers are given out in order; use a name")
    segment = f"{node.name}@{run_id if run_id is not None else ctx.next_run(node.name)}"
    path = f"{ctx.path}/{segment}"
    base = branch or ctx.branch
    if sub_branch:
        base = f"{base}.{segment}" if base else segment
    attempt = ctx.attempt_run
    assert attempt is not None
    if use_as_output:
        attempt.delegate(path)
    try:
        met = await _met(ctx, path)
        if met is not None:
            status, output = met
        else:
            child = _activation(ctx, node, path, input, base, path if scope == "path" else scope or ctx.isolation_scope)
            if use_as_output:
                child.output_for = (ctx.path,)  # type: ignore[attr-defined]
            known = path in ctx._inv.entered
            status, output = await _shared(ctx, attempt, child, segment)
            if known and status == COMPLETED and not child.was_entered:  # type: ignore[attr-defined]
                _show_hit(ctx, node)
    except (NodeRunError, asyncio.CancelledError):
        if use_as_output:
            attempt.delegated = ""  # a body that goes on without it gives an output of its own
        raise
    if status == "paused":
        if raise_on_wait:
            await others_finish(ctx)
            raise Pause
        return None
    if use_as_output:
        attempt.delegated_output = output
    return output


def _node(ctx: NodeContext, target: Any) -> Node:
    """The node of what is to be started; an agent is one node throughout a run, so that it is prepared once."""
    from hookwork.agent import Agent

    if not isinstance(target, Agent):
        return build_node(target)
    nodes = ctx._inv.nodes
    found = nodes.get(id(target))
    if found is None:
        found = nodes[id(target)] = (target, build_node(target))
    return found[1]


async def _met(ctx: NodeContext, path: str) -> tuple[str, Any] | None:
    """How a child ends that somebody else in this body runs now (DYN-22).

    None when nobody does, and when the one that ran it was cancelled: that is not the fault of who waits for it too.
    """
    while (running := ctx.children.get(path)) is not None:
        try:
            status, output = await asyncio.shield(running)
            return status, output
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not running.cancelled() or (task is not None and task.cancelling()):
                raise
    return None


def _show_hit(ctx: NodeContext, node: Node) -> None:
    """A child that was run already in this run leaves a span all the same (workflow DYN-20)."""
    tracer = ctx._inv.tracer
    if tracer is not None and not node.config.emits_own_span:
        from hookwork.node_activation import span_attributes
        from hookwork.telemetry import start_span

        start_span(tracer, f"invoke_node {node.name}", span_attributes(node, ctx.session_id)).end()


async def others_finish(ctx: NodeContext) -> None:
    """Children that run beside one that waits come to their end first: a task group would cancel them at its pause.

    So their work is not lost and done again after the answer, as in a graph (workflow SCH-7).
    """
    await asyncio.sleep(0)  # those that were started with it may not have begun
    while ctx.children:
        await asyncio.wait(list(ctx.children.values()))
        await asyncio.sleep(0)  # what they were awaited by may start further ones


async def run_item(ctx: NodeContext, node: Node, input: Any, number: int, *, retry: Any = None) -> Any:
    """Run a node for the item of that number, on a branch of its own, and give its output (workflow PARA-1).

    Raises:
        NodeRunError: it failed for good. Pause: it waits.
    """
    attempt = ctx.attempt_run
    assert attempt is not None
    segment = f"{node.name}@{number}"
    branch = f"{ctx.branch}.{segment}" if ctx.branch else segment
    child = _activation(ctx, node, f"{ctx.path}/{segment}", input, branch, ctx.isolation_scope)
    child.retry = retry  # type: ignore[attr-defined]
    status, output = await _shared(ctx, attempt, child, segment)
    if status == "paused":
        raise Pause
    return output


async def _shared(ctx: NodeContext, attempt: NodeAttempt, child: Activation, segment: str) -> tuple[str, Any]:
    """Run a child to its end; who asks for it meanwhile gets the same outcome (DYN-22)."""
    name, _, run_id = segment.partition("@")
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.add_done_callback(_seen)
    ctx.children[child.path] = future
    if (task := asyncio.current_task()) is not ctx.body_task and task is not None:
        attempt.detached.add(task)
    try:
        await drive(child, attempt.forward)
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError | Pause | KeyboardInterrupt | SystemExit):
            future.cancel()
            raise
        failure = NodeRunError(name, child.path, run_id, error)
        future.set_exception(failure)
        raise failure from error
    finally:
        ctx.children.pop(child.path, None)
        if task is not None:
            attempt.detached.discard(task)
    if child.awaits_trigger:  # type: ignore[attr-defined]
        attempt.child_idles = True
    future.set_result((child.status, child.output))
    return child.status, child.output


def _seen(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()  # it is raised where the child was started; it must not be reported as never retrieved


async def drive(child: Activation, put: Put) -> None:
    """Run an activation to its end and hand its events on, each acknowledged before the next."""
    from hookwork.node_activation import NodeActivation

    if isinstance(child, NodeActivation):
        await child.drive(put)
        return
    async with aclosing(child) as events:
        async for event in events:
            await put(event)


async def run_child(ctx: Any, put: Put, target: Any, input: Any, run_id: str | None) -> Any:
    """Run an agent or a node below a tool call; see `ToolContext.run_node`."""
    from hookwork.agent import Agent

    node = target if isinstance(target, Agent) else build_node(target)
    child = activate(ctx, node, input, run_id=run_id)
    if isinstance(node, Agent):
        await drive(child, put)
    else:
        try:
            await drive(child, put)
        except Exception as error:
            raise NodeRunError(node.name, child.path, child.path.rpartition("@")[2], error) from error
    if child.status == "paused":
        raise Pause
    return child.output
