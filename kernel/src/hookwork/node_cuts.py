"""Nodes that fail with an error of their own while they are being ended from outside (workflow FAIL-3).

Nobody takes their events any more, so the failure is kept on the invocation until the cut is over: a deadline of a node
around them raises the error, a cancelled run stores the event last and carries the error as context.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from hookwork.node import Pause

if TYPE_CHECKING:
    from hookwork.invocation import Invocation
    from hookwork.records.event import Event

logger = logging.getLogger("hookwork.runner")


class CutFailure(NamedTuple):
    """A failure whose event did not get out. ``position``: how many events were stored when it came."""

    path: str
    position: int
    event: Event
    error: BaseException


def is_failure(error: BaseException | None) -> bool:
    """Whether an error fails the node, as opposed to what ends or pauses it from outside (workflow FAIL-6)."""
    return error is not None and not isinstance(
        error, Pause | asyncio.CancelledError | KeyboardInterrupt | SystemExit | GeneratorExit
    )


def say_where(error: BaseException, node: str, path: str) -> None:
    """Say on an error where it came from, once per level (workflow FAIL-1)."""
    note = f'in node "{node}" at {path}'
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def came_from_below(error: BaseException, path: str) -> bool:
    """Whether an error is that of a node under a place, as `say_where` told, or was caused by one."""
    if any(f" at {path}/" in note for note in getattr(error, "__notes__", ())):
        return True
    causes = error.exceptions if isinstance(error, BaseExceptionGroup) else (error.__cause__,)
    return any(cause is not None and came_from_below(cause, path) for cause in causes)


def note_cut(inv: Invocation, node: str, event: Event, error: BaseException) -> None:
    """Keep a failure that came while its node was being ended. ``event``: what is to be stored of it."""
    say_where(error, node, event.path)
    if inv.cut_failures is None:
        inv.cut_failures = []
    inv.cut_failures.append(CutFailure(event.path, inv.history().length, event, error))


def take_cuts(inv: Invocation, path: str = "") -> list[CutFailure]:
    """The failures kept of a place and what lies under it (all without a path), in order; they are kept no longer.

    Left out: those of places that went on since, and those whose event was stored before its node heard of it.
    """
    kept = inv.cut_failures
    if not kept:
        return []
    below = f"{path}/"
    taken = [cut for cut in kept if not path or cut.path == path or cut.path.startswith(below)]
    inv.cut_failures = [cut for cut in kept if cut not in taken]
    index = inv.history()
    found = []
    for cut in taken:
        record = index.record(inv.invocation_id, cut.path)
        if record is None or record.newest < cut.position:
            found.append(cut)
    return found


def failure_in(task: asyncio.Task[None]) -> BaseException | None:
    """The failure that was on its way when a task was cancelled: what its `CancelledError` came on top of."""
    try:
        error = task.exception() if task.done() else None
    except asyncio.CancelledError as cancelled:
        error = cancelled.__context__
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if is_failure(error):
            return error
        seen.add(id(error))
        error = error.__context__
    return None


async def settle_cuts(
    inv: Invocation,
    leaving: BaseException | None,
    append: Callable[[Invocation, Event], Awaitable[Event]] | None,
) -> None:
    """At the end of a run that was cancelled: store what is kept, the first error is the context of what leaves.

    ``append``: None when the run was ended by choice; nothing more is stored then (core INV-3), so it is logged.
    """
    cuts = take_cuts(inv)
    if append is None:
        for cut in cuts:
            logger.warning("%s failed while its run was ended", cut.path, exc_info=cut.error)
        return
    if cuts and leaving is not None:
        set_context(leaving, cuts[0].error)
    for cut in cuts:
        try:
            await append(inv, cut.event)
        except Exception:
            logger.warning("the failure of %s could not be stored", cut.path, exc_info=True)


def set_context(error: BaseException, cause: BaseException) -> None:
    """Let an error say what else went wrong, behind what it says already; never in a circle."""
    last, seen = error, {id(error)}
    while last.__context__ is not None:
        last = last.__context__
        if last is cause or id(last) in seen:
            return
        seen.add(id(last))
    chain: BaseException | None = cause
    while chain is not None:
        if id(chain) in seen:
            return
        seen.add(id(chain))
        chain = chain.__context__
    last.__context__ = cause
