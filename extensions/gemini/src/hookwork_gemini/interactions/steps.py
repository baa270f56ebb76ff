"""Contents as the steps of an interaction: what was said, thought, called and answered, in order.

The forms are those of ``google.genai.interactions``: ``user_input``, ``model_output``, ``thought``, ``function_call``
and ``function_result``.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from hookwork.records.content import Content, FileData, FunctionCall, FunctionResponse, Part
from hookwork.records.frozen import thaw

Json = dict[str, Any]
#: Says that something cannot be sent: gets a code and a text, and gives the error.
Refuse = Callable[[str, str], Exception]

#: Beginning of a mime type → kind of content; everything else is a document.
_KINDS = {"image/": "image", "audio/": "audio", "video/": "video"}


def steps_of(contents: Sequence[Content], refuse: Refuse) -> list[Json]:
    """The steps of a conversation.

    Raises:
        Exception: what ``refuse`` gives for a part that cannot be sent, or a response without its call.
    """
    builder = _Steps(refuse)
    for content in contents:
        builder.add(content)
    return builder.steps


class _Steps:
    """Builds the steps of one request."""

    def __init__(self, refuse: Refuse) -> None:
        self.steps: list[Json] = []
        self._refuse = refuse
        self._count = 0
        #: id in the history → ids on the wire of its calls that have no result yet, oldest first.
        self._open: dict[str, deque[str]] = {}
        self._taken: set[str] = set()
        self._results: dict[str, Json] = {}
        self._said: list[Json] = []
        self._kind = "user_input"

    def add(self, content: Content) -> None:
        """The steps of one content behind those before it."""
        self._kind = "model_output" if content.role == "model" else "user_input"
        for part in content.parts:
            self._part(part)
        self._flush()

    def _part(self, part: Part) -> None:
        if part.function_call is not None:
            self._flush()
            self._call(part.function_call, part.thought_signature)
        elif part.function_response is not None:
            self._flush()
            self._result(part.function_response)
        elif part.thought or (part.thought_signature is not None and not part.text):
            self._flush()
            self._thought(part)
        elif part.text is not None:
            if part.text:
                self._said.append({"type": "text", "text": part.text})
        elif part.inline_data is not None:
            blob = part.inline_data
            data = {"data": b64encode(blob.data or b"").decode()}
            self._said.append(_media(blob.mime_type, data))
        elif part.file_data is not None:
            self._said.append(_file(part.file_data))
        elif part.executable_code is not None:
            self._said.append({"type": "text", "text": f"```\n{part.executable_code.code or ''}\n```"})
        elif part.code_execution_result is not None:
            self._said.append({"type": "text", "text": f"```\n{part.code_execution_result.output or ''}\n```"})
        elif part.extra:
            raise self._refuse("unsupported_part", f"a part holds {sorted(part.extra)[0]!r}, which cannot be sent")

    def _flush(self) -> None:
        if self._said:
            self.steps.append({"type": self._kind, "content": self._said})
            self._said = []

    def _thought(self, part: Part) -> None:
        """A thought goes back with its signature only: without one the service cannot tell that it is its own."""
        if part.thought_signature is None:
            return
        step: Json = {"type": "thought", "signature": b64encode(part.thought_signature).decode()}
        if part.text:
            step["summary"] = [{"type": "text", "text": part.text}]
        self.steps.append(step)

    def _call(self, call: FunctionCall, signature: bytes | None) -> None:
        if not call.name:
            raise self._refuse("function_call_missing_name", "a function call in the contents has no name")
        if signature is not None:  # as generateContent gives it; here a signature stands on a step of its own
            self.steps.append({"type": "thought", "signature": b64encode(signature).decode()})
        wire = call.id if call.id and call.id not in self._taken else self._made_up()
        self._taken.add(wire)
        self._open.setdefault(call.id or "", deque()).append(wire)
        self.steps.append({"type": "function_call", "id": wire, "name": call.name, "arguments": thaw(call.args or {})})

    def _result(self, response: FunctionResponse) -> None:
        own = response.id or ""
        waiting = self._open.get(own)
        result = _result_of(response)
        if not waiting:
            answered = self._results.get(own) if own else None
            if answered is None:
                which = f"with id {own!r}" if own else "without an id"
                raise self._refuse(
                    "function_response_without_call",
                    f"the contents hold a response of {response.name or 'a function'!r} {which}, but no call it could "
                    "belong to; keep a call and its response together",
                )
            answered["result"] = result  # a later answer of a long-running tool takes the place of the first
            return
        step: Json = {"type": "function_result", "call_id": waiting.popleft(), "result": result}
        if response.name:
            step["name"] = response.name
        self._results[own] = step
        self.steps.append(step)

    def _made_up(self) -> str:
        while True:
            self._count += 1
            wire = f"call-{self._count}"
            if wire not in self._taken:
                return wire


def _result_of(response: FunctionResponse) -> Any:
    """The result as an object; with media as a list, the object first as text."""
    value = thaw(response.response or {})
    if not response.parts:
        return value
    pieces: list[Json] = [{"type": "text", "text": json.dumps(value, ensure_ascii=False)}]
    for part in response.parts:
        if part.inline_data is not None:
            data = {"data": b64encode(part.inline_data.data or b"").decode()}
            pieces.append(_media(part.inline_data.mime_type, data))
        elif part.file_data is not None:
            pieces.append(_file(part.file_data))
    return pieces


def _file(file: FileData) -> Json:
    return _media(file.mime_type, {"uri": file.file_uri or ""})


def _media(mime_type: str | None, where: Json) -> Json:
    mime = mime_type or ""
    kind = next((kind for beginning, kind in _KINDS.items() if mime.startswith(beginning)), "document")
    return {"type": kind, **({"mime_type": mime} if mime else {}), **where}
