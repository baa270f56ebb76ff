"""What the server says, as responses (models RT-3)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from hookwork.live import GO_AWAY
from hookwork.records.content import Blob, Content, FunctionCall, Part
from hookwork.records.metadata import ModalityTokenCount, ModelResponse, Transcription, UsageMetadata
from hookwork_openai.arguments import read_arguments
from hookwork_openai.call import Call
from hookwork_openai.errors import service_error
from hookwork_openai.reading import count_in, object_in, text_in

#: Marks our session.update, so that a refusal of it can be told from any other error.
SESSION_UPDATE = "hookwork_session_update"
#: Errors after which nothing can go well any more.
_FATAL = frozenset({"invalid_api_key", "insufficient_quota", "model_not_found", "billing_hard_limit_reached"})
_ALREADY_RESPONDING = "conversation_already_has_active_response"
_INCOMPLETE = {"max_output_tokens": "MAX_TOKENS", "content_filter": "SAFETY"}

Event = Mapping[str, Any]


class ServerEvents:
    """Translates the events of one connection, and knows what the server is doing.

    Attributes:
        responding: a response was asked for or begun, and is not done.
        open_calls: ids of calls that wait for an answer.
        refused_response: a response was asked for while another was being given.
        session_id: the service's, once it said so.
    """

    def __init__(self, call: Call, mime_type: str) -> None:
        self.responding = False
        self.open_calls: set[str] = set()
        self.refused_response = False
        self.session_id = ""
        self._call = call
        self._mime_type = mime_type
        self._model: str | None = None
        self._interrupted = False
        self._names: dict[str, str] = {}
        #: items of the response that is being given whose call was told.
        self._told: set[str] = set()
        #: the response that was asked for has begun.
        self._begun = False

    def read(self, event: Any) -> ModelResponse | None:
        """The response for one event; None when it tells nothing.

        Raises:
            ModelError: a fatal error, or arguments that cannot be read.
        """
        if not isinstance(event, Mapping):
            return None
        handler = _HANDLERS.get(text_in(event, "type"))
        return handler(self, event) if handler is not None else None

    # --- the session --------------------------------------------------------------------------------------------------

    def _session(self, event: Event) -> None:
        session = object_in(event, "session")
        self._model = text_in(session, "model") or self._model
        self.session_id = text_in(session, "id") or self.session_id

    def _error(self, event: Event) -> ModelResponse | None:
        error = object_in(event, "error")
        code = text_in(error, "code") or text_in(error, "type") or "error"
        if code == _ALREADY_RESPONDING:
            self.refused_response = self.responding = self._begun = True
            return None
        if error.get("event_id") == SESSION_UPDATE:
            raise service_error(self._call, error, started=False, kind="invalid_request")
        if code in _FATAL:
            raise service_error(self._call, error, started=True)
        if code == "session_expired":  # the server hangs up now; a new connection may go on
            return ModelResponse(partial=True, custom_metadata={GO_AWAY: 0})
        if not self._begun:  # it may be the response asked for that fails: what is due next is asked for again
            self.responding = False
        failed = service_error(self._call, error, started=True)
        return ModelResponse(error_code=code, error_message=str(failed))

    # --- speech and text ----------------------------------------------------------------------------------------------

    def _text(self, event: Event) -> ModelResponse | None:
        text = text_in(event, "delta")
        return self._said(Part(text=text), partial=True) if text else None

    def _audio(self, event: Event) -> ModelResponse | None:
        try:
            data = base64.b64decode(text_in(event, "delta"), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._call.unreadable("bad_audio", "audio came that is no base64") from error
        return self._said(Part(inline_data=Blob(data=data, mime_type=self._mime_type))) if data else None

    def _said(self, part: Part, partial: bool | None = None) -> ModelResponse:
        return ModelResponse(content=Content(role="model", parts=[part]), partial=partial, model_version=self._model)

    def _transcript(self, event: Event) -> ModelResponse | None:
        text = text_in(event, "delta")
        if not text:
            return None
        return ModelResponse(output_transcription=Transcription(text=text), partial=True, model_version=self._model)

    def _heard(self, event: Event) -> ModelResponse | None:
        text = text_in(event, "delta")
        if not text:
            return None
        return ModelResponse(input_transcription=Transcription(text=text), partial=True)

    def _heard_whole(self, event: Event) -> ModelResponse | None:
        text = text_in(event, "transcript")
        if not text:
            return None
        return ModelResponse(input_transcription=Transcription(text=text, finished=True))

    def _not_heard(self, event: Event) -> None:
        code = text_in(object_in(event, "error"), "code") or "no reason given"
        self._call.warn("transcription", f"the user's speech could not be transcribed ({code})")

    def _speech_started(self, event: Event) -> ModelResponse | None:
        if not self.responding or self._interrupted:
            return None
        self._interrupted = True
        return ModelResponse(interrupted=True)

    # --- responses ----------------------------------------------------------------------------------------------------

    def _created(self, event: Event) -> None:
        self.responding = self._begun = True
        self._interrupted = False
        self._told.clear()

    def _item_added(self, event: Event) -> None:
        item = object_in(event, "item")
        if item.get("type") == "function_call":
            self._names[text_in(item, "id")] = text_in(item, "name")

    def _call_done(self, event: Event) -> ModelResponse | None:
        item = text_in(event, "item_id")
        if item and item in self._told:
            return None  # told twice; two calls are two items (AGG-29)
        self._told.add(item)
        name = self._call.names.own(text_in(event, "name") or self._names.get(item, ""))
        call_id = text_in(event, "call_id") or item  # as in every other stream (models §8)
        args = read_arguments(self._call, event.get("arguments"), name=name, call_id=call_id)
        self.open_calls.add(call_id)
        return self._said(Part(function_call=FunctionCall(id=call_id or None, name=name, args=args)))

    def _done(self, event: Event) -> ModelResponse:
        """The end of a response is the end of a model turn, one that calls functions too (RT-3; so is the whole of a
        typed response, AGG-26). The turn after it begins when the answers to all calls are sent: a response of its own.
        """
        response = object_in(event, "response")
        told = object_in(response, "status_details")
        self.responding = self._begun = False
        status, reason = text_in(response, "status"), text_in(told, "reason")
        usage = realtime_usage(response.get("usage"))
        if status == "failed":
            said = object_in(told, "error")
            failed = service_error(self._call, said, started=True)
            code = text_in(said, "code") or text_in(said, "type") or "failed"
            return self._end(turn_complete=True, error_code=code, error_message=str(failed), usage_metadata=usage)
        if status == "cancelled":
            interrupted = None if self._interrupted else True
            return self._end(turn_complete=True, interrupted=interrupted, usage_metadata=usage)
        if status == "incomplete":
            finish = _INCOMPLETE.get(reason, "OTHER")
            return self._end(turn_complete=True, finish_reason=finish, usage_metadata=usage)
        return self._end(turn_complete=True, finish_reason="STOP", usage_metadata=usage)

    def _end(self, **fields: Any) -> ModelResponse:
        self._interrupted = False
        return ModelResponse(**fields, model_version=self._model)


def realtime_usage(raw: Any) -> UsageMetadata | None:
    """Token counts of one response; None when nothing is reported (models MOD-17)."""
    if not isinstance(raw, Mapping):
        return None
    given, produced = object_in(raw, "input_token_details"), object_in(raw, "output_token_details")
    prompt, output, total = (count_in(raw, name) for name in ("input_tokens", "output_tokens", "total_tokens"))
    cached, thoughts = count_in(given, "cached_tokens"), count_in(produced, "reasoning_tokens")
    if all(count is None for count in (prompt, output, total, cached)):
        return None
    return UsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=output if output is None or thoughts is None else max(0, output - thoughts),
        total_token_count=total,
        thoughts_token_count=thoughts,
        cached_content_token_count=cached,
        prompt_tokens_details=_modalities(given),
        candidates_tokens_details=_modalities(produced),
    )


def _modalities(details: Mapping[str, Any]) -> tuple[ModalityTokenCount, ...] | None:
    found = [
        ModalityTokenCount(modality=name.upper(), token_count=count)
        for name in ("text", "audio", "image")
        if (count := count_in(details, f"{name}_tokens")) is not None
    ]
    return tuple(found) or None


_HANDLERS: dict[str, Callable[[ServerEvents, Event], ModelResponse | None]] = {
    "session.created": ServerEvents._session,
    "session.updated": ServerEvents._session,
    "error": ServerEvents._error,
    "response.created": ServerEvents._created,
    "response.output_item.added": ServerEvents._item_added,
    "response.output_text.delta": ServerEvents._text,
    "response.output_audio.delta": ServerEvents._audio,
    "response.output_audio_transcript.delta": ServerEvents._transcript,
    "response.function_call_arguments.done": ServerEvents._call_done,
    "response.done": ServerEvents._done,
    "conversation.item.input_audio_transcription.delta": ServerEvents._heard,
    "conversation.item.input_audio_transcription.completed": ServerEvents._heard_whole,
    "conversation.item.input_audio_transcription.failed": ServerEvents._not_heard,
    "input_audio_buffer.speech_started": ServerEvents._speech_started,
}
