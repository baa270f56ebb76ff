"""The Node contract (workflow HK-1) and what agents and nodes share: standings and the pause signal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
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
    """How a node activation ended."""

    status: str = "completed"
    output: Any = None
    routes: tuple[str, ...] = ()


class Node(ABC):
    """A unit of work in a graph. Immutable; one object serves many runs.

    ``input_schema`` and ``output_schema`` None: not checked.
    """

    name: str = ""
    description: str = ""
    config: NodeConfig = NodeConfig()
    input_schema: Any = None
    output_schema: Any = None

    @abstractmethod
    def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        """The body: yields events, raises to fail."""

    def validate_input(self, value: Any) -> Any:
        """The (possibly converted) input, or a raise."""
        return value

    def validate_output(self, value: Any) -> Any:
        """The (possibly converted) output, or a raise."""
        return value

    @property
    def conversational(self) -> bool:
        return False

    def standing(self, view: View) -> Standing:
        """Where this node's activation stands, from stored events alone (activations ACT-13)."""
        from hookwork.view import default_standing

        return default_standing(view)

    def output(self, view: View) -> Any:
        """What a finished activation gave."""
        return view.record.output if view.record is not None else None


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
        raise GraphError(f"{value!r} of type {type(value).__name__} cannot be a node; is hookwork-workflow installed?")
    return node  # type: ignore[no-any-return]
