"""What comes after the last event of a run: seal, error hooks, ``after_run``, compaction (core §3.1, HND-5)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from hookwork.activation import COMPLETED
from hookwork.platform import new_uuid, timestamp
from hookwork.plugins.dispatch import notify
from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.event import Event

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.invocation import Invocation
    from hookwork.lifecycle import RunCore

logger = logging.getLogger("hookwork.runner")


async def end_run(core: RunCore, inv: Invocation, ctx: InvocationContext, error: BaseException | None) -> None:
    """Seal, error hooks, ``after_run`` and compaction (RUN-22, RUN-23, HND-5, CMP-4)."""
    if core.outcome is None or (error is not None and core.outcome.kind in (COMPLETED, "paused", "ended")):
        core.conclude_error(inv, error or RuntimeError("the run ended without an outcome"))
    closed = core.outcome is not None and core.outcome.kind == "closed"
    cancelled_from_outside = core.abandoned or (isinstance(error, asyncio.CancelledError) and not core.stop_sent)
    try:
        if inv.in_flight and closed and not cancelled_from_outside:
            await _seal(core, inv)
        if inv.cut_failures and closed:
            from hookwork.node_cuts import settle_cuts

            await settle_cuts(inv, error, core.append if cancelled_from_outside else None)
        if isinstance(error, Exception) and not closed and inv.hooks.on_run_error:
            await notify(inv.hooks.on_run_error, "on_run_error", ctx, error)
    finally:
        if inv.hooks.after_run:
            await _tell_after_run(core, inv, ctx)
    if inv.setup.compaction is not None and not cancelled_from_outside and not core.live:
        await _compact(core, inv, ctx)


async def _compact(core: RunCore, inv: Invocation, ctx: InvocationContext) -> None:
    """Compact the history of a run that did not fail; an error is the caller's, if still there (CMP-4, CMP-10)."""
    outcome = core.outcome
    if outcome is None or outcome.kind in ("failed", "limit"):
        return
    try:
        await inv.setup.compaction.after_run(ctx, outcome)
    except Exception:
        if outcome.kind != "closed":
            raise
        logger.warning("compaction of session %s failed after the run was left", inv.session_id, exc_info=True)


async def _tell_after_run(core: RunCore, inv: Invocation, ctx: InvocationContext) -> None:
    """Every ``after_run``, a cancellation that comes meanwhile included; it goes on afterwards (RUN-22)."""
    leaving: BaseException | None = None
    for hook in inv.hooks.after_run:
        try:
            await notify((hook,), "after_run", ctx, core.outcome)
        except asyncio.CancelledError as error:
            if core.driver is not None and core.driver.cancelling() > core.cancels + core.stop_sent:
                leaving = error
            else:  # raised by the hook itself, nobody cancels this run
                logger.exception("plugin %r raised in 'after_run'", hook[1])
        except BaseException as error:  # noqa: BLE001 - raised again below, once all were told
            error.add_note(f"raised by plugin {hook[1]!r} in 'after_run'")
            leaving = leaving or error
    if leaving is not None:
        raise leaving


async def _seal(core: RunCore, inv: Invocation) -> None:
    """Answer long-running calls whose body was cut, so that they do not look like ones that wait (HND-5)."""
    groups: dict[tuple[str, str], list[tuple[Event, Any]]] = {}
    for event, call in inv.in_flight.values():
        groups.setdefault((event.author, event.branch), []).append((event, call))
    for entries in groups.values():
        made_by = entries[0][0]
        parts = [
            Part(
                function_response=FunctionResponse(
                    id=call.id,
                    name=call.name,
                    response={"error": "interrupted: the run was stopped before this call had a result"},
                )
            )
            for _, call in entries
        ]
        event = Event(
            id=new_uuid(),
            timestamp=timestamp(),
            invocation_id=inv.invocation_id,
            author=made_by.author,
            branch=made_by.branch,
            isolation_scope=made_by.isolation_scope,
            node_info=made_by.node_info,
            content=Content(role="user", parts=parts),
        )
        try:
            await core.append(inv, event)
        except Exception:
            logger.warning("interrupted calls could not be sealed in session %s", inv.session_id, exc_info=True)
