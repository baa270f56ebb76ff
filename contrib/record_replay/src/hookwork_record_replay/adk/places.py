"""Where a run is recorded, or played back from: what its session state says (crosscutting CONF-1, CONF-2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hookwork.errors import ConfigurationError, ValidationError

RECORD_KEY = "_adk_recordings_config"
REPLAY_KEY = "_adk_replay_config"

#: Streaming mode → name of the file.
FILES = {"none": "generated-recordings.yaml", "sse": "generated-recordings-sse.yaml"}


class Place(NamedTuple):
    """The file of a run, and which message of its test case the run answers."""

    folder: Path
    message: int
    mode: str

    @property
    def file(self) -> Path:
        """The file of this mode."""
        return self.folder / FILES[self.mode]


def place_of(state: Mapping[str, Any], key: str, base: Path, mode: str = "none") -> Place | None:
    """The place that session state names; None: the run is none of this plugin's.

    Args:
        mode: of streaming, where the state does not say it.

    Raises:
        ValidationError: the index is no number, or the mode is none. ConfigurationError: the folder is not below
            ``base``, links followed.
    """
    config = state.get(key)
    if not isinstance(config, Mapping):
        return None
    folder, index = config.get("dir"), config.get("user_message_index")
    if not folder or index is None:
        return None
    if isinstance(index, bool) or not isinstance(index, int | float) or int(index) != index:
        raise ValidationError(f"{key}: user_message_index is a whole number", path=f"{key}.user_message_index")
    said = str(config.get("streaming_mode") or mode).lower()
    if said not in FILES:
        raise ValidationError(f"{key}: streaming_mode is none or sse", path=f"{key}.streaming_mode")
    root = base.resolve()
    found = (root / str(folder)).resolve()
    if not found.is_relative_to(root):
        raise ConfigurationError(f"{key}: the folder is not below {root}, the base directory of this plugin")
    return Place(found, int(index), said)


def only_one(state: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if a run is to be recorded and replayed at once (CONF-9)."""
    if all(isinstance(state.get(key), Mapping) and state[key] for key in (RECORD_KEY, REPLAY_KEY)):
        raise ConfigurationError(f"a run is recorded or replayed, not both: drop {RECORD_KEY} or {REPLAY_KEY}")
