"""Edges, routes and the ways to write them (workflow §1.2, API-1)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork import Event
from hookwork.errors import GraphError
from hookwork_workflow import (
    DEFAULT,
    START,
    Edge,
    EdgeBuilder,
    Edges,
    FunctionNode,
    Graph,
    Join,
    chain,
    compile_graph,
    fan_in,
    fan_out,
    node,
    routes,
)


def named(name: str) -> FunctionNode[Any, Any, Any]:
    async def body(value: Any) -> Any:
        return value

    return FunctionNode(body, name=name)


a, b, c, d, e = (named(name) for name in "abcde")


def names(graph: Graph, source: str, *given_routes: str) -> list[str]:
    return [found.name for found in graph.select(source, given_routes)]


def pairs(edges: Any) -> list[tuple[str, str, Any]]:
    return [(edge.source.name, edge.target.name, edge.route) for edge in edges]


def test_edge_1_start_hands_the_input_to_its_successors_and_is_no_node() -> None:
    graph = compile_graph("g", [Edge(START, a), Edge(START, b), Edge(a, c)])
    assert graph.start == ("a", "b")
    assert list(graph.nodes) == ["a", "b", "c"]
    assert graph.predecessors("a") == ("START",)
    assert graph.terminal == {"b", "c"}


def test_edge_1_a_graph_is_not_changed_by_a_later_change_of_the_list() -> None:
    """WF-1: the graph copies the edge list."""
    edges = [Edge(START, a)]
    graph = compile_graph("g", edges)
    edges.append(Edge(a, b))
    assert list(graph.nodes) == ["a"]
    with pytest.raises(TypeError):
        graph.nodes["x"] = a  # type: ignore[index]


@pytest.mark.parametrize(
    ("route", "values"),
    [
        ("x", {"x"}),
        (7, {"7"}),
        (-1, {"-1"}),
        (True, {"true"}),
        (False, {"false"}),
        ({"x", 1}, {"x", "1"}),
        (["x", True], {"x", "true"}),
        (("x",), {"x"}),
    ],
)
def test_edge_2_edge_3_route_values_are_compared_as_they_travel(route: Any, values: set[str]) -> None:
    assert Edge(a, b, route).values == values


def test_edge_3_one_matches_its_text_and_true_never_matches_one() -> None:
    """WT-30: as Python values True == 1 would match."""
    assert Edge(a, b, 1).matches(["1"])
    assert not Edge(a, b, True).matches(["1"])
    assert not Edge(a, b, 1).matches(["true"])
    assert Edge(a, b, [1, True]).values == {"1", "true"}


@pytest.mark.parametrize("route", [1.5, None.__class__, b"x", {"x", 2.5}, [None]])
def test_edge_2_other_values_are_no_routes(route: Any) -> None:
    with pytest.raises(GraphError, match="is no route") as caught:
        Edge(a, b, route)
    assert caught.value.code == "bad_route"


def test_edge_2_an_empty_set_is_refused() -> None:
    with pytest.raises(GraphError, match="empty set of routes"):
        Edge(a, b, [])


def test_edge_2_a_custom_object_is_asked_about_the_event() -> None:
    class Loud:
        def matches(self, event: Event) -> bool:
            return event.output == "loud" or "loud" in event.routes

    graph = compile_graph("g", START >> a >> {Loud(): b, DEFAULT: c})
    assert [n.name for n in graph.select("a", (), Event(output="loud"))] == ["b"]
    assert [n.name for n in graph.select("a", (), Event(output="low"))] == ["c"]
    assert names(graph, "a", "loud") == ["b"]


def test_edge_4_unconditional_edges_always_fire_and_are_no_match_for_default() -> None:
    graph = compile_graph("g", [Edge(START, a), Edge(a, b), Edge(a, c, "x"), Edge(a, d, DEFAULT)])
    assert names(graph, "a") == ["b", "d"]
    assert names(graph, "a", "x") == ["b", "c"]
    assert names(graph, "a", "other") == ["b", "d"]


def test_edge_5_several_routed_edges_may_match_at_once() -> None:
    graph = compile_graph("g", START >> a >> {"x": b, ("x", "y"): c, "z": d, DEFAULT: e})
    assert names(graph, "a", "x") == ["b", "c"]
    assert names(graph, "a", "x", "z") == ["b", "c", "d"]
    assert names(graph, "a", "nothing") == ["e"]


def test_edge_5_a_branch_that_no_edge_takes_ends_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    graph = compile_graph("g", START >> a >> {"x": b})
    with caplog.at_level(logging.WARNING, "hookwork.workflow"):
        assert names(graph, "a", "y") == []
    assert "'a'" in caplog.text.replace('"', "'")
    assert "['y']" in caplog.text


def test_edge_5_a_terminal_node_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    graph = compile_graph("g", START >> a)
    assert names(graph, "a", "y") == []
    assert caplog.text == ""


def test_edge_6_a_target_appears_once() -> None:
    """A route set on one edge: two of its values given at once trigger once (and GV-7 keeps edges single)."""
    graph = compile_graph("g", [Edge(START, a), Edge(a, b, {"x", "y"})])
    assert names(graph, "a", "x", "y") == ["b"]


def test_edge_7_chain() -> None:
    assert pairs(chain(a, b, c)) == [("a", "b", None), ("b", "c", None)]
    assert list(chain(a)) == list(chain()) == []
    assert pairs(chain(START, a)) == [("START", "a", None)]


def test_edge_7_fan_out_and_fan_in() -> None:
    assert pairs(fan_out(a, b, c)) == [("a", "b", None), ("a", "c", None)]
    assert pairs(fan_in(c, a, b)) == [("a", "c", None), ("b", "c", None)]


def test_edge_7_routes_in_the_order_of_the_mapping() -> None:
    found = routes(a, {"z": b, "y": (c, d), DEFAULT: e})
    assert pairs(found) == [("a", "b", "z"), ("a", "c", "y"), ("a", "d", "y"), ("a", "e", DEFAULT)]


def test_edge_7_edge_lists_are_joined() -> None:
    joined = chain(START, a) + chain(a, b) + [Edge(b, c)]
    assert pairs(joined) == [("START", "a", None), ("a", "b", None), ("b", "c", None)]
    before = [Edge(START, a)]
    assert pairs(before + chain(a, b)) == [("START", "a", None), ("a", "b", None)]


def test_edge_7_the_builder_has_the_same_verbs() -> None:
    builder = EdgeBuilder().chain(START, a, b).fan_out(b, c, d).fan_in(e, c, d).routes(e, {"again": a}).add(b, e, "x")
    assert pairs(builder.build()) == [
        ("START", "a", None),
        ("a", "b", None),
        ("b", "c", None),
        ("b", "d", None),
        ("c", "e", None),
        ("d", "e", None),
        ("e", "a", "again"),
        ("b", "e", "x"),
    ]
    assert list(compile_graph("g", builder).nodes) == list("abcde")


def test_api_1_the_sketch_of_the_spec() -> None:
    both, write = Join("both"), named("write")
    edges = START >> a >> (b, c) >> both >> write
    assert pairs(edges) == [
        ("START", "a", None),
        ("a", "b", None),
        ("a", "c", None),
        ("b", "both", None),
        ("c", "both", None),
        ("both", "write", None),
    ]


def test_api_1_each_expression_is_a_value() -> None:
    head = START >> a
    left, right = head >> b, head >> c
    assert pairs(head) == [("START", "a", None)]
    assert pairs(left) == [("START", "a", None), ("a", "b", None)]
    assert pairs(right) == [("START", "a", None), ("a", "c", None)]
    assert left == [Edge(START, a), Edge(a, b)]
    assert left != right
    assert left[1] == Edge(a, b)
    assert len(left) == 2


def test_api_1_chains_inside_a_tuple_join_at_their_ends() -> None:
    edges = START >> (a >> b, c) >> d
    assert pairs(edges) == [
        ("START", "a", None),
        ("a", "b", None),
        ("START", "c", None),
        ("b", "d", None),
        ("c", "d", None),
    ]


def test_api_1_routes_lead_on_from_their_targets() -> None:
    edges = a.on({"x": b >> c, DEFAULT: d}) >> e
    assert pairs(edges) == [
        ("a", "b", "x"),
        ("b", "c", None),
        ("a", "d", DEFAULT),
        ("c", "e", None),
        ("d", "e", None),
    ]
    assert pairs(a >> {"x": b}) == [("a", "b", "x")]
    assert pairs((START >> a).on({"x": b})) == [("START", "a", None), ("a", "b", "x")]


def test_api_1_routes_of_several_nodes_at_once_are_refused() -> None:
    with pytest.raises(GraphError, match="goes on from one node, not from 2"):
        START >> (a, b) >> {"x": c}


def test_api_1_what_has_no_operator_may_stand_first() -> None:
    plain: Any = lambda value: value  # noqa: E731

    assert [edge.source for edge in plain >> a] == [plain]
    assert [edge.source for edge in (plain, b) >> a] == [plain, b]
    assert [edge.target for edge in plain >> (a >> b)] == [a, b]


def test_name_2_one_object_on_many_edges_is_one_node() -> None:
    def plain(value: str) -> str:
        return value

    class Desk:
        def look(self, value: str) -> str:
            return value

    desk = Desk()
    graph = compile_graph("g", [START >> plain >> a, a.on({"x": b}), b >> a, Edge(b, desk.look), Edge(desk.look, c)])
    assert list(graph.nodes) == ["plain", "a", "b", "look", "c"]


def test_edges_anything_else_is_no_edge() -> None:
    with pytest.raises(GraphError, match="is no edge") as caught:
        compile_graph("g", [START >> a, "a"])
    assert caught.value.code == "bad_edge"


def test_joins_know_their_optional_predecessors() -> None:
    """JOIN-4: an optional edge."""
    both = Join("both")
    graph = compile_graph("g", [START >> (a, b), Edge(a, both, "x", optional=True), Edge(b, both)])
    assert graph.optional("both") == {"a"}
    assert graph.predecessors("both") == ("a", "b")


_route = st.one_of(st.sampled_from(["x", "y", "1", "true"]), st.booleans(), st.integers(0, 2))
_edge_route = st.one_of(st.none(), st.just(DEFAULT), _route, st.sets(_route, min_size=1, max_size=3))


@settings(deadline=None)
@given(st.lists(_edge_route, min_size=1, max_size=6), st.lists(st.sampled_from(["x", "y", "1", "true", "2"])))
def test_edge_4_law(edge_routes: list[Any], given_routes: list[str]) -> None:
    """Against the rule as the spec words it, over any mix of edges (at most one of them DEFAULT)."""
    seen_default = False
    kept = []
    for route in edge_routes:
        if route is DEFAULT and seen_default:
            continue
        seen_default = seen_default or route is DEFAULT
        kept.append(route)
    targets = [named(f"t{i}") for i in range(len(kept))]
    edges = [Edge(a, target, route) for target, route in zip(targets, kept, strict=True)]
    graph = compile_graph("g", [Edge(START, a), *edges])

    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    def values(route: Any) -> set[str]:
        return {text(value) for value in route} if isinstance(route, set) else {text(route)}

    routed = [r is not None and r is not DEFAULT and bool(values(r) & set(given_routes)) for r in kept]
    expected = [f"t{i}" for i, r in enumerate(kept) if r is None or routed[i] or (r is DEFAULT and not any(routed))]
    assert names(graph, "a", *given_routes) == expected


def test_rpl_8_the_fingerprint_tells_graphs_apart_and_not_their_spelling() -> None:
    def of(*edges: Any) -> str:
        return compile_graph("g", edges).fingerprint

    base = of(START >> a >> b, Edge(b, c, "x"))
    assert base == of(Edge(b, c, ["x"]), Edge(a, b), Edge(START, a))
    assert len({base, of(START >> a >> b >> c), of(START >> a >> b, Edge(b, c, "y")), of(START >> a >> b)}) == 4
    assert base != of(START >> a >> b, Edge(b, Join("c", "any"), "x"))


def test_node_is_the_decorator() -> None:
    """`node` gives what graphs take: see test_graph_nodes."""
    assert isinstance(node(lambda x: x, name="f"), FunctionNode)
    assert isinstance(START >> a, Edges)
