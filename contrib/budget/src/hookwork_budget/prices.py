"""What tokens cost: a table of the user's own, since prices change and no kit can know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hookwork import UsageMetadata
from hookwork.errors import ConfigurationError

_MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    """Prices of a million tokens, in any one currency; ``cached_input`` of those that a provider had cached."""

    input: float
    output: float
    cached_input: float

    @classmethod
    def read(cls, model: str, table: Any) -> Price:
        """A price from a table with ``input``, ``output`` and, if wanted, ``cached_input``.

        Raises:
            ConfigurationError: another key, a missing one, or no number from 0.
        """
        known = ("input", "output", "cached_input")
        if not isinstance(table, Mapping) or not {"input", "output"} <= table.keys() <= set(known):
            raise ConfigurationError(
                f"prices of {model!r} are a table of input, output and cached_input, not {table!r}"
            )
        for key, value in table.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise ConfigurationError(f"prices of {model!r}: {key} is a number from 0, not {value!r}")
        return cls(table["input"], table["output"], table.get("cached_input", table["input"]))

    def cost(self, usage: UsageMetadata) -> float:
        """What one model call cost. A total that is not split up is charged as output, so as not to say too little."""
        cached = usage.cached_content_token_count or 0
        fresh = max((usage.prompt_token_count or 0) - cached, 0) + (usage.tool_use_prompt_token_count or 0)
        made = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
        if not (cached or fresh or made):
            made = usage.total_token_count or 0
        return (fresh * self.input + cached * self.cached_input + made * self.output) / _MILLION


class Prices:
    """Globs over model names → prices; the first glob that matches counts."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._prices = {glob: Price.read(glob, prices) for glob, prices in table.items()}

    def of(self, *models: str | None) -> Price | None:
        """The price of the first name that has one."""
        for model in models:
            for glob, price in self._prices.items():
                if model and fnmatchcase(model, glob):
                    return price
        return None


def total_tokens(usage: UsageMetadata) -> int:
    """All tokens of a model call: the provider's total, else the sum of what it counts."""
    if usage.total_token_count is not None:
        return usage.total_token_count
    counts = (
        *(usage.prompt_token_count, usage.tool_use_prompt_token_count),
        *(usage.candidates_token_count, usage.thoughts_token_count),
    )
    return sum(count or 0 for count in counts)
