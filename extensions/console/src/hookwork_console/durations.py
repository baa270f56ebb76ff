"""Durations on the command line: ``300ms``, ``10s``, ``2m``, ``1h30m``, or plain seconds (servers LCH-6)."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_PLAIN = re.compile(r"\d+(\.\d+)?")


def parse_duration(text: str) -> float:
    """Seconds, above zero.

    Raises:
        ValueError: the text is no duration, or zero.
    """
    compact = text.strip().lower()
    if _PLAIN.fullmatch(compact):
        seconds = float(compact)
    else:
        pieces = _PIECE.findall(compact)
        if not pieces or "".join(f"{number}{unit}" for number, unit in pieces) != compact:
            raise ValueError(f"{text!r} is no duration; write 30, 300ms, 10s, 2m or 1h30m")
        seconds = sum(float(number) * _UNITS[unit] for number, unit in pieces)
    if seconds <= 0:
        raise ValueError(f"{text!r} is no time at all; give a duration above zero")
    return seconds
