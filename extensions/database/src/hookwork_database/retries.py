"""Trying again what lost a race inside the database (services DB-12)."""

from __future__ import annotations

from hookwork.platform import random, sleep
from hookwork.telemetry import count_retry

#: How often it is tried again before its error is raised.
RETRIES = 5
#: Seconds.
_BASE_DELAY, _LONGEST_DELAY = 0.01, 0.5


async def back_off(tried: int) -> None:
    """Wait before a further try: full jitter, doubling, capped. ``tried``: how often it was tried again already."""
    count_retry()
    await sleep(random() * min(_LONGEST_DELAY, _BASE_DELAY * 2**tried))
