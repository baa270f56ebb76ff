"""Partial responses, as a stream shows them (models MOD-3, AGG-26, OAI-33)."""

from __future__ import annotations

from typing import Any

from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.metadata import ModelResponse
from hookwork_openai.metadata import KEY


def text_fragment(text: str, *, thought: bool = False, version: str | None = None) -> ModelResponse:
    """A piece of text or thought."""
    return _partial(Part(text=text, thought=True) if thought else Part(text=text), version)


def call_fragment(call_id: str, name: str, delta: str, *, version: str | None = None) -> ModelResponse:
    """A call whose arguments go on; what was written last is in the part's metadata, for display only."""
    call = FunctionCall(id=call_id, name=name, will_continue=True)
    metadata = {KEY: {"arguments_delta": delta}} if delta else None
    return _partial(Part(function_call=call, part_metadata=metadata), version)


def call_end(call_id: str, name: str, args: dict[str, Any], *, version: str | None = None) -> ModelResponse:
    """A call whose arguments are whole. The empty ``partial_args`` mark it as the end of its fragments."""
    return _partial(Part(function_call=FunctionCall(id=call_id, name=name, args=args, partial_args=())), version)


def _partial(part: Part, version: str | None) -> ModelResponse:
    return ModelResponse(content=Content(role="model", parts=[part]), partial=True, model_version=version)
