"""The contents of one request: a read-only view of shared contents plus what belongs to this request alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, overload

from hookwork.records.content import Content


class PromptContents(Sequence[Content]):
    """A head, the first ``length`` items of a shared list, and a tail.

    The shared list only grows behind ``length`` (or is replaced, never changed before it), so a view stays what it
    was when it was made. ``list(view)`` is a plain list of one's own.
    """

    __slots__ = ("_head", "_length", "_shared", "_tail")

    def __init__(
        self,
        shared: list[Content],
        length: int,
        head: tuple[Content, ...] = (),
        tail: tuple[Content, ...] = (),
    ) -> None:
        self._shared = shared
        self._length = length
        self._head = head
        self._tail = tail

    def __len__(self) -> int:
        return len(self._head) + self._length + len(self._tail)

    def __iter__(self) -> Iterator[Content]:
        shared = islice(self._shared, self._length)
        return chain(self._head, shared, self._tail) if self._head or self._tail else shared

    @overload
    def __getitem__(self, index: int) -> Content: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Content]: ...
    def __getitem__(self, index: int | slice) -> Content | Sequence[Content]:
        if isinstance(index, slice):
            return list(self)[index]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"content index {index} out of range: the prompt has {len(self)} content(s)")
        if at < len(self._head):
            return self._head[at]
        at -= len(self._head)
        return self._shared[at] if at < self._length else self._tail[at - self._length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes) or len(self) != len(other):
            return False
        return all(a is b or a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Sequence[Content]) -> list[Content]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Content]) -> list[Content]:
        return [*other, *self]

    def __copy__(self) -> PromptContents:
        return self

    def __deepcopy__(self, _: Any) -> PromptContents:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        contents = list(self)
        return PromptContents, (contents, len(contents))

    def __repr__(self) -> str:
        return f"PromptContents({list(self)!r})"
