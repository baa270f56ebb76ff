"""Arguments of a function call that arrive in pieces, each with its place (models AGG-15, AGG-16, AGG-20, AGG-22)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from hookwork.records.content import PartialArg
from hookwork.records.frozen import thaw

#: Largest array index a path may name (models AGG-20), and the deepest place: both come from a remote service.
MAX_INDEX = 10_000
MAX_DEPTH = 64

_STEP = re.compile(r"""\.?([^.\[\]'"]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPED = re.compile(r"\\(.)")

Step = str | int


class _Text:
    """A string that grows: its pieces are joined once, so a long one costs no more than its length (AGG-30)."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []


class _Items(dict[int, Any]):
    """An array under construction: index to value, gaps are filled with null at the end."""


def parse_path(path: str) -> list[Step] | None:
    """``$.a[0]['b c']`` as ``["a", 0, "b c"]``; None when it is no path, leads too deep, or past `MAX_INDEX`."""
    at = 1 if path.startswith("$") else 0
    steps: list[Step] = []
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or len(steps) == MAX_DEPTH:
            return None
        name, index, single, double = found.groups()
        if index is not None:
            if len(index) > 5 or int(index) > MAX_INDEX:
                return None
            steps.append(int(index))
        elif name is not None:
            steps.append(name)
        else:
            steps.append(_ESCAPED.sub(r"\1", single if single is not None else double))
        at = found.end()
    return steps if steps and isinstance(steps[0], str) else None


class CallArguments:
    """The arguments of one streamed call: pieces in, an object out."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    @property
    def is_empty(self) -> bool:
        """Nothing was received yet."""
        return not self._root

    def merge(self, args: Mapping[str, Any]) -> None:
        """Take whole top-level arguments, as a fragment may carry them."""
        self._root.update(thaw(dict(args)))

    def add(self, piece: PartialArg) -> None:
        """Put one piece in its place; a piece without a usable path or without a value is ignored."""
        steps = parse_path(piece.json_path) if piece.json_path else None
        if steps is None:
            return
        if piece.string_value is not None:
            node, last = self._parent(steps)
            text = node.get(last)
            if not isinstance(text, _Text):
                known, text = text, _Text()
                if isinstance(known, str):
                    text.pieces.append(known)
                node[last] = text
            text.pieces.append(piece.string_value)
        elif piece.number_value is not None:
            node, last = self._parent(steps)
            node[last] = _number(piece.number_value)
        elif piece.bool_value is not None:
            node, last = self._parent(steps)
            node[last] = piece.bool_value
        elif piece.null_value is not None:
            node, last = self._parent(steps)
            node[last] = None

    def _parent(self, steps: list[Step]) -> tuple[dict[Any, Any], Step]:
        node: dict[Any, Any] = self._root
        for step, following in pairwise(steps):
            wanted = _Items if isinstance(following, int) else dict
            child = node.get(step)
            if type(child) is not wanted:
                child = _opened(child, wanted)
                node[step] = child
            node = child
        return node, steps[-1]

    def finish(self) -> dict[str, Any]:
        """The object that the pieces make up."""
        return {key: _finished(value) for key, value in self._root.items()}


def _opened(present: Any, wanted: type[dict[Any, Any]]) -> dict[Any, Any]:
    """A node of the wanted kind; a plain list that came as a whole becomes one that can grow."""
    if wanted is _Items and isinstance(present, list):
        return _Items(enumerate(present))
    return wanted()


def _number(value: float) -> int | float:
    """The wire knows doubles only; a whole one is an integer, as in a call that comes in one piece."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


def _finished(value: Any) -> Any:
    if isinstance(value, _Text):
        return "".join(value.pieces)
    if isinstance(value, _Items):
        return [_finished(value.get(i)) for i in range(max(value) + 1)] if value else []
    if isinstance(value, dict):
        return {key: _finished(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finished(item) for item in value]
    return value
