"""The Node contract (workflow HK-1) and what agents and nodes share: standings and the pause signal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.errors import GraphError

if TYPE_CHECKING:
    from hookwork.records.event import Event
    from hookwork.view import View


class Standing(Enum):
    """Where an activation with a record stands (activations ACT-11)."""

    DONE = "done"
    WAITING = "waiting"
    HANDED = "handed"
    PENDING = "pending"


class Pause(BaseException):
    """Ends a body (or a tool call) that waits for a person; what it raised stays open.

    Not an `Exception`, so that ``except Exception`` in a user's code cannot swallow it (workflow ASK-7).
    """


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a node runs (workflow §1.1); ``timeout`` in seconds per attempt, None = none."""

    rerun_on_resume: bool | None = None
    wait_for_output: bool | None = None
    retry: Any = None
    timeout: float | None = None
    parallel: bool = False
    effect: bool | None = None
    emits_own_span: bool = False


class NodeOutcome(msgspec.Struct, kw_only=True):
    """How a node activation ended; ``routes`` may be given as one or a list of text, ints and bools (EDGE-3)."""

    status: str = "completed"
    output: Any = None
    routes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.routes != ():
            from hookwork.records.event import route_texts

            self.routes = route_texts(self.routes)


class Node(ABC):
    """A unit of work in a graph. Immutable; one object serves many runs.

    Attributes:
        input_schema, output_schema: None: not checked.
        takes_context: the body may start children and ask people; else it is a leaf, which an effect hook may carry
            out elsewhere (tools-plugins EFF-8).
        reruns: whether an answer lets the body run again, where the config leaves it open; None: as it was asked
            (`NodeContext.request_input` and children: it runs again; a yielded `RequestInput`: the answer is the
            output; workflow ASK-6).
        continues: goes on from its own stored calls instead of from its top (agents); a failure closes none of them.
        replaces_output: several outputs of one activation are no error, the last one counts (agents).
        undo: what takes back what the node did, for whoever knows when that is due; the kernel only remembers where it
            was started (workflow WB-23).
        derives_end: its end is read off its children; else a body without output gets an end marker (ACT-14).
    """

    name: str = ""
    description: str = ""
    config: NodeConfig = NodeConfig()
    input_schema: Any = None
    output_schema: Any = None
    takes_context: bool = True
    reruns: bool | None = None
    continues: bool = False
    replaces_output: bool = False
    derives_end: bool = False
    undo: Any = None

    @abstractmethod
    def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        """The body: yields events, raises to fail."""

    def validate_input(self, value: Any) -> Any:
        """The (possibly converted) input, or a raise."""
        return value

    def validate_output(self, value: Any) -> Any:
        """The (possibly converted) output, or a raise."""
        return value

    def result_event(self, output: Any, routes: Any) -> Event:
        """The event of an output (None: none) and routes (None: none) that the body set on its context (WB-5)."""
        from hookwork.records.event import Event, route_texts

        return Event(output=output, routes=route_texts(routes))

    @property
    def conversational(self) -> bool:
        return False

    def answer_schema(self, schema: Any) -> tuple[dict[str, Any] | None, Callable[[Any], Any]]:
        """The JSON schema of an answer that the body asks for, and what makes the checked answer a value of it.

        ``schema``: a JSON schema, or a type that msgspec reads. Raises TypeError for other types.
        """
        if schema is None or isinstance(schema, Mapping):
            return (dict(schema) if schema is not None else None), lambda value: value
        return msgspec.json.schema(schema), lambda value: msgspec.convert(value, schema, str_keys=True)

    def standing(self, view: View) -> Standing:
        """Where this node's activation stands, from stored events alone (activations ACT-13, ACT-23)."""
        from hookwork.node_standing import node_standing

        return node_standing(self, view)

    def output(self, view: View) -> Any:
        """What a finished activation gave; the answer, when that is its output (workflow ANS-9)."""
        from hookwork.node_standing import node_output

        return node_output(self, view)


def build_node(value: Any) -> Node:
    """``value`` if it is a node, else what the first ``build_node`` provider hook makes of it.

    Raises:
        GraphError: nobody takes the value.
    """
    if isinstance(value, Node):
        return value
    from hookwork.plugins.discovery import extensions

    node = extensions().first("build_node", value=value)
    if node is None:
        known = extensions().provider_names("build_node")
        hint = "give a node, a function, an agent or a tool" if known else "is hookwork-workflow installed?"
        raise GraphError(f"{value!r} of type {type(value).__name__} cannot be a node; {hint}")
    return node  # type: ignore[no-any-return]
