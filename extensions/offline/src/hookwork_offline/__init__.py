"""A deterministic, rule-based model for Hookwork that needs no network and no key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_offline.model import OfflineModel

__all__ = ["OfflineModel"]


def __getattr__(name: str) -> Any:
    if name == "OfflineModel":
        from hookwork_offline.model import OfflineModel

        return OfflineModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
