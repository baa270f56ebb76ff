"""The parts of a streamed response: texts merged, calls put together, signatures kept (models AGG-3 … AGG-23)."""

from __future__ import annotations

from collections.abc import Sequence

from hookwork.platform import new_uuid
from hookwork.records.content import FunctionCall, Part
from hookwork_modelkit.call_arguments import CallArguments


class _TextRun:
    """Neighbouring texts of one kind; they become one part."""

    __slots__ = ("metadata", "pieces", "signature", "thought")

    def __init__(self, part: Part) -> None:
        self.thought = part.thought
        self.metadata = part.part_metadata
        self.signature = part.thought_signature
        self.pieces: list[str] = [part.text or ""]

    def takes(self, part: Part) -> bool:
        """Whether a text continues this run: same kind, and no metadata that differ."""
        if bool(part.thought) != bool(self.thought):
            return False
        return part.part_metadata is None or self.metadata is None or part.part_metadata == self.metadata

    def add(self, part: Part) -> None:
        self.pieces.append(part.text or "")
        self.signature = self.signature or part.thought_signature
        self.metadata = self.metadata if self.metadata is not None else part.part_metadata


class _StreamedCall:
    """A call whose arguments come in fragments. ``id`` is what it goes by, ``own_id`` what the model calls it."""

    __slots__ = ("args", "ended", "id", "name", "own_id", "signature", "whole")

    def __init__(self, call: FunctionCall) -> None:
        self.own_id = call.id or ""
        self.id = call.id or f"adk-{new_uuid()}"  # AGG-23
        self.name = call.name or ""
        self.args = CallArguments()
        self.signature: bytes | None = None
        #: its own last fragment came; a call that only gave way to another may still go on under its id.
        self.ended = False
        self.whole: Part | None = None

    def part(self) -> Part | None:
        if self.whole is not None:
            return self.whole
        if not self.name:
            return None  # AGG-19
        call = FunctionCall(id=self.id, name=self.name, args=self.args.finish())
        return Part(function_call=call, thought_signature=self.signature)


def _is_bare_text(part: Part) -> bool:
    """A text with nothing beside it but thought mark, signature and metadata."""
    return (
        part.text is not None
        and part.inline_data is None
        and part.file_data is None
        and part.function_response is None
        and part.executable_code is None
        and part.code_execution_result is None
        and part.video_metadata is None
        and part.media_resolution is None
        and part.extra is None
    )


_BARE_MARKS = (Part(), Part(thought=True), Part(thought=False))
#: Parts that say nothing; Gemini 3 ends its answers with one (AGG-3).
EMPTY_PARTS = (*_BARE_MARKS, *(mark.replace(text="") for mark in _BARE_MARKS))


class PartSequence:
    """Collects parts in the order of their arrival."""

    __slots__ = ("_by_id", "_entries", "_open", "_run", "_signature")

    def __init__(self) -> None:
        self._entries: list[Part | _StreamedCall] = []
        self._run: _TextRun | None = None
        #: the streamed call that a fragment without id goes to.
        self._open: _StreamedCall | None = None
        #: streamed calls that may go on, by the id the model gave them.
        self._by_id: dict[str, _StreamedCall] = {}
        #: AGG-8: a signature that waits for a call.
        self._signature: bytes | None = None

    @property
    def has_content(self) -> bool:
        return bool(self._entries) or (self._run is not None and any(self._run.pieces))

    def add(self, parts: Sequence[Part]) -> list[Part] | None:
        """Take in the parts of a chunk. The parts to show, when they differ: fragments carry their call's id."""
        shown: list[Part] | None = None
        for at, part in enumerate(parts):
            call = part.function_call
            if call is None:
                self._add_other(part)
                continue
            call_id = self._add_call(part, call)
            if call_id and call.id != call_id:
                shown = shown if shown is not None else list(parts)
                shown[at] = part.replace(function_call=call.replace(id=call_id))
        return shown

    # --- texts and other parts ----------------------------------------------------------------------------------------

    def _add_other(self, part: Part) -> None:
        if _is_bare_text(part):
            run = self._run
            if run is not None and run.takes(part):
                run.add(part)
            else:
                self._flush()
                self._run = _TextRun(part)
        elif part not in _BARE_MARKS:
            self._flush()
            self._entries.append(part)
            if part.thought_signature is not None and not part.text:
                self._signature = part.thought_signature

    def _flush(self) -> None:
        """End the run of texts (AGG-4, AGG-5)."""
        run, self._run = self._run, None
        if run is None:
            return
        text = "".join(run.pieces)
        if not text and run.signature is None and run.metadata is None:
            return
        self._entries.append(
            Part(text=text, thought=run.thought, thought_signature=run.signature, part_metadata=run.metadata)
        )
        if not text and run.signature is not None:
            self._signature = run.signature  # AGG-8; a run with text keeps its own (AGG-10)

    # --- calls --------------------------------------------------------------------------------------------------------

    def _add_call(self, part: Part, call: FunctionCall) -> str:
        """Take in a call or a fragment; the id that the shown part carries."""
        if call.partial_args or call.will_continue:
            return self._add_fragment(part, call)
        if not call.name:  # Gemini closes a streamed call with an empty one (AGG-13)
            if self._open is not None:
                self._open.signature = self._open.signature or part.thought_signature
                self._end(self._open)
            return ""
        announced = self._by_id.get(call.id) if call.id else None
        self._flush()
        signature, self._signature = self._signature, None
        if signature is not None and part.thought_signature is None:
            part = part.replace(thought_signature=signature)
        if announced is not None and announced.args.is_empty and announced.name in ("", call.name):
            announced.whole = part  # announced by name and id without a single argument, and now comes whole
            self._end(announced)
        else:
            self._open = None  # AGG-21: it gives way, and may go on under its id
            self._entries.append(part)
        return ""

    def _add_fragment(self, part: Part, call: FunctionCall) -> str:
        streamed = self._continued(call)
        if streamed is None:
            self._flush()
            streamed = _StreamedCall(call)
            self._entries.append(streamed)
        self._open = streamed
        if call.name:
            streamed.name = call.name
        if call.id:
            # A partial may have been shown under our id already: the call keeps that one (AGG-23).
            streamed.own_id = call.id
            self._by_id[call.id] = streamed
        streamed.signature = streamed.signature or part.thought_signature
        if call.args:
            streamed.args.merge(call.args)
        for piece in call.partial_args or ():
            streamed.args.add(piece)
        if not call.will_continue:
            self._end(streamed)
        return streamed.id

    def _continued(self, call: FunctionCall) -> _StreamedCall | None:
        """The streamed call that a fragment goes on with; None when it begins another (AGG-21)."""
        current = self._open
        if call.id:
            known = self._by_id.get(call.id)
            if known is not None:
                return known if not call.name or call.name == known.name or not known.name else None
            if current is not None and current.own_id:
                return None
        if current is None or (call.name and current.name and call.name != current.name):
            return None
        return current

    def _end(self, streamed: _StreamedCall) -> None:
        streamed.ended = True
        if self._by_id.get(streamed.own_id) is streamed:
            del self._by_id[streamed.own_id]
        if self._open is streamed:
            self._open = None

    def forget(self, call_id: str, name: str) -> None:
        """Leave out a streamed call that was cut off."""
        found = self._by_id.get(call_id)
        if found is None and self._open is not None and self._open.name == name:
            found = self._open
        if found is not None:
            self._end(found)
            self._entries = [entry for entry in self._entries if entry is not found]

    def finish(self, *, keep_open_calls: bool) -> tuple[list[Part], list[str]]:
        """All parts, and the names of calls that were still open and therefore left out.

        ``keep_open_calls``: the stream came to a good end, so the last call is complete (AGG-18).
        """
        self._flush()
        parts: list[Part] = []
        dropped: list[str] = []
        for entry in self._entries:
            if isinstance(entry, Part):
                parts.append(entry)
                continue
            part = entry.part()
            if part is None:
                continue
            is_torso = entry is self._open or (not entry.ended and entry.args.is_empty)
            if is_torso and not keep_open_calls:
                dropped.append(entry.name)
            else:
                parts.append(part)
        return parts, dropped
