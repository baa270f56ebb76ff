"""What all nodes of this distribution share: typed ends, `>>`, and copies with some settings changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from hookwork.node import Node
from hookwork_workflow.edges import Edges, Untyped, join, routes

if TYPE_CHECKING:
    from hookwork.records.event import Event
    from hookwork.records.session import Session
    from hookwork_workflow.conducting import Order
    from hookwork_workflow.nodes.as_tool import NodeTool
    from hookwork_workflow.trial import Trial

In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)
T = TypeVar("T")


class GraphNode(Node, Generic[In_contra, Out_co]):
    """A node that takes an ``In`` and gives an ``Out``; a type checker refuses ``a >> b`` when they disagree (API-3).

    Attributes:
        kind: what it is, in pictures and fingerprints.
        state_fields: names of state keys that the body reads (GV-13).
        tags: what it uses, for `ResourceLimits` (WB-29).
    """

    kind: str = "node"
    state_fields: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def replace(self, **changes: Any) -> Self:
        """A copy with some attributes changed: ``name``, ``description``, ``config``, the schemas."""
        changed = copy.copy(self)
        for name, value in changes.items():
            if not hasattr(changed, name):
                raise TypeError(f"{type(self).__name__} has no {name!r}")
            setattr(changed, name, value)
        return changed

    def answer_schema(self, schema: Any) -> tuple[dict[str, Any] | None, Callable[[Any], Any]]:
        from hookwork_workflow.asking import answer_schema

        return answer_schema(schema)

    def result_event(self, output: Any, routes: Any) -> Event:
        from hookwork_workflow.results import output_event, routed

        event = output_event(output if routes is None else routed(routes, output))
        assert event is not None
        return event

    @overload
    def __rshift__(self, target: GraphNode[Out_co, T]) -> Edges[In_contra, T]: ...
    @overload
    def __rshift__(self, target: Edges[Out_co, T]) -> Edges[In_contra, T]: ...
    @overload
    def __rshift__(self, target: tuple[Any, ...] | list[Any] | Mapping[Any, Any]) -> Edges[In_contra, Any]: ...
    def __rshift__(self, target: Any) -> Edges[Any, Any]:
        return join((self,), target)

    def __rrshift__(self, sources: Untyped) -> Edges[Any, Out_co]:
        """``(a, b) >> node``, and what has no ``>>`` of its own (an agent, a tool) on the left."""
        return join(tuple(sources) if isinstance(sources, tuple | list) else (sources,), self)

    def on(self, mapping: Mapping[Any, Any]) -> Edges[In_contra, Any]:
        """Routed edges: ``{route: target | (targets…)}``, with `DEFAULT` for what no route takes."""
        return routes(self, mapping)

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> NodeTool:
        """This node as a tool of an LLM agent; see `hookwork_workflow.nodes.as_tool.NodeTool` (WB-7)."""
        from hookwork_workflow.nodes.as_tool import NodeTool

        return NodeTool(self, name=name, description=description)

    async def test(
        self,
        input: Any = None,
        *,
        state: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        plugins: Iterable[Any] = (),
        order: Order | None = None,
    ) -> Trial:
        """Run one activation, in memory; see `hookwork_workflow.trial.try_node` (API-2, WB-26)."""
        from hookwork_workflow.trial import try_node

        return await try_node(self, input, state=state, answers=answers, plugins=plugins, order=order)

    async def test_orders(self, input: Any = None, **options: Any) -> list[Trial]:
        """Run it once for each order of its concurrent nodes; see `hookwork_workflow.trial.try_orders` (WB-26)."""
        from hookwork_workflow.trial import try_orders

        return await try_orders(self, input, **options)

    def to_mermaid(self, session: Session | None = None, **options: Any) -> str:
        """A picture of this node as Mermaid text; see `hookwork_workflow.picture.to_mermaid`."""
        from hookwork_workflow.picture import to_mermaid

        return to_mermaid(self, session, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
