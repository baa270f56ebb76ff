"""Answers in memory, bounded by age, number and size; the least recently used one goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from hookwork import ModelResponse
from hookwork.errors import ConfigurationError
from hookwork.platform import timestamp
from hookwork.records.codec import dump_json


class _Entry(NamedTuple):
    response: ModelResponse
    size: int
    expires: float


def check_bounds(who: str, **bounds: float) -> None:
    """Raise ConfigurationError if a bound is no number above 0."""
    for option, value in bounds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ConfigurationError(f"{who}: {option} must be a number above 0, not {value!r}")


class Store:
    """Key → response. Safe from several threads; sizes are those of the responses' JSON text.

    Args:
        ttl: seconds an answer may be used.
        max_entries: number of answers.
        max_bytes: their size together; an answer larger than that is not kept.
    """

    def __init__(self, *, ttl: float, max_entries: int, max_bytes: int) -> None:
        self._ttl = ttl
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """Bytes of all answers."""
        return self._bytes

    def get(self, key: str) -> ModelResponse | None:
        """The answer, if it is not too old; it counts as used now."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry.expires <= timestamp():
                self._drop(key)
                return None
            self._entries.move_to_end(key)
            return entry.response

    def put(self, key: str, response: ModelResponse) -> None:
        """Keep an answer, in the place of an older one, and let others go if there are too many."""
        size = len(dump_json(response))
        with self._lock:
            if key in self._entries:
                self._drop(key)
            if size > self._max_bytes:
                return
            self._entries[key] = _Entry(response, size, timestamp() + self._ttl)
            self._bytes += size
            while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _drop(self, key: str) -> None:
        self._bytes -= self._entries.pop(key).size
