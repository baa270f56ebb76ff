"""Where a run enters: which invocation a message belongs to, and which agent hears it (core §3.2, RUN-12, RES-7)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hookwork.confirmation import read_confirmation
from hookwork.errors import ConfigurationError, InvocationNotFoundError, NothingToResume, ValidationError
from hookwork.platform import new_uuid
from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.event import Event
from hookwork.records.history import Call
from hookwork.view import scope_record

if TYPE_CHECKING:
    from hookwork.agent import Agent, AgentTree
    from hookwork.records.session import Session
    from hookwork.waiting import Waiting

logger = logging.getLogger("hookwork.runner")


class Entry:
    """What was decided before anything is stored.

    ``messages``: the user's content split by isolation scope, in order. ``known``: the invocation has events already.
    ``waiting``: what waits already and what the message therefore does not start anew (RES-11).
    """

    __slots__ = ("agent", "invocation_id", "known", "messages", "path", "waiting")

    def __init__(
        self,
        invocation_id: str,
        known: bool,
        agent: Agent,
        path: str,
        messages: Sequence[tuple[str, Content]],
        waiting: Waiting | None = None,
    ) -> None:
        self.invocation_id = invocation_id
        self.known = known
        self.agent = agent
        self.path = path
        self.messages = messages
        self.waiting = waiting

    @property
    def held(self) -> bool:
        """The message is stored and nothing runs."""
        return self.waiting is not None and not self.waiting.leaf and not self.waiting.scope

    @property
    def address(self) -> str:
        """The path of the place that the message is for, ``""`` for the whole run (ACT-24)."""
        return self.waiting.leaf if self.waiting is not None else ""


def decide(
    session: Session,
    tree: AgentTree,
    message: Content | None,
    *,
    invocation_id: str | None,
    rerun: frozenset[str],
    routing: str,
    find_waiting: Callable[[], Waiting | None] | None = None,
    find_task: Callable[[], Waiting | None] | None = None,
) -> Entry:
    """Judge the message and choose invocation and entry agent; nothing is stored.

    ``find_task`` and ``find_waiting`` are asked when the message answers nothing: a node that works on a task with the
    user hears it, in the node's scope and invocation. A waiting chat agent hears it in its own invocation,
    even if a new ``invocation_id`` was given.

    Raises:
        NothingToResume, InvalidResumeResponse, InvocationNotFoundError, ValidationError: see core RES-7, RES-10.
        ConfigurationError: the tree no longer holds the entry of a known invocation.
    """
    if rerun and invocation_id is None:
        raise ValidationError("rerun names calls of an invocation; give invocation_id with it. Nothing was stored.")
    messages: list[tuple[str, Content]] = []
    answered: str | None = None
    if message is not None:
        if message.function_responses:
            messages, answered = _judge(session, tree, message)
        else:
            messages = [("", message)]
    chosen = answered
    waiting: Waiting | None = None
    if answered is None and message is not None:
        scope = open_task_scope(session) if session.log.has_scopes else None
        task = find_task() if find_task is not None and session.log.has_scopes else None
        if task is not None and (scope is None or task.spoke > _spoke(session, scope)):
            _check_talk_unchanged(session, task.scope, tree)
            waiting, chosen = task, task.invocation_id
            messages = [(task.scope, content) for _, content in messages]
        elif scope is not None:
            messages = [(scope.scope, content) for _, content in messages]
            if _delegator(scope, tree) != choose_agent(session.live_events, tree, routing).name:
                chosen = scope.invocation_id  # a new invocation would not lead to the task
        elif find_waiting is not None:
            waiting = find_waiting()
    if invocation_id is not None:
        chosen = _given(session, invocation_id, message, answered)
    if waiting is not None and (waiting.leaf or waiting.scope):
        chosen = waiting.invocation_id
    if chosen is None:
        agent = choose_agent(session.live_events, tree, routing)
        entry = Entry(f"e-{new_uuid()}", False, agent, tree.entry_path(agent), messages)
    else:
        entry = _known(session, tree, chosen, messages, rerun, routing)
    entry.waiting = waiting
    return entry


def _given(session: Session, invocation_id: str, message: Content | None, answered: str | None) -> str:
    known = invocation_id in session.history().invocations
    if message is None and not known:
        raise InvocationNotFoundError(
            f"session {session.id!r} has no invocation {invocation_id!r} to continue; give the id of one of its events"
        )
    if answered is not None and answered != invocation_id:
        raise ValidationError(
            f"the message answers calls of invocation {answered!r}, not of {invocation_id!r}; nothing was stored"
        )
    if message is not None and answered is None and known:
        raise ValidationError(
            f"invocation {invocation_id!r} exists already and the message answers none of its calls; leave "
            "invocation_id out for a new turn"
        )
    return invocation_id


def _known(
    session: Session,
    tree: AgentTree,
    invocation_id: str,
    messages: Sequence[tuple[str, Content]],
    rerun: frozenset[str],
    routing: str,
) -> Entry:
    index = session.history()
    start = index.invocations.get(invocation_id)
    if start is None:  # a new invocation whose id was given (durable engines)
        agent = choose_agent(session.live_events, tree, routing)
        return Entry(invocation_id, False, agent, tree.entry_path(agent), messages)
    agent = choose_agent(_before(session, start), tree, routing)
    path = tree.entry_path(agent)
    if index.record(invocation_id, path) is None and (
        places := [place for (invocation, place) in index.records if invocation == invocation_id]
    ):
        raise ConfigurationError(
            f"invocation {invocation_id!r} ran under {places[0]!r}, but this agent tree enters at {path!r}; resume it "
            "with the tree that began it"
        )
    for call_id in rerun:
        call = index.newest_call(call_id)
        if call is None or call.kind != "tool" or not call.is_open or call.invocation_id != invocation_id:
            raise ValidationError(
                f"rerun: {call_id!r} is no open tool call of invocation {invocation_id!r}; nothing was stored"
            )
    return Entry(invocation_id, True, agent, path, messages)


def _before(session: Session, position: int) -> Sequence[Event]:
    """The live events in front of a position of the handle."""
    live = session.live_events
    if not session.log.has_rewinds:
        return live[:position]
    kept = {id(event) for event in live}
    return [event for event in session.events[:position] if id(event) in kept]


def choose_agent(events: Sequence[Event], tree: AgentTree, routing: str) -> Agent:
    """Who hears a new message: the newest author that may be re-entered, else the root (RUN-30 … RUN-35)."""
    root = tree.root
    if routing == "root" or not root.conversational or any(child.delegate for child in root.sub_agents):
        return root
    for event in reversed(events):
        if event.author == "user":
            continue
        agent = tree.find(event.author)
        if agent is None:
            logger.debug("event %s is by %r, who is not in the agent tree; skipped", event.id, event.author)
            continue
        ancestors = list(tree.ancestors(agent))
        if agent.sticky and all(ancestor.sticky for ancestor in ancestors):
            delegates = [a for a in (agent, *ancestors) if a.delegate]
            return tree.parent(delegates[-1]) or root if delegates else agent
    return root


def open_task_scope(session: Session) -> Call | None:
    """The delegating call whose task is open and spoke, or was spoken to, last (RUN-24)."""
    index = session.history()
    best: tuple[int, Call] | None = None
    for call in session.open_delegations:
        record = scope_record(index, call.scope)
        if record is None or record.output is not None:
            continue
        spoke = _spoke(session, call)
        if best is None or spoke > best[0]:
            best = (spoke, call)
    return best[1] if best is not None else None


def _spoke(session: Session, call: Call) -> int:
    """Where a task that a call handed over spoke, or was spoken to, last."""
    index = session.history()
    newest = index.record(*index.scope_paths[call.scope])
    return newest.spoke if newest is not None else -1


def _delegator(call: Call, tree: AgentTree) -> str:
    """The name of the agent that handed the outermost task around a delegating call over."""
    names = [segment.partition("@")[0] for segment in call.path.split("/")]
    for above, name in itertools.pairwise(names):
        agent = tree.find(name)
        if agent is not None and agent.delegate:
            return above
    return names[-1]


def _judge(session: Session, tree: AgentTree, message: Content) -> tuple[list[tuple[str, Content]], str | None]:
    """Split a message with answers into what is usable, by scope; raise when nothing is left (RES-7)."""
    index = session.history()
    groups: dict[str, list[Part]] = {}
    beside: list[Part] = []
    unknown: list[str] = []
    repeated: list[str] = []
    invocations: dict[str, None] = {}
    for part in message.parts:
        response = part.function_response
        if response is None:
            beside.append(part)
            continue
        call = index.newest_call(response.id or "")
        if call is None:
            unknown.append(response.id or "")
        elif not _usable(call):
            repeated.append(call.id)
        else:
            _check_unchanged(session.events[call.position], call.path, tree)
            _check_answer(call, response, tree)
            invocations[call.invocation_id] = None
            groups.setdefault(call.isolation_scope, []).append(part)
    if len(invocations) > 1:
        raise ValidationError(
            f"one message answers calls of the invocations {' and '.join(invocations)}; send one message for each"
        )
    if unknown or repeated:
        logger.info("answers left out: unknown calls %s, already answered %s", unknown, repeated)
    if not groups:
        if not any(not part.is_empty() for part in beside):
            raise NothingToResume(
                f"no call waits for these answers (unknown: {unknown}, already answered: {repeated}); nothing was "
                "stored. session.open_calls lists what waits; a run that failed behind an answer goes on by its "
                "invocation_id, without a message.",
                unknown=unknown,
                repeated=repeated,
            )
        return [("", message.replace(parts=beside))], None
    scopes = list(groups)
    groups[scopes[0]] = [*groups[scopes[0]], *beside]
    return [(scope, message.replace(parts=groups[scope])) for scope in scopes], next(iter(invocations))


def _usable(call: Call) -> bool:
    """Open, or a plain long-running call whose answer is replaced by a newer one (tools-plugins FN-33)."""
    return call.is_open or (call.kind == "tool" and call.long_running and call.answer is not None)


def _check_unchanged(question: Event, path: str, tree: AgentTree) -> None:
    """Every agent on the way to a question must still lead there (workflow RPL-8)."""
    place = ""
    for segment in path.split("/"):
        place = f"{place}/{segment}" if place else segment
        if (agent := tree.find(segment.partition("@")[0])) is not None:
            agent.check_unchanged(question, place)


def _check_talk_unchanged(session: Session, scope: str, tree: AgentTree) -> None:
    """The same for a node that talks: what it said last is the question that the user's words answer."""
    index = session.history()
    record = index.record(*index.scope_paths[scope])
    if record is not None and record.own:
        _check_unchanged(session.events[record.own[-1]], record.path, tree)


def _check_answer(call: Call, response: FunctionResponse, tree: AgentTree) -> None:
    if call.kind == "confirmation":
        read_confirmation(response.response, call_id=call.id)
        return
    if call.kind == "input":
        from hookwork.timed import check_expiry, is_expiry  # questions of nodes: a chat never loads it

        if is_expiry(response.response):
            check_expiry(call)
            return
    if call.response_schema is not None and (agent := tree.at(call.path)) is not None:
        agent.read_answer(call, response.response)  # raises for one that does not fit (workflow ANS-3)
