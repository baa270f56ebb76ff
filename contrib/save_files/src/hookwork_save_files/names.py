"""Artifact names of a message's files."""

from __future__ import annotations

import re
from collections.abc import Callable

from hookwork import Part

#: (part, its position in the message, invocation id) → name.
Namer = Callable[[Part, int, str], str]

# What separates folders, names a scope (``user:``), or no file system shows.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f:]+")


def own_name(part: Part, position: int, invocation_id: str) -> str:
    """The file's own name without folders, else ``artifact_<invocation id>_<position>``."""
    given = part.inline_data.display_name if part.inline_data is not None else None
    name = _UNSAFE.sub("_", re.split(r"[/\\]", given or "")[-1]).strip(" .")
    return name or f"artifact_{invocation_id}_{position}"


def distinct(name: str, position: int, taken: set[str]) -> str:
    """The name, with the position put in if the message has a file of that name already."""
    if name not in taken:
        return name
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}_{position}{dot}{suffix}" if stem else f"{name}_{position}"
