"""What workflows show to users and type checkers: public names, typed ends (workflow API-3, API-4)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Node
from hookwork_workflow import GraphNode


def test_api_3_a_type_checker_refuses_ends_that_disagree(tmp_path: Any) -> None:
    """`city >> write` with an output that is not the input; the others must pass."""
    mypy = pytest.importorskip("mypy.api", reason="mypy is not installed")
    lines = {
        "good = START >> city >> weather": True,
        "good2: Edges[str, int] = city >> weather": True,
        "good3 = city >> (weather, weather) >> Join('j') >> anything": True,
        "bad = weather >> weather": False,
        "bad2 = START >> city >> city": False,
        "bad3: Edges[str, str] = city >> weather": False,
        "good4 = city.on({'x': weather, DEFAULT: anything})": True,
        "text: str = 'x'": True,
    }
    head = (
        "from typing import Any\n"
        "from hookwork import InvocationContext\n"
        "from hookwork_workflow import DEFAULT, START, Edges, Join, node\n"
        "@node\nasync def city(text: str) -> bytes: return b''\n"
        "@node(timeout=5)\nasync def weather(c: bytes, *, ctx: InvocationContext) -> int: return 1\n"
        "@node\ndef anything(x: Any) -> Any: return x\n"
    )
    source = tmp_path / "flow.py"
    source.write_text(head + "\n".join(lines) + "\n")
    out, err, _ = mypy.run([str(source), "--no-incremental", "--follow-imports=silent", "--no-error-summary"])
    assert err == ""
    first = head.count("\n") + 1
    wrong = {int(line.split(":")[1]) for line in out.splitlines() if ": error:" in line}
    assert wrong == {first + i for i, good in enumerate(lines.values()) if not good}, out


def test_graph_node_is_the_kernels_contract() -> None:
    assert issubclass(GraphNode, Node)


def test_api_4_the_public_names() -> None:
    """Re-exported from the kernel, its own, and the exceptions; each is where the spec says."""
    import hookwork.errors
    import hookwork.node
    import hookwork_workflow

    kernel = ("Node", "NodeConfig", "NodeOutcome", "Pause", "build_node")
    own = (
        *("Workflow", "WorkflowAgent", "node", "Edge", "EdgeBuilder", "START", "DEFAULT", "Join", "Retry"),
        *("RequestInput", "parallel", "routed", "progress", "SequentialAgent", "ParallelAgent", "LoopAgent"),
    )
    family = (
        *("NodeRunError", "InputValidationError", "NodeTimeout", "MultipleOutputs", "MultipleRoutes"),
        *("MultipleTerminalOutputs", "OutputAlreadyDelegated"),
    )
    errors = (
        *("GraphError", "NodeFailed", *family, "InvalidRunId", "InvalidRunNodeContext", "ReplayDivergence"),
        *("GraphChanged", "RunawayGraph"),
    )
    for name in kernel:
        assert getattr(hookwork_workflow, name) is getattr(hookwork.node, name)
    for name in (*own, *errors):
        assert name in hookwork_workflow.__all__
        assert getattr(hookwork_workflow, name) is not None
    assert all(issubclass(getattr(hookwork_workflow, name), hookwork.errors.NodeFailed) for name in family)
    assert all(issubclass(getattr(hookwork_workflow, name), Exception) for name in errors)
    assert issubclass(hookwork_workflow.NodeTimeout, TimeoutError)  # TMO-1
    assert callable(hookwork_workflow.parallel)  # the function, not a module of that name
