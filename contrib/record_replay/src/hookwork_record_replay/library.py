"""The recordings of a file as a replay uses them: each once, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import Any

from hookwork_record_replay.calls import Fingerprints
from hookwork_record_replay.errors import ReplayMismatchError
from hookwork_record_replay.tape import Recording

#: Lines of a difference that an error shows.
_SHOWN = 40


class Library:
    """Answers calls from recordings: the first unused one of the same fingerprint, of the same agent before others.

    Args:
        recordings: in the order of their numbers.
        fingerprints: those of a file that was edited by hand, or matched otherwise, are made anew with it.
        place: the file, for errors.
    """

    def __init__(self, recordings: Sequence[Recording], fingerprints: Fingerprints, place: str) -> None:
        self._all = list(recordings)
        self._fingerprints = fingerprints
        self._place = place
        self._unused: dict[tuple[str, str], list[Recording]] = {}
        for recording in self._all:
            key = (recording.kind, fingerprints.of(recording.kind, recording.request))
            self._unused.setdefault(key, []).append(recording)

    def unused(self) -> list[Recording]:
        """What no call asked for, in order."""
        left = [recording for recordings in self._unused.values() for recording in recordings]
        return sorted(left, key=lambda recording: recording.n)

    def take(self, kind: str, fingerprint: str, agent: str) -> Recording | None:
        """The recording that answers a call, which is used then; None when there is none."""
        waiting = self._unused.get((kind, fingerprint))
        if not waiting:
            return None
        found = next((recording for recording in waiting if recording.agent == agent), waiting[0])
        waiting.remove(found)
        return found

    def mismatch(self, kind: str, agent: str, request: dict[str, Any]) -> ReplayMismatchError:
        """The error of a call without a recording: what it differs in from the nearest one."""
        asked = self._lines(kind, request)
        said = f"agent {agent!r} made a {kind} call of which {self._place} has no unused recording"
        nearest = self._nearest(kind, asked)
        if nearest is None:
            return ReplayMismatchError(f"{said}, and none of a {kind} call at all", kind=kind, agent=agent)
        recording, lines = nearest
        if lines == asked:
            text = f"{said}; {_number(recording)} is the same call and was used already"
        else:
            text = f"{said}; nearest is {_number(recording)}:\n{_difference(lines, asked, recording)}"
        text += "\nRecord again (mode='record') if the change is wanted."
        return ReplayMismatchError(text, kind=kind, agent=agent, nearest=recording.n)

    def _nearest(self, kind: str, asked: list[str]) -> tuple[Recording, list[str]] | None:
        best: tuple[float, Recording, list[str]] | None = None
        # Unused ones first: of equally near ones the first stays.
        left = [recording for recording in self.unused() if recording.kind == kind]
        used = [recording for recording in self._all if recording.kind == kind and recording not in left]
        for recording in (*left, *used):
            lines = self._lines(kind, recording.request)
            likeness = SequenceMatcher(a=lines, b=asked, autojunk=False).ratio()
            if best is None or likeness > best[0]:
                best = (likeness, recording, lines)
        return None if best is None else best[1:]

    def _lines(self, kind: str, request: dict[str, Any]) -> list[str]:
        compared = self._fingerprints.compared(kind, request)
        return json.dumps(compared, indent=1, sort_keys=True, ensure_ascii=False).splitlines()


def _number(recording: Recording) -> str:
    return f"number {recording.n} (agent {recording.agent!r})"


def _difference(recorded: list[str], asked: list[str], recording: Recording) -> str:
    lines: Iterator[str] = unified_diff(recorded, asked, f"recording {recording.n}", "this call", n=2, lineterm="")
    shown = [line if len(line) <= 300 else f"{line[:300]}…" for line in lines]
    left_out = len(shown) - _SHOWN
    return "\n".join(shown[:_SHOWN] + ([f"… {left_out} more lines"] if left_out > 0 else []))
