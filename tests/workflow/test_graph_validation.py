"""The rules of graphs (workflow §2): GV-1 … GV-17, all faults at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import pytest

from hookwork import Event, Node, NodeConfig
from hookwork.errors import ConfigurationError, GraphError
from hookwork_llm import LlmAgent
from hookwork_workflow import (
    DEFAULT,
    START,
    Edge,
    FunctionNode,
    GraphNode,
    Join,
    Retry,
    Workflow,
    compile_graph,
    node,
    parallel,
)


def named(name: str, **settings: Any) -> FunctionNode[Any, Any, Any]:
    async def body(value: Any) -> Any:
        return value

    return FunctionNode(body, name=name, **settings)


a, b, c, d = (named(name) for name in "abcd")


def faults(*edges: Any, name: str = "wf", **options: Any) -> list[GraphError]:
    with pytest.raises(GraphError) as caught:
        compile_graph(name, edges, **options)
    error = caught.value
    assert error.code == error.errors[0].code
    return list(error.errors)


def only(code: str, *edges: Any, **options: Any) -> GraphError:
    found = faults(*edges, **options)
    assert [fault.code for fault in found] == [code]
    return found[0]


class Holder(GraphNode[Any, Any]):
    """A node that holds something else, as agent nodes, parallel nodes and sub-workflows do."""

    def __init__(self, name: str, **held: Any) -> None:
        self.name = name
        vars(self).update(held)

    async def run(self, ctx: Any, input: Any) -> Any:
        yield Event()


def test_gv_1_two_nodes_of_one_name() -> None:
    """NAME-2: identity is the object; two objects with one name are an error."""
    fault = only("duplicate_node", START >> named("x") >> named("x"))
    assert "duplicate node name: x" in str(fault)
    assert fault.nodes == ("x",)


def test_gv_1_a_node_called_start() -> None:
    """NAME-1: never START."""
    assert "duplicate node name: START" in str(only("duplicate_node", START >> named("START")))


def test_gv_2_no_start() -> None:
    assert "no start node found" in str(only("no_start", a >> b))
    assert "no start node found" in str(only("no_start"))


def test_gv_3_an_edge_to_start() -> None:
    fault = only("edge_to_start", START >> a, Edge(a, START))
    assert "node points to start node: a" in str(fault)
    assert fault.edges == (("a", "START"),)


def test_gv_4_a_task_agent_is_no_node_that_runs_for_each_item() -> None:
    """WB-6 lets it be a node; where several would talk with the user at once it is refused still."""
    agent = LlmAgent(name="booker", model="offline", mode="task")
    fault = only("task_node", START >> parallel(agent))
    assert "Agent \"booker\" has mode='task' and cannot be used as a workflow graph node" in str(fault)


def test_gv_5_a_chat_agent_stands_right_behind_start() -> None:
    talk = LlmAgent(name="talk", model="offline", mode="chat")
    assert list(compile_graph("wf", START >> talk >> (a,)).nodes) == ["talk", "a"]
    fault = only("chat_wiring", START >> a >> (talk,))
    assert 'Agent "talk" has mode=\'chat\' and cannot follow node "a"' in str(fault)
    assert only("chat_wiring", START >> (a, talk), a >> (talk,)).edges == (("a", "talk"),)


def test_gv_5_an_agent_without_mode_may_stand_anywhere() -> None:
    """AN-1: it runs as single_turn here."""
    free = LlmAgent(name="free", model="offline")
    assert list(compile_graph("wf", START >> a >> (free,)).nodes) == ["a", "free"]


def test_gv_6_a_sub_workflow_named_like_one_around_it() -> None:
    inner = Workflow("mid", START >> Workflow("deep", START >> Workflow("wf", START >> a)).as_agent())
    assert 'sub-workflow name collision: "wf"' in str(only("name_collision", START >> inner))
    assert list(compile_graph("other", START >> inner).nodes) == ["mid"]
    fault = only("name_collision", START >> inner, name="other", enclosing=("mid", "top"))
    assert fault.nodes == ("mid",)


def test_gv_7_two_edges_with_the_same_ends_whatever_their_routes() -> None:
    fault = only("duplicate_edge", START >> a, Edge(a, b, "x"), Edge(a, b, "y"), Edge(a, b, "z"))
    assert 'duplicate edge: from "a" to "b"' in str(fault)
    assert fault.edges == (("a", "b"),)


def test_gv_8_one_default_and_never_among_others() -> None:
    fault = only("default_route", START >> a, Edge(a, b, DEFAULT), Edge(a, c, DEFAULT))
    assert 'node has more than one default route: "a"' in str(fault)
    assert fault.edges == (("a", "b"), ("a", "c"))
    assert "DEFAULT among other routes" in str(only("default_route", START >> a, Edge(a, b, ["x", DEFAULT])))


def test_gv_9_all_unreachable_nodes_sorted() -> None:
    fault = only("unreachable", START >> a, d >> c)
    assert 'nodes not reachable from start node: "c, d"' in str(fault)
    assert fault.nodes == ("c", "d")


def test_gv_10_a_cycle_without_condition_is_shown_whole() -> None:
    fault = only("cycle", START >> a >> b >> c >> a)
    assert set(fault.nodes) == {"a", "b", "c"}
    assert 'unconditional cycle detected: "' in str(fault)
    shown = str(fault).split('"')[1].split(" -> ")
    assert shown[0] == shown[-1]
    assert "".join(shown[:-1]) in ("abc", "bca", "cab")


def test_gv_10_a_self_loop_and_several_cycles() -> None:
    assert str(only("cycle", START >> a >> a)).startswith('unconditional cycle detected: "a -> a"')
    found = faults(START >> a >> b >> a, a >> c >> d >> c)
    assert [fault.code for fault in found] == ["cycle", "cycle"]
    assert sorted(sorted(fault.nodes) for fault in found) == [["a", "b"], ["c", "d"]]


def test_gv_10_a_condition_lets_it_out() -> None:
    """DEFAULT counts as conditional."""
    assert compile_graph("wf", [START >> a >> b, b.on({"again": a})]).terminal == frozenset()
    assert compile_graph("wf", [START >> a >> b, b.on({DEFAULT: a, "done": c})]).terminal == {"c"}


def test_gv_11_a_plain_node_may_have_several_predecessors() -> None:
    """WT-6: allowed here, one activation per trigger."""
    graph = compile_graph("wf", START >> (a, b) >> c)
    assert graph.predecessors("c") == ("a", "b")


@dataclass
class City:
    name: str
    people: int = 0


@dataclass
class Place:
    people: int = 0
    name: str = ""


@dataclass
class Report:
    text: str


def gives(annotation: Any) -> FunctionNode[Any, Any, Any]:
    return named("giver", output_schema=annotation)


def takes(annotation: Any) -> FunctionNode[Any, Any, Any]:
    return named("taker", input_schema=annotation)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (City, Report),
        (str, int),
        (list[str], list[int]),
        (int, str),
        (City | None, City),
        (float, int),
        ({"type": "object", "properties": {"x": {"type": "string"}}}, City),
        (Annotated[int, "any"], str),
    ],
)
def test_gv_12_schemas_that_differ(given: Any, taken: Any) -> None:
    fault = only("schema_mismatch", START >> gives(given) >> takes(taken))
    assert "graph validation failed: schema mismatch on edge giver -> taker" in str(fault)
    assert fault.edges == (("giver", "taker"),)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (City, City),
        (City, {"properties": {"people": {"type": "integer"}, "name": {"type": "string"}}, "required": ["name"],
                "title": "X", "type": "object"}),
        (None, City),
        (City, None),
        (Any, City),
        (City, Any),
        (str, str | None),
        (City, City | Report),
        (int, float),
        (Literal["a"], str),
        (Literal["a"], Literal["b", "a"]),
        (list[City], list[City]),
        (list[int], list),
        (City, dict),
        (str | None, None | str),
    ],
)  # fmt: skip
def test_gv_12_schemas_that_agree(given: Any, taken: Any) -> None:
    """WT-17: an "any" schema matches everything; the order of properties means nothing."""
    assert compile_graph("wf", START >> gives(given) >> takes(taken)).terminal == {"taker"}


def test_gv_12_the_order_of_properties_is_left_out() -> None:
    left = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "integer"}}}
    right = {"properties": {"y": {"type": "integer"}, "x": {"type": "string"}}, "type": "object"}
    assert compile_graph("wf", START >> gives(left) >> takes(right)).terminal == {"taker"}


def test_gv_12_a_join_is_compared_with_each_predecessor() -> None:
    both = Join("both", input_schema=City)
    one, other = named("one", output_schema=City), named("other", output_schema=Report)
    assert only("schema_mismatch", START >> (one, other) >> both).edges == (("other", "both"),)


def test_gv_12_an_agent_has_the_schemas_that_it_declares() -> None:
    agent = LlmAgent(name="finder", model="offline", output_schema=City)
    assert only("schema_mismatch", START >> agent >> takes(Report)).edges == (("finder", "taker"),)
    assert compile_graph("wf", START >> agent >> takes(City)).terminal == {"taker"}


def test_gv_12_an_agent_without_schema_gives_anything() -> None:
    """WT-17."""
    agent = LlmAgent(name="free", model="offline")
    assert compile_graph("wf", START >> agent >> takes(City)).terminal == {"taker"}


class Keys:
    city: str
    temperature: float


@pytest.mark.parametrize("schema", [Keys, {"city": str, "temperature": float}])
def test_gv_13_state_fields_that_are_not_declared(schema: Any) -> None:
    @node
    def report(node_input: Any, city: str, mood: str = "fine") -> str:
        return f"{city} {mood} {node_input}"

    fault = only("state_field", START >> report, state_schema=schema)
    assert str(fault) == (
        'node "report" references state field "mood" which is not declared in StateSchema '
        "(declared: ['city', 'temperature'])"
    )
    assert list(compile_graph("wf", START >> report).nodes) == ["report"]


def test_gv_13_prefixed_keys_are_free() -> None:
    """STATE-3: app:, user: and temp: bypass the schema."""

    @node(state={"home": "user:city"})
    def report(value: Any, home: str) -> str:
        return home

    assert list(compile_graph("wf", START >> report, state_schema=Keys).nodes) == ["report"]


def test_gv_14_a_route_at_start_could_never_match() -> None:
    """WT-18."""
    fault = only("start_route", START >> a, Edge(START, b, "x"))
    assert fault.edges == (("START", "b"),)


def test_gv_15_a_join_behind_a_route() -> None:
    """WT-5: it would never fire."""
    both = Join("both")
    fault = only("conditional_join", START >> (a, b), Edge(a, both, "x"), Edge(b, both))
    assert fault.edges == (("a", "both"),)
    assert fault.nodes == ("a", "both")


@pytest.mark.parametrize("require", ["any", 1])
def test_gv_15_join_4_a_join_that_requires_less_may_stand_there(require: Any) -> None:
    both = Join("both", require)
    graph = compile_graph("wf", [START >> (a, b), Edge(a, both, "x"), Edge(b, both)])
    assert graph.predecessors("both") == ("a", "b")


def test_gv_15_join_4_an_optional_edge_may_be_routed() -> None:
    both = Join("both")
    assert compile_graph("wf", [START >> (a, b), Edge(a, both, "x", optional=True), b >> both]).terminal == {"both"}


@pytest.mark.parametrize("bad", ["", "a/b", "a@b", "a.b", "two words", "1st", "ab~"])
def test_gv_16_name_1_names_are_identifiers(bad: str) -> None:
    """WT-1: Go accepts them all."""
    assert only("bad_name", START >> named(bad)).nodes == (bad,)
    assert only("bad_name", START >> a, name=bad).nodes == (bad,)


def test_gv_16_a_workflow_is_not_called_start() -> None:
    assert only("bad_name", START >> a, name="START").nodes == ("START",)


def test_gv_17_the_node_inside_a_parallel_node_has_no_retry() -> None:
    inner = named("inner", config=NodeConfig(retry=Retry()))
    fault = only("retry_in_parallel", START >> parallel(inner, name="many"))
    assert 'parallel node "many": wrapped node "inner" cannot have a retry' in str(fault)
    assert list(compile_graph("wf", START >> parallel(a, name="many")).nodes) == ["many"]


def test_gv_all_faults_are_told_at_once_first_rule_first() -> None:
    """Issue 8: every fault with its code, nodes and edges; the code is that of the first in spec order."""
    edges = [Edge(START, a, "x"), Edge(a, b), Edge(a, b), Edge(b, b), Edge(c, d), Edge(c, named("c"))]
    with pytest.raises(GraphError) as caught:
        compile_graph("wf", edges)
    error = caught.value
    codes = [fault.code for fault in error.errors]
    assert codes == ["duplicate_node", "duplicate_edge", "unreachable", "cycle", "start_route"]
    assert error.code == "duplicate_node"
    assert isinstance(error, ConfigurationError)
    for fault in error.errors:
        assert str(fault) in str(error)
        assert f"[{fault.code}]" in str(error)
    assert set(error.nodes) >= {"a", "b", "c", "d"}
    assert ("b", "b") in error.edges or ("a", "b") in error.edges


def test_gv_what_cannot_be_a_node_is_told_with_the_rest() -> None:
    found = faults(START >> a, Edge(a, object()), Edge(START, 7), Edge(a, b), Edge(a, b))
    assert [fault.code for fault in found] == ["not_a_node", "not_a_node", "duplicate_edge"]
    assert "of type int cannot be a node" in str(found[1])


def test_wf_1_a_large_line_is_compiled_without_recursion() -> None:
    line = [named(f"n{i}") for i in range(3000)]
    edges: Any = START >> line[0]
    graph = compile_graph("wf", [edges, *(Edge(x, y) for x, y in pairwise(line))])
    assert len(graph.nodes) == 3000
    assert graph.terminal == {"n2999"}


def test_name_2_a_foreign_node_is_taken_as_it_is() -> None:
    """HK-1: the contract is the kernel's; a node of another distribution needs nothing of this one."""

    class Foreign(Node):
        name = "foreign"

        async def run(self, ctx: Any, input: Any) -> Any:
            yield Event(output=input)

    foreign = Foreign()
    graph = compile_graph("wf", [Edge(START, foreign), Edge(foreign, a)])
    assert graph.nodes["foreign"] is foreign


def test_gv_2_9_what_follows_from_a_value_that_is_no_node_is_not_told_as_well() -> None:
    fault = only("not_a_node", START >> "b" >> c)
    assert str(fault) == "'b' of type str cannot be a node; give a node, a function, an agent or a tool"
    assert [fault.code for fault in faults(a >> "b")] == ["not_a_node", "no_start"]  # type: ignore[operator]


def test_gv_16_a_workflow_without_name_says_what_is_missing() -> None:
    with pytest.raises(GraphError, match="the first argument of a Workflow is its name, not Edges") as caught:
        Workflow(START >> a)  # type: ignore[arg-type]
    assert caught.value.code == "bad_name"
