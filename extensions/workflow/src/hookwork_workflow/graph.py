"""The compiled graph: who follows whom, decided once when a workflow is made (workflow §1.2, §2)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hookwork.errors import GraphError
from hookwork.node import Node, build_node
from hookwork_workflow.edges import DEFAULT, START, Edge, RouteMatcher, flatten

if TYPE_CHECKING:
    from hookwork.records.event import Event
    from hookwork.records.session import Session

logger = logging.getLogger("hookwork.workflow")


class Graph:
    """Nodes and edges of one workflow; immutable, so one graph serves many runs at once.

    Attributes:
        name: the workflow's.
        nodes: name → node, in the order in which the edges mention them.
        edges: all edges, with nodes at their ends (`START` at those that begin).
        start: names of the successors of `START`, in order.
        terminal: names of the nodes without outgoing edge.
        asks_events: names of the nodes with a route that is asked about the event (`RouteMatcher`).
        renamed: names that nodes had before → what they are called now, None: left out (WB-20).
        fingerprint: a short text that changes when names, kinds, edges or routes do (RPL-8).
    """

    __slots__ = (
        "_incoming",
        "_outgoing",
        "_predecessors",
        "asks_events",
        "edges",
        "fingerprint",
        "name",
        "nodes",
        "renamed",
        "start",
        "terminal",
    )

    def __init__(
        self, name: str, nodes: Iterable[Node], edges: Sequence[Edge], renamed: Mapping[str, str | None] | None = None
    ) -> None:
        self.name = name
        self.renamed = renamed or {}
        self.nodes: Mapping[str, Node] = MappingProxyType({node.name: node for node in nodes})
        self.edges = tuple(edges)
        outgoing: dict[str, list[Edge]] = {}
        incoming: dict[str, list[Edge]] = {}
        for edge in edges:
            outgoing.setdefault(edge.source.name, []).append(edge)
            incoming.setdefault(edge.target.name, []).append(edge)
        self._outgoing = {source: tuple(found) for source, found in outgoing.items()}
        self._incoming = {target: tuple(found) for target, found in incoming.items()}
        self._predecessors = {
            target: tuple(dict.fromkeys(edge.source.name for edge in found)) for target, found in incoming.items()
        }
        self.start = tuple(edge.target.name for edge in self._outgoing.get(START.name, ()))
        self.terminal = frozenset(name for name in self.nodes if name not in outgoing)
        self.asks_events = frozenset(edge.source.name for edge in edges if isinstance(edge.route, RouteMatcher))
        self.fingerprint = _fingerprint(self)

    def successors(self, name: str) -> tuple[Edge, ...]:
        """The edges that leave a node (or ``"START"``), in the order in which they were declared."""
        return self._outgoing.get(name, ())

    def predecessors(self, name: str) -> tuple[str, ...]:
        """The names of the nodes with an edge to this one, in order; `START` is ``"START"``."""
        return self._predecessors.get(name, ())

    def optional(self, name: str) -> frozenset[str]:
        """Predecessors that a join does not insist on (JOIN-4)."""
        return frozenset(edge.source.name for edge in self._incoming.get(name, ()) if edge.optional)

    def select(
        self, name: str, routes: Sequence[str] = (), event: Event | None = None, *, warn: bool = True
    ) -> tuple[Node, ...]:
        """The nodes that a completion of ``name`` triggers, each once, in the order of the edges (EDGE-4 … EDGE-6).

        ``event`` is what custom routes are asked about. Routed edges of which none fits, and nothing else that fires:
        that branch of the run ends, with a warning (EDGE-5), unless ``warn`` is off: a replay says nothing twice.
        """
        edges = self._outgoing.get(name, ())
        if len(edges) == 1 and edges[0].route is None:
            return (edges[0].target,)
        matched = {id(edge) for edge in edges if edge.is_routed and edge.matches(routes, event)}
        chosen: dict[str, Node] = {}
        for edge in edges:
            if edge.route is None or id(edge) in matched or (edge.route is DEFAULT and not matched):
                chosen[edge.target.name] = edge.target
        if warn and edges and not chosen:
            logger.warning(
                'node "%s" of workflow "%s" gave the routes %s, which no edge takes: this branch ends here; add an '
                "edge with DEFAULT if it should go on",
                name,
                self.name,
                list(routes),
            )
        return tuple(chosen.values())

    def to_mermaid(self, session: Session | None = None, **options: Any) -> str:
        """A picture of the graph as Mermaid text; see `hookwork_workflow.picture.to_mermaid`."""
        from hookwork_workflow.picture import to_mermaid

        return to_mermaid(self, session, **options)

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self.nodes)} nodes, {len(self.edges)} edges)"


def _fingerprint(graph: Graph) -> str:
    """Sorted names with kinds, and edges with routes, as a hash of 16 hex digits (RPL-8)."""
    lines = sorted(f"{name}:{getattr(node, 'kind', type(node).__name__)}" for name, node in graph.nodes.items())
    lines += sorted(
        f"{edge.source.name}>{edge.target.name}:{edge.label}:{'?' if edge.optional else ''}" for edge in graph.edges
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


class _Builder:
    """Makes nodes of what stands at the ends of edges: one node for one value, however many edges mention it."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.faults: list[GraphError] = []
        self._known: dict[Any, Node | None] = {}

    def node(self, value: Any) -> Any:
        if value is START:
            return START
        key = self._identity(value)
        if key not in self._known:
            self._known[key] = self._build(value)
        return self._known[key]

    @staticmethod
    def _identity(value: Any) -> Any:
        # A bound method is a new object each time it is taken from its instance.
        owner = getattr(value, "__self__", None)
        function = getattr(value, "__func__", None)
        return (id(owner), id(function)) if function is not None else id(value)

    def _build(self, value: Any) -> Node | None:
        try:
            node = build_node(value)
            if node.config.parallel:
                from hookwork_workflow.nodes.parallel import parallel

                node = parallel(node)
        except GraphError as error:
            self.faults.append(GraphError(str(error), code=error.code or "not_a_node"))
            return None
        self.nodes.append(node)
        return node


def compile_graph(
    name: str,
    edges: Any,
    *,
    state_schema: Any = None,
    enclosing: Sequence[str] = (),
    renamed: Mapping[str, str | None] | None = None,
) -> Graph:
    """The graph of these edges: edges, lists of edges, or lists of such lists (WF-1).

    Args:
        name: the workflow's name.
        state_schema: declared state keys: a mapping, or a class with annotations (GV-13).
        enclosing: names of the workflows around this one (GV-6).
        renamed: names that nodes had before → the name now, or None for one that is left out (WB-20).

    Raises:
        GraphError: the graph breaks rules; ``errors`` lists all faults, ``code`` is that of the first rule.
    """
    from hookwork_workflow.validation import check, raise_all

    declared = flatten(edges)
    builder = _Builder()
    resolved = []
    for edge in declared:
        source, target = builder.node(edge.source), builder.node(edge.target)
        if source is not None and target is not None:
            resolved.append(Edge(source, target, edge.route, optional=edge.optional))
    found = check(name, builder.nodes, resolved, state_schema=state_schema, enclosing=enclosing)
    if len(resolved) < len(declared):  # what only the edges that lead nowhere would have reached is no fault of its own
        begun = any(edge.source is START for edge in declared)
        found = [fault for fault in found if fault.code != "unreachable" and not (begun and fault.code == "no_start")]
    raise_all(name, builder.faults + found)
    names = {node.name for node in builder.nodes}
    for old, new in (renamed or {}).items():
        if old in names or (new is not None and new not in names):
            raise GraphError(
                f'workflow "{name}": renamed says that {old!r} is now {new!r}; the first is no node of the graph any '
                "more, the second is one, or None",
                code="bad_setting",
            )
    return Graph(name, builder.nodes, resolved, dict(renamed or {}))
