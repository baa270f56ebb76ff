"""What a live connection says in fragments, put together (models LIVE-6, LIVE-8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hookwork.platform import new_uuid
from hookwork.records.content import Content, Part
from hookwork.records.metadata import GroundingMetadata, ModelResponse, Transcription
from hookwork_llm.live.grounding import merged

INPUT = "input_transcription"
OUTPUT = "output_transcription"
#: Fields of a message that are no content and go on a piece of their own.
_REST = (
    "turn_complete",
    "interrupted",
    "session_resumption_handle",
    "finish_reason",
    "error_code",
    "error_message",
    "usage_metadata",
    "citation_metadata",
    "grounding_metadata",
    "avg_logprobs",
    "logprobs_result",
    "custom_metadata",
    "extra",
)


class Piece(NamedTuple):
    """What becomes one event. Fragments share the id of the whole that follows them (core STR-2)."""

    response: ModelResponse
    event_id: str


class _Speech:
    """The fragments of one utterance, joined once."""

    __slots__ = ("event_id", "fragments")

    def __init__(self) -> None:
        self.fragments: list[str] = []
        self.event_id = new_uuid()

    @property
    def text(self) -> str:
        return "".join(self.fragments)


class _Run:
    """The fragments of one part: text or thought."""

    __slots__ = ("fragments", "last")

    def __init__(self, first: Part) -> None:
        self.fragments = [first.text or ""]
        self.last = first

    def takes(self, part: Part) -> bool:
        """A signature ends a part: it stays on the text it came with (models AGG-10)."""
        return bool(self.last.thought) == bool(part.thought) and self.last.thought_signature is None

    def add(self, part: Part) -> None:
        self.fragments.append(part.text or "")
        self.last = part

    def whole(self) -> Part:
        return self.last.replace(text="".join(self.fragments))


class Assembler:
    """Takes server messages, gives pieces: fragments as they came, and the whole of each run of fragments.

    Grounding is told in pieces too: each is shown as it comes, all of a turn stand with the text that the turn ends
    with, or what was spoken, or the end itself.

    A run of text ends at a call, at the end of the turn and at an interruption; an utterance ends at the latter two, or
    where the server says that it is finished.
    """

    def __init__(self) -> None:
        self._speech: dict[str, _Speech] = {}
        #: what was written down of an utterance before the server said that it was finished.
        self._early: dict[str, str] = {}
        self._runs: list[_Run] = []
        self._text_id = ""
        #: what the answer of this turn rests on, as far as it was told.
        self._grounding: GroundingMetadata | None = None

    @property
    def transcribes(self) -> bool:
        """Whether an utterance is open: its final transcription is still to come."""
        return bool(self._speech)

    def add(self, message: ModelResponse) -> list[Piece]:
        """The pieces of one message, in order: what was said, what that completes, what else the message tells."""
        pieces: list[Piece] = []
        for side in (INPUT, OUTPUT):
            said: Transcription | None = getattr(message, side)
            if said is not None:
                pieces += self._hear(side, said)
        if message.content is not None:
            pieces += self._take(message.content, message)
        if message.grounding_metadata is not None:
            self._grounding = merged(self._grounding, message.grounding_metadata)
        ends = bool(message.turn_complete or message.interrupted)
        if ends:
            pieces += self.finish(interrupted=bool(message.interrupted))
        rest = {name: value for name in _REST if (value := getattr(message, name)) is not None}
        if ends and self._grounding is not None:  # nothing was said in words that it could stand with
            rest["grounding_metadata"], self._grounding = self._grounding, None
        elif ends:
            rest.pop("grounding_metadata", None)
        if rest.get("error_code") and message.content is not None and message.content.function_calls:
            del rest["error_code"]  # it stands with the calls, which are then not carried out (core FLOW-14)
            rest.pop("error_message", None)
        if rest:
            shown = "grounding_metadata" in rest and len(rest) == 1  # what is told of it so far: a hint
            whole = ends or not (message.partial or shown)
            response = ModelResponse(**rest, partial=None if whole else True, model_version=message.model_version)
            pieces.append(Piece(response, new_uuid()))
        return pieces

    def finish(self, *, interrupted: bool = False) -> list[Piece]:
        """The wholes of all that is open: what the user said, what the model said, its text."""
        return self._grounded([*self.finish_speech(), *self._finish_text(interrupted)])

    def finish_speech(self) -> list[Piece]:
        """The final transcriptions of open utterances, the user's first."""
        self._early |= {side: speech.text for side, speech in self._speech.items()}
        return [*self._finish_utterance(INPUT), *self._finish_utterance(OUTPUT)]

    def cut(self) -> list[Piece]:
        """The line broke: what the user said so far is kept, what the model had only begun to say is not (MOD-4)."""
        pieces = self._finish_utterance(INPUT)
        self._speech.clear()
        self._runs = []
        self._grounding = None
        return pieces

    def _grounded(self, pieces: list[Piece]) -> list[Piece]:
        """The end of a turn: what the answer rests on stands with its text, else with what was spoken."""
        for at in reversed(range(len(pieces))):
            said = pieces[at].response
            if self._grounding is not None and (said.content is not None or said.output_transcription is not None):
                pieces[at] = pieces[at]._replace(response=said.replace(grounding_metadata=self._grounding))
                self._grounding = None
        return pieces

    # --- speech -------------------------------------------------------------------------------------------------------

    def _hear(self, side: str, said: Transcription) -> list[Piece]:
        text = said.text or ""
        if said.finished and not text:
            return self._finish_utterance(side)
        if not text:
            return []
        early = self._early.pop(side, None)
        if said.finished and early is not None:  # it stands in the history already, but for what came since
            text = text.removeprefix(early) if text.startswith(early) else ""
            if not text:
                return []
        speech = self._speech.get(side)
        if speech is None:
            speech = self._speech[side] = _Speech()
        if said.finished:  # the whole utterance: it takes the place of its fragments
            speech.fragments = [text]
            return self._finish_utterance(side)
        speech.fragments.append(text)
        return [Piece(_transcript(side, said, partial=True), speech.event_id)]

    def _finish_utterance(self, side: str) -> list[Piece]:
        speech = self._speech.pop(side, None)
        text = speech.text if speech is not None else ""
        if speech is None or not text:
            return []
        return [Piece(_transcript(side, Transcription(text=text, finished=True)), speech.event_id)]

    # --- content ------------------------------------------------------------------------------------------------------

    def _take(self, content: Content, message: ModelResponse) -> list[Piece]:
        texts = [part for part in content.parts if _is_text(part)]
        media = [part for part in content.parts if part.inline_data is not None]
        others = [part for part in content.parts if not (_is_text(part) or part in media or part.is_empty())]
        pieces: list[Piece] = []
        if texts:
            if not self._runs:
                self._text_id = new_uuid()
            self._add_texts(texts)
            fragment = ModelResponse(
                content=Content(role="model", parts=texts), partial=True, model_version=message.model_version
            )
            pieces.append(Piece(fragment, self._text_id))
        version = message.model_version
        if media:  # sound runs beside the text; it is never stored, so it goes alone
            whole = ModelResponse(content=Content(role="model", parts=media), model_version=version)
            pieces.append(Piece(whole, new_uuid()))
        if others:
            pieces += self._finish_text(interrupted=False)
            whole = ModelResponse(
                content=Content(role="model", parts=others),
                model_version=version,
                error_code=message.error_code if content.function_calls else None,
                error_message=message.error_message if content.function_calls else None,
            )
            pieces.append(Piece(whole, new_uuid()))
        return pieces

    def _add_texts(self, texts: Sequence[Part]) -> None:
        for part in texts:
            if self._runs and self._runs[-1].takes(part):
                self._runs[-1].add(part)
            else:
                self._runs.append(_Run(part))

    def _finish_text(self, interrupted: bool) -> list[Piece]:
        runs, self._runs = self._runs, []
        if not runs:
            return []
        content = Content(role="model", parts=[run.whole() for run in runs])
        return [Piece(ModelResponse(content=content, interrupted=interrupted or None), self._text_id)]


def _transcript(side: str, said: Transcription, *, partial: bool | None = None) -> ModelResponse:
    fields: dict[str, Any] = {side: said}
    return ModelResponse(partial=partial, **fields)


def _is_text(part: Part) -> bool:
    return bool(part.text)
