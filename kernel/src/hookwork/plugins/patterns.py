"""The table of model names that programs register (models REG-2…REG-5)."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from hookwork.errors import ConfigurationError

ModelFactory = Callable[[str], Any]


class ModelPatterns:
    """Regular expressions and the factories of the names they are found in. Safe from several threads."""

    __slots__ = ("_entries", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[re.Pattern[str], ModelFactory]] = {}

    def add(self, pattern: str, factory: ModelFactory) -> None:
        """Register a factory. Raises ConfigurationError for a repeated or invalid pattern."""
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"model pattern {pattern!r} is no regular expression: {error}") from error
        with self._lock:
            if pattern in self._entries:
                raise ConfigurationError(f"model pattern {pattern!r} is registered already; use another pattern")
            # A new dict each time, so that a search running in another thread keeps walking the old one.
            self._entries = {**self._entries, pattern: (compiled, factory)}

    def find(self, name: str) -> ModelFactory | None:
        """The factory of the one pattern found in ``name``. Raises ConfigurationError when there are several."""
        entries = self._entries
        hits = [pattern for pattern, (compiled, _) in entries.items() if compiled.search(name)]
        if len(hits) > 1:
            raise ConfigurationError(
                f"model name {name!r} matches several registered patterns: {', '.join(map(repr, hits))}; "
                "make them exclude each other, for instance by anchoring them with ^ and $"
            )
        return entries[hits[0]][1] if hits else None
