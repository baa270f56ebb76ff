"""A packaged tool-calling model, in this process. Names are resolved on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_needle.model import NeedleModel

__all__ = ["NeedleModel"]


def __getattr__(name: str) -> Any:
    if name != "NeedleModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hookwork_needle.model import NeedleModel

    return NeedleModel
