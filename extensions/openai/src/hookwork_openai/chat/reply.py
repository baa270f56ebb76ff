"""A chat completion as one whole ModelResponse (models CHAT-3, CHAT-6); streams end here too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookwork.platform import new_uuid
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.metadata import ModelResponse
from hookwork_modelkit.aggregation import StreamAggregator
from hookwork_openai.annotations import citation_metadata, logprobs_result
from hookwork_openai.arguments import BadArguments, parse_arguments, read_arguments
from hookwork_openai.call import Call
from hookwork_openai.errors import service_error
from hookwork_openai.metadata import call_metadata, thought_metadata
from hookwork_openai.reading import object_in, objects_in, said_of, text_in
from hookwork_openai.usage import chat_usage

_FINISH_REASONS = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "function_call": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}
_FENCED = re.compile(r"\s*```[\w-]*\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


def whole_response(
    call: Call, completion: Any, *, declared: frozenset[str] = frozenset(), started: bool = False, reason: str = ""
) -> ModelResponse:
    """The ModelResponse of a completion object, streamed or not.

    Args:
        declared: names of the request's functions, for calls that were written as text (models CHAT-6).
        started: partial responses were yielded before.
        reason: the finish reason of a stream that ended without one.

    Raises:
        ModelError: the object is an error, or nothing in it can be used.
    """
    if not isinstance(completion, Mapping):
        raise call.unreadable("empty_response", "the service gave no completion object")
    choices = objects_in(completion, "choices")
    failed = object_in(completion, "error") or (object_in(choices[0], "error") if choices else {})
    if failed:
        raise service_error(call, failed, started=started)
    if not choices:
        raise call.unreadable("no_output_items", "the completion holds no choice")
    first = choices[0]
    finish = reason or _finish_reason(first.get("finish_reason"))
    message = object_in(first, "message")
    reader = _Message(call, cut=finish in ("MAX_TOKENS", "SAFETY"))
    reader.read(message)
    if call.options.parse_text_calls:
        reader.find_written_call(declared)
    says_nothing = not reader.parts and not reader.cut_calls and finish == "STOP"
    if says_nothing and first.get("finish_reason") != "stop":  # an empty stop is for the flow to judge (models MOD-13)
        raise call.unreadable("no_usable_output", "the completion holds neither text nor calls")
    return _folded(call, completion, first, reader, finish)


def _finish_reason(said: Any) -> str:
    """Some compatible servers leave the reason out of a whole answer: then it stopped by itself."""
    return _FINISH_REASONS.get(said, "OTHER") if said and isinstance(said, str) else "STOP"


def _folded(
    call: Call, completion: Mapping[str, Any], choice: Mapping[str, Any], reader: _Message, finish: str
) -> ModelResponse:
    """One whole response, put together as a stream would be: so both ways give the same."""
    whole = StreamAggregator(provider=call.provider, model=call.model)
    usable = bool(reader.parts) or finish == "STOP"
    whole.add(
        ModelResponse(
            content=Content(role="model", parts=reader.parts),
            finish_reason=finish,
            error_code=None if usable else finish,
            usage_metadata=chat_usage(completion.get("usage")),
            citation_metadata=citation_metadata(reader.annotations),
            logprobs_result=logprobs_result(objects_in(object_in(choice, "logprobs"), "content")),
            model_version=text_in(completion, "model") or None,
        )
    )
    for name, call_id in reader.cut_calls:
        whole.cut_call(name, call_id)
    whole.custom_metadata.update(said_of(completion))
    return whole.finish()


class _Message:
    """Reads the message of a choice."""

    def __init__(self, call: Call, *, cut: bool) -> None:
        self._call = call
        self._cut = cut
        self.parts: list[Part] = []
        self.annotations: list[Mapping[str, Any]] = []
        self.cut_calls: list[tuple[str, str]] = []

    def read(self, message: Mapping[str, Any]) -> None:
        thought = thought_of(message)
        if thought:
            beside = thought_metadata(thought_field(message), self._call.provider, self._call.model)
            self.parts.append(Part(text=thought, thought=True, part_metadata=beside))
        for text in (content_of(message), text_in(message, "refusal")):
            if text:
                self.parts.append(Part(text=text))
        self.annotations.extend(objects_in(message, "annotations"))
        calls = objects_in(message, "tool_calls")
        if not calls and object_in(message, "function_call"):
            calls = [{"function": message["function_call"]}]
        for tool_call in calls:
            self._tool_call(tool_call)

    def _tool_call(self, tool_call: Mapping[str, Any]) -> None:
        said = object_in(tool_call, "function")
        name, call_id = self._call.names.own(text_in(said, "name")), text_in(tool_call, "id")
        raw = said.get("arguments")
        if not name:
            self._call.warn("nameless call", "a function call without a name is left out")
        elif self._cut and _is_torso(raw):
            self.cut_calls.append((name, call_id))
        else:
            args = read_arguments(self._call, raw, name=name, call_id=call_id)
            beside = call_metadata(tool_call, self._call.provider, self._call.model)
            made = FunctionCall(id=call_id or None, name=name, args=args)
            self.parts.append(Part(function_call=made, part_metadata=beside))

    def find_written_call(self, declared: frozenset[str]) -> None:
        """Turn a reply that is nothing but the JSON of a call of a declared function into that call."""
        if self.cut_calls or any(part.function_call is not None for part in self.parts):
            return
        said = [part for part in self.parts if not part.thought]
        written = declared | {self._call.names.wire(name) for name in declared}
        found = written_call("".join(part.text or "" for part in said), written)
        if found is not None:
            found = found.replace(name=self._call.names.own(found.name or ""))
            thoughts = [part for part in self.parts if part.thought]
            self.parts = [*thoughts, Part(function_call=found)]


def written_call(text: str, declared: frozenset[str]) -> FunctionCall | None:
    """The call that a text, or the one fenced block it consists of, writes as ``{"name", "arguments"}``."""
    fenced = _FENCED.fullmatch(text)
    try:
        value = parse_arguments(fenced.group(1) if fenced is not None else text)
    except BadArguments:
        return None
    name, args = text_in(value, "name"), value.get("arguments", {})
    if name not in declared or not set(value) <= {"name", "arguments"}:
        return None
    try:
        return FunctionCall(id=f"adk-{new_uuid()}", name=name, args=parse_arguments(args))
    except BadArguments:
        return None


def thought_of(message: Mapping[str, Any]) -> str:
    """What a compatible server shows of its reasoning, in a message or a delta."""
    return text_in(message, thought_field(message))


def thought_field(message: Mapping[str, Any]) -> str:
    """Where it is shown."""
    return "reasoning_content" if text_in(message, "reasoning_content") else "reasoning"


def content_of(message: Mapping[str, Any]) -> str:
    """The text of a message's content: plain, or a list of parts (some servers)."""
    return text_in(message, "content") or "".join([text_in(part, "text") for part in objects_in(message, "content")])


def _is_torso(raw: Any) -> bool:
    if isinstance(raw, str) and raw.strip():
        try:
            parse_arguments(raw)
        except BadArguments:
            return True
        return False
    return not isinstance(raw, dict)
