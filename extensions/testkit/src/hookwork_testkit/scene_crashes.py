"""A process that dies behind a stored event, played in one process (activations ACT-41)."""

from __future__ import annotations

from typing import Any

from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.services import SessionService


class Crash(BaseException):
    """The process is gone: no code that would catch an error may go on."""


class Deadline:
    """Watches a session service: behind the n-th event that it stores, it and everything on it is dead."""

    def __init__(self, service: SessionService, events: int) -> None:
        self.left = events
        self.dead = False
        append = type(service).append_event.__get__(service)

        async def append_event(session: Session, event: Event, **options: Any) -> Event:
            if self.dead:
                raise Crash
            stored: Event = await append(session, event, **options)
            if not event.partial:
                self.left -= 1
                if self.left == 0:
                    self.dead = True
                    raise Crash
            return stored

        service.append_event = append_event  # type: ignore[method-assign]

    @staticmethod
    def lift(service: SessionService) -> None:
        """The next process: the service as its class has it."""
        vars(service).pop("append_event", None)
