"""A plugin that records model and tool calls in a readable file and replays them without a network.

The module is light because pytest imports the package at every start: names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_record_replay.errors import ReplayMismatchError
    from hookwork_record_replay.plugin import RecordReplay

__all__ = ["RecordReplay", "ReplayMismatchError"]


def __getattr__(name: str) -> Any:
    if name == "RecordReplay":
        from hookwork_record_replay.plugin import RecordReplay

        return RecordReplay
    if name == "ReplayMismatchError":
        from hookwork_record_replay.errors import ReplayMismatchError

        return ReplayMismatchError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
