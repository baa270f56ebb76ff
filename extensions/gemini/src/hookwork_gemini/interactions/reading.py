"""An interaction as one whole ModelResponse; a stream ends here too, so both ways give the same."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping
from math import isfinite
from typing import Any

from hookwork.errors import ModelError, ValidationError
from hookwork.records.content import (
    Blob,
    CodeExecutionResult,
    Content,
    ExecutableCode,
    FileData,
    FunctionCall,
    Part,
)
from hookwork.records.metadata import (
    Citation,
    CitationMetadata,
    GroundingMetadata,
    ModalityTokenCount,
    ModelResponse,
    UsageMetadata,
)
from hookwork_modelkit import StreamAggregator, model_error

Json = Mapping[str, Any]

#: Key of the event, in its JSON form, that holds the interaction's id (services BEY-8).
INTERACTION_ID = "interactionId"
#: Statuses of an interaction that was ended by a limit.
_CUT = {"incomplete": "MAX_TOKENS", "requires_continuation": "MAX_TOKENS", "budget_exceeded": "MAX_TOKENS"}
_DONE = ("completed", "requires_action", "")
#: Statuses with which nothing can be done.
_UNFINISHED = ("in_progress", "queued", "idle", "cancelled")
#: Steps that belong to the input: what stands before the last of them is of earlier turns.
_INPUT = ("user_input", "function_result")


def whole_response(
    provider: str, model: str, interaction: Json, *, started: bool = False, unparsed: bool = False
) -> ModelResponse:
    """The response of an interaction object.

    Args:
        started: partial responses were yielded before.
        unparsed: arguments of calls are the texts that were streamed.

    Raises:
        ModelError: it failed, or nothing in it can be used.
    """
    status = _text(interaction, "status")
    reader = _Reader(provider, model, cut=status in _CUT, unparsed=unparsed, started=started)
    if status == "failed":
        raise reader.failed(_first(objects_in(interaction, "errors")))
    if status in _UNFINISHED:
        raise reader.unreadable(f"the interaction came with the status {status!r}, so it is not whole")
    for step in _own_steps(interaction.get("steps")):
        reader.read(step)
    finish = _CUT.get(status, "STOP" if status in _DONE else "OTHER")
    if not reader.parts and not reader.cut_calls and finish == "STOP" and reader.fault is None and not status:
        raise reader.unreadable("what answered does not speak the Interactions API")
    return _folded(provider, model, interaction, reader, finish)


def _own_steps(steps: Any) -> list[Json]:
    listed = objects_in({"steps": steps}, "steps")
    last = max((index for index, step in enumerate(listed) if step.get("type") in _INPUT), default=-1)
    return listed[last + 1 :]


def _folded(provider: str, model: str, interaction: Json, reader: _Reader, finish: str) -> ModelResponse:
    fault = reader.fault if not reader.parts else None
    whole = StreamAggregator(provider=provider, model=model)
    if fault is not None:
        finish = "OTHER"
    whole.add(
        ModelResponse(
            content=Content(role="model", parts=reader.parts),
            finish_reason=finish,
            error_code=None if reader.parts or finish == "STOP" else finish,
            error_message=_text(fault, "message") or None if fault is not None else None,
            usage_metadata=usage_of(interaction.get("usage")),
            citation_metadata=CitationMetadata(citations=tuple(reader.citations)) if reader.citations else None,
            grounding_metadata=GroundingMetadata(web_search_queries=tuple(reader.queries)) if reader.queries else None,
            model_version=_text(interaction, "model") or None,
        )
    )
    for name, call_id in reader.cut_calls:
        whole.cut_call(name, call_id)
    tier = _text(interaction, "service_tier")
    if tier:
        whole.custom_metadata["gemini_service_tier"] = tier
    if reader.unmapped:
        whole.custom_metadata["gemini_unmapped_steps"] = [dict(step) for step in reader.unmapped]
    response = whole.finish()
    interaction_id = _text(interaction, "id")
    return response.replace(extra={INTERACTION_ID: interaction_id}) if interaction_id else response


def usage_of(usage: Any) -> UsageMetadata | None:
    """Token counts; output counts without thoughts already (MOD-16), and what is no count is not there."""
    if not isinstance(usage, Mapping):
        return None
    return UsageMetadata(
        prompt_token_count=_count(usage, "total_input_tokens"),
        candidates_token_count=_count(usage, "total_output_tokens"),
        thoughts_token_count=_count(usage, "total_thought_tokens"),
        cached_content_token_count=_count(usage, "total_cached_tokens"),
        tool_use_prompt_token_count=_count(usage, "total_tool_use_tokens"),
        total_token_count=_count(usage, "total_tokens"),
        prompt_tokens_details=_modalities(usage, "input_tokens_by_modality"),
        candidates_tokens_details=_modalities(usage, "output_tokens_by_modality"),
        cache_tokens_details=_modalities(usage, "cached_tokens_by_modality"),
        tool_use_prompt_tokens_details=_modalities(usage, "tool_use_tokens_by_modality"),
    )


def _modalities(usage: Json, name: str) -> tuple[ModalityTokenCount, ...] | None:
    found = [
        ModalityTokenCount(modality=_text(entry, "modality").upper() or None, token_count=_count(entry, "tokens"))
        for entry in objects_in(usage, name)
    ]
    return tuple(found) or None


class _Reader:
    """Reads the steps of one answer, one after the other."""

    def __init__(self, provider: str, model: str, *, cut: bool, unparsed: bool, started: bool) -> None:
        self._provider = provider
        self._model = model
        self._cut = cut
        self._unparsed = unparsed
        self._started = started
        self.parts: list[Part] = []
        self.citations: list[Citation] = []
        self.queries: list[str] = []
        self.unmapped: list[Json] = []
        self.cut_calls: list[tuple[str, str]] = []
        #: the error that an output step holds.
        self.fault: Json | None = None

    def unreadable(self, problem: str) -> ModelError:
        return model_error(
            self._provider, self._model, kind="invalid_response", retryable=False, detail=problem, started=self._started
        )

    def failed(self, error: Json) -> ModelError:
        """The error of an interaction that failed; its code may be a URI, of which the last piece is a name."""
        code = _text(error, "code").rpartition("/")[2]
        number = error.get("code")
        status = number if type(number) is int and number >= 400 else None
        return model_error(self._provider, self._model, status=status, code=code, started=self._started)

    def read(self, step: Json) -> None:
        kind = step.get("type")
        if kind == "model_output":
            self._output(step)
        elif kind == "thought":
            self._thought(step)
        elif kind == "function_call":
            self._call(step)
        elif kind == "code_execution_call":
            arguments = step.get("arguments")
            said = arguments if isinstance(arguments, Mapping) else {}
            code = ExecutableCode(code=_text(said, "code"), language=_text(said, "language").upper() or "PYTHON")
            self.parts.append(Part(executable_code=code))
        elif kind == "code_execution_result":
            outcome = "OUTCOME_FAILED" if step.get("is_error") else "OUTCOME_OK"
            result = step.get("result")
            output = result if isinstance(result, str) else json.dumps(result)
            self.parts.append(Part(code_execution_result=CodeExecutionResult(outcome=outcome, output=output)))
        else:
            self._other(step)

    def _other(self, step: Json) -> None:
        """What has no part: kept as it is; of searches the questions are read."""
        self.unmapped.append(step)
        arguments = step.get("arguments")
        if step.get("type") == "google_search_call" and isinstance(arguments, Mapping):
            queries = arguments.get("queries")
            self.queries += [query for query in queries if isinstance(query, str)] if isinstance(queries, list) else []

    def _output(self, step: Json) -> None:
        if isinstance(step.get("error"), Mapping):
            self.fault = step["error"]
        for content in objects_in(step, "content"):
            self._content(content)

    def _content(self, content: Json) -> None:
        if content.get("type") == "text":
            text = _text(content, "text")
            if text:
                self.parts.append(Part(text=text))
            self.citations += [_citation(one) for one in objects_in(content, "annotations") if _is_url(one)]
            return
        mime, data, uri = _text(content, "mime_type") or None, _text(content, "data"), _text(content, "uri")
        if data:
            self.parts.append(Part(inline_data=Blob(data=self._bytes(data), mime_type=mime)))
        elif uri:
            self.parts.append(Part(file_data=FileData(file_uri=uri, mime_type=mime)))
        else:
            self.unmapped.append(content)

    def _thought(self, step: Json) -> None:
        text = "".join([_text(entry, "text") for entry in objects_in(step, "summary")])
        signature = _text(step, "signature")
        if text or signature:
            self.parts.append(
                Part(text=text, thought=True, thought_signature=self._bytes(signature) if signature else None)
            )

    def _call(self, step: Json) -> None:
        name, call_id = _text(step, "name"), _text(step, "id")
        if not name:
            self.unmapped.append(step)
            return
        arguments = step.get("arguments")
        if self._unparsed and isinstance(arguments, str):
            arguments = self._parsed(arguments)
            if arguments is None and self._cut:
                self.cut_calls.append((name, call_id))
                return
        arguments = {} if arguments is None and not self._unparsed else arguments
        if not isinstance(arguments, Mapping) or not _is_finite(arguments):
            raise self.unreadable(f"the arguments of {name!r} (call {call_id!r}) are no JSON object")
        self.parts.append(Part(function_call=FunctionCall(id=call_id or None, name=name, args=dict(arguments))))

    @staticmethod
    def _parsed(text: str) -> Any:
        """Arguments that were streamed as text; None when they are no object yet."""
        if text.strip() in ("", "null"):
            return {}
        try:
            value = json.loads(text)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def _bytes(self, text: str) -> bytes:
        try:
            return b64decode(text, validate=False)
        except (binascii.Error, ValueError) as error:
            raise ValidationError("bytes of an answer are no base64", path="data") from error


def _is_url(annotation: Json) -> bool:
    return annotation.get("type") == "url_citation"


def _citation(annotation: Json) -> Citation:
    return Citation(
        start_index=_count(annotation, "start_index"),
        end_index=_count(annotation, "end_index"),
        title=_text(annotation, "title") or None,
        uri=_text(annotation, "url") or None,
    )


def _is_finite(value: Any) -> bool:
    waiting = [value]  # not by recursion: the value comes from a remote service
    while waiting:
        item = waiting.pop()
        if isinstance(item, float) and not isfinite(item):
            return False
        if isinstance(item, Mapping):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return True


def _first(errors: list[Json]) -> Json:
    return errors[0] if errors else {}


def objects_in(value: Json, name: str) -> list[Json]:
    """The objects of a list; what is none of them is not there."""
    found = value.get(name)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _text(value: Json, name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def _count(value: Json, name: str) -> int | None:
    found = value.get(name)
    return found if type(found) is int and found >= 0 else None
