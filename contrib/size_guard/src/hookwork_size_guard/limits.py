"""How large events and state may be (services BEY-15)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hookwork.errors import ValidationError


class SizeLimitError(ValidationError):
    """What was about to be stored is too large; nothing of it was stored.

    Attributes:
        what: ``event`` or ``state``.
        size, limit: in bytes of JSON as it would be stored.
    """

    def __init__(self, message: str, *, what: str, size: int, limit: int) -> None:
        super().__init__(message, path=what)
        self.what = what
        self.size = size
        self.limit = limit


def json_bytes(value: Any) -> int:
    """The length of a value as JSON, in bytes of UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def check_event(event: Mapping[str, Any], limit: int) -> None:
    """Raise `SizeLimitError` when an event, in its wire form, is too large."""
    size = json_bytes(event)
    if size > limit:
        raise SizeLimitError(
            f"an event of {event.get('author', '')!r} has {size} bytes and at most {limit} are stored; save large "
            "content as an artifact and pass its name on, or raise max_event_bytes of the plugin",
            what="event",
            size=size,
            limit=limit,
        )


def check_state(state: Mapping[str, Any], delta: Mapping[str, Any], limit: int) -> None:
    """Raise `SizeLimitError` when a session's state, ``app:`` and ``user:`` keys too, is too large with a delta.

    A delta of nothing but None passes, so that a state which is too large already can be cleared.
    """
    written = {key: value for key, value in delta.items() if not key.startswith("temp:")}
    if all(value is None for value in written.values()):
        return
    kept = {key: value for key, value in state.items() if not key.startswith("temp:")}
    size = json_bytes({**kept, **written})
    if size > limit:
        sizes = {key: json_bytes(value) for key, value in written.items()}
        largest = max(sizes, key=lambda key: sizes[key])
        raise SizeLimitError(
            f"the state would have {size} bytes, {sizes[largest]} of them in the key {largest!r}, and at most {limit} "
            "are stored; save large values as artifacts, or raise max_state_bytes of the plugin",
            what="state",
            size=size,
            limit=limit,
        )
