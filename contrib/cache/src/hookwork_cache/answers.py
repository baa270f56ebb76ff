"""Which answers are kept, and how they come back (tools-plugins SP-40)."""

from __future__ import annotations

from hookwork import ModelResponse, Part

#: `custom_metadata` key of an answer that came from the cache.
METADATA_KEY = "hookwork_cache"


def is_complete(response: ModelResponse, *, tools: bool) -> bool:
    """The model said all it wanted to say; one that was cut off at a limit did not. ``tools``: calls may be kept."""
    content = response.content
    if response.error_code or response.interrupted or content is None or not content.parts:
        return False
    if response.finish_reason not in (None, "STOP"):
        return False
    return tools or not content.function_calls


def as_hit(response: ModelResponse) -> ModelResponse:
    """A kept answer as it is given: marked, and without usage, because it cost nothing (models USE-1)."""
    metadata = {**(response.custom_metadata or {}), METADATA_KEY: "hit"}
    return response.replace(custom_metadata=metadata, usage_metadata=None)


def without_ids(response: ModelResponse) -> ModelResponse:
    """The answer with calls that get new ids each time they are made."""
    content = response.content
    if content is None or not content.function_calls:
        return response
    return response.replace(content=content.replace(parts=[_without_id(part) for part in content.parts]))


def _without_id(part: Part) -> Part:
    call = part.function_call
    return part if call is None else part.replace(function_call=call.replace(id=None))
