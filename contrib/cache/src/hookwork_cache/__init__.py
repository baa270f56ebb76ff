"""A plugin and a model that answer repeated requests from memory.

The module is light because the extension's entry module lives below it: names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_cache.model import CachedModel
    from hookwork_cache.plugin import Cache

__all__ = ["Cache", "CachedModel"]


def __getattr__(name: str) -> Any:
    if name == "Cache":
        from hookwork_cache.plugin import Cache

        return Cache
    if name == "CachedModel":
        from hookwork_cache.model import CachedModel

        return CachedModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
