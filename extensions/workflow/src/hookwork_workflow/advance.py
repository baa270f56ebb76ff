"""How far a graph run is: who was triggered, runs, waits, is done (workflow §3). Pure bookkeeping, nothing is started.

A resumed run goes through its recorded completions first, in the order in which they were stored, so that run ids,
queues, joins and branches come out as in the first run (RPL-5). Where several nodes lead to one, the order of storing
may differ from the order in which completions were taken up; what triggered such an activation is therefore written on
its first event (`TRIGGERS`), and a replay hands each activation the triggers it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from hookwork.node import Standing
from hookwork.node_standing import hands_off, recorded_routes
from hookwork.records.event import Event
from hookwork_workflow.edges import START, route_text
from hookwork_workflow.errors import MultipleTerminalOutputs, ReplayDivergence, RunawayGraph
from hookwork_workflow.nodes.join import Join

if TYPE_CHECKING:
    from hookwork.node import Node
    from hookwork.view import View
    from hookwork_workflow.graph import Graph

#: Key in `NodeInfo.extra` of an activation's first event: path → what triggered it.
TRIGGERS = "hookworkTriggers"


class Trigger(NamedTuple):
    """A completion on its way to a successor. ``source``: ``name@run`` or ``START``; ``split``: one of several.

    ``name``: what the node is called in this graph.
    """

    source: str
    name: str
    output: Any
    branch: str
    split: bool


class Activity:
    """One planned activation of a node. ``status``: see `Status`."""

    __slots__ = ("branch", "input", "name", "node", "output", "path", "routes", "run", "status", "triggers")

    def __init__(self, node: Node, run: int, path: str, triggers: Sequence[Trigger], input: Any, branch: str) -> None:
        self.node = node
        self.name = node.name
        self.run = run
        self.path = path
        self.triggers = tuple(triggers)
        self.input = input
        self.branch = branch
        self.status = Status.PENDING
        self.output: Any = None
        self.routes: tuple[str, ...] = ()

    @property
    def segment(self) -> str:
        return self.path[self.path.rfind("/") + 1 :]

    @property
    def triggered_by(self) -> str:
        return self.triggers[-1].name


class Status:
    """Values shared with google-adk (workflow §3.2); they live in memory only (ST-1)."""

    INACTIVE = 0
    PENDING = 1
    RUNNING = 2
    COMPLETED = 3
    WAITING = 4
    FAILED = 5
    CANCELLED = 6


class _Place:
    """What is known of one node: its triggers that wait, how often it was activated, what goes on now."""

    __slots__ = ("current", "least", "needs_cause", "node", "runs", "status", "triggers")

    def __init__(self, node: Node, graph: Graph) -> None:
        predecessors = graph.predecessors(node.name)
        self.node = node
        self.needs_cause = len(predecessors) > 1
        #: triggers that a join takes at least.
        self.least = node.least(predecessors, graph.optional(node.name)) if isinstance(node, Join) else 1
        self.triggers: list[Trigger] = []
        self.current: Activity | None = None
        self.runs = 0
        self.status = Status.INACTIVE


class Progress:
    """The state of one graph run.

    Args:
        path, branch: of the graph's activation.
        limit: activations after which the graph has run away (SCH-10).
        view: what is stored of the activation; None: nothing is, it runs for the first time.
    """

    def __init__(self, graph: Graph, path: str, branch: str, limit: int, view: View | None) -> None:
        self.graph = graph
        self.path = path
        self.branch = branch
        self.limit = limit
        self.view = view
        #: terminal node → its newest output (RSL-1, RSL-2).
        self.outputs: dict[str, Any] = {}
        self.created: dict[str, Activity] = {}
        self._places = {name: _Place(node, graph) for name, node in graph.nodes.items()}
        self._recorded: list[tuple[int, int, Activity]] = []
        self._serial = count()  # several ends may stand at one position: answers of one message

    # --- going on -----------------------------------------------------------------------------------------------------

    def begin(self, input: Any) -> list[Activity]:
        """Trigger the successors of START (SCH-3)."""
        nodes = [self.graph.nodes[name] for name in self.graph.start]
        return self._trigger(START.name, START.name, input, self.branch, nodes)

    def complete(self, activity: Activity, *, recorded: bool = False) -> list[Activity]:
        """An activity is over; gives those that are ready now, in order. ``recorded``: it was in an earlier run.

        One that WAITS without a question hands nothing on and may be triggered again (NODE-9).
        """
        place = self._places[activity.name]
        place.current = None
        place.status = activity.status
        ready: list[Activity] = []
        if activity.status == Status.COMPLETED:
            if activity.name in self.graph.terminal:
                if activity.output is not None:
                    self.outputs[activity.name] = activity.output
            else:
                asked = activity.name in self.graph.asks_events
                event = Event(output=activity.output, routes=activity.routes) if asked else None
                nodes = self.graph.select(activity.name, activity.routes, event, warn=not recorded)
                ready = self._trigger(activity.segment, activity.name, activity.output, activity.branch, nodes)
        self._offer(place, ready)
        return ready

    def wait(self, activity: Activity) -> None:
        """An activity waits for an answer; its triggers queue meanwhile (SCH-5)."""
        self._places[activity.name].status = activity.status

    def _trigger(self, source: str, name: str, output: Any, branch: str, nodes: Sequence[Node]) -> list[Activity]:
        ready: list[Activity] = []
        split = len(nodes) > 1
        for node in nodes:
            place = self._places[node.name]
            place.triggers.append(Trigger(source, name, output, branch, split))
            self._offer(place, ready)
        return ready

    def _offer(self, place: _Place, ready: list[Activity]) -> None:
        """Create the next activation of a node if it is idle and triggered (SCH-4, SCH-5)."""
        if place.current is not None or not place.triggers:
            return
        node = place.node
        segment = f"{node.name}@{place.runs + 1}"
        if self.graph.renamed and self.view is not None:
            segment = self._recorded_segment(node.name, place.runs + 1)
        cause = self._cause(segment) if place.needs_cause else None
        gathers = isinstance(node, Join) and not node.as_completed
        taken = self._taken_by_join(place, cause) if gathers else _taken(place.triggers, cause)
        if not taken:
            return
        place.runs += 1
        if len(self.created) >= self.limit:
            raise RunawayGraph(self.graph.name, self.limit)
        if isinstance(node, Join):
            input = node.gather({trigger.name: trigger.output for trigger in taken})
            branch = common_branch([trigger.branch for trigger in taken])
        else:
            input, branch = taken[0].output, taken[0].branch
            if taken[0].split:
                branch = f"{branch}.{segment}" if branch else segment
        path = f"{self.path}/{segment}"
        place.current = self.created[path] = Activity(node, place.runs, path, taken, input, branch)
        place.status = Status.PENDING
        ready.append(place.current)

    def _taken_by_join(self, place: _Place, cause: Sequence[str] | None) -> list[Trigger]:
        """What a join fires on, one trigger for each predecessor, the newest; they are used up (JOIN-1, JOIN-2)."""
        node = place.node
        assert isinstance(node, Join)
        if len(place.triggers) < (place.least if cause is None else len(cause)):
            return []  # looked at before the rest: a wide join is offered each of its predecessors
        predecessors = self.graph.predecessors(node.name)
        newest = {trigger.name: trigger for trigger in place.triggers}
        if cause is None:
            if not node.is_ready(newest.keys(), predecessors, self.graph.optional(node.name)):
                return []
            taken = newest
            place.triggers = []
        else:
            taken = {trigger.name: trigger for trigger in place.triggers if trigger.source in cause}
            if len(taken) < len(cause):
                return []
            last = {name: place.triggers.index(trigger) for name, trigger in taken.items()}
            place.triggers = [
                trigger
                for position, trigger in enumerate(place.triggers)
                if trigger.name not in last or position > last[trigger.name]
            ]
        return [taken[name] for name in predecessors if name in taken]

    # --- replay -------------------------------------------------------------------------------------------------------

    def replay(self, ready: Iterable[Activity]) -> list[Activity]:
        """Go through what is recorded; gives the activities that have to be run, in order (RPL-3, RPL-4)."""
        if self.view is None:
            return list(ready)
        live: list[Activity] = []
        self._sort(self.view, ready, live)
        while self._recorded:
            _, _, activity = heappop(self._recorded)
            self._sort(self.view, self.complete(activity, recorded=True), live)
        return live

    def _sort(self, view: View, ready: Iterable[Activity], live: list[Activity]) -> None:
        for activity in ready:
            place = view.child(activity.segment)
            record = place.record
            standing = activity.node.standing(place) if record is not None else Standing.PENDING
            if record is None or standing is Standing.PENDING:
                live.append(activity)
                continue
            if standing is Standing.DONE:
                activity.status = Status.COMPLETED
                activity.output = activity.node.output(place)
                activity.routes = _routes_of(activity.node, place, activity.output)
            else:
                activity.status = Status.WAITING
                if place.open_calls or place.open_delegations or place.holds_task:
                    self.wait(activity)
                    continue
            order = max(record.newest, record.newest_answer)
            heappush(self._recorded, (order, next(self._serial), activity))

    def _recorded_segment(self, name: str, run: int) -> str:
        """Where an activation stands: under the name that the node had, if it was begun with that (WB-20)."""
        assert self.view is not None
        names = [name, *(old for old, new in self.graph.renamed.items() if new == name)]
        known = (f"{known}@{run}" for known in names)
        return next((segment for segment in known if self.view.child(segment).record is not None), f"{name}@{run}")

    def _cause(self, segment: str) -> Sequence[str] | None:
        """What triggered a recorded activation; None when nothing is recorded of it."""
        if self.view is None:
            return None
        place = self.view.child(segment)
        record = place.record
        if record is None:
            return None
        info = place.event(record.first).node_info
        known = info.extra.get(TRIGGERS) if info is not None and info.extra is not None else None
        return known.get(f"{self.path}/{segment}") if known else None

    # --- the end ------------------------------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether some node waits: for an answer, or for its next trigger (SCH-7)."""
        return any(place.status == Status.WAITING for place in self._places.values())

    @property
    def output(self) -> Any:
        """What the terminal nodes gave (RSL-1)."""
        return next(iter(self.outputs.values()), None)

    def check_complete(self) -> None:
        """Nothing runs and nothing waits: one output at most, and all that is recorded has come up (RSL-1, RPL-5).

        Raises:
            MultipleTerminalOutputs: an answer that is an output came to another one. ReplayDivergence.
        """
        if len(self.outputs) > 1:
            raise MultipleTerminalOutputs(list(self.outputs))
        if (lost := self.lost()) is not None:
            raise ReplayDivergence(lost.rpartition("/")[2].partition("@")[0], lost)

    def lost(self) -> str | None:
        """A recorded place that never came up, None when all did."""
        record = self.view.record if self.view is not None else None
        for path in record.children if record is not None else ():
            name, _, run = path.rpartition("/")[2].partition("@")
            left_out = name in self.graph.renamed and self.graph.renamed[name] is None
            if path not in self.created and run.isdecimal() and not left_out and not self._is_agent(name):
                return path
        return None

    def _is_agent(self, name: str) -> bool:
        """Places of agents that are no nodes: hand-over targets."""
        return name not in self._places and self.view is not None and self.view.is_agent(name)


def _taken(triggers: list[Trigger], cause: Sequence[str] | None) -> list[Trigger]:
    """The trigger that is due, used up: the recorded one, else the oldest."""
    if cause is None:
        return [triggers.pop(0)]
    for position, trigger in enumerate(triggers):
        if trigger.source in cause:
            return [triggers.pop(position)]
    return []


def _routes_of(node: Node, place: View, output: Any) -> tuple[str, ...]:
    """The recorded routes; of a node that handed off also what its answer says (ANS-9)."""
    routes = recorded_routes(node, place)
    record = place.record
    answered = record is not None and record.end <= record.newest_answer and record.newest_answer >= 0
    if routes or not answered or not hands_off(node, place):
        return routes
    value = output.get("route") if isinstance(output, dict) else output
    return (route_text(value),) if isinstance(value, str | int | bool) else ()


def common_branch(branches: Sequence[str]) -> str:
    """The longest common prefix of branches, by segments (BR-2)."""
    common = branches[0].split(".") if branches else []
    for branch in branches[1:]:
        segments = branch.split(".")
        length = 0
        while length < min(len(common), len(segments)) and common[length] == segments[length]:
            length += 1
        common = common[:length]
    return ".".join(common)


def standing_of(graph: Graph, limit: int, view: View) -> tuple[Standing, Any]:
    """Where a graph stands and what it gave, without starting anything (activations ACT-23)."""
    return view.kept(graph, lambda: _standing_of(graph, limit, view))


def _standing_of(graph: Graph, limit: int, view: View) -> tuple[Standing, Any]:
    progress = Progress(graph, view.path, "", limit, view)
    try:
        live = progress.replay(progress.begin(None))
    except RunawayGraph:
        return Standing.PENDING, None
    if live:
        return Standing.PENDING, None
    if progress.waits:
        return Standing.WAITING, progress.output
    if progress.lost() is not None or len(progress.outputs) > 1:  # entered once more, it says what is wrong
        return Standing.PENDING, None
    return Standing.DONE, progress.output
