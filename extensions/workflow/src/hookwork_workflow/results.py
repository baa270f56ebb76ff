"""What the functions of nodes return, as events (workflow §1.4, API-2)."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from hookwork.records.content import Content, text_content
from hookwork.records.event import Event, NodeInfo
from hookwork.records.frozen import FrozenDict, FrozenList
from hookwork_workflow.edges import route_text
from hookwork_workflow.json_form import to_json

T_co = TypeVar("T_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)

#: Types whose values are outputs as they are.
_PLAIN = frozenset({str, int, bool, FrozenDict, FrozenList})

#: ``message_as_output``: the text is the output, so it is stored once (AN-4, NODE-8).
_TEXT_IS_OUTPUT = NodeInfo(message_as_output=True)


class Routed(Generic[T_co, R_co]):
    """An output together with where to go; made by `routed`.

    As an annotation ``Routed[Ticket, Literal["bug", "question"]]`` says what is given and which routes there are.
    """

    __slots__ = ("routes", "value")

    def __init__(self, value: T_co, routes: tuple[str, ...]) -> None:
        self.value = value
        self.routes = routes

    def __repr__(self) -> str:
        return f"routed({list(self.routes)!r}, …)"


def routed(route: Any, value: Any = None) -> Routed[Any, Any]:
    """An output (None: none) and the route, or several, that the edges behind the node are tested against.

    Raises:
        GraphError: a route is no text, whole number or boolean.
    """
    several = isinstance(route, list | tuple | set | frozenset)
    found = [route_text(item) for item in route] if several else [route_text(route)]
    return Routed(value, tuple(dict.fromkeys(sorted(found) if isinstance(route, set | frozenset) else found)))


def progress(what: str | Content, *, partial: bool = False) -> Event:
    """An event that shows how far a node is; it is no output. ``partial``: shown, but not stored."""
    content = text_content(what) if isinstance(what, str) else what
    return Event(content=content, partial=True) if partial else Event(content=content)


def output_event(value: Any, *, text_as_content: bool = False) -> Event | None:
    """The event for what a function gave; None when it gave nothing.

    Args:
        text_as_content: a text is also what the node says (emitting functions, tools).

    Raises:
        ValidationError: JSON cannot hold the value (PER-2).
    """
    if value is None:
        return None
    if type(value) in _PLAIN and not text_as_content:
        return Event(output=value)
    if isinstance(value, Event):
        return value
    if isinstance(value, Content):
        content = value if value.role else value.replace(role="model")
        return Event(content=content, output=value.text, node_info=_TEXT_IS_OUTPUT)
    if isinstance(value, Routed):
        return _routed_event(value, text_as_content)
    if text_as_content and isinstance(value, str):
        return Event(content=text_content(value), output=value, node_info=_TEXT_IS_OUTPUT)
    return Event(output=to_json(value))


def _routed_event(value: Routed[Any, Any], text_as_content: bool) -> Event:
    given = output_event(value.value, text_as_content=text_as_content)
    return Event(routes=value.routes) if given is None else given.replace(routes=value.routes)
