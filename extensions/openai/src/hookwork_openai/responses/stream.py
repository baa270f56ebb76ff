"""The events of a streamed response (models §8 Streaming, OAI-30…35)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hookwork.records.metadata import ModelResponse
from hookwork_modelkit.errors import model_error
from hookwork_openai.arguments import BadArguments, parse_arguments
from hookwork_openai.call import Call
from hookwork_openai.errors import service_error
from hookwork_openai.fragments import call_end, call_fragment, text_fragment
from hookwork_openai.reading import object_in, text_in
from hookwork_openai.responses.output import whole_response
from hookwork_openai.responses.streamed_items import StreamedItem, StreamedItems

Event = Mapping[str, Any]


class ResponseStream:
    """Folds one stream: `take` each event, yield what it gives, then `finish`. Make one per call.

    Attributes:
        over: a terminal object came; the first one counts and nothing after it.
        shown: a partial response was given.
    """

    def __init__(self, call: Call) -> None:
        self.over = False
        self.shown = False
        self._call = call
        self._items = StreamedItems()
        self._events = 0
        self._response: Mapping[str, Any] = {}
        self._version: str | None = None

    def take(self, event: Any) -> ModelResponse | None:
        """Take in one event; the partial response to show for it, if any.

        Raises:
            ModelError: the event says that the call failed.
        """
        if not isinstance(event, Mapping) or self.over:
            return None
        self._events += 1
        handler = _HANDLERS.get(text_in(event, "type"))
        shown = handler(self, event) if handler is not None else None
        self.shown = self.shown or shown is not None
        return shown

    def finish(self) -> ModelResponse:
        """The whole response.

        Raises:
            ModelError: the stream was empty or broke off, or what came cannot be used.
        """
        if not self._events:
            raise self._broken("the stream ended without a single event; try again")
        if not self.over and not self._call.options.accept_unterminated:
            raise self._broken(
                "the stream ended without response.completed, so the answer is not whole; try again "
                "(accept_unterminated=True for a server that never sends it)"
            )
        output = self._response.get("output")
        if self.over and isinstance(output, list):
            self._items.reconcile(output)
        response = {**self._response, "output": self._items.as_output()}
        if self.over:
            return whole_response(self._call, response, started=self.shown)
        response.update(status=None, usage=None)
        return whole_response(self._call, response, started=self.shown, finish_reason="FINISH_REASON_UNSPECIFIED")

    def _broken(self, problem: str) -> Exception:
        call = self._call
        return model_error(call.provider, call.model, kind="stream", retryable=True, detail=problem, started=self.shown)

    def _own(self, item: StreamedItem) -> str:
        return self._call.names.own(item.name)

    # --- events -------------------------------------------------------------------------------------------------------

    def _created(self, event: Event) -> None:
        self._remember(event)

    def _terminal(self, event: Event) -> None:
        self._remember(event)
        self.over = True

    def _remember(self, event: Event) -> None:
        response = event.get("response")
        if isinstance(response, Mapping):
            self._response = response
            self._version = text_in(response, "model") or self._version

    def _failed(self, event: Event) -> None:
        said = object_in(object_in(event, "response"), "error")
        raise service_error(self._call, said, started=self.shown, kind="invalid_response")

    def _error(self, event: Event) -> None:
        raise service_error(self._call, object_in(event, "error") or event, started=self.shown)

    def _text(self, event: Event, part: str = "output_text") -> ModelResponse | None:
        text = text_in(event, "delta")
        if not text:
            return None
        self._items.of_event(event, "message").add_text(part, event.get("content_index"), text)
        return text_fragment(text, version=self._version)

    def _refusal(self, event: Event) -> ModelResponse | None:
        return self._text(event, "refusal")

    def _thought(self, event: Event, part: str = "content", index: str = "content_index") -> ModelResponse | None:
        text = text_in(event, "delta")
        if not text:
            return None
        self._items.of_event(event, "reasoning").add_text(part, event.get(index), text)
        return text_fragment(text, thought=True, version=self._version)

    def _summary(self, event: Event) -> ModelResponse | None:
        return self._thought(event, "summary", "summary_index")

    def _annotation(self, event: Event) -> None:
        self._items.of_event(event, "message").annotations.append(object_in(event, "annotation"))

    def _item_added(self, event: Event) -> ModelResponse | None:
        item = event.get("item")
        if not isinstance(item, Mapping):
            return None
        started = self._items.started(event, item)
        if started.kind != "function_call" or not started.name:
            return None
        return call_fragment(started.wire_id, self._own(started), "", version=self._version)

    def _item_done(self, event: Event) -> ModelResponse | None:
        item = event.get("item")
        if not isinstance(item, Mapping):
            return None
        known = self._items.ended(event, item)
        whole = known.kind == "function_call" and known.arguments is None and item.get("status") != "incomplete"
        return self._whole_call(known, known.raw_arguments) if whole else None

    def _arguments_delta(self, event: Event) -> ModelResponse | None:
        delta = text_in(event, "delta")
        if not delta:
            return None
        item = self._items.of_event(event, "function_call")
        item.pieces.append(delta)
        if not item.name:
            return None
        return call_fragment(item.wire_id, self._own(item), delta, version=self._version)

    def _arguments_done(self, event: Event) -> ModelResponse | None:
        item = self._items.of_event(event, "function_call")
        item.name = text_in(event, "name") or item.name
        item.arguments = event.get("arguments") or "".join(item.pieces)
        item.ended = True
        return self._whole_call(item, item.arguments)

    def _whole_call(self, item: StreamedItem, raw: Any) -> ModelResponse | None:
        """A call to show once its arguments are whole; arguments that cannot be read are an error at the end only."""
        if not item.name:
            return None
        item.arguments = raw
        try:
            args = parse_arguments(raw)
        except BadArguments:
            return None
        return call_end(item.wire_id, self._own(item), args, version=self._version)


_HANDLERS: dict[str, Callable[[ResponseStream, Event], ModelResponse | None]] = {
    "response.created": ResponseStream._created,
    "response.in_progress": ResponseStream._created,
    "response.completed": ResponseStream._terminal,
    "response.incomplete": ResponseStream._terminal,
    "response.failed": ResponseStream._failed,
    "error": ResponseStream._error,
    "response.output_text.delta": ResponseStream._text,
    "response.refusal.delta": ResponseStream._refusal,
    "response.reasoning_text.delta": ResponseStream._thought,
    "response.reasoning_summary_text.delta": ResponseStream._summary,
    "response.output_text.annotation.added": ResponseStream._annotation,
    "response.output_item.added": ResponseStream._item_added,
    "response.output_item.done": ResponseStream._item_done,
    "response.function_call_arguments.delta": ResponseStream._arguments_delta,
    "response.function_call_arguments.done": ResponseStream._arguments_done,
}
