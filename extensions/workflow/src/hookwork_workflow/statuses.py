"""What a stored session says of each node and agent: done, waiting, failed, started (workflow WB-27, ST-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hookwork.errors import InvocationNotFoundError

if TYPE_CHECKING:
    from hookwork.records.history import Record
    from hookwork.records.session import Session


def statuses_of(session: Session, invocation_id: str | None = None) -> Mapping[tuple[str, ...], str]:
    """Names from the root to a place → status of its newest activation in an invocation (None: the newest).

    What was undone is ``undone``; what could not be is ``failed``.

    Raises:
        InvocationNotFoundError: the session has no live event of it.
    """
    index = session.history()
    if invocation_id is None:
        # Not the one that began last: a message that was held while another waits begins one of its own.
        latest = max(index.records.values(), key=lambda record: max(record.newest, record.news), default=None)
        if latest is None:
            return {}
        invocation_id = latest.invocation_id
    if invocation_id not in index.invocations:
        raise InvocationNotFoundError(f"session {session.id!r} has no invocation {invocation_id!r}")
    newest: dict[tuple[str, ...], Record] = {}
    for (invocation, path), record in index.records.items():
        if invocation == invocation_id:
            names = tuple(segment.partition("@")[0] for segment in path.split("/"))
            known = newest.get(names)
            if known is None or record.first >= known.first:
                newest[names] = record
    found = {names: status_of(record) for names, record in newest.items()}
    for task in session.open_tasks:
        if task.invocation_id == invocation_id and task.failed < 0:
            names = tuple(segment.partition("@")[0] for segment in task.path.split("/"))
            found |= {names[:depth]: "waiting" for depth in range(1, len(names) + 1)}
    for names in [names for names in found if names[-1] == "undo" and newest[names].path.endswith("/undo@undo")]:
        found[names[:-1]] = "undone" if found.pop(names) == "done" else "failed"
    return found


def status_of(record: Record) -> str:
    """``waiting``, ``done``, ``failed`` or ``started``, as far as one place's record tells."""
    if any(call.is_open for call in record.waiting.values()):
        return "waiting"
    if record.end > record.newest_answer or record.handover >= 0:
        return "done"
    if record.failed > record.newest_answer:
        return "failed"
    asked = [call for call in record.calls if call.long_running]
    if asked and not record.children and all(call.answer is not None for call in asked):
        return "done" if record.newest < record.newest_answer else "started"
    return "started"
