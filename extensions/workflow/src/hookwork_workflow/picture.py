"""Pictures of graphs and agents as Mermaid text (workflow WB-27)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from attrs import define, field

from hookwork.agent import Agent
from hookwork.errors import ConfigurationError
from hookwork.node import Node
from hookwork_workflow.edges import DEFAULT, START
from hookwork_workflow.graph import Graph
from hookwork_workflow.loop import LoopAgent
from hookwork_workflow.parallel_agent import ParallelAgent
from hookwork_workflow.sequential import SequentialAgent
from hookwork_workflow.validation import inner_graph

if TYPE_CHECKING:
    from hookwork.records.session import Session

#: kind → what stands around the label in Mermaid.
_SHAPES = {
    "start": ("([", "])"),
    "join": ("{{", "}}"),
    "join_as_completed": ("{{", "}}"),
    "agent": ("[[", "]]"),
    "tool": ("[/", "/]"),
    "parallel": ("[[", "]]"),
}
_BOX = ("[", "]")

#: status → colours; each passes for text on the fill (contrast 7:1 and more).
STYLES = {
    "done": "fill:#d6f5d6,stroke:#2d7a2d,color:#0f2e0f",
    "waiting": "fill:#fff2cc,stroke:#9a7400,color:#332600",
    "failed": "fill:#ffd9d9,stroke:#b02020,color:#400c0c",
    "undone": "fill:#e8e8e8,stroke:#6b6b6b,color:#1f1f1f,stroke-dasharray:5",
    "started": "fill:#dbe9ff,stroke:#2f5fb0,color:#0c2040",
}

#: Words that Mermaid reads as its own.
_RESERVED = frozenset(
    {
        *("call", "class", "classdef", "click", "default", "direction", "end", "flowchart", "graph", "href"),
        *("linkstyle", "style", "subgraph"),
    }
)

Path = tuple[str, ...]


@define
class _Box:
    """One node of the picture; a group when it has an inside."""

    path: Path
    label: str
    kind: str = "box"
    inside: list[_Box] = field(factory=list)


@define
class _Line:
    source: Path
    target: Path
    label: str = ""
    dotted: bool = False


class _Drawing:
    """Boxes and lines, collected from the top down. A path is the names from the root to the thing that is drawn."""

    def __init__(self) -> None:
        self.boxes: list[_Box] = []
        self.lines: list[_Line] = []

    # --- what to draw -------------------------------------------------------------------------------------------------

    def root(self, target: Any) -> None:
        graph = target if isinstance(target, Graph) else inner_graph(target)
        if graph is not None:
            name = getattr(target, "name", graph.name)
            self.graph(graph, (name,), self.boxes)
        elif isinstance(target, Agent):
            self.agent(target, (), self.boxes)
        elif isinstance(target, Node):
            self.boxes.append(_box((target.name,), target))
        else:
            raise ConfigurationError(f"a picture is drawn of an agent, a node or a graph, not of {target!r}")

    def graph(self, graph: Graph, path: Path, into: list[_Box]) -> None:
        start = (*path, START.name)
        into.append(_Box(start, START.name, "start"))
        for name, node in graph.nodes.items():
            self.node(node, (*path, name), into)
        for edge in graph.edges:
            line = _Line((*path, edge.source.name), (*path, edge.target.name), edge.label)
            line.dotted = edge.route is DEFAULT or edge.optional
            self.lines.append(line)

    def node(self, node: Node, path: Path, into: list[_Box]) -> None:
        graph, agent = inner_graph(node), getattr(node, "agent", None)
        if graph is not None:
            box = _Box(path, node.name, "workflow")
            self.graph(graph, path, box.inside)
            into.append(box)
        elif isinstance(agent, Agent):
            self.agent(agent, path[:-1], into)
        else:
            into.append(_box(path, node))

    def agent(self, agent: Agent, above: Path, into: list[_Box]) -> None:
        path = (*above, agent.name)
        box = _Box(path, agent.name, "agent")
        into.append(box)
        graph = inner_graph(agent)
        if graph is not None:
            box.kind = "workflow"
            self.graph(graph, path, box.inside)
        elif isinstance(agent, SequentialAgent | LoopAgent | ParallelAgent):
            self.composed(agent, box)
        else:
            for child in agent.sub_agents:
                self.agent(child, path, into)
                self.lines.append(_Line(path, (*path, child.name), "transfer", dotted=True))
            self.tools(agent, path, into)

    def composed(self, agent: Agent, box: _Box) -> None:
        box.kind = type(agent).__name__
        paths = [(*box.path, child.name) for child in agent.sub_agents]
        for child in agent.sub_agents:
            self.agent(child, box.path, box.inside)
        if isinstance(agent, ParallelAgent):
            return
        for before, after in pairwise(paths):
            self.lines.append(_Line(before, after))
        if isinstance(agent, LoopAgent) and paths:
            times = f"up to {agent.max_iterations} times" if agent.max_iterations else "again"
            self.lines.append(_Line(paths[-1], paths[0], times, dotted=True))

    def tools(self, agent: Agent, path: Path, into: list[_Box]) -> None:
        for tool in getattr(agent, "tools", ()) or ():
            called = getattr(tool, "agent", None)
            name = str(getattr(tool, "name", "") or getattr(tool, "__name__", "") or type(tool).__name__)
            if isinstance(called, Agent):
                self.agent(called, path, into)
                self.lines.append(_Line(path, (*path, called.name), "calls", dotted=True))
            else:
                into.append(_Box((*path, name), name, "tool"))
                self.lines.append(_Line(path, (*path, name), dotted=True))


def _box(path: Path, node: Node) -> _Box:
    kind = str(getattr(node, "kind", "box"))
    wrapped = getattr(node, "wrapped", None)
    label = f"{node.name} (each: {wrapped.name})" if isinstance(wrapped, Node) else node.name
    return _Box(path, label, kind)


class _Writer:
    """A drawing as lines of Mermaid."""

    def __init__(self, drawing: _Drawing, statuses: Mapping[Path, str]) -> None:
        self._drawing = drawing
        self._statuses = statuses
        self._ids: dict[Path, str] = {}
        self._taken: set[str] = set()
        self.lines: list[str] = []

    def write(self, direction: str) -> str:
        self.lines.append(f"flowchart {direction}")
        self._boxes(self._drawing.boxes, 1)
        for line in self._drawing.lines:
            arrow = "-.->" if line.dotted else "-->"
            label = f'|"{_escaped(line.label)}"| ' if line.label else ""
            self.lines.append(f"    {self._id(line.source)} {arrow} {label}{self._id(line.target)}")
        self._classes()
        return "\n".join(self.lines) + "\n"

    def _boxes(self, boxes: Iterable[_Box], depth: int) -> None:
        indent = "    " * depth
        for box in boxes:
            label = _escaped(box.label)
            if not box.inside:
                opening, closing = _SHAPES.get(box.kind, _BOX)
                self.lines.append(f'{indent}{self._id(box.path)}{opening}"{label}"{closing}')
                continue
            self.lines.append(f'{indent}subgraph {self._id(box.path)}["{label}"]')
            self._boxes(box.inside, depth + 1)
            self.lines.append(f"{indent}end")

    def _classes(self) -> None:
        by_status: dict[str, list[str]] = {}
        for path, name in self._ids.items():
            status = self._statuses.get(path)
            if status is not None:
                by_status.setdefault(status, []).append(name)
        for status, style in STYLES.items():
            if status in by_status:
                self.lines.append(f"    classDef {status} {style}")
                self.lines.append(f"    class {','.join(by_status[status])} {status}")

    def _id(self, path: Path) -> str:
        """A name for a box: its own if it is free, with those above it in front else."""
        known = self._ids.get(path)
        if known is not None:
            return known
        for length in range(1, len(path) + 1):
            name = re.sub(r"[^0-9A-Za-z_]", "_", "_".join(path[-length:]))
            if name.lower() not in _RESERVED and name not in self._taken:
                break
        while name in self._taken or name.lower() in _RESERVED:
            name += "_"
        self._taken.add(name)
        self._ids[path] = name
        return name


def _escaped(text: str) -> str:
    """Text for a quoted label: what means something to Mermaid or HTML as a number, line breaks as blanks."""
    plain = " ".join(text.split())
    return re.sub(r"[^\w \-.,:()=/+*?!'|]", lambda found: f"#{ord(found.group())};", plain)


def to_mermaid(
    target: Any, session: Session | None = None, *, invocation_id: str | None = None, direction: str = "TD"
) -> str:
    """A picture of a workflow, an agent with what lies under it, or a compiled graph, as a Mermaid flowchart.

    Args:
        session: a stored session; what it says of each node is shown by colour: done, waiting, failed, or started
            and not finished.
        invocation_id: which invocation of it; None: the newest.
        direction: ``TD`` (downwards) or ``LR`` (to the right).

    Raises:
        ConfigurationError: it is none of these, or the session has no such invocation.
    """
    if direction not in ("TD", "LR", "BT", "RL"):
        raise ConfigurationError(f"direction of a picture is TD, LR, BT or RL, not {direction!r}")
    drawing = _Drawing()
    drawing.root(target)
    statuses: Mapping[Path, str] = {}
    if session is not None:
        from hookwork_workflow.statuses import statuses_of

        statuses = statuses_of(session, invocation_id)
    return _Writer(drawing, statuses).write(direction)


def rendered(mermaid: str, format: str) -> bytes:
    """A picture as ``svg`` or ``png``, drawn by `mmdr` (extra ``picture``), which needs no browser and no network.

    Raises:
        ConfigurationError: `mmdr` is not installed, or the format is another.
    """
    if format not in ("svg", "png"):
        raise ConfigurationError(f"a picture is written as svg or png, not {format!r}")
    try:
        from mmdr import render
    except ImportError as error:
        raise ConfigurationError(
            'drawing pictures needs mmdr; try: pip install "hookwork-workflow[picture]", or use the Mermaid text'
        ) from error
    diagram = render(mermaid)
    return diagram.svg().encode() if format == "svg" else bytes(diagram.png(background="#ffffff"))
