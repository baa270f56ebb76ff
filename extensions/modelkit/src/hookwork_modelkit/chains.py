"""Conversations that a service keeps: which of its answers a request goes on from (models Beyond).

An answer is known by what led to it and what it said, in the form in which both would be sent in full. So a history
that was compacted, rewound or edited, and one of another process, is unknown and goes out in full.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

#: Answers that are remembered; each takes some hundred bytes.
_REMEMBERED = 2000


class Known(NamedTuple):
    """The newest answer in a request that the service has: its id, and how many items led up to and made it."""

    id: str
    length: int


class Chains:
    """The answers of one model that a later request may go on from. Safe from several threads."""

    def __init__(self) -> None:
        #: fingerprint of all items up to the end of an answer → its id; the least recently used goes first.
        self._known: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, model: str, items: Sequence[dict[str, Any]]) -> Known | None:
        """The answer to go on from; None when none is known, or nothing would be left to send."""
        marks = _marks(model, items)
        with self._lock:
            for length in range(len(items) - 1, 0, -1):
                known = self._known.get(marks[length - 1])
                if known is not None:
                    self._known.move_to_end(marks[length - 1])
                    return Known(known, length)
        return None

    def remember(self, model: str, items: Sequence[dict[str, Any]], answer_id: str) -> None:
        """Note an answer: ``items`` are those of the whole request, and those that the answer becomes."""
        if not items:
            return
        mark = _marks(model, items)[-1]
        with self._lock:
            self._known[mark] = answer_id
            self._known.move_to_end(mark)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def forget(self, answer_id: str) -> None:
        """The service has it no more."""
        with self._lock:
            for mark in [mark for mark, known in self._known.items() if known == answer_id]:
                del self._known[mark]


def _marks(model: str, items: Sequence[dict[str, Any]]) -> list[str]:
    """A fingerprint of each beginning of the items, the whole included."""
    running = hashlib.sha256(model.encode())
    marks: list[str] = []
    for item in items:
        running.update(json.dumps(item, sort_keys=True).encode())
        running.update(b"\n")
        marks.append(running.hexdigest())
    return marks
