"""Join: waits for several nodes and hands on what each of them gave (workflow §3.3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from hookwork.errors import GraphError, InputValidationError
from hookwork_workflow.nodes.base import GraphNode

if TYPE_CHECKING:
    from hookwork.node import NodeConfig
    from hookwork.records.event import Event

Require = Literal["all", "any"] | int
Out_co = TypeVar("Out_co", covariant=True)


class Join(GraphNode[Any, Out_co], Generic[Out_co]):
    """A node that is activated when its predecessors have completed; its output maps their names to their outputs.

    With ``as_completed`` it waits for none: it is activated for each of them as it completes, and gives the pair of
    its name and its output (WB-25). Order and number are the same in a replay.

    Args:
        name: an identifier.
        require: how many predecessors it takes: ``"all"``, ``"any"`` or a number (JOIN-4). With less than all, those
            that have not completed when it fires are left out of the map.
        as_completed: one activation for each completion; only with ``require="all"``.
        input_schema: what each predecessor gives; None values are not checked (JOIN-3).

    Raises:
        GraphError: ``require`` is neither, or is not "all" with ``as_completed``.
    """

    kind = "join"

    @overload
    def __init__(
        self: Join[dict[str, Any]],
        name: str,
        require: Require = "all",
        *,
        as_completed: Literal[False] = False,
        input_schema: Any = None,
        description: str = "",
        config: NodeConfig | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Join[tuple[str, Any]],
        name: str,
        require: Require = "all",
        *,
        as_completed: Literal[True],
        input_schema: Any = None,
        description: str = "",
        config: NodeConfig | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        require: Require = "all",
        *,
        as_completed: bool = False,
        input_schema: Any = None,
        description: str = "",
        config: NodeConfig | None = None,
    ) -> None:
        number = isinstance(require, int) and not isinstance(require, bool) and require >= 1
        if require not in ("all", "any") and not number:
            raise GraphError(
                f'join "{name}": require is "all", "any" or a whole number from 1, not {require!r}', code="bad_join"
            )
        if as_completed:
            if require != "all":
                raise GraphError(
                    f'join "{name}": as_completed hands each predecessor on as it completes, so require={require!r} '
                    "says nothing; leave it out",
                    code="bad_join",
                )
            self.kind = "join_as_completed"  # another graph than one that waits for all (RPL-8)
        self.name = name
        self.as_completed = as_completed
        self.require: Require = require
        self.input_schema = input_schema
        self.description = description
        if config is not None:
            self.config = config

    def is_ready(self, arrived: Collection[str], predecessors: Sequence[str], optional: Collection[str] = ()) -> bool:
        """Whether it fires once the predecessors in ``arrived`` have completed since it last did.

        ``optional``: predecessors behind an optional edge; "all" does not wait for them.
        """
        if self.require == "any":
            return bool(arrived)
        if self.require == "all":
            required = [name for name in predecessors if name not in optional]
            return all(name in arrived for name in required) and bool(arrived)
        return len(arrived) >= self.require

    @property
    def waits_for_all(self) -> bool:
        """Whether a predecessor that is never reached would keep it waiting (GV-15)."""
        return self.require == "all" and not self.as_completed

    def least(self, predecessors: Sequence[str], optional: Collection[str] = ()) -> int:
        """How many completions it takes at least; with fewer there is no need to ask `is_ready`."""
        if self.as_completed:
            return 1
        if self.require == "all":
            return max(len(predecessors) - len(optional), 1)
        return 1 if self.require == "any" else self.require

    def gather(self, values: Mapping[str, Any]) -> dict[str, Any] | list[Any]:
        """The input of an activation: predecessor name → its output, None when it had none (JOIN-2); or one pair."""
        return list(next(iter(values.items()))) if self.as_completed else dict(values)

    def validate_input(self, value: Any) -> Any:
        """The map or pair, with each predecessor's value checked; None values are not (JOIN-3)."""
        from hookwork_workflow.schemas import SchemaFault, check_input, schema_of

        schema = schema_of(self.input_schema)
        if schema is None or not isinstance(value, Mapping | list):
            return value
        for name, given in value.items() if isinstance(value, Mapping) else (value,):
            try:
                check_input(schema, given)
            except SchemaFault as fault:
                raise InputValidationError(self.name, f'predecessor "{name}": {fault}') from fault
        return value

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        from hookwork.records.event import Event

        yield Event(output=input)
