"""Which events a handle is to show: ``num_recent_events``, ``after``, ``tail`` (services SES-5, SES-6, LOG-8)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hookwork.errors import ValidationError
from hookwork.records.session import Session
from hookwork_vertexai.envelopes import StoredEvent
from hookwork_vertexai.loaded import LoadedSession, LooseSession, SelectedLog, SessionRow
from hookwork_vertexai.reading import Reader, Target
from hookwork_vertexai.windows import since_summary, whole_turns
from hookwork_vertexai.wire import epoch_of_micros, micros_of, micros_of_epoch


class Filters:
    """The filters of one `get_session`.

    Raises:
        ValidationError: one has no valid value, or ``tail`` is combined with another.
    """

    def __init__(self, recent: Any, after: float | datetime | None, tail: Any) -> None:
        if recent is not None and (type(recent) is not int or recent < 0):
            raise ValidationError(
                f"num_recent_events must be a whole number from 0 or None, not {recent!r}", path="num_recent_events"
            )
        if tail is not None:
            if recent is not None or after is not None:
                raise ValidationError("give either tail, or num_recent_events and after; not both", path="tail")
            if tail != "summary" and (type(tail) is not int or tail < 0):
                raise ValidationError(f"tail must be a whole number from 0 or 'summary', not {tail!r}", path="tail")
        self.recent: int | None = recent
        self.after = None if after is None else _micros(after)
        self.tail: int | str | None = tail

    @property
    def few(self) -> bool:
        """Whether not the whole log is asked for."""
        return self.recent is not None or self.after is not None

    @property
    def none(self) -> bool:
        """Whether no event is asked for, so that none has to be read (VTX-9)."""
        return self.recent == 0 and self.after is None

    def on_loaded(self, loaded: LoadedSession, app_name: str) -> Session:
        """The handle on a log that is loaded."""
        total = len(loaded.marks)
        if self.tail is not None:
            start = since_summary(loaded.log) if isinstance(self.tail, str) else max(0, total - self.tail)
            return loaded.handle(app_name, whole_turns(loaded.log, start, total))
        if self.after is None:
            return loaded.handle(app_name, 0 if self.recent is None else total - min(self.recent, total))
        since = epoch_of_micros(self.after)
        places = [place for place, event in enumerate(loaded.log.events) if event.timestamp >= since]
        if self.recent is not None:
            places = places[len(places) - min(self.recent, len(places)) :]
        if not places:
            return loaded.handle(app_name, total)
        if places[0] + len(places) == total:  # an unbroken range, as it is whenever time runs forward
            return loaded.handle(app_name, places[0])
        selected = [loaded.log.events[place] for place in places]
        return loaded.handle(app_name, 0, SelectedLog(selected, first=places[0], missing=total - len(places)))

    async def on_service(self, reader: Reader, owner: object, target: Target) -> Session:
        """The handle on what the service is asked for, when the log is not loaded and not the whole of it is wanted."""
        found: list[StoredEvent] = []
        missing = True
        if self.after is not None:
            # The envelope's time is the event's own or a later one, so nothing is left out; what is too early goes.
            row, found = await reader.since(target, self.after)
            since = epoch_of_micros(self.after)
            found = [stored for stored in found if stored.event.timestamp >= since]
            if self.recent is not None:
                found = found[len(found) - min(self.recent, len(found)) :]
        elif self.recent:
            row, newest = await reader.newest(target, self.recent)
            found, missing = newest.events, not newest.all_of_them
        else:
            row = await reader.row(target)
            known = reader.known(target, row)
            if known is not None:
                return _behind_what_is_known(known, row, target.app_name)
        last_id = found[-1].event.id if found else ""
        loose = LooseSession(owner, target.name, row.created, last_id)
        return loose.handle(target.app_name, row, found, missing=missing, user_id=target.user_id)


def _behind_what_is_known(loaded: LoadedSession, row: SessionRow, app_name: str) -> Session:
    """A handle that shows no event, with the state of now. What others stored meanwhile comes with its refresh."""
    handle = loaded.handle(app_name, len(loaded.marks))
    handle.session_state, handle.app_state, handle.user_state = row.own_state, row.app_state, row.user_state
    return handle


def _micros(after: Any) -> int:
    if isinstance(after, datetime):
        if after.tzinfo is None:
            raise ValidationError("after must be an aware datetime; add tzinfo=UTC", path="after")
        return micros_of(after)
    if isinstance(after, int | float) and not isinstance(after, bool):
        return micros_of_epoch(after)
    raise ValidationError("after must be epoch seconds or an aware datetime", path="after")
