"""Where the activation of a node stands, and what it gave, from stored events alone (workflow RPL-3, ANS-8, ANS-9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hookwork.asking import RERUN
from hookwork.errors import InvalidResumeResponse
from hookwork.node import Standing
from hookwork.timed import EXPIRED, EXPIRED_ROUTE

if TYPE_CHECKING:
    from hookwork.node import Node
    from hookwork.records.event import Event
    from hookwork.records.history import Call
    from hookwork.view import View

#: `NodeInfo.status` of an event that says: nothing more for now, and no question is open (workflow NODE-9).
NODE_WAITING = "waiting"


def node_standing(node: Node, view: View) -> Standing:
    """ACT-13, and for a node that hands off: it waits until all is answered, then it is done."""
    record = view.record
    if record is None:
        return Standing.PENDING
    waits = (bool(record.waiting) and bool(view.open_calls)) or view.holds_task
    if not waits and record.end >= 0 and record.end > record.newest_answer:
        return Standing.DONE  # first, and without a further question: a long run asks this of all its nodes
    handoff = hands_off(node, view)
    if waits:
        return Standing.PENDING if view.news and not handoff else Standing.WAITING
    if handoff and answers(view) is not None:
        return Standing.DONE
    # Children that went on after it said so, and a crash before it heard of that: it is due again.
    said_last = bool(record.own) and record.own[-1] == record.newest
    if said_last and not view.news and _status(view.event(record.newest)) == NODE_WAITING:
        return Standing.WAITING
    return Standing.PENDING


def node_output(node: Node, view: View) -> Any:
    """The recorded output in its checked form, or the answers of a node that handed off."""
    record = view.record
    if record is None:
        return None
    if record.end >= 0 and record.end > record.newest_answer:
        end = view.event(record.end)
        info = end.node_info
        by_message = info is not None and info.message_as_output and end.output is None
        return node.validate_output(record.output) if by_message and end.path == view.path else record.output
    given = answers(view) if hands_off(node, view) else None
    if given is None or EXPIRED in given.values():
        return None
    return next(iter(given.values())) if len(given) == 1 else given


def recorded_routes(node: Node, view: View) -> tuple[str, ...]:
    """The routes of a finished activation; they may be on another event than its output (NODE-6)."""
    record = view.record
    if record is None:
        return ()
    if record.end <= record.newest_answer and hands_off_expired(node, view):
        return (EXPIRED_ROUTE,)
    since = max(record.newest_answer, record.failed)
    for position in reversed(record.own):
        if position <= since:
            break
        if routes := view.event(position).routes:
            return routes
    return ()


def hands_off(node: Node, view: View) -> bool:
    """Whether the answers to what this activation asked are its output (ASK-6)."""
    configured = node.config.rerun_on_resume if node.config.rerun_on_resume is not None else node.reruns
    if configured is not None:
        return not configured
    record = view.record
    if record is None or record.children:
        return False
    asked = _asked(view)
    return bool(asked) and not any(_reruns(view.event(call.position)) for call in asked)


def hands_off_expired(node: Node, view: View) -> bool:
    """Whether an answer that would be the output did not come in time (WB-22)."""
    given = answers(view) if hands_off(node, view) else None
    return given is not None and EXPIRED in given.values()


def answers(view: View) -> dict[str, Any] | None:
    """Interrupt id → answer of what the place itself asked; None while one is missing or does not fit (ANS-3)."""
    asked = {call.id: call for call in _asked(view)}
    if not asked:
        return None
    found = {}
    for call_id, call in asked.items():
        if call.answer is None:
            return None
        try:
            found[call_id] = view.answer_value(call)
        except InvalidResumeResponse:
            return None
    return found


def _asked(view: View) -> Sequence[Call]:
    record = view.record
    if record is None:
        return ()
    return [call for call in record.calls if call.long_running and call.position > record.failed]


def _reruns(event: Event) -> bool:
    info = event.node_info
    return info is not None and info.extra is not None and bool(info.extra.get(RERUN))


def _status(event: Event) -> str | None:
    return event.node_info.status if event.node_info is not None else None
