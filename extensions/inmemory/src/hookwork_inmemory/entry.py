"""What an event must be before it is stored: complete and without ``temp:`` keys (services INM-4, SES-20).

Values and texts need no look here: records checked and cleaned them when they were built (COD-8, EVT-12).
"""

from __future__ import annotations

from hookwork.errors import ValidationError
from hookwork.platform import new_uuid, timestamp
from hookwork.records.event import Event
from hookwork.records.session import without_temp

#: 0001-01-01 and the last second of 9999, in epoch seconds: what a timestamp may be (EVT-6).
_FIRST, _LAST = -62135596800, 253402300799


def entered(event: Event) -> Event:
    """The event as it is stored; the same object when nothing had to change.

    An unset id becomes a UUID, an unset timestamp the current moment; other timestamps are rounded to microseconds.

    Raises:
        ValidationError: the timestamp is not a moment of the years 1 to 9999.
    """
    stored = without_temp(event) if event.actions.state_delta else event
    moment = event.timestamp
    if not moment:
        stored = stored.replace(timestamp=timestamp())
    else:
        if not _FIRST <= moment <= _LAST:  # false for NaN too
            raise ValidationError("event.timestamp must be epoch seconds of the years 1 to 9999", path="timestamp")
        exact = round(moment * 1e6) / 1e6
        if exact != moment:
            stored = stored.replace(timestamp=exact)
    if not event.id:
        stored = stored.replace(id=new_uuid())
    return stored
