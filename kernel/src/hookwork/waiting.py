"""What becomes of a plain message while a run waits for answers (core RES-11; workflow ANS-7, CPA-7).

A root that is not itself a conversation is not started anew: the message goes to the chat agent that waits, or is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hookwork.invocation import Invocation, Setup
from hookwork.node import Standing
from hookwork.records.history import place_scope
from hookwork.view import View, segment_name

if TYPE_CHECKING:
    from hookwork.agent import AgentTree
    from hookwork.records.history import Call, Record
    from hookwork.records.session import Session


class Waiting:
    """The invocation that waits, and who hears messages meanwhile.

    ``leaf``: the path of a chat agent, ``scope``: that of a node that works on a task with the user, ``""``: none;
    ``spoke``: where such a node spoke last. ``open_calls``: what waits, when nobody hears the message.
    """

    __slots__ = ("invocation_id", "leaf", "open_calls", "scope", "spoke")

    def __init__(
        self, invocation_id: str, open_calls: Sequence[Call] = (), leaf: str = "", scope: str = "", spoke: int = -1
    ) -> None:
        self.invocation_id = invocation_id
        self.open_calls = open_calls
        self.leaf = leaf
        self.scope = scope
        self.spoke = spoke


def find_task(session: Session, setup: Setup) -> Waiting | None:
    """The node that works on a task with the user and spoke, or was spoken to, last (workflow WB-6).

    None when there is none, and when the run that it belongs to has come to its end without it.
    """
    index = session.history()
    best: Waiting | None = None
    for task in session.open_tasks:
        scope = place_scope(task.invocation_id, task.path)
        newest = index.record(*index.scope_paths[scope])
        spoke = max(task.spoke, newest.spoke if newest is not None else -1)
        if (best is None or spoke > best.spoke) and _goes_on(session, setup, task):
            best = Waiting(task.invocation_id, scope=scope, spoke=spoke)
    return best


def _goes_on(session: Session, setup: Setup, task: Record) -> bool:
    view = _view(session, setup, task.invocation_id, task.path.partition("/")[0])
    return view.standing() is not Standing.DONE


def find_waiting(session: Session, setup: Setup) -> Waiting | None:
    """The newest invocation of the root if it waits and the root holds messages meanwhile, else None."""
    tree = setup.tree
    if tree is None or tree.root.conversational or tree.root.on_message_while_waiting == "restart":
        return None
    if not session.open_calls:
        return None
    path = f"{tree.root.name}@1"
    newest = _newest_entered(session, path)
    if newest is None:
        return None
    view = _view(session, setup, newest.invocation_id, path)
    calls = view.open_calls
    leaf = _chat_leaf(calls, tree)
    if view.standing() is not Standing.WAITING and not (leaf and _has_not_heard(session, newest.invocation_id, leaf)):
        return None
    return Waiting(newest.invocation_id, calls, leaf)


def _view(session: Session, setup: Setup, invocation_id: str, path: str) -> View:
    """A place as it is before any run began."""
    asked = Invocation(
        app_name=session.app_name,
        user_id=session.user_id,
        session=session,
        invocation_id=invocation_id,
        setup=setup,
        known=True,
    )
    return View(asked, invocation_id, path)


def _newest_entered(session: Session, path: str) -> Record | None:
    """The root's record in the invocation that was active last.

    Invocations in which the root did not run say nothing about what waits: held messages, and those that
    ``before_run`` answered.
    """
    index = session.history()
    newest: Record | None = None
    for invocation_id in index.invocations:
        record = index.record(invocation_id, path)
        if record is None or (len(record.own) == 1 and record.end == record.own[0] and not record.children):
            continue
        if newest is None or record.newest > newest.newest:
            newest = record
    return newest


def _chat_leaf(calls: Sequence[Call], tree: AgentTree) -> str:
    for call in reversed(calls):
        agent = tree.find(segment_name(call.path))
        if agent is not None and agent.conversational:
            return call.path
    return ""


def _has_not_heard(session: Session, invocation_id: str, leaf: str) -> bool:
    """Whether an earlier message for the leaf was stored, but the run did not get to it."""
    record = session.history().record(invocation_id, leaf)
    return record is not None and record.own_message > record.newest
