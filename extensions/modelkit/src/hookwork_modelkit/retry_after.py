"""How long a service asks to be left alone: ``Retry-After`` of RFC 9110 §10.2.3, and its millisecond form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from hookwork.platform import now


def retry_after_of(headers: Mapping[str, Any]) -> float | None:
    """Seconds to wait, at least 0; None when the headers (names in lower case) do not say."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    return _until(str(text)) if seconds is None and text else seconds


def seconds_of(duration: Any) -> float | None:
    """A protobuf duration, ``"3.5s"``, as seconds; None when it is none."""
    return _number(duration[:-1]) if isinstance(duration, str) and duration.endswith("s") else None


def _number(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _until(text: str) -> float | None:
    """Seconds until an HTTP date."""
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now()).total_seconds())
