"""The chunks of a streamed chat completion (models CHAT-4, CHAT-5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hookwork.platform import new_uuid
from hookwork.records.metadata import ModelResponse
from hookwork_modelkit.errors import model_error
from hookwork_openai.arguments import BadArguments, parse_arguments
from hookwork_openai.call import Call
from hookwork_openai.chat.reply import content_of, thought_field, thought_of, whole_response
from hookwork_openai.errors import service_error
from hookwork_openai.fragments import call_fragment, text_fragment
from hookwork_openai.reading import count_in, object_in, objects_in, text_in


class _StreamedCall:
    """One tool call while it arrives."""

    __slots__ = ("_shown_as", "_taken", "arguments", "extra", "id", "name", "pieces")

    def __init__(self, taken: set[str]) -> None:
        self.id = ""
        self._shown_as = ""
        self._taken = taken
        self.name = ""
        self.pieces: list[str] = []
        #: arguments that came as an object, whole.
        self.arguments: Any = None
        #: what the server wants to have back with the call.
        self.extra: Mapping[str, Any] = {}

    @property
    def wire_id(self) -> str:
        """Its id, a made one where the server gives none in time, or one that another call has (models MOD-14).

        The id it was shown under stays (models AGG-23).
        """
        if not self._shown_as:
            self._shown_as = self.id if self.id and self.id not in self._taken else f"adk-{new_uuid()}"
            self._taken.add(self._shown_as)
        return self._shown_as

    @property
    def raw_arguments(self) -> Any:
        """What the server wrote: text, or an object."""
        return self.arguments if self.arguments is not None else "".join(self.pieces)

    def differs_from(self, call_id: str, name: str) -> bool:
        """Whether a piece with this id and name, if it has any, is of another call."""
        if call_id and self.id and call_id != self.id:
            return True
        begun = bool(self.pieces) or self.arguments is not None
        return begun and bool(name and self.name and name != self.name)

    def is_whole(self) -> bool:
        """Whether its arguments are an object already."""
        raw = self.raw_arguments
        if not raw and not isinstance(raw, dict):
            return False
        try:
            parse_arguments(raw)
        except BadArguments:
            return False
        return True


class ChatStream:
    """Folds one stream: `take` each chunk, yield what it gives, then `finish`. Make one per call.

    Attributes:
        finish_reason: the server's, once it came.
        shown: a partial response was given.
    """

    def __init__(self, call: Call, declared: frozenset[str] = frozenset()) -> None:
        self.finish_reason = ""
        self.shown = False
        self._call = call
        self._declared = declared
        self._chunks = 0
        self._head: dict[str, Any] = {}
        self._usage: Any = None
        self._thoughts: list[str] = []
        self._thought_field = ""
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._annotations: list[Any] = []
        self._logprobs: list[Any] = []
        self._calls: list[_StreamedCall] = []
        self._ids: set[str] = set()
        self._by_index: dict[int, _StreamedCall] = {}

    def take(self, chunk: Any) -> list[ModelResponse]:
        """Take in one chunk; the partial responses to show for it.

        Raises:
            ModelError: the chunk is an error.
        """
        if not isinstance(chunk, Mapping):
            return []
        self._chunks += 1
        if object_in(chunk, "error"):
            raise service_error(self._call, chunk["error"], started=self.shown)
        for name in ("id", "model", "service_tier"):
            self._head[name] = self._head.get(name) or text_in(chunk, name)
        self._usage = chunk.get("usage") or self._usage
        choices = objects_in(chunk, "choices")
        shown = list(self._choice(choices[0])) if choices else []
        self.shown = self.shown or bool(shown)
        return shown

    def finish(self, *, done: bool) -> ModelResponse:
        """The whole response. ``done``: the server said ``[DONE]``.

        Raises:
            ModelError: the stream was empty or broke off, or what came cannot be used.
        """
        call = self._call
        if not self._chunks:
            raise self._broken("the stream ended without a single chunk; try again")
        if not self.finish_reason and not done and not call.options.accept_unterminated:
            raise self._broken(
                "the stream ended without a finish reason, so the answer is not whole; try again "
                "(accept_unterminated=True for a server that never sends one)"
            )
        unspecified = "" if self.finish_reason or done else "FINISH_REASON_UNSPECIFIED"
        choice = {
            "message": self._message(),
            "finish_reason": self.finish_reason,
            "logprobs": {"content": self._logprobs},
        }
        completion = {**self._head, "choices": [choice], "usage": self._usage}
        return whole_response(call, completion, declared=self._declared, started=self.shown, reason=unspecified)

    def _broken(self, problem: str) -> Exception:
        call = self._call
        return model_error(call.provider, call.model, kind="stream", retryable=True, detail=problem, started=self.shown)

    def _message(self) -> dict[str, Any]:
        return {
            self._thought_field or "reasoning_content": "".join(self._thoughts),
            "content": "".join(self._texts),
            "refusal": "".join(self._refusals),
            "annotations": self._annotations,
            "tool_calls": [
                {
                    "id": known.wire_id,
                    "function": {"name": known.name, "arguments": known.raw_arguments},
                    "extra_content": known.extra,
                }
                for known in self._calls
            ],
        }

    # --- chunks -------------------------------------------------------------------------------------------------------

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[ModelResponse]:
        if object_in(choice, "error"):
            raise service_error(self._call, choice["error"], started=self.shown)
        self.finish_reason = text_in(choice, "finish_reason") or self.finish_reason
        self._logprobs.extend(objects_in(object_in(choice, "logprobs"), "content"))
        # Some servers send the whole message in the last chunk, or instead of any delta.
        yield from self._delta(object_in(choice, "delta") or ({} if self.shown else object_in(choice, "message")))

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[ModelResponse]:
        version = self._head.get("model") or None
        thought = thought_of(delta)
        if thought:
            self._thoughts.append(thought)
            self._thought_field = self._thought_field or thought_field(delta)
            yield text_fragment(thought, thought=True, version=version)
        for text, kept in ((content_of(delta), self._texts), (text_in(delta, "refusal"), self._refusals)):
            if text:
                kept.append(text)
                yield text_fragment(text, version=version)
        self._annotations.extend(objects_in(delta, "annotations"))
        for piece in objects_in(delta, "tool_calls"):
            yield from self._tool_call(piece, version)
        if object_in(delta, "function_call"):
            yield from self._tool_call({"index": 0, "function": delta["function_call"]}, version)

    def _tool_call(self, piece: Mapping[str, Any], version: str | None) -> Iterator[ModelResponse]:
        said = object_in(piece, "function")
        call_id, name, arguments = text_in(piece, "id"), text_in(said, "name"), said.get("arguments")
        known = self._find(count_in(piece, "index"), call_id, name, arguments)
        known.id = known.id or call_id
        known.name = known.name or name
        known.extra = object_in(piece, "extra_content") or known.extra
        if isinstance(arguments, str):
            known.pieces.append(arguments)
        elif isinstance(arguments, Mapping):
            known.arguments = arguments
        if known.name:
            yield call_fragment(
                known.wire_id, self._call.names.own(known.name), text_in(said, "arguments"), version=version
            )

    def _find(self, index: int | None, call_id: str, name: str, arguments: Any) -> _StreamedCall:
        """The call a piece belongs to: by index; without one the last, unless a new id or name begins another.

        Servers that give several whole calls one index tell them apart by id or name. Others repeat both in each piece.
        """
        if index is not None:
            known = self._by_index.get(index)
            if known is None or known.differs_from(call_id, name):
                known = self._by_index[index] = self._new()
            return known
        last = self._calls[-1] if self._calls else None
        if last is None or last.differs_from(call_id, name) or (name and arguments and last.is_whole()):
            return self._new()
        return last

    def _new(self) -> _StreamedCall:
        call = _StreamedCall(self._ids)
        self._calls.append(call)
        return call
