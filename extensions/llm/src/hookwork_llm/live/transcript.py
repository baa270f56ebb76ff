"""What a session says and does, as events in the order in which they are stored (core LIVE-5, LIVE-6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hookwork.records.event import Event
from hookwork.records.metadata import ModelResponse
from hookwork_llm.live.assembler import Assembler, Piece
from hookwork_llm.live.events import EventMaker
from hookwork_llm.live.held import HoldBack
from hookwork_llm.live.request import LiveFlow

#: Starts the tools of a model event: (event, its turn).
Starter = Callable[[Event, int], None]


class Transcript:
    """Server messages and events of tools in, events to yield out.

    Call `stored` after each one that was yielded: the tools of a call start when their call is in the log, or at once
    when it is held back, because the model waits for them.
    """

    def __init__(self, flow: LiveFlow, maker: EventMaker, start_tools: Starter, tools_run: Callable[[], bool]) -> None:
        self._flow = flow
        self._maker = maker
        self._start_tools = start_tools
        self._tools_run = tools_run
        self._assembler = Assembler()
        self._held = HoldBack()
        #: call events that are not stored yet: event id → the event and its turn.
        self._to_start: dict[str, tuple[Event, int]] = {}
        #: the model called something and has said nothing since its calls were carried out.
        self._owes_answer = False

    def message(self, message: ModelResponse) -> list[Event]:
        """A server message."""
        return self._made_of(self._assembler.add(message))

    def whole(self, response: ModelResponse) -> list[Event]:
        """A response that a hook gave in the model's place."""
        pieces = Assembler().add(response.replace(turn_complete=True))
        return self._made_of([piece for piece in pieces if not piece.response.partial])

    def of_tool(self, event: Event) -> list[Event]:
        """An event of a tool."""
        return self._admitted(event, more_speech=False)

    def show_what_waits(self) -> list[Event]:
        """A call that waits for a person must not wait for the end of an utterance as well."""
        if any(event.long_running_tool_ids for event in self._held):
            return self._made_of(self._assembler.finish_speech())
        return []

    def cut(self) -> list[Event]:
        """The line broke: what the user said so far is written down, what the model had begun to say is not."""
        self._maker.turn_is_cut()
        self._owes_answer = False
        return [*self._made_of(self._assembler.cut()), *self._held.release()]

    def finish(self) -> list[Event]:
        """The session ends: what is open is finished, what was held back is let go."""
        return [*self._made_of(self._assembler.finish(interrupted=True)), *self._held.release()]

    def stored(self, event: Event) -> None:
        """An event is in the log: its calls are carried out."""
        started = self._to_start.pop(event.id, None)
        if started is not None:
            self._start_tools(*started)

    def _made_of(self, pieces: Sequence[Piece]) -> list[Event]:
        """Pieces as events, those held back that may go on now among them."""
        events: list[Event] = []
        for i, piece in enumerate(pieces):
            busy = bool(self._to_start) or self._tools_run()
            if not busy and _is_output(piece):
                self._owes_answer = False
            event = self._maker.event(piece, at_rest=not busy and not self._owes_answer)
            if event.function_calls and not event.partial and not event.error_code:
                self._to_start[event.id] = (event, self._flow.turn)
                self._owes_answer = True
            events += self._admitted(event, any(_is_speech(later) for later in pieces[i + 1 :]))
        return events

    def _admitted(self, event: Event, more_speech: bool) -> list[Event]:
        transcribes = more_speech or self._assembler.transcribes
        admitted = self._held.admit(event, transcribes=transcribes)
        if not any(one is event for one in admitted):
            self.stored(event)
        if not transcribes:
            admitted += self._held.release()
        return admitted


def _is_output(piece: Piece) -> bool:
    """Whether a piece is something that the model says."""
    return piece.response.content is not None or piece.response.output_transcription is not None


def _is_speech(piece: Piece) -> bool:
    response = piece.response
    return response.input_transcription is not None or response.output_transcription is not None
