"""Events that wait until what was said before them is written down (core LIVE-6)."""

from __future__ import annotations

from collections.abc import Iterator

from hookwork.records.event import Event


class HoldBack:
    """Holds calls and responses while an utterance is open, and every later whole event behind them: order stays.

    Without this a call would stand in the history before the words of the user that led to it, because the server
    finishes a transcription at the end of the turn only.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def admit(self, event: Event, *, transcribes: bool) -> list[Event]:
        """The events that may go on now that ``event`` has come; ``transcribes``: an utterance is open."""
        if event.partial or not is_kept(event) or _is_transcription(event):
            return [event]
        if self._events or (transcribes and (event.function_calls or event.function_responses)):
            self._events.append(event)
            return [] if transcribes else self.release()
        return [event]

    def release(self) -> list[Event]:
        """Everything that waited, in order."""
        events, self._events = self._events, []
        return events


def is_kept(event: Event) -> bool:
    """Whether an event goes into the session: whole, and without inline data."""
    return not event.partial and not any(
        part.inline_data is not None for part in (event.content.parts if event.content is not None else ())
    )


def _is_transcription(event: Event) -> bool:
    return event.input_transcription is not None or event.output_transcription is not None
