"""What a part remembers of the item it came in, under the key ``openai`` of its part metadata.

Kept: the phase of a message (models SDK-12) and reasoning that can be handed back (models OAI-34).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.records.content import Part
from hookwork.records.frozen import thaw

KEY = "openai"


def phase_metadata(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Metadata for the texts of a message item; None when it has no phase."""
    phase = item.get("phase")
    return {KEY: {"phase": phase}} if isinstance(phase, str) and phase else None


def reasoning_metadata(item: Mapping[str, Any], provider: str) -> dict[str, Any] | None:
    """Metadata for the thoughts of a reasoning item; None when it cannot be handed back.

    ``provider``: who gave it. What one service encrypted, another refuses.
    """
    if not item.get("id") or not item.get("encrypted_content"):
        return None
    summary = [entry for entry in item.get("summary") or () if isinstance(entry, Mapping)]
    kept = {
        "id": item["id"],
        "encrypted_content": item["encrypted_content"],
        "summary": thaw(summary),
        "provider": provider,
    }
    return {KEY: {"reasoning": kept}}


def phase_of(part: Part) -> str | None:
    """The phase of the message that a text came in."""
    phase = _own(part).get("phase")
    return phase if isinstance(phase, str) else None


def reasoning_of(part: Part, provider: str) -> dict[str, Any] | None:
    """The reasoning item that a thought came in, as it is handed back to the provider that gave it."""
    kept = _own(part).get("reasoning")
    if not isinstance(kept, Mapping) or not kept.get("id") or not kept.get("encrypted_content"):
        return None
    if kept.get("provider", provider) != provider:
        return None
    return {
        "type": "reasoning",
        "id": kept["id"],
        "summary": thaw(kept.get("summary") or []),
        "encrypted_content": kept["encrypted_content"],
    }


def _own(part: Part) -> Mapping[str, Any]:
    own = (part.part_metadata or {}).get(KEY)
    return own if isinstance(own, Mapping) else {}
