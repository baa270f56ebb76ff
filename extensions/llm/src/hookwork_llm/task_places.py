"""Where a delegation stands (activations §4)."""

from __future__ import annotations

_ENCODED = str.maketrans({"%": "%25", "/": "%2F", "@": "%40", "~": "%7E"})


def task_segment(agent_name: str, call_id: str, occurrence: int) -> str:
    """The path segment of a delegation: the call id, with ``~n`` when the id was used before.

    ``/ @ ~ %`` of an id are percent-encoded, so that no id looks like a path or like another's second use.
    """
    return f"{agent_name}@{call_id.translate(_ENCODED)}" + (f"~{occurrence}" if occurrence > 1 else "")
