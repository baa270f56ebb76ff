"""Whether a paused run may go on with a graph: not if it has changed since (workflow RPL-8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookwork_workflow.errors import GraphChanged

if TYPE_CHECKING:
    from hookwork.records.event import Event
    from hookwork_workflow.workflow import Workflow

#: Key in `NodeInfo.extra` of an event that raises a question: path → fingerprint of the graphs around it.
GRAPHS = "hookworkGraphs"


def check_unchanged(workflow: Workflow, question: Event, path: str, *, answer_stored: bool = False) -> None:
    """Refuse to go on with other graphs than those that led to a question: the one at ``path``, and those in it.

    Args:
        answer_stored: an answer to it may be stored already; for the text of the error.

    Raises:
        GraphChanged: unless the workflow allows it.
    """
    graphs = _graphs_around(question)
    fingerprint, current = graphs.get(path), workflow.graph.fingerprint
    if fingerprint is not None and fingerprint != current and not _allows(workflow, fingerprint):
        raise GraphChanged(workflow.name, fingerprint, current, answer_stored=answer_stored)
    for inner in graphs:
        above, _, segment = inner.rpartition("/")
        node: Any = workflow.graph.nodes.get(segment.partition("@")[0]) if above == path else None
        if node is not None and hasattr(node, "allow_changed_graph"):
            check_unchanged(node, question, inner, answer_stored=answer_stored)


def _allows(workflow: Workflow, stored: str) -> bool:
    allowed = workflow.allow_changed_graph
    return bool(allowed(stored, workflow.graph.fingerprint) if callable(allowed) else allowed)


def _graphs_around(question: Event) -> Mapping[str, str]:
    info = question.node_info
    found = info.extra.get(GRAPHS) if info is not None and info.extra is not None else None
    return found or {}
