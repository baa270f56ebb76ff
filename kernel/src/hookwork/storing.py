"""Appending an event of a run: through the write effect when a plugin carries effects out, else directly (EFF-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork.context import InvocationContext
from hookwork.effects import WriteResult, perform
from hookwork.records.event import Event
from hookwork.records.session import without_temp

if TYPE_CHECKING:
    from hookwork.invocation import Invocation


async def append_event(inv: Invocation, event: Event) -> Event:
    """Store an event on the run's session handle; the stored form."""
    assert inv.sessions is not None
    if inv.hooks.perform_write:
        return await _append_as_effect(inv, event)
    return await _append(inv, event)


async def _append(inv: Invocation, event: Event) -> Event:
    assert inv.sessions is not None
    if inv.live.rules:
        from hookwork.state_merge import append_merging

        return await append_merging(inv.sessions, inv.session, event, inv.live)
    return await inv.sessions.append_event(inv.session, event)


async def _append_as_effect(inv: Invocation, event: Event) -> Event:
    """A replayed write gives the stored event back, which the handle then holds without storing it again."""
    from hookwork.records.codec import dump, load

    assert inv.sessions is not None
    sessions = inv.sessions
    ctx = InvocationContext(inv, None, event.branch, event.isolation_scope, event.path, place="run")
    held: list[Event] = []

    async def default() -> WriteResult:
        held.append(await _append(inv, event))
        return WriteResult(payload=dump(held[-1]))

    data = {"op": "append_event", "payload": dump(without_temp(event))}
    result, _ = await perform(
        inv.hooks.perform_write,
        "perform_write",
        lambda then: ctx._effect("write", f"{inv.invocation_id}/append_event/{event.id}", data, then),
        default,
    )
    if held:
        return held[-1]
    return await sessions.append_event(inv.session, load(Event, result.payload), redelivery=True)
