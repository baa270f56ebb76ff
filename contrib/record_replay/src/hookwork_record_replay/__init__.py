"""A plugin that records model and tool calls in a readable file and replays them without a network.

The module is light because pytest imports the package at every start: names are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_record_replay.adk.cases import record_case, replay_case
    from hookwork_record_replay.adk.recorder import AdkRecorder
    from hookwork_record_replay.adk.replayer import AdkReplayer
    from hookwork_record_replay.errors import ReplayMismatchError
    from hookwork_record_replay.plugin import RecordReplay

_HOMES = {
    "AdkRecorder": "adk.recorder",
    "AdkReplayer": "adk.replayer",
    "RecordReplay": "plugin",
    "ReplayMismatchError": "errors",
    "record_case": "adk.cases",
    "replay_case": "adk.cases",
}

__all__ = ["AdkRecorder", "AdkReplayer", "RecordReplay", "ReplayMismatchError", "record_case", "replay_case"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
