"""Moments on the wire: epoch seconds and RFC 3339 (services GEN-3, EVT-6, COD-6)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from hookwork.records.jsontext import Fault

# 0001-01-01T00:00:00Z, and the first moment after year 9999.
_FIRST = -62_135_596_800.0
_BEHIND_LAST = 253_402_300_800.0

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EXPECTED = "expected epoch seconds or an RFC 3339 time with its zone"


def is_epoch(seconds: float) -> bool:
    """Whether epoch seconds lie in years 1 to 9999."""
    return _FIRST <= seconds < _BEHIND_LAST


def whole_epoch(seconds: float) -> bool:
    """Whether epoch seconds lie in years 1 to 9999 and are rounded to microseconds already."""
    return _FIRST <= seconds < _BEHIND_LAST and round(seconds, 6) == seconds


def rfc3339(moment: datetime) -> str:
    """UTC with ``Z`` and a fraction of 0 or 6 digits. ``moment`` is aware."""
    return moment.astimezone(UTC).isoformat()[:-6] + "Z"


def epoch_of(value: Any) -> float:
    """Epoch seconds rounded to microseconds, from a number of seconds or RFC 3339 text.

    Raises:
        Fault: another kind, another form, or a moment outside years 1 to 9999 (epoch milliseconds land there).
    """
    if type(value) is float:
        seconds = round(value, 6)
        if _FIRST <= seconds < _BEHIND_LAST:
            return seconds
    elif type(value) is int:
        try:
            seconds = round(float(value), 6)
        except OverflowError:
            seconds = _BEHIND_LAST
    elif type(value) is str:
        seconds = _seconds_of_text(value)
    else:
        raise Fault.expected("epoch seconds or an RFC 3339 time", value)
    if not is_epoch(seconds):
        raise Fault("expected a time in years 1 to 9999; a number is epoch seconds, not milliseconds")
    return seconds


def _seconds_of_text(text: str) -> float:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise Fault(f"{_EXPECTED}, found other text")
    day, clock, fraction, zone = match.groups()
    try:
        whole = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
    except ValueError:
        raise Fault(f"{_EXPECTED}, found a date or time that does not exist") from None
    return round(whole.timestamp() + (round(float(fraction), 6) if fraction else 0.0), 6)
