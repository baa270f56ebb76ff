"""Schemas of what goes in and out of nodes."""

from __future__ import annotations

from typing import Any


def schemas_agree(given: Any, taken: Any) -> bool:
    """Whether what one node gives is what the next takes (GV-12)."""
    return given is Any or taken is Any or given == taken
