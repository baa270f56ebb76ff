"""What stored events say about places: views, standings, and where a hand-over goes (activations §2, §4).

Everything here is pure: the same events give the same answers in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from hookwork.errors import ConfigurationError
from hookwork.node import Standing
from hookwork.records.event import Event
from hookwork.records.history import EXPIRED_KEY, Call, HistoryIndex, Record, parents

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.invocation import Invocation

T = TypeVar("T")


class View:
    """What stored events say about a place and what lies under it; read-only (activations ACT-40)."""

    __slots__ = ("_inv", "invocation_id", "path")

    def __init__(self, inv: Invocation, invocation_id: str, path: str) -> None:
        self._inv = inv
        self.invocation_id = invocation_id
        self.path = path

    @property
    def record(self) -> Record | None:
        """The place's record, None when no event names it."""
        return self._inv.history().record(self.invocation_id, self.path)

    def child(self, segment: str) -> View:
        """The view of a place directly under this one, e.g. ``"plan@1"``."""
        return View(self._inv, self.invocation_id, f"{self.path}/{segment}")

    def follow(self) -> View:
        """The view at the end of a chain of hand-overs that starts here."""
        view = self
        while True:
            record = view.record
            target = view._target()
            if record is None or target is None or target.standing(view) is not Standing.HANDED:
                return view
            _, path = handover_place(self._inv, view.path, record)
            view = View(self._inv, self.invocation_id, path)

    def standing(self) -> Standing | None:
        """How the agent of this place stands after following its hand-overs; None without a record."""
        view = self.follow()
        target = view._target()
        return None if view.record is None or target is None else target.standing(view)

    def kept(self, what: Hashable, find: Callable[[], T]) -> T:
        """What ``find`` gives for this place, looked for once until the next event is stored (ACT-6).

        For answers that are made of those of children, each of which is asked for more than once: without it the work
        doubles with every level of nesting. ``what``: tells apart what is kept of one place.
        """
        inv = self._inv
        length = inv.history().length
        if inv.kept_at != length:
            inv.kept_at, inv.kept = length, {}
        key = (self.invocation_id, self.path, what)
        if key not in inv.kept:
            inv.kept[key] = find()
        found: T = inv.kept[key]
        return found

    def _target(self) -> Any:
        tree = self._inv.setup.tree
        return None if tree is None else tree.find(segment_name(self.path))

    @property
    def calls(self) -> Sequence[Call]:
        """The place's own calls, in order."""
        record = self.record
        return record.calls if record is not None else ()

    @property
    def open_calls(self) -> list[Call]:
        """Open calls of the place and everything under it, in order of raising."""
        return self._inv.history().open_below(self.invocation_id, self.path)

    @property
    def open_delegations(self) -> list[Call]:
        """Calls of the place and everything under it that handed a task over which has no result yet (PND-4)."""
        index, record = self._inv.history(), self.record
        return [
            call
            for call in (record.waiting.values() if record is not None else ())
            if not call.responses
            and (task := scope_record(index, call.scope)) is not None
            and task.path != call.path
            and task.output is None
        ]

    @property
    def holds_task(self) -> bool:
        """Whether the place, or one under it, talks with the user in a scope of its own and has no result yet."""
        if not self._inv.session.log.has_scopes:
            return False
        below = f"{self.path}/"
        tasks = self._inv.history().open_tasks(self.invocation_id)
        return any(task.path == self.path or task.path.startswith(below) for task in tasks)

    @property
    def newest(self) -> int:
        """Position of the newest event of the subtree, -1 for none."""
        record = self.record
        return record.newest if record is not None else -1

    @property
    def newest_answer(self) -> int:
        """Position of the newest answer to a call of the subtree, -1 for none."""
        record = self.record
        return record.newest_answer if record is not None else -1

    @property
    def news(self) -> bool:
        """Whether an answer, a message or a call to be run again is newer than the subtree's newest event."""
        record = self.record
        if record is None:
            return False
        if self._inv.rerun and any(call.id in self._inv.rerun for call in self.open_calls):
            return True
        return record.news > record.newest

    @property
    def rerun(self) -> frozenset[str]:
        """Ids that this run was told to run again (ACT-43)."""
        return self._inv.rerun

    @property
    def events(self) -> list[Event]:
        """The place's own events, in order."""
        record = self.record
        events = self._inv.session.events
        return [events[position] for position in record.own] if record is not None else []

    def event(self, position: int) -> Event:
        """The event at a position that a record or call names."""
        return self._inv.session.events[position]

    @property
    def agent(self) -> Agent | None:
        """The agent that the place belongs to: the innermost one of the tree that its path names."""
        tree = self._inv.setup.tree
        return tree.at(self.path) if tree is not None else None

    def is_agent(self, name: str) -> bool:
        """Whether the tree has an agent of that name."""
        tree = self._inv.setup.tree
        return tree is not None and tree.find(name) is not None

    @property
    def last_question(self) -> Call | None:
        """The newest call of the place or of what lies under it that was raised to wait."""
        below = f"{self.path}/"
        for call in reversed(self._inv.history().calls):
            here = call.path == self.path or call.path.startswith(below)
            if here and call.long_running and call.invocation_id == self.invocation_id:
                return call
        return None

    def answer_value(self, call: Call) -> Any:
        """The value of the newest answer to a call, as the place's agent reads it (workflow ANS-2).

        Raises:
            InvalidResumeResponse: the answer does not fit what was asked for.
        """
        given = call.answer
        payload = given.payload if given is not None else None
        if isinstance(payload, Mapping) and EXPIRED_KEY in payload:
            from hookwork.timed import EXPIRED, is_expiry

            if is_expiry(payload):
                return EXPIRED
        agent = self.agent
        if agent is not None:
            return agent.read_answer(call, payload)
        from hookwork.asking import plain_answer

        return plain_answer(payload)

    def unanswered(self, author: str) -> list[Call]:
        """Calls of an agent that have no response, in order, whatever invocation made them (ACT-20)."""
        return [
            call for call in self._inv.history().unanswered.values() if call.author == author and not call.responses
        ]

    def at(self, record: Record) -> View:
        """The view of another place, e.g. of a delegation that an earlier invocation began."""
        return View(self._inv, record.invocation_id, record.path)

    def scope_record(self, scope: str) -> Record | None:
        """The record of the delegation that speaks in an isolation scope, whatever invocation wrote it (ACT-26)."""
        return scope_record(self._inv.history(), scope)


def scope_record(index: HistoryIndex, scope: str) -> Record | None:
    """The record of the delegation whose scope this is; its newest place when it handed back to itself.

    What it called or handed over to speaks in the same scope, under its path.
    """
    place = index.scope_paths.get(scope)
    if place is None:
        return None
    invocation_id, path = place
    found = index.record(invocation_id, path)
    for above in parents(path):
        record = index.record(invocation_id, above)
        if record is None or not record.own or record.scope != scope:
            break
        found = record
    return found


def default_standing(view: View) -> Standing:
    """Standing of a body that runs from its top (ACT-13)."""
    record = view.record
    if record is None:
        return Standing.PENDING
    if view.open_calls:
        return Standing.PENDING if view.news else Standing.WAITING
    return Standing.DONE if record.end >= 0 and record.end > record.newest_answer else Standing.PENDING


def segment_name(path: str) -> str:
    """The agent or node name in the last segment of a path."""
    return path[path.rfind("/") + 1 :].partition("@")[0]


def handover_place(inv: Invocation, caller_path: str, record: Record) -> tuple[Agent, str]:
    """Target and path of a recorded hand-over (activations §4).

    The target stands under the newest activation of its tree parent on the caller's path. ``t<n>`` counts the places
    of that name that stood there before the hand-over, so a replay finds the same path.
    """
    tree = inv.setup.tree
    target = tree.find(record.handover_target) if tree is not None else None
    if target is None or tree is None:
        raise ConfigurationError(
            f"{caller_path} handed over to {record.handover_target!r}, which is not in the agent tree (any more)"
        )
    parent = tree.parent(target)
    prefix = _under(caller_path, parent.name) if parent is not None else ""
    start = f"{prefix}/{target.name}@" if prefix else f"{target.name}@"
    index = inv.history()
    if prefix:
        above = index.record(inv.invocation_id, prefix)
        siblings = above.children if above is not None else []
    else:
        siblings = [path for (invocation, path) in index.records if invocation == inv.invocation_id and "/" not in path]
    before = 0
    for path in siblings:
        if path.startswith(start):
            other = index.record(inv.invocation_id, path)
            if other is not None and other.first < record.handover:
                before += 1
    return target, f"{start}t{before + 1}" if before else f"{start}1"


def _under(path: str, name: str) -> str:
    """The longest prefix of ``path`` that ends at a segment of that name, else the path without its last segment."""
    segments = path.split("/")
    for i in range(len(segments) - 1, -1, -1):
        if segments[i].partition("@")[0] == name:
            return "/".join(segments[: i + 1])
    return "/".join(segments[:-1])
