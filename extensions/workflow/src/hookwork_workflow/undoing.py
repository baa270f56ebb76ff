"""Compensation: what was done is undone, newest first, when a workflow fails for good (workflow WB-23).

A marker at the workflow's place says that undoing began, one at the place of each undo that it did, one that all is
over. So a process that goes on after a crash undoes the rest, and nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from hookwork.errors import LimitExceeded, NodeFailed
from hookwork.inside import invocation_of, owner_of
from hookwork.node import Standing
from hookwork.node_activation import NodeActivation
from hookwork.node_cuts import is_failure
from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.event import Event, NodeInfo
from hookwork.view import View, segment_name
from hookwork_workflow.carrying_out import nodes_of
from hookwork_workflow.errors import GraphChanged, ReplayDivergence
from hookwork_workflow.validation import inner_graph

if TYPE_CHECKING:
    from hookwork.context import InvocationContext, ToolContext
    from hookwork.invocation import Invocation
    from hookwork.node import Node
    from hookwork.records.history import Call, Record
    from hookwork_workflow.workflow import Workflow

logger = logging.getLogger("hookwork.workflow")

#: Key in `NodeInfo.extra` of the markers: ``begun``, ``done`` or, of a question, ``closed``.
UNDOING = "hookworkUndo"
#: Segment under the place of what is undone. It is no number, so no graph takes it for a run of a node.
UNDO = "undo@undo"

#: What a run can go on after: with a higher limit, or with the graph that it was begun with.
_NOT_FINAL = (LimitExceeded, GraphChanged, ReplayDivergence)


class _Done(NamedTuple):
    """An activation that is to be undone, what it gave, and where its end stands."""

    order: int
    record: Record
    node: Node
    output: Any


def is_undone(view: View) -> bool:
    """Whether everything that a failed workflow did has been undone, as far as it could be."""
    return _marker(view) == "done"


def is_undoing(view: View) -> bool:
    """Whether undoing has begun: nothing else of the workflow is run any more."""
    return _marker(view) is not None


def _marker(view: View) -> str | None:
    for event in reversed(view.events):
        extra = event.node_info.extra if event.node_info is not None else None
        if extra is not None and UNDOING in extra:
            return str(extra[UNDOING])
    return None


def is_final(error: BaseException) -> bool:
    """Whether a workflow that ends with this error has failed for good, as opposed to paused, stopped or limited."""
    return is_failure(error) and not isinstance(error, _NOT_FINAL) and not isinstance(error.__cause__, _NOT_FINAL)


async def undo_failed(ctx: InvocationContext, workflow: Workflow, error: BaseException) -> AsyncGenerator[Event, None]:
    """Undo what a workflow did that runs as an agent and ends with this error, if nobody around it does that."""
    if is_final(error) and answers_for_itself(ctx):
        async with aclosing(undo_all(ctx, workflow, ctx.path)) as events:
            async for event in events:
                yield event


def answers_for_itself(ctx: InvocationContext) -> bool:
    """Whether no workflow around an agent undoes what happened in it."""
    tree = invocation_of(ctx).setup.tree
    names = [segment.partition("@")[0] for segment in ctx.path.split("/")[:-1]]
    return tree is None or not any(getattr(tree.find(name), "workflow", None) is not None for name in names)


async def undo_all(ctx: InvocationContext | ToolContext, workflow: Workflow, path: str) -> AsyncGenerator[Event, None]:
    """Undo what is done under a workflow's place, and has not been undone, the newest first.

    An undo that fails is recorded like any failed node, and the others follow.
    """
    inv = invocation_of(ctx)
    view = View(inv, inv.invocation_id, path)
    if is_undone(view):
        return
    due = sorted(_found(inv, workflow, view), key=lambda done: done.order, reverse=True)
    if not due and not is_undoing(view):
        return
    if not is_undoing(view):
        yield _mark(ctx, path, "begun")
    for done in due:
        place = f"{done.record.path}/{UNDO}"
        if inv.history().record(inv.invocation_id, place) is not None:
            continue  # begun by an earlier process, whatever became of it
        yield _mark(ctx, place, "begun")
        activation = NodeActivation(
            inv,
            undo_node(done.node),
            place,
            owner=owner_of(ctx),  # type: ignore[arg-type]
            input=done.output,
            branch=done.record.branch,
            scope=done.record.scope,
        )
        try:
            async with aclosing(activation) as events:
                async for event in events:
                    yield event
        except BaseException as error:
            if not is_failure(error):
                raise
            logger.warning("the undo of node %s failed: %s", done.record.path, type(error).__name__, exc_info=error)
        if activation.status == "paused":
            logger.warning("the undo of node %s waits for an answer, which it cannot", done.record.path)
    for call in view.open_calls:  # of undos, and of nodes that waited beside the one that failed
        yield _closed(ctx, call)
    yield _mark(ctx, path, "done")


def _closed(ctx: InvocationContext | ToolContext, call: Call) -> Event:
    """The response to a question that nobody is to answer any more, since the run is over."""
    closing = FunctionResponse(id=call.id, name=call.name, response={"error": "closed: the workflow was undone"})
    event = _mark(ctx, call.path, "closed")
    content = Content(role="user", parts=[Part(function_response=closing)])
    return event.replace(branch=call.branch, isolation_scope=call.isolation_scope, content=content)


async def undo_rest(ctx: InvocationContext, workflow: Workflow) -> AsyncGenerator[Event, None]:
    """Go on with undoing that another process began; raises NodeFailed at its end, as the workflow had failed."""
    if not is_undone(ctx.view):
        async with aclosing(undo_all(ctx, workflow, ctx.path)) as events:
            async for event in events:
                yield event
    raise NodeFailed(f'workflow "{workflow.name}" has failed and was undone; start a new run')


def undo_node(node: Any) -> Node:
    """The node that undoes one."""
    from hookwork_workflow.building import build

    made = build(node.undo)
    assert made is not None  # checked when it was given
    return made


def _mark(ctx: Any, path: str, what: str) -> Event:
    owner = owner_of(ctx)
    return Event(
        id=new_uuid(),
        timestamp=timestamp(),
        invocation_id=ctx.invocation_id,
        author=owner.name if owner is not None else "",
        branch=ctx.branch,
        isolation_scope=ctx.isolation_scope,
        node_info=NodeInfo(path=path, extra={UNDOING: what}),
    )


def _found(inv: Invocation, workflow: Workflow, view: View) -> Iterator[_Done]:
    """The activations under a place that are done and know how they are undone."""
    index = inv.history()
    by_name: dict[str, Node] = {node.name: node for node in nodes_of(workflow) if getattr(node, "undo", None)}
    pending: list[tuple[View, Any]] = [(view, workflow)]
    while pending:
        place, holder = pending.pop()
        record = place.record
        for path in record.children if record is not None else ():
            if path.endswith(f"/{UNDO}"):
                continue
            name = segment_name(path)
            node = inv.undoable.get(path) or _inside(holder, name) or by_name.get(name)
            below = View(inv, view.invocation_id, path)
            pending.append((below, node))
            found = index.record(view.invocation_id, path)
            if node is None or found is None or getattr(node, "undo", None) is None:
                continue
            if node.standing(below) is Standing.DONE:
                order = max(found.end, found.newest_answer)
                if order < 0:  # a workflow without output: it ended with what ended last in it
                    order = found.newest
                yield _Done(order, found, node, node.output(below))  # read now: a marker below may hide an answer


def _inside(holder: Any, name: str) -> Any:
    graph = inner_graph(holder) if holder is not None else None
    wrapped = getattr(holder, "wrapped", None)
    if wrapped is not None and wrapped.name == name:
        return wrapped
    return graph.nodes.get(name) if graph is not None else None
