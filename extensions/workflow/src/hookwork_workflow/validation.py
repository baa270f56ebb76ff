"""The rules that a graph must keep (workflow §2). All faults are found at once; the rules are asked in spec order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from hookwork.errors import GraphError
from hookwork.node import Node
from hookwork_workflow.edges import DEFAULT, START, Edge
from hookwork_workflow.nodes.join import Join

#: State keys with these prefixes belong to scopes that a schema says nothing about (STATE-3).
_SCOPES = ("app:", "user:", "temp:")

#: More cycles than this are not told one by one.
_CYCLES = 20


class _Plan:
    """What the rules look at: the nodes and edges of one workflow that is about to be compiled."""

    def __init__(
        self, name: str, nodes: Sequence[Node], edges: Sequence[Edge], state_schema: Any, enclosing: Sequence[str]
    ) -> None:
        self.name = name
        self.nodes = nodes
        self.edges = edges
        self.state_schema = state_schema
        self.enclosing = enclosing
        self.outgoing: dict[int, list[Edge]] = {}
        self.incoming: dict[int, list[Edge]] = {}
        for edge in edges:
            self.outgoing.setdefault(id(edge.source), []).append(edge)
            self.incoming.setdefault(id(edge.target), []).append(edge)

    def into(self, node: Any) -> list[Edge]:
        return self.incoming.get(id(node), [])


def _fault(code: str, message: str, *nodes: str, edges: Sequence[Edge] = ()) -> GraphError:
    ends = [(edge.source.name, edge.target.name) for edge in edges]
    return GraphError(message, code=code, nodes=nodes, edges=ends)


def _duplicate_node(plan: _Plan) -> Iterator[GraphError]:
    """GV-1."""
    seen: dict[str, Any] = {START.name: START}
    told = set()
    for node in plan.nodes:
        if seen.setdefault(node.name, node) is not node and node.name not in told:
            told.add(node.name)
            yield _fault(
                "duplicate_node",
                f"duplicate node name: {node.name}; two nodes of one graph need two names (use one object on all its "
                "edges, or give one of them another name)",
                node.name,
            )


def _no_start(plan: _Plan) -> Iterator[GraphError]:
    """GV-2."""
    if not plan.outgoing.get(id(START)):
        yield _fault("no_start", "no start node found; add an edge from START, e.g. START >> first")


def _edge_to_start(plan: _Plan) -> Iterator[GraphError]:
    """GV-3."""
    for edge in plan.into(START):
        yield _fault(
            "edge_to_start",
            f"node points to start node: {edge.source.name}; go back to the first node instead",
            edge.source.name,
            edges=[edge],
        )


def _agent_of(node: Any) -> Any:
    return getattr(node, "agent", None)


def _task_node(plan: _Plan) -> Iterator[GraphError]:
    """GV-4, where it still holds: what the user says could be for any of the items (WB-6)."""
    for node in plan.nodes:
        if getattr(_agent_of(getattr(node, "wrapped", None)), "delegate", False):
            yield _fault(
                "task_node",
                f"Agent \"{node.name}\" has mode='task' and cannot be used as a workflow graph node that runs once for "
                "each item: several would talk with the user at once; use mode 'single_turn', or let it be a node of "
                "its own",
                node.name,
            )


def _chat_wiring(plan: _Plan) -> Iterator[GraphError]:
    """GV-5."""
    for node in plan.nodes:
        if getattr(_agent_of(node), "mode", None) != "chat":
            continue
        for edge in plan.into(node):
            if edge.source is not START:
                yield _fault(
                    "chat_wiring",
                    f'Agent "{node.name}" has mode=\'chat\' and cannot follow node "{edge.source.name}": it reads the '
                    "conversation, not its input; put it right behind START or use mode 'single_turn'",
                    node.name,
                    edges=[edge],
                )


def inner_graph(node: Any) -> Any:
    """The graph inside a node that is a workflow, wraps one, or is an agent made of one; else None."""
    for holder in (node, _agent_of(node), getattr(node, "wrapped", None)):
        for inner in (holder, getattr(holder, "workflow", None)):
            graph = getattr(inner, "graph", None)
            if graph is not None:
                return graph
    return None


def _name_collision(plan: _Plan) -> Iterator[GraphError]:
    """GV-6."""
    pending: list[tuple[Any, frozenset[str]]] = [(node, frozenset((plan.name, *plan.enclosing))) for node in plan.nodes]
    while pending:
        node, around = pending.pop()
        graph = inner_graph(node)
        if graph is None:
            continue
        for name in {node.name, graph.name} & around:
            yield _fault(
                "name_collision",
                f'sub-workflow name collision: "{name}"; a workflow inside another needs a name of its own',
                name,
            )
        pending += [(inner, around | {graph.name}) for inner in graph.nodes.values()]


def _duplicate_edge(plan: _Plan) -> Iterator[GraphError]:
    """GV-7."""
    seen: dict[tuple[int, int], int] = {}
    for edge in plan.edges:
        ends = id(edge.source), id(edge.target)
        seen[ends] = seen.get(ends, 0) + 1
        if seen[ends] == 2:
            source, target = edge.source.name, edge.target.name
            yield _fault(
                "duplicate_edge",
                f'duplicate edge: from "{source}" to "{target}"; use one edge with a set of routes',
                source,
                target,
                edges=[edge],
            )


def _default_route(plan: _Plan) -> Iterator[GraphError]:
    """GV-8."""
    for edges in plan.outgoing.values():
        source = edges[0].source.name
        defaults = [edge for edge in edges if edge.route is DEFAULT]
        if len(defaults) > 1:
            yield _fault("default_route", f'node has more than one default route: "{source}"', source, edges=defaults)
        for edge in edges:
            if isinstance(edge.route, tuple) and DEFAULT in edge.route:
                yield _fault(
                    "default_route",
                    f'the edge from "{source}" to "{edge.target.name}" has DEFAULT among other routes; give DEFAULT an '
                    "edge of its own",
                    source,
                    edges=[edge],
                )


def _unreachable(plan: _Plan) -> Iterator[GraphError]:
    """GV-9. Without a start nothing can be reached; GV-2 says that."""
    if not plan.outgoing.get(id(START)):
        return
    reached = {id(START)}
    pending = [id(START)]
    while pending:
        for edge in plan.outgoing.get(pending.pop(), ()):
            if id(edge.target) not in reached:
                reached.add(id(edge.target))
                pending.append(id(edge.target))
    lost = sorted(node.name for node in plan.nodes if id(node) not in reached)
    if lost:
        yield _fault("unreachable", f'nodes not reachable from start node: "{", ".join(lost)}"', *lost)


def _cycle(plan: _Plan) -> Iterator[GraphError]:
    """GV-10."""
    names = {id(node): node.name for node in plan.nodes}
    before: dict[int, set[int]] = {}
    for edge in plan.edges:
        if edge.route is None and edge.source is not START and edge.target is not START:
            before.setdefault(id(edge.target), set()).add(id(edge.source))
    for _ in range(_CYCLES):
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            cycle = error.args[1]
            before[cycle[1]].discard(cycle[0])
            shown = [names[key] for key in cycle]
            yield _fault(
                "cycle",
                f'unconditional cycle detected: "{" -> ".join(shown)}"; it would never end: let a route lead out of it',
                *dict.fromkeys(shown),
            )
        else:
            return


def _declared(node: Any, which: str) -> Any:
    """A schema of a node, or of the agent that it is."""
    own = getattr(node, which)
    return own if own is not None else getattr(_agent_of(node), which, None)


def _schema_mismatch(plan: _Plan) -> Iterator[GraphError]:
    """GV-12. A join's schema is that of each predecessor's value."""
    from hookwork_workflow.schemas import schemas_agree

    for edge in plan.edges:
        if edge.source is START or edge.target is START:
            continue
        given, taken = _declared(edge.source, "output_schema"), _declared(edge.target, "input_schema")
        if given is not None and taken is not None and not schemas_agree(given, taken):
            source, target = edge.source.name, edge.target.name
            yield _fault(
                "schema_mismatch",
                f"graph validation failed: schema mismatch on edge {source} -> {target}: {source} gives "
                f"{_type_name(given)}, {target} takes {_type_name(taken)}",
                source,
                target,
                edges=[edge],
            )


def _type_name(schema: Any) -> str:
    return schema.__name__ if isinstance(schema, type) else str(schema)


def _declared_keys(state_schema: Any) -> list[str]:
    """The state keys of a schema: a mapping's keys, a class's annotated names, or a JSON schema's properties."""
    if isinstance(state_schema, Mapping):
        properties = state_schema.get("properties")
        return list(properties if isinstance(properties, Mapping) else state_schema)
    names: dict[str, None] = {}
    for cls in reversed(getattr(state_schema, "__mro__", (state_schema,))):
        names.update(dict.fromkeys(vars(cls).get("__annotations__", ())))
    return list(names)


def _state_field(plan: _Plan) -> Iterator[GraphError]:
    """GV-13."""
    if plan.state_schema is None:
        return
    declared = _declared_keys(plan.state_schema)
    for node in plan.nodes:
        for name in getattr(node, "state_fields", ()):
            if not name.startswith(_SCOPES) and name not in declared:
                yield _fault(
                    "state_field",
                    f'node "{node.name}" references state field "{name}" which is not declared in StateSchema '
                    f"(declared: {declared})",
                    node.name,
                )


def _start_route(plan: _Plan) -> Iterator[GraphError]:
    """GV-14."""
    for edge in plan.outgoing.get(id(START), ()):
        if edge.route is not None:
            yield _fault(
                "start_route",
                f'the edge from START to "{edge.target.name}" has the route {edge.label}, which START never gives; '
                "leave the route out",
                edge.target.name,
                edges=[edge],
            )


def _conditional_join(plan: _Plan) -> Iterator[GraphError]:
    """GV-15."""
    for node in plan.nodes:
        if not isinstance(node, Join) or not node.waits_for_all:
            continue
        for edge in plan.into(node):
            if edge.route is not None and edge.source is not START and not edge.optional:
                yield _fault(
                    "conditional_join",
                    f'join "{node.name}" waits for all, but the edge from "{edge.source.name}" has the route '
                    f"{edge.label} and may never be taken; make the edge optional, or let the join require less",
                    edge.source.name,
                    node.name,
                    edges=[edge],
                )


def name_fault(name: Any, what: str) -> str:
    """What is wrong with a name of a node or workflow; empty when it may be one (NAME-1)."""
    if isinstance(name, str) and name.isidentifier() and name != START.name:
        return ""
    return f"{what} name {name!r} is not one: use an identifier (letters, digits, underscores) other than START"


def _bad_name(plan: _Plan) -> Iterator[GraphError]:
    """GV-16. A node named START is told by GV-1 already."""
    fault = name_fault(plan.name, "workflow")
    if fault:
        yield _fault("bad_name", fault, str(plan.name))
    for node in plan.nodes:
        fault = name_fault(node.name, "node")
        if fault and node.name != START.name:
            yield _fault("bad_name", fault, str(node.name))


def _retry_in_parallel(plan: _Plan) -> Iterator[GraphError]:
    """GV-17."""
    for node in plan.nodes:
        wrapped: Any = getattr(node, "wrapped", None)
        if isinstance(wrapped, Node) and wrapped.config.retry is not None:
            yield _fault(
                "retry_in_parallel",
                f'parallel node "{node.name}": wrapped node "{wrapped.name}" cannot have a retry of its own; put it '
                "on the parallel node, where it holds for each item",
                node.name,
            )


_RULES: tuple[Callable[[_Plan], Iterator[GraphError]], ...] = (
    _duplicate_node,
    _no_start,
    _edge_to_start,
    _task_node,
    _chat_wiring,
    _name_collision,
    _duplicate_edge,
    _default_route,
    _unreachable,
    _cycle,
    _schema_mismatch,
    _state_field,
    _start_route,
    _conditional_join,
    _bad_name,
    _retry_in_parallel,
)


def check(
    name: str,
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    *,
    state_schema: Any = None,
    enclosing: Sequence[str] = (),
) -> list[GraphError]:
    """Every fault of a graph, in the order of the rules. ``edges`` have nodes, or `START`, at their ends."""
    plan = _Plan(name, nodes, edges, state_schema, enclosing)
    return [fault for rule in _RULES for fault in rule(plan)]


def raise_all(name: str, faults: Sequence[GraphError]) -> None:
    """Raise one error for all faults, if there are any."""
    if not faults:
        return
    if len(faults) == 1:
        text = f'workflow "{name}": {faults[0]}'
    else:
        lines = "\n".join(f"- [{fault.code}] {fault}" for fault in faults)
        text = f'workflow "{name}" has {len(faults)} faults:\n{lines}'
    nodes = dict.fromkeys(node for fault in faults for node in fault.nodes)
    edges = dict.fromkeys(edge for fault in faults for edge in fault.edges)
    raise GraphError(text, code=faults[0].code, nodes=tuple(nodes), edges=tuple(edges), errors=faults)
