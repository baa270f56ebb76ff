"""What goes wrong in graphs and nodes (workflow API-4). `GraphError` and `NodeFailed` themselves are the kernel's."""

from __future__ import annotations

from collections.abc import Sequence

from hookwork.errors import (
    GraphError,
    HookworkError,
    InvalidRunId,
    InvalidRunNodeContext,
    LimitExceeded,
    NodeFailed,
)

__all__ = [
    "GraphChanged",
    "GraphError",
    "InputValidationError",
    "InvalidRunId",
    "InvalidRunNodeContext",
    "MultipleOutputs",
    "MultipleRoutes",
    "MultipleTerminalOutputs",
    "NodeFailed",
    "NodeRunError",
    "NodeTimeout",
    "OutputAlreadyDelegated",
    "OutputValidationError",
    "ReplayDivergence",
    "RunawayGraph",
]


class InputValidationError(NodeFailed):
    """A value does not fit the input schema of a node; its body was not run (NODE-1). ``node``: its name."""

    def __init__(self, node: str, reason: str = "") -> None:
        text = f'input validation failed for node "{node}"'
        super().__init__(f"{text}: {reason}" if reason else text)
        self.node = node


class OutputValidationError(NodeFailed):
    """A node gave what its output schema, or JSON, cannot hold; nothing of it was stored (NODE-4)."""

    def __init__(self, node: str, reason: str = "") -> None:
        text = f'output validation failed for node "{node}"'
        super().__init__(f"{text}: {reason}" if reason else text)
        self.node = node


class NodeTimeout(NodeFailed, TimeoutError):
    """An attempt at a node took longer than its ``timeout`` (TMO-1). ``seconds``: that timeout."""

    def __init__(self, node: str, seconds: float) -> None:
        super().__init__(f'node "{node}" did not finish within {seconds:g} s')
        self.node = node
        self.seconds = seconds


class NodeRunError(NodeFailed):
    """A child that was started with `run_node` failed; the cause is ``__cause__`` (DYN-4)."""

    def __init__(self, child_name: str, child_path: str, run_id: str, cause: BaseException) -> None:
        super().__init__(f"workflow: dynamic child {child_path}: {cause}")
        self.child_name = child_name
        self.child_path = child_path
        self.run_id = run_id
        self.__cause__ = cause


class MultipleOutputs(NodeFailed):
    """One activation of a node gave more than one output (NODE-6)."""

    def __init__(self, node: str) -> None:
        super().__init__(
            f'node "{node}" gave more than one output; give one, and the rest as events without output (progress(...))'
        )
        self.node = node


class MultipleRoutes(NodeFailed):
    """One activation of a node decided more than once where to go (NODE-6)."""

    def __init__(self, node: str) -> None:
        super().__init__(f'node "{node}" gave more than one routing event; put all routes on one event')
        self.node = node


class MultipleTerminalOutputs(NodeFailed):
    """More than one node without successors gave an output (RSL-1). ``nodes``: their names, sorted."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = tuple(sorted(nodes))
        super().__init__(
            "workflow: multiple terminal nodes produced output; a workflow must have at most one terminal output: "
            + ", ".join(self.nodes)
        )


class OutputAlreadyDelegated(NodeFailed):
    """A second child was to be the output of its parent (DYN-24)."""

    def __init__(self, node: str, first: str, second: str) -> None:
        super().__init__(
            f'node "{node}" has handed its output over to {first} already; {second} cannot be its output too'
        )
        self.node = node


class ReplayDivergence(HookworkError, RuntimeError):
    """What was recorded cannot have come from this graph: a recorded node never becomes ready (RPL-5)."""

    def __init__(self, node: str, path: str) -> None:
        super().__init__(
            f'the stored run has an outcome of node "{node}" at {path}, but this graph does not lead there; run it '
            "with the graph it was begun with, or start a new run"
        )
        self.node = node
        self.path = path


class GraphChanged(HookworkError, RuntimeError):
    """A paused run was begun with another graph than the one that is to go on (RPL-8)."""

    def __init__(self, workflow: str, stored: str, current: str) -> None:
        super().__init__(
            f'workflow "{workflow}" has changed since this run was paused (graph {stored}, now {current}); resume it '
            "with the graph it was begun with, or let the workflow accept changed graphs"
        )
        self.workflow = workflow
        self.stored = stored
        self.current = current


class RunawayGraph(LimitExceeded):
    """A graph run has started more activations than its ``max_activations`` (SCH-10)."""

    def __init__(self, workflow: str, limit: int) -> None:
        super().__init__(
            f'workflow "{workflow}" has started {limit} activations in this run, its max_activations; does a loop '
            "never end? Raise max_activations if it is meant to go on"
        )
        self.workflow = workflow
        self.limit = limit
