"""What one run has used so far, and how that stands to its limits."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hookwork.platform import timestamp


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most a run may use; None: as much as it likes."""

    tokens: float | None = None
    seconds: float | None = None
    cost: float | None = None
    model_calls: float | None = None
    tool_calls: float | None = None


RESOURCES = tuple(each.name for each in fields(Limits))


class Meter:
    """The counts of one run. ``refused``: why a tool call was refused; the run ends at its next model call."""

    __slots__ = ("cost", "model_calls", "refused", "started", "tokens", "tool_calls")

    def __init__(self) -> None:
        self.started = timestamp()
        self.tokens = 0
        self.cost = 0.0
        self.model_calls = 0
        self.tool_calls = 0
        self.refused = ""

    def used(self, resource: str) -> float:
        """How much of a resource was used."""
        return timestamp() - self.started if resource == "seconds" else float(getattr(self, resource))

    def describe(self, resource: str, limit: float) -> str:
        """``tokens: 4100 of 5000 used``."""
        return f"{resource.replace('_', ' ')}: {self.used(resource):g} of {limit:g} used"
