"""Contents as input items (models OAI-1…14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork_openai.call import Call
from hookwork_openai.call_ids import CallIds
from hookwork_openai.json_text import json_text
from hookwork_openai.media import inline_item, response_items, uri_item
from hookwork_openai.metadata import phase_of, reasoning_of

_ROLES = {"": "user", "user": "user", "model": "assistant", "system": "system", "developer": "developer"}


def input_items(call: Call, contents: Sequence[Content]) -> list[dict[str, Any]]:
    """The ``input`` list of a request.

    Raises:
        ModelError: nothing to send, a role or part that cannot be sent, a response without its call.
    """
    builder = _Items(call)
    for content in contents:
        builder.add(content)
    if not builder.items:
        raise call.refused("no_contents", "there is nothing to send; give at least one content with a text")
    return builder.items


def wire_role(call: Call, content: Content) -> str:
    """The role of a content on the wire.

    Raises:
        ModelError: a role that the API does not have.
    """
    role = _ROLES.get(content.role or "")
    if role is None:
        raise call.refused("unsupported_role", f"a content has the role {content.role!r}; use 'user' or 'model'")
    return role


class _Items:
    """Builds the items of one request."""

    def __init__(self, call: Call) -> None:
        self.items: list[dict[str, Any]] = []
        self._call = call
        self._ids = CallIds(call)
        #: wire id of a call → its output item, so that a later response takes its place (OAI-10).
        self._outputs: dict[str, dict[str, Any]] = {}
        self._role = "user"
        self._message: list[dict[str, Any]] = []
        self._phase: str | None = None
        self._replayed: set[str] = set()

    def add(self, content: Content) -> None:
        if not content.parts:
            return
        self._role = wire_role(self._call, content)
        for part in content.parts:
            self._part(part)
        self._flush()
        # A reasoning item belongs to what it led to; the API refuses one that leads nowhere.
        while self.items and self.items[-1]["type"] == "reasoning":
            self.items.pop()

    def _part(self, part: Part) -> None:
        if part.function_call is not None:
            self._flush()
            self._function_call(part.function_call)
        elif part.function_response is not None:
            self._flush()
            self._function_response(part.function_response)
        elif part.thought:
            self._thought(part)
        elif part.text is not None:
            self._text(part.text, phase_of(part))
        elif part.inline_data is not None:
            self._media(inline_item(self._call, part.inline_data))
        elif part.file_data is not None:
            self._media(uri_item(self._call, part.file_data))
        elif (text := code_text(part)) is not None:
            self._text(text, None)
        elif part.extra:
            raise self._call.refused(
                "unsupported_part", f"a part holds {sorted(part.extra)[0]!r}, which cannot be sent"
            )

    def _function_call(self, function_call: FunctionCall) -> None:
        if not function_call.name:
            raise self._call.refused("function_call_missing_name", "a function call in the contents has no name")
        self.items.append(
            {
                "type": "function_call",
                "call_id": self._ids.of_call(function_call.id),
                "name": self._call.names.wire(function_call.name),
                "arguments": json_text(function_call.args or {}),
            }
        )

    def _function_response(self, response: FunctionResponse) -> None:
        wire, repeated = self._ids.of_response(response.id, response.name)
        output: Any = json_text(response.response)
        if response.parts:
            media = response_items(self._call, response.parts)
            output = [{"type": "input_text", "text": output}, *media]
        item = {"type": "function_call_output", "call_id": wire, "output": output}
        if repeated:
            self._outputs[wire].update(item)
        else:
            self._outputs[wire] = item
            self.items.append(item)

    def _thought(self, part: Part) -> None:
        """A thought goes back only as the reasoning item it came in; as prose it would be read as an answer."""
        item = reasoning_of(part, self._call.provider)
        if item is not None and item["id"] not in self._replayed:
            self._replayed.add(item["id"])
            self._flush()
            self.items.append(item)

    def _text(self, text: str, phase: str | None) -> None:
        if not text or text.isspace():
            return
        if phase != self._phase:
            self._flush()
            self._phase = phase
        kind = "output_text" if self._role == "assistant" else "input_text"
        self._message.append({"type": kind, "text": text})

    def _media(self, item: dict[str, Any]) -> None:
        if self._role == "assistant":
            raise self._call.refused("unsupported_part", "media in a model's turn cannot be sent back")
        self._message.append(item)

    def _flush(self) -> None:
        message, self._message = self._message, []
        phase, self._phase = self._phase, None
        if not message:
            return
        item: dict[str, Any] = {"type": "message", "role": self._role, "content": message}
        if self._role == "assistant":
            # The API takes no input_text here (T-11); one text is sent as a plain string.
            if len(message) == 1:
                item["content"] = message[0]["text"]
            if phase is not None:
                item["phase"] = phase
        self.items.append(item)


def code_text(part: Part) -> str | None:
    """Code that a model's own executor ran, or what it gave, as a text block (models OAI-13)."""
    code = part.executable_code
    if code is not None:
        return f"```{(code.language or '').lower().replace('language_unspecified', '')}\n{code.code or ''}\n```"
    result = part.code_execution_result
    if result is not None:
        return f"```\n{result.outcome or 'OUTCOME_UNSPECIFIED'}\n{result.output or ''}\n```"
    return None
