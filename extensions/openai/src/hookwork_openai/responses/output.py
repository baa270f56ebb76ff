"""A response object as one whole ModelResponse (models OAI-26…29); streams end here too (OAI-30, OAI-31)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.frozen import freeze, thaw
from hookwork.records.metadata import ModelResponse
from hookwork_modelkit.aggregation import StreamAggregator
from hookwork_openai.annotations import citation_metadata, logprobs_result
from hookwork_openai.arguments import BadArguments, parse_arguments, read_arguments
from hookwork_openai.call import Call
from hookwork_openai.errors import service_error
from hookwork_openai.metadata import phase_metadata, reasoning_metadata
from hookwork_openai.reading import object_in, objects_in, said_of, text_in
from hookwork_openai.usage import responses_usage

logger = logging.getLogger("hookwork.openai")

_FINISH_REASONS = {"max_output_tokens": "MAX_TOKENS", "content_filter": "SAFETY"}
_UNFINISHED = ("in_progress", "queued", "cancelled")


def whole_response(call: Call, response: Any, *, started: bool = False, finish_reason: str = "") -> ModelResponse:
    """The ModelResponse of a response object, streamed or not.

    Args:
        response: the object as JSON.
        started: partial responses were yielded before.
        finish_reason: for a stream that ended without saying why; else what the object says.

    Raises:
        ModelError: the response failed, or nothing in it can be used.
    """
    if not isinstance(response, Mapping):
        raise call.unreadable("empty_response", "the service gave no response object")
    _raise_if_failed(call, response, started)
    reader = _Output(call, cut=_is_incomplete(response))
    items = objects_in(response, "output")
    for item in items:
        reader.read(item)
    finish = finish_reason or _finish_reason(response)
    if not reader.parts and not reader.cut_calls and finish == "STOP":
        raise _nothing_usable(call, items, reader)
    return _folded(call, response, reader, finish)


def _raise_if_failed(call: Call, response: Mapping[str, Any], started: bool) -> None:
    status, error = text_in(response, "status"), object_in(response, "error")
    if status == "failed" or error:
        raise service_error(call, error, started=started, kind="invalid_response")
    if status in _UNFINISHED:
        raise call.unreadable(status, f"the response came with the status {status!r}, so it is not whole")


def _is_incomplete(response: Mapping[str, Any]) -> bool:
    return response.get("status") == "incomplete" or bool(_incomplete_reason(response))


def _incomplete_reason(response: Mapping[str, Any]) -> str:
    return text_in(object_in(response, "incomplete_details"), "reason")


def _finish_reason(response: Mapping[str, Any]) -> str:
    reason = _incomplete_reason(response)
    if not reason:
        return "OTHER" if response.get("status") == "incomplete" else "STOP"
    return _FINISH_REASONS.get(reason, "OTHER")


def _nothing_usable(call: Call, items: list[Mapping[str, Any]], reader: _Output) -> Exception:
    if not items:
        return call.unreadable("no_output_items", "the response holds no output")
    if reader.unmapped:
        kinds = ", ".join(sorted({str(item.get("type")) for item in reader.unmapped}))
        return call.unreadable("unsupported_output_item", f"the response holds nothing but items of type {kinds}")
    return call.unreadable("no_usable_output", "the response holds neither text nor calls")


def _folded(call: Call, response: Mapping[str, Any], reader: _Output, finish: str) -> ModelResponse:
    """One whole response, put together as a stream would be: so both ways give the same."""
    whole = StreamAggregator(provider=call.provider, model=call.model)
    content = Content(role="model", parts=reader.parts)
    usable = bool(reader.parts) or finish == "STOP"
    whole.add(
        ModelResponse(
            content=content,
            finish_reason=finish,
            error_code=None if usable else finish,
            usage_metadata=responses_usage(response.get("usage")),
            citation_metadata=citation_metadata(reader.annotations),
            logprobs_result=logprobs_result(reader.logprobs),
            model_version=text_in(response, "model") or None,
        )
    )
    for name, call_id in reader.cut_calls:
        whole.cut_call(name, call_id)
    whole.custom_metadata.update(_custom(response, reader))
    return whole.finish()


def _custom(response: Mapping[str, Any], reader: _Output) -> dict[str, Any]:
    kept = said_of(response)
    if reader.unmapped:
        kept["openai_unmapped"] = [thaw(freeze(item)) for item in reader.unmapped]
    return kept


class _Output:
    """Reads output items one after the other."""

    def __init__(self, call: Call, *, cut: bool) -> None:
        self._call = call
        self._cut = cut
        self.parts: list[Part] = []
        self.annotations: list[Mapping[str, Any]] = []
        self.logprobs: list[Mapping[str, Any]] = []
        self.unmapped: list[Mapping[str, Any]] = []
        #: (name, id) of calls whose arguments the end of the response cut off.
        self.cut_calls: list[tuple[str, str]] = []

    def read(self, item: Mapping[str, Any]) -> None:
        kind = item.get("type")
        if kind == "message":
            self._message(item)
        elif kind == "function_call":
            self._function_call(item)
        elif kind == "reasoning":
            self._reasoning(item)
        else:
            logger.info("%s: an output item of type %r is kept in custom_metadata", self._call.model, kind)
            self.unmapped.append(item)

    def _message(self, item: Mapping[str, Any]) -> None:
        metadata = phase_metadata(item)
        plain = text_in(item, "content")
        for piece in [{"type": "output_text", "text": plain}] if plain else objects_in(item, "content"):
            kind = piece.get("type")
            if kind not in ("output_text", "refusal"):
                raise self._call.unreadable(
                    "unsupported_content_type", f"a message holds content of type {kind!r}, which is not understood"
                )
            text = text_in(piece, "text" if kind == "output_text" else "refusal")
            if text:
                self.parts.append(Part(text=text, part_metadata=metadata))
            self.annotations.extend(objects_in(piece, "annotations"))
            self.logprobs.extend(objects_in(piece, "logprobs"))

    def _reasoning(self, item: Mapping[str, Any]) -> None:
        metadata = reasoning_metadata(item, self._call.provider)
        entries = [*objects_in(item, "content"), *objects_in(item, "summary")]
        text = "".join([text_in(entry, "text") for entry in entries])
        if text or metadata is not None:
            self.parts.append(Part(text=text, thought=True, part_metadata=metadata))

    def _function_call(self, item: Mapping[str, Any]) -> None:
        name, call_id = self._call.names.own(text_in(item, "name")), text_in(item, "call_id") or text_in(item, "id")
        raw = item.get("arguments")
        if not name:
            logger.warning("%s: a function call without a name is left out", self._call.model)
            return
        if self._cut and (item.get("status") == "incomplete" or _is_torso(raw)):
            self.cut_calls.append((name, call_id))
            return
        args = read_arguments(self._call, raw, name=name, call_id=call_id)
        self.parts.append(Part(function_call=FunctionCall(id=call_id or None, name=name, args=args)))


def _is_torso(raw: Any) -> bool:
    """Whether arguments in a response that was cut off are not whole."""
    if isinstance(raw, str) and raw.strip():
        try:
            parse_arguments(raw)
        except BadArguments:
            return True
        return False
    return not isinstance(raw, dict)
