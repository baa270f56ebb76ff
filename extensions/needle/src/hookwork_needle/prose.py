"""Sentences that the engine cannot write: tool results as text, and what it can be asked (parts ECO-LLM-1b)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hookwork.records.content import FunctionResponse
from hookwork.records.request import FunctionDeclaration

_LISTED = 10
_LONGEST = 2000


def report(results: Iterable[FunctionResponse]) -> str:
    """What the tools gave, one line each."""
    return "\n".join(_line(result) for result in results)


def _line(result: FunctionResponse) -> str:
    response = result.response
    name = result.name or "tool"
    if not response:
        return f"{name}: done."
    if set(response) == {"error"}:
        return f"{name} failed: {_value(response['error'])}"
    value = response["result"] if set(response) == {"result"} else response
    return f"{name}: {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} {_value(item)}" for key, item in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        text = "; ".join(_value(item) for item in value)
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    else:
        text = "none" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def offer(tools: Sequence[FunctionDeclaration]) -> str:
    """What to say when no tool fits: the model answers by tools only."""
    if not tools:
        return "I answer by calling tools, and this agent has none that I may call."
    known = "; ".join(_purpose(tool) for tool in tools[:_LISTED])
    more = f"; and {len(tools) - _LISTED} more" if len(tools) > _LISTED else ""
    return f"None of my tools fits this. What I can do: {known}{more}."


def _purpose(tool: FunctionDeclaration) -> str:
    first = (tool.description or "").strip().split("\n")[0].rstrip(".")
    return f"{first} ({tool.name})" if first else str(tool.name)
