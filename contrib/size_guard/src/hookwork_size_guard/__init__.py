"""A plugin that keeps events and state small."""

from __future__ import annotations

from hookwork_size_guard.limits import SizeLimitError
from hookwork_size_guard.plugin import SizeGuard

__all__ = ["SizeGuard", "SizeLimitError"]
