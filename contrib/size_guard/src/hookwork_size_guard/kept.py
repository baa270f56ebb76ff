"""Moved bytes that were loaded before, so that a long conversation does not fetch its files for every model call."""

from __future__ import annotations

from collections import OrderedDict

from hookwork import Part

#: App, user and session that asked, and the URI.
Place = tuple[str, str, str, str]


class KeptParts:
    """The parts that were asked for last, up to so many bytes.

    Only those belong here whose content their name fixes. A place is whose session asked, and the URI: what one may see
    is not shown to others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: OrderedDict[Place, Part] = OrderedDict()
        self._size = 0

    def get(self, place: Place) -> Part | None:
        """A part, if it is still kept."""
        part = self._parts.get(place)
        if part is not None:
            self._parts.move_to_end(place)
        return part

    def put(self, place: Place, part: Part) -> None:
        """Keep a part; those that were not asked for the longest go."""
        size = _size_of(part)
        if place in self._parts or size > self._limit:
            return
        self._parts[place] = part
        self._size += size
        while self._size > self._limit:
            _, oldest = self._parts.popitem(last=False)
            self._size -= _size_of(oldest)


def _size_of(part: Part) -> int:
    return len(part.inline_data.data or b"") if part.inline_data is not None else len(part.text or "")
