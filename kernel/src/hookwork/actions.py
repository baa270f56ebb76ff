"""The side effects that a tool call collects (core §5.1)."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, NoReturn

from hookwork.errors import UnsupportedInContext
from hookwork.records.deleted import actions_with_delta
from hookwork.records.event import EventActions, ToolConfirmation
from hookwork.state import DeltaBuffer


class Actions:
    """The side effects a tool call collects; ``state_delta`` is the call's own buffer (core DLT-3)."""

    __slots__ = (
        "_buffer",
        "_live",
        "escalate",
        "requested_tool_confirmations",
        "skip_summarization",
        "transfer_to_agent",
    )

    def __init__(self, live: Any, buffer: DeltaBuffer) -> None:
        self._live = live
        self._buffer = buffer
        self.skip_summarization: bool | None = None
        self.transfer_to_agent: str | None = None
        self.escalate: bool | None = None
        self.requested_tool_confirmations: dict[str, ToolConfirmation] = {}

    @property
    def state_delta(self) -> MutableMapping[str, Any]:
        """What this writer wrote so far; assigning writes state."""
        return _DeltaView(self._live, self._buffer)

    @property
    def artifact_delta(self) -> Mapping[str, int]:
        """File name → version saved by this writer."""
        return dict(self._buffer.artifacts)

    def snapshot(self) -> EventActions:
        """The actions so far as a record."""
        actions = EventActions(
            artifact_delta=dict(self._buffer.artifacts),
            requested_tool_confirmations=dict(self.requested_tool_confirmations) or None,
            skip_summarization=self.skip_summarization,
            transfer_to_agent=self.transfer_to_agent,
            escalate=self.escalate,
        )
        return actions_with_delta(actions, {key: value for key, (_, value) in self._buffer.writes.items()})


class _DeltaView(MutableMapping[str, Any]):
    __slots__ = ("_buffer", "_live")

    def __init__(self, live: Any, buffer: DeltaBuffer) -> None:
        self._live = live
        self._buffer = buffer

    def __getitem__(self, key: str) -> Any:
        return self._buffer.writes[key][1]

    def __setitem__(self, key: str, value: Any) -> None:
        self._live.write(self._buffer, key, value)

    def __delitem__(self, key: str) -> NoReturn:
        raise UnsupportedInContext(f"a state write is not taken back; assign another value to {key!r}")

    def __iter__(self) -> Any:
        return iter(list(self._buffer.writes))

    def __len__(self) -> int:
        return len(self._buffer.writes)
