"""The file: JSON Lines, a heading and then one recording a line, with numbers in the order in which calls began."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import msgspec

from hookwork.errors import ConfigurationError

#: Key of the heading; its value is the version of the format.
HEADING = "hookworkRecordings"
VERSION = 1


class Recording(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One recorded call.

    ``n`` counts calls by their beginnings, from 1; ``kind`` is ``model`` or ``tool``. Of a model call: ``stream``,
    ``chunks`` (its partial responses) and ``response``; of a tool call: ``result``; of a failed one: ``error``.
    Requests and responses are redacted, in the JSON form of the genai types.
    """

    n: int
    kind: str
    agent: str = ""
    fingerprint: str = ""
    stream: bool = False
    request: dict[str, Any] = {}
    chunks: list[dict[str, Any]] = []
    response: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


def read_tape(path: Path) -> list[Recording]:
    """The recordings of a file in the order of their numbers.

    Raises:
        ConfigurationError: no such file, or a line that is no recording.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # texts hold other line breaks, U+0085 among them
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no recording {path}; make one with mode='record' first") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the recording {path} cannot be read: {type(error).__name__}") from error
    if not lines or _heading_of(lines[0]) != VERSION:
        raise ConfigurationError(
            f'{path} holds no recordings of this version; its first line would be {{"{HEADING}": {VERSION}}}'
        )
    recordings: list[Recording] = []
    for number, line in enumerate(lines[1:], 2):
        if line.strip():
            try:
                recordings.append(msgspec.json.decode(line, type=Recording))
            except msgspec.DecodeError as error:
                raise ConfigurationError(f"{path}, line {number}: no recording ({error})") from error
    return sorted(recordings, key=lambda recording: recording.n)


def _heading_of(line: str) -> Any:
    try:
        heading = json.loads(line)
    except ValueError:
        return None
    return heading.get(HEADING) if isinstance(heading, dict) else None


class TapeWriter:
    """Writes recordings as they are complete, so that a crash loses only what was under way.

    Args:
        path: the file; it and its folders are made with the first recording, an older file is replaced then.
        append: keep what the file holds.
        last: number of the last recording that it holds.
    """

    def __init__(self, path: Path, *, append: bool = False, last: int = 0) -> None:
        self._path = path
        self._begun = append
        self._last = last
        self._lock = threading.Lock()

    def number(self) -> int:
        """The number of a call that begins now."""
        with self._lock:
            self._last += 1
            return self._last

    def write(self, recording: Recording) -> None:
        """Add a recording.

        Raises:
            OSError: the file cannot be written.
        """
        line = json.dumps(msgspec.to_builtins(recording), ensure_ascii=False, allow_nan=False)
        with self._lock:
            if not self._begun:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._put(json.dumps({HEADING: VERSION}) + "\n", os.O_TRUNC)
                self._begun = True
            self._put(line + "\n", os.O_APPEND)

    def _put(self, text: str, flag: int) -> None:
        # Readable by its owner alone: it holds what users said.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
        # Half a surrogate pair, which no UTF-8 can hold, is written as the escape that JSON has for it.
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
