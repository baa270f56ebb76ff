"""Edges, and the ways to write them down (workflow §1.2, API-1).

`>>` and the helpers build lists of edges and nothing else: each expression is a value that can be stored, joined with
``+`` and looked at. What stands at the ends may be anything that `build_node` takes; it becomes a node when the graph
is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar, final, overload, runtime_checkable

from attrs import define, field

from hookwork.errors import GraphError

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.records.event import Event
    from hookwork.tool import Tool
    from hookwork_workflow.nodes.base import GraphNode

In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)
T = TypeVar("T")

#: What may stand on the left of ``>>`` without an operator of its own. Functions may too; a type checker is not told,
#: since it would take every node for one and check nothing.
Untyped: TypeAlias = "tuple[Any, ...] | list[Any] | Agent | Tool"


@final
class Start:
    """The type of `START`, where a graph begins. It is never executed (EDGE-1)."""

    __slots__ = ()
    name: Final = "START"

    @overload
    def __rshift__(self, target: GraphNode[In_contra, T]) -> Edges[In_contra, T]: ...
    @overload
    def __rshift__(self, target: Any) -> Edges[Any, Any]: ...
    def __rshift__(self, target: Any) -> Edges[Any, Any]:
        return join((self,), target)

    def __repr__(self) -> str:
        return "START"


@final
class Default:
    """The type of `DEFAULT`: the edge that is taken when no routed one is (EDGE-4)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DEFAULT"


#: Where a graph begins: it hands the workflow's input to its successors.
START: Final = Start()
#: The route of an edge that fires iff no routed edge of its node matched.
DEFAULT: Final = Default()


@runtime_checkable
class RouteMatcher(Protocol):
    """A route of one's own: anything that says whether an event takes the edge (EDGE-2)."""

    def matches(self, event: Event) -> bool: ...


def route_text(value: Any) -> str:
    """A route as it travels on an event: text as it is, a bool ``true`` or ``false``, an int in decimal (EDGE-3).

    Raises:
        GraphError: it is none of these.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return str(int(value))
    raise GraphError(
        f"{value!r} is no route; routes are text, whole numbers, booleans, sets of these, DEFAULT, or an object with "
        "matches(event)",
        code="bad_route",
    )


def _normal_route(route: Any) -> Any:
    """A route in a form that does not change: sets and lists as a tuple without repeats, sets in order."""
    if isinstance(route, set | frozenset):
        return tuple(sorted(route, key=lambda value: (value is not DEFAULT, str(value))))
    if isinstance(route, list | tuple):
        return tuple({(type(value), value): value for value in route}.values())  # 1 and True are two routes
    return route


@define(frozen=True)
class Edge:
    """From one node to another.

    Args:
        source: `START`, a node, or anything `build_node` takes.
        target: a node, or anything `build_node` takes.
        route: None: always taken. A value or several: taken when one of them is among the routes the source gave.
            `DEFAULT`: taken when no routed edge of the source was.
        optional: a `Join` at the end of this edge does not insist on the source (JOIN-4).

    Raises:
        GraphError: the route cannot be one.
    """

    source: Any
    target: Any
    route: Any = field(default=None, converter=_normal_route)
    optional: bool = field(default=False, kw_only=True)
    #: the route values as they are on the wire; empty for an edge without, for DEFAULT and for a custom matcher.
    values: frozenset[str] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        route = self.route
        values: frozenset[str] = frozenset()
        if isinstance(route, tuple):
            if not route:
                raise GraphError("an edge with an empty set of routes is never taken; give one value", code="bad_route")
            values = frozenset(route_text(value) for value in route if value is not DEFAULT)
        elif route is not None and route is not DEFAULT and not isinstance(route, RouteMatcher):
            values = frozenset((route_text(route),))
        object.__setattr__(self, "values", values)

    @property
    def is_routed(self) -> bool:
        """Taken for some routes only; `DEFAULT` is conditional, but no route."""
        return self.route is not None and self.route is not DEFAULT

    def matches(self, routes: Iterable[str], event: Event | None = None) -> bool:
        """Whether this edge, a routed one, is taken for these routes."""
        if self.values:
            return not self.values.isdisjoint(routes)
        if isinstance(self.route, RouteMatcher):
            if event is None:
                from hookwork.records.event import Event as EventRecord

                event = EventRecord(routes=tuple(routes))
            try:
                return bool(self.route.matches(event))
            except Exception as error:
                error.add_note(f'in the route {self.label} from node "{self.source.name}" to "{self.target.name}"')
                raise
        return False

    @property
    def label(self) -> str:
        """The route as text, for pictures and messages; empty for an edge without one."""
        if self.route is None:
            return ""
        if self.route is DEFAULT:
            return "DEFAULT"
        # An address in memory is another one in the next process, and a graph is known again by its labels (RPL-8).
        return " | ".join(sorted(self.values)) or re.sub(r" at 0x[0-9a-fA-F]+", "", repr(self.route))


class Edges(Generic[In_contra, Out_co]):
    """A list of edges with its two ends: ``heads`` (what it begins with) and ``tails`` (what it ends with).

    ``edges >> x`` goes on from the tails; ``edges + others`` is both lists. A tuple fans out, a dict routes::

        START >> city >> (weather, tips) >> Join("both") >> write
        triage >> {"bug": fix, "question": answer, DEFAULT: done}
    """

    __slots__ = ("_edges", "heads", "tails")

    def __init__(self, edges: Iterable[Edge] = (), heads: Iterable[Any] = (), tails: Iterable[Any] = ()) -> None:
        self._edges = tuple(edges)
        self.heads = tuple(heads)
        self.tails = tuple(tails)

    def __iter__(self) -> Iterator[Edge]:
        return iter(self._edges)

    def __len__(self) -> int:
        return len(self._edges)

    def __getitem__(self, index: int) -> Edge:
        return self._edges[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Edges | list | tuple):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Iterable[Edge]) -> Edges[Any, Any]:
        heads, tails = _ends(other)
        return Edges((*self, *other), (*self.heads, *heads), (*self.tails, *tails))

    def __radd__(self, other: Iterable[Edge]) -> Edges[Any, Any]:
        heads, tails = _ends(other)
        return Edges((*other, *self), (*heads, *self.heads), (*tails, *self.tails))

    @overload
    def __rshift__(self, target: GraphNode[Out_co, T]) -> Edges[In_contra, T]: ...
    @overload
    def __rshift__(self, target: Edges[Out_co, T]) -> Edges[In_contra, T]: ...
    @overload
    def __rshift__(self, target: tuple[Any, ...] | list[Any] | Mapping[Any, Any]) -> Edges[In_contra, Any]: ...
    def __rshift__(self, target: Any) -> Edges[Any, Any]:
        return self._go_on(target)

    def _go_on(self, target: Any) -> Edges[Any, Any]:
        further = join(self.tails, target)
        return Edges((*self, *further), self.heads, further.tails)

    def on(self, mapping: Mapping[Any, Any]) -> Edges[In_contra, Any]:
        """Routes from the one node this list ends with; see `routes`. Raises GraphError for several."""
        return self._go_on(mapping)

    def __rrshift__(self, sources: Untyped) -> Edges[Any, Any]:
        """``(a, b) >> edges``: what comes first in a chain may have no ``>>`` of its own."""
        return join(_as_tuple(sources), self)

    def __repr__(self) -> str:
        return f"Edges({list(self._edges)!r})"


def _ends(edges: Iterable[Edge]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (edges.heads, edges.tails) if isinstance(edges, Edges) else ((), ())


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _parts(target: Any) -> list[tuple[tuple[Any, ...], tuple[Edge, ...], tuple[Any, ...]]]:
    """The targets of an edge, each with the edges that lead on from it: (heads, inner edges, tails)."""
    parts = []
    for member in _as_tuple(target):
        if isinstance(member, Edges):
            parts.append((member.heads, tuple(member), member.tails))
        else:
            parts.append(((member,), (), (member,)))
    return parts


def join(sources: Iterable[Any], target: Any) -> Edges[Any, Any]:
    """Edges from each source to a target, to each member of a tuple, or by the routes of a dict."""
    sources = tuple(sources)
    if isinstance(target, Mapping):
        if len(sources) != 1:
            raise GraphError(
                f"a dict of routes goes on from one node, not from {len(sources)}; write node.on({{…}})",
                code="bad_route",
            )
        return routes(sources[0], target)
    edges: list[Edge] = []
    tails: list[Any] = []
    for heads, inner, ends in _parts(target):
        edges += [Edge(source, head) for source in sources for head in heads]
        edges += inner
        tails += ends
    return Edges(edges, sources, tails)


def chain(*nodes: Any) -> Edges[Any, Any]:
    """``a → b → c``; fewer than two nodes make no edge. A member that is a tuple or a dict is read as behind ``>>``."""
    if not nodes:
        return Edges()
    edges: Edges[Any, Any] = Edges((), _as_tuple(nodes[0]), _as_tuple(nodes[0]))
    for target in nodes[1:]:
        edges = edges._go_on(target)
    return edges


def fan_out(source: Any, *targets: Any) -> Edges[Any, Any]:
    """An edge from one node to each of several."""
    return join((source,), targets)


def fan_in(target: Any, *sources: Any) -> Edges[Any, Any]:
    """An edge from each of several nodes to one."""
    return join(sources, target)


def routes(source: Any, mapping: Mapping[Any, Any]) -> Edges[Any, Any]:
    """A routed edge for each entry ``{route: target | (targets…)}``, in the order of the mapping.

    A key may be a tuple or frozenset of values, any of which takes the edge, or `DEFAULT`.
    """
    edges: list[Edge] = []
    tails: list[Any] = []
    for route, target in mapping.items():
        for heads, inner, ends in _parts(target):
            edges += [Edge(source, head, route) for head in heads]
            edges += inner
            tails += ends
    return Edges(edges, (source,), tails)


def flatten(*edges: Any) -> tuple[Edge, ...]:
    """All edges of edges, lists of edges and lists of such lists, in order. Raises GraphError for anything else."""
    found: list[Edge] = []
    for item in edges:
        if isinstance(item, Edge):
            found.append(item)
        elif isinstance(item, EdgeBuilder):
            found += item.build()
        elif isinstance(item, Edges | list | tuple) or (isinstance(item, Iterable) and not isinstance(item, str)):
            found += flatten(*item)
        else:
            raise GraphError(
                f"{item!r} is no edge; give Edge(source, target), source >> target, or lists of these", code="bad_edge"
            )
    return tuple(found)


class EdgeBuilder:
    """Edges for code that grows a graph; every verb returns the builder (EDGE-7)."""

    __slots__ = ("_edges",)

    def __init__(self) -> None:
        self._edges: list[Edge] = []

    def add(self, source: Any, target: Any, route: Any = None, *, optional: bool = False) -> EdgeBuilder:
        """One edge."""
        self._edges.append(Edge(source, target, route, optional=optional))
        return self

    def extend(self, *edges: Any) -> EdgeBuilder:
        """Edges and lists of edges."""
        self._edges += flatten(*edges)
        return self

    def chain(self, *nodes: Any) -> EdgeBuilder:
        """See `chain`."""
        return self.extend(chain(*nodes))

    def fan_out(self, source: Any, *targets: Any) -> EdgeBuilder:
        """See `fan_out`."""
        return self.extend(fan_out(source, *targets))

    def fan_in(self, target: Any, *sources: Any) -> EdgeBuilder:
        """See `fan_in`."""
        return self.extend(fan_in(target, *sources))

    def routes(self, source: Any, mapping: Mapping[Any, Any]) -> EdgeBuilder:
        """See `routes`."""
        return self.extend(routes(source, mapping))

    def build(self) -> Edges[Any, Any]:
        """What was added so far."""
        return Edges(tuple(self._edges))
