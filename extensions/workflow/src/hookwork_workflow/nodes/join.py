"""Join: waits for several nodes and hands on what each of them gave (workflow §3.3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hookwork.errors import GraphError, InputValidationError
from hookwork_workflow.nodes.base import GraphNode

if TYPE_CHECKING:
    from hookwork.node import NodeConfig
    from hookwork.records.event import Event

Require = Literal["all", "any"] | int


class Join(GraphNode[Any, dict[str, Any]]):
    """A node that is activated when its predecessors have completed; its output maps their names to their outputs.

    Args:
        name: an identifier.
        require: how many predecessors it takes: ``"all"``, ``"any"`` or a number (JOIN-4). With less than all, those
            that have not completed when it fires are left out of the map.
        input_schema: what each predecessor gives; None values are not checked (JOIN-3).

    Raises:
        GraphError: ``require`` is neither.
    """

    kind = "join"

    def __init__(
        self,
        name: str,
        require: Require = "all",
        *,
        input_schema: Any = None,
        description: str = "",
        config: NodeConfig | None = None,
    ) -> None:
        number = isinstance(require, int) and not isinstance(require, bool) and require >= 1
        if require not in ("all", "any") and not number:
            raise GraphError(
                f'join "{name}": require is "all", "any" or a whole number from 1, not {require!r}', code="bad_join"
            )
        self.name = name
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

    def least(self, predecessors: Sequence[str], optional: Collection[str] = ()) -> int:
        """How many completions it takes at least; with fewer there is no need to ask `is_ready`."""
        if self.require == "all":
            return max(len(predecessors) - len(optional), 1)
        return 1 if self.require == "any" else self.require

    def gather(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The input of an activation: predecessor name → its output, None when it had none (JOIN-2)."""
        return dict(values)

    def validate_input(self, value: Any) -> Any:
        """The map, with each predecessor's value checked; None values are not (JOIN-3)."""
        from hookwork_workflow.schemas import SchemaFault, check_input, schema_of

        schema = schema_of(self.input_schema)
        if schema is None or not isinstance(value, Mapping):
            return value
        for name, given in value.items():
            try:
                check_input(schema, given)
            except SchemaFault as fault:
                raise InputValidationError(self.name, f'predecessor "{name}": {fault}') from fault
        return value

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        from hookwork.records.event import Event

        yield Event(output=input)
