"""Which events a handle is to show: ``num_recent_events``, ``after``, ``tail`` (services SES-5, SES-6, LOG-8)."""

from __future__ import annotations

from datetime import datetime

from hookwork.errors import ValidationError
from hookwork.records.frozen import FrozenDict
from hookwork.records.session import Session
from hookwork_database.loaded import LoadedSession, SelectedLog
from hookwork_database.moments import FIRST, LAST, moment_of
from hookwork_database.reading import ALL, Snapshot, Want
from hookwork_database.windows import index_of, summary_start, window_closed


class Filters:
    """The filters of one `get_session`.

    Raises:
        ValidationError: one has no valid value, or ``tail`` is combined with another.
    """

    def __init__(self, recent: int | None, after: float | datetime | None, tail: int | str | None) -> None:
        if recent is not None and (type(recent) is not int or recent < 0):
            raise ValidationError(
                f"num_recent_events must be a whole number from 0 or None, not {recent!r}", path="num_recent_events"
            )
        if tail is not None:
            if recent is not None or after is not None:
                raise ValidationError("give either tail, or num_recent_events and after; not both", path="tail")
            if tail != "summary" and (type(tail) is not int or tail < 0):
                raise ValidationError(f"tail must be a whole number from 0 or 'summary', not {tail!r}", path="tail")
        self._recent = recent
        self._since = None if after is None else _micros(after)
        self._tail = tail

    @property
    def want(self) -> Want:
        """What has to be loaded."""
        if self._since is not None:
            return Want("since", min(max(self._since, FIRST), LAST))
        if self._recent is not None:
            return Want("last", self._recent)
        if self._tail == "summary":
            return Want("summary")
        return Want("tail", self._tail) if isinstance(self._tail, int) else ALL

    def handle(self, loaded: LoadedSession, snapshot: Snapshot, state: FrozenDict) -> Session:
        """The handle on what was loaded, as of the snapshot."""
        end = snapshot.end
        log = loaded.log
        selection: SelectedLog | None = None
        start = log.offset
        if self._since is not None:
            start, selection = self._selected(loaded, end)
        elif self._recent is not None:
            start = max(log.offset, end - self._recent)
        elif self._tail is not None:
            start = self._window(loaded, end) if snapshot.start is None else snapshot.start
        if selection is not None:
            handle = loaded.handle(selection.offset, end, state, selection)
        else:
            handle = loaded.handle(start, end, state)
        handle.app_state, handle.user_state = snapshot.app[1], snapshot.user[1]
        if end == loaded.end:  # a row whose time was changed without an event keeps that time
            handle.last_update_time = moment_of(snapshot.marker.updated)
        return handle

    def _window(self, loaded: LoadedSession, end: int) -> int:
        events, offset = loaded.log.events, loaded.log.offset
        last = end - offset
        start = summary_start(events[:last]) if self._tail == "summary" else max(0, last - int(self._tail or 0))
        return offset + window_closed(events, index_of(loaded.log), start, last)[0]

    def _selected(self, loaded: LoadedSession, end: int) -> tuple[int, SelectedLog | None]:
        """Filter by time, then keep the newest; an unbroken range is no selection."""
        events, offset = loaded.log.events, loaded.log.offset
        since = (self._since or 0) / 1e6
        kept = [place for place in range(end - offset) if events[place].timestamp >= since]
        if self._recent is not None:
            kept = kept[len(kept) - min(self._recent, len(kept)) :]
        if not kept:
            return end, None
        if kept[0] + len(kept) == end - offset:
            return offset + kept[0], None
        missing = end - len(kept)
        return 0, SelectedLog([events[place] for place in kept], first=offset + kept[0], missing=missing)


def _micros(after: float | datetime) -> int:
    if isinstance(after, datetime):
        if after.tzinfo is None:
            raise ValidationError("after must be an aware datetime; add tzinfo=UTC", path="after")
        after = after.timestamp()
    elif isinstance(after, bool) or not isinstance(after, int | float):
        raise ValidationError("after must be epoch seconds or an aware datetime", path="after")
    try:
        return round(after * 1e6)
    except (ValueError, OverflowError):
        raise ValidationError("after must be a finite time", path="after") from None
