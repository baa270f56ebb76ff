"""What a part remembers of the item it came in, under the key ``openai`` of its part metadata.

Kept: the phase of a message (models SDK-12) and reasoning that can be handed back (models OAI-34).
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
