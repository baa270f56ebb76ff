"""Contents as chat messages (models CHAT-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork_openai.call import Call, is_reasoning_model
from hookwork_openai.call_ids import CallIds
from hookwork_openai.json_text import json_text
from hookwork_openai.media import inline_item, response_items, uri_item
from hookwork_openai.metadata import extra_content_of, thought_field_of
from hookwork_openai.responses.items import code_text, wire_role

#: Where compatible servers show thoughts, and take them back.
THOUGHT_FIELDS = ("reasoning_content", "reasoning")


def messages(call: Call, contents: Sequence[Content], system: str | None) -> list[dict[str, Any]]:
    """The ``messages`` list of a request; every response stands directly behind the message with its call.

    Raises:
        ModelError: nothing to send, a role or part that cannot be sent, a response without its call.
    """
    builder = _Messages(call)
    for content in contents:
        builder.add(content)
    said = builder.as_messages()
    if not said:
        raise call.refused("no_contents", "there is nothing to send; give at least one content with a text")
    if system is None:
        return said
    role = "developer" if call.official and is_reasoning_model(call.model) else "system"
    return [{"role": role, "content": system}, *said]


def without_thoughts(body: dict[str, Any]) -> dict[str, Any]:
    """A request body whose messages hold no thoughts; the body itself when there are none."""
    if not any(field in message for message in body["messages"] for field in THOUGHT_FIELDS):
        return body
    kept = [{k: v for k, v in message.items() if k not in THOUGHT_FIELDS} for message in body["messages"]]
    return {**body, "messages": kept}


class _Turn:
    """Neighbouring contents of one role, and the responses to the calls in them by wire id."""

    __slots__ = ("answers", "calls", "items", "role", "texts", "thoughts")

    def __init__(self, role: str) -> None:
        self.role = role
        #: what a message holds beside text, in order with the texts around it.
        self.items: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.answers: dict[str, dict[str, Any]] = {}
        #: the model's own thoughts, by the field they came in.
        self.thoughts: dict[str, str] = {}

    def add_text(self, text: str) -> None:
        self.texts.append(text)
        self.items.append({"type": "text", "text": text})

    def as_message(self) -> dict[str, Any] | None:
        only_text = len(self.texts) == len(self.items)
        content: Any = ("\n".join(self.texts) or None) if only_text else self.items
        if content is None and not self.calls:
            return None
        message: dict[str, Any] = {"role": self.role, "content": content}
        if self.calls:
            message["tool_calls"] = self.calls
        message.update(self.thoughts)
        return message


class _Messages:
    """Builds the messages of one request."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._ids = CallIds(call)
        self._turns: list[_Turn] = []
        #: wire id of a call → the turn that it stands in.
        self._turn_of: dict[str, _Turn] = {}

    def as_messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for turn in self._turns:
            message = turn.as_message()
            if message is None:
                continue
            found.append(message)
            for tool_call in turn.calls:
                answer = turn.answers.get(tool_call["id"])
                if answer is not None:
                    found.append(answer)
        return found

    def add(self, content: Content) -> None:
        if not content.parts:
            return
        role = wire_role(self._call, content)
        answers_only = all(part.function_response is not None for part in content.parts)
        turn = None if answers_only else self._turn(role)
        media: list[dict[str, Any]] = []
        for part in content.parts:
            if part.function_response is not None:
                media.extend(self._answer(part.function_response))
            elif turn is not None:
                self._part(turn, part)
        if media:
            self._turn("user").items.extend(media)

    def _turn(self, role: str) -> _Turn:
        """The turn that a content of a role goes into: the last one, unless the role changes or answers came since."""
        last = self._turns[-1] if self._turns else None
        if last is None or last.role != role or last.answers:
            last = _Turn(role)
            self._turns.append(last)
        return last

    def _part(self, turn: _Turn, part: Part) -> None:
        if part.function_call is not None:
            self._function_call(turn, part, part.function_call)
        elif part.thought:
            field = thought_field_of(part, self._call.provider, self._call.model)
            if field and part.text:
                turn.thoughts[field] = turn.thoughts.get(field, "") + part.text
        elif part.text is not None:
            if part.text.strip():
                turn.add_text(part.text)
        elif part.inline_data is not None:
            self._media(turn, inline_item(self._call, part.inline_data))
        elif part.file_data is not None:
            self._media(turn, uri_item(self._call, part.file_data))
        elif (text := code_text(part)) is not None:
            turn.add_text(text)
        elif part.extra:
            raise self._call.refused(
                "unsupported_part", f"a part holds {sorted(part.extra)[0]!r}, which cannot be sent"
            )

    def _media(self, turn: _Turn, item: dict[str, Any]) -> None:
        if turn.role == "assistant":
            raise self._call.refused("unsupported_part", "media in a model's turn cannot be sent back")
        turn.items.append(item)

    def _function_call(self, turn: _Turn, part: Part, function_call: FunctionCall) -> None:
        if not function_call.name:
            raise self._call.refused("function_call_missing_name", "a function call in the contents has no name")
        wire = self._ids.of_call(function_call.id)
        function = {"name": self._call.names.wire(function_call.name), "arguments": json_text(function_call.args or {})}
        said: dict[str, Any] = {"id": wire, "type": "function", "function": function}
        extra = extra_content_of(part, self._call.provider, self._call.model)
        if extra is not None:
            said["extra_content"] = extra
        turn.calls.append(said)
        self._turn_of[wire] = turn

    def _answer(self, response: FunctionResponse) -> list[dict[str, Any]]:
        """Put a response behind its call, in place of an earlier one (OAI-10); the media that no tool message takes."""
        wire, _ = self._ids.of_response(response.id, response.name)
        answer = {"role": "tool", "tool_call_id": wire, "content": json_text(response.response)}
        self._turn_of[wire].answers[wire] = answer
        return response_items(self._call, response.parts) if response.parts else []
