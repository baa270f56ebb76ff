"""What all nodes of this distribution share: typed ends, `>>`, and copies with some settings changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, TypeVar, overload

from hookwork.node import Node
from hookwork_workflow.edges import Edges, Untyped, join, routes

In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)
T = TypeVar("T")


class GraphNode(Node, Generic[In_contra, Out_co]):
    """A node that takes an ``In`` and gives an ``Out``; a type checker refuses ``a >> b`` when they disagree (API-3).

    Attributes:
        kind: what it is, in pictures and fingerprints.
        state_fields: names of state keys that the body reads (GV-13).
    """

    kind: str = "node"
    state_fields: tuple[str, ...] = ()

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
