"""Models from GGUF weight files, in this process. Names are resolved on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_local.model import LocalModel

__all__ = ["LocalModel"]


def __getattr__(name: str) -> Any:
    if name != "LocalModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hookwork_local.model import LocalModel

    return LocalModel
