"""Run-wide values that are never stored (core §5.2)."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from hookwork.errors import ValidationError


class EphemeralScope(MutableMapping[str, Any]):
    """Run-wide values that are never stored, logged or sent (core EPH): tokens, tenants. Its repr shows keys only."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(values or {})
        for key in self._values:
            if not isinstance(key, str):
                raise ValidationError(f"ephemeral keys are text, not {type(key).__name__}")

    def __getitem__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise KeyError(
                f"no ephemeral value {key!r}; give it with runner.run(..., ephemeral={{{key!r}: …}})"
            ) from None

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = value

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"EphemeralScope(keys={sorted(self._values)})"
