"""What a part remembers of the item it came in, under the key ``openai`` of its part metadata.

Kept: the phase of a message (models SDK-12), reasoning that can be handed back (models OAI-34), and what a compatible
server puts beside a tool call and wants to have back, such as Gemini's thought signatures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.records.content import Part
from hookwork.records.frozen import thaw
from hookwork_openai.reading import object_in, objects_in, text_in

KEY = "openai"


def phase_metadata(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Metadata for the texts of a message item; None when it has no phase."""
    phase = text_in(item, "phase")
    return {KEY: {"phase": phase}} if phase else None


def reasoning_metadata(item: Mapping[str, Any], provider: str) -> dict[str, Any] | None:
    """Metadata for the thoughts of a reasoning item; None when it cannot be handed back.

    ``provider``: who gave it. What one service encrypted, another refuses.
    """
    item_id, encrypted = text_in(item, "id"), text_in(item, "encrypted_content")
    if not item_id or not encrypted:
        return None
    summary = thaw(objects_in(item, "summary"))
    kept = {"id": item_id, "encrypted_content": encrypted, "summary": summary, "provider": provider}
    return {KEY: {"reasoning": kept}}


def call_metadata(tool_call: Mapping[str, Any], provider: str, model: str) -> dict[str, Any] | None:
    """Metadata for a call of Chat Completions; None when nothing stands beside it.

    Gemini's endpoint for OpenAI's clients gives a thought signature under ``extra_content`` and refuses the call
    without it (https://ai.google.dev/gemini-api/docs/thought-signatures). It is of one model: others refuse it.
    """
    extra = object_in(tool_call, "extra_content")
    if not extra:
        return None
    return {KEY: {"extra_content": thaw(extra), "provider": provider, "model": model}}


def extra_content_of(part: Part, provider: str, model: str) -> dict[str, Any] | None:
    """What stood beside a call, as it is handed back to the model that gave it."""
    kept = _own(part)
    if kept.get("provider") != provider or kept.get("model") != model:
        return None
    return thaw(object_in(kept, "extra_content")) or None


def thought_metadata(field: str, provider: str, model: str) -> dict[str, Any]:
    """Metadata for a thought that came in a field of a chat message, ``reasoning_content`` or ``reasoning``."""
    return {KEY: {"field": field, "provider": provider, "model": model}}


def thought_field_of(part: Part, provider: str, model: str) -> str:
    """The field in which a thought goes back to the model that had it; ``""`` for thoughts of others.

    Thinking models of compatible servers refuse the calls of a turn without the thoughts that led to them
    (https://api-docs.deepseek.com/guides/thinking_mode).
    """
    kept = _own(part)
    if kept.get("provider") != provider or kept.get("model") != model:
        return ""
    return text_in(kept, "field")


def phase_of(part: Part) -> str | None:
    """The phase of the message that a text came in."""
    return text_in(_own(part), "phase") or None


def reasoning_of(part: Part, provider: str) -> dict[str, Any] | None:
    """The reasoning item that a thought came in, as it is handed back to the provider that gave it."""
    kept = object_in(_own(part), "reasoning")
    item_id, encrypted = text_in(kept, "id"), text_in(kept, "encrypted_content")
    if not item_id or not encrypted or kept.get("provider", provider) != provider:
        return None
    summary = thaw(objects_in(kept, "summary"))
    return {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": encrypted}


def _own(part: Part) -> Mapping[str, Any]:
    return object_in(part.part_metadata or {}, KEY)
