"""A plugin that answers repeated model requests from memory."""

from __future__ import annotations

from hookwork_cache.plugin import Cache

__all__ = ["Cache"]
