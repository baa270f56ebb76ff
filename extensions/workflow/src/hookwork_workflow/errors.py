"""What goes wrong in graphs (workflow API-4). What goes wrong in one node is the kernel's and re-exported here."""

from __future__ import annotations

from collections.abc import Sequence

from hookwork.errors import (
    GraphError,
    HookworkError,
    InputValidationError,
    InvalidRunId,
    InvalidRunNodeContext,
    LimitExceeded,
    MultipleOutputs,
    MultipleRoutes,
    NodeFailed,
    NodeRunError,
    NodeTimeout,
    OutputAlreadyDelegated,
    OutputValidationError,
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


class MultipleTerminalOutputs(NodeFailed):
    """More than one node without successors gave an output (RSL-1). ``nodes``: their names, sorted."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = tuple(sorted(nodes))
        super().__init__(
            "workflow: multiple terminal nodes produced output; a workflow must have at most one terminal output: "
            + ", ".join(self.nodes)
        )


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
    """A paused run was begun with another graph than the one that is to go on (RPL-8). Nothing is lost by it."""

    def __init__(self, workflow: str, stored: str, current: str, *, answer_stored: bool = False) -> None:
        state = "what was answered is kept" if answer_stored else "nothing was stored, and the question still waits"
        then = "go on by its invocation id" if answer_stored else "answer again"
        super().__init__(
            f'workflow "{workflow}" has changed since this run was paused (graph {stored}, now {current}), so it does '
            f"not go on; {state}: {then} with the graph it was begun with, or with allow_changed_graph=True"
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
