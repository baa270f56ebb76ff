"""A model that makes the call it was told to make, so that a client's call runs the whole chain of a real turn:

plugins, approval, validation, the tool, the stored events. Nothing is asked of a language model.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from hookwork.model import Model, ModelRequest
from hookwork.records.content import Content, FunctionCall, Part, text_content
from hookwork.records.metadata import ModelResponse


def call_message(tool: str, args: Mapping[str, Any]) -> Content:
    """The user message that makes the model call a tool."""
    return Content(role="user", parts=[Part(text=json.dumps({"tool": tool, "args": dict(args)}, ensure_ascii=False))])


class PlayedModel(Model):
    """Calls the tool that the newest user text names; says nothing once there is a response."""

    name = "mcp-client"

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        last = request.contents[-1]
        if last.function_responses or not last.text:
            yield ModelResponse(content=text_content("done"), finish_reason="STOP")
            return
        wanted = json.loads(last.text)
        call = FunctionCall(name=wanted["tool"], args=wanted["args"])
        yield ModelResponse(content=Content(role="model", parts=[Part(function_call=call)]), finish_reason="STOP")
