"""A leaf body carried out through ``perform_node`` (tools-plugins EFF-3, EFF-8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.asking import request_input_event
from hookwork.effects import NodeResult, perform
from hookwork.errors import PluginError
from hookwork.records.deleted import delta_of
from hookwork.records.event import NO_ACTIONS, Event, RequestInput
from hookwork.records.frozen import thaw

if TYPE_CHECKING:
    from hookwork.node_attempt import NodeAttempt
    from hookwork.node_context import NodeContext


async def perform_body(attempt: NodeAttempt) -> None:
    """Ask the engines to carry out one attempt, then let out what it gave.

    Raises:
        RemoteEffectError: it failed elsewhere. PluginError: an engine returned no `NodeResult`.
    """
    activation, ctx = attempt.activation, attempt.ctx
    node = activation.node
    data = {
        "node": node.name,
        "run_id": ctx.run_id,
        "attempt": activation.attempt,
        "input": _plain(ctx.node_input),
        "answers": {key: thaw(value) for key, value in ctx.resume_inputs.items()},
    }

    async def default() -> NodeResult:
        return await body_result(ctx)

    hooks = activation.inv.hooks
    result, owner = await perform(
        hooks.perform_node,
        "perform_node",
        lambda then: ctx._effect("node", ctx.idempotency_key, data, then),
        default,
    )
    if not isinstance(result, NodeResult):
        raise PluginError(f"plugin {owner!r}: perform_node returned {type(result).__name__}; return a NodeResult")
    _apply(ctx, result)
    outputs = False
    for event in result.events:
        if not isinstance(event, Event):
            raise PluginError(
                f"plugin {owner!r}: perform_node returned a NodeResult with {type(event).__name__} among its events; "
                "they are Event objects"
            )
        outputs = outputs or event.output is not None
        await attempt.take(event)
    routed = any(event.routes for event in result.events)
    if (result.output is not None and not outputs) or (result.routes and not routed):
        output = None if outputs else result.output
        await attempt.take(Event(output=output, routes=() if routed else tuple(result.routes)))


async def body_result(ctx: NodeContext) -> NodeResult:
    """Run the body here and gather what it gives."""
    node = ctx.node
    events: list[Event] = []
    ctx.is_effect = True
    body: Any = node.run(ctx, ctx.node_input)
    try:
        async for item in body:
            events.append(request_input_event(item) if isinstance(item, RequestInput) else item)
    finally:
        if hasattr(body, "aclose"):
            await body.aclose()
    if (given := ctx.take_given()) is not None:
        events.append(given)
    output = next((event.output for event in reversed(events) if event.output is not None), None)
    routes = next((event.routes for event in reversed(events) if event.routes), ())
    actions = ctx.actions.snapshot()
    return NodeResult(output=output, routes=routes, events=tuple(events), actions=actions)


def _apply(ctx: NodeContext, result: NodeResult) -> None:
    """Writes that were made elsewhere; after a local ``default()`` they are there already (EFF-5)."""
    if result.actions is NO_ACTIONS:
        return
    written = ctx.actions.state_delta
    for key, value in delta_of(result.actions).items():
        if key not in written:
            ctx.state[key] = value
    buffer = ctx._buffer
    if buffer is not None:
        for name, version in result.actions.artifact_delta.items():
            buffer.note_artifact(name, version)


def _plain(value: Any) -> Any:
    """The checked input as JSON; a converted one goes in the form it has on an event."""
    from hookwork.records.base import Record

    if isinstance(value, Record):
        from hookwork.records.codec import dump

        return dump(value)
    return thaw(value)
