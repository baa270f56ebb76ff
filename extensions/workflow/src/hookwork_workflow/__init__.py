"""Agents made of agents: in sequence, in parallel, in a loop. Names are resolved lazily to keep start-up light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork.node import Node, NodeConfig, NodeOutcome, Pause, build_node
    from hookwork_workflow.loop import LoopAgent
    from hookwork_workflow.parallel import ParallelAgent
    from hookwork_workflow.sequential import SequentialAgent

__all__ = [
    "LoopAgent",
    "Node",
    "NodeConfig",
    "NodeOutcome",
    "ParallelAgent",
    "Pause",
    "SequentialAgent",
    "build_node",
]

_HOMES = {
    "LoopAgent": "hookwork_workflow.loop",
    "Node": "hookwork.node",
    "NodeConfig": "hookwork.node",
    "NodeOutcome": "hookwork.node",
    "ParallelAgent": "hookwork_workflow.parallel",
    "Pause": "hookwork.node",
    "SequentialAgent": "hookwork_workflow.sequential",
    "build_node": "hookwork.node",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
