"""Contents as conversation items of a session (models RT-2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookwork.records.content import Content
from hookwork_openai.call import Call
from hookwork_openai.json_text import json_text
from hookwork_openai.responses.items import input_items


def conversation_items(call: Call, contents: Sequence[Content]) -> list[dict[str, Any]]:
    """The items that tell these contents, calls and responses paired.

    Raises:
        ModelError: nothing to send, a role or part that cannot be sent, a response without its call.
    """
    found: list[dict[str, Any]] = []
    for item in input_items(call, contents):
        kind = item["type"]
        if kind == "message":
            found.append(_message(call, item))
        elif kind == "function_call":
            found.append(item)
        elif kind == "function_call_output":
            found.extend(_output(call, item["call_id"], item["output"]))
    return found


def answer_items(call: Call, content: Content) -> list[dict[str, Any]]:
    """The items of all function responses of a content, as answers to calls of this session.

    Raises:
        ModelError: a response without the id of its call.
    """
    found: list[dict[str, Any]] = []
    for response in content.function_responses:
        if not response.id:
            raise call.refused(
                "function_response_without_call", f"the response of {response.name or 'a function'!r} names no call"
            )
        found.append({"type": "function_call_output", "call_id": response.id, "output": json_text(response.response)})
    return found


def _message(call: Call, item: dict[str, Any]) -> dict[str, Any]:
    content, role = item["content"], item["role"]
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content}]
    for piece in content:
        if piece["type"] not in ("input_text", "output_text", "input_image") or "file_id" in piece:
            raise call.refused("unsupported_part", "a Realtime session takes texts, sound and inline images, no files")
    return {"type": "message", "role": "system" if role == "developer" else role, "content": content}


def _output(call: Call, call_id: str, output: Any) -> list[dict[str, Any]]:
    """An answer is text; the images in it follow as the user's."""
    if isinstance(output, str):
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    text, *media = output
    answer = {"type": "function_call_output", "call_id": call_id, "output": text["text"]}
    return [answer, _message(call, {"role": "user", "content": media})]
