"""Whether a request is the recorded one, as far as it matters (crosscutting CONF-6)."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

from hookwork_record_replay.adk.forms import normal_form

#: Lines of a difference that an error shows.
_SHOWN = 40
_IGNORED = frozenset({"labels", "parameters", "parameters_json_schema", "response_json_schema", "thought_signature"})
#: Its description lists the agents one may go to, in words of each implementation.
_TRANSFER = "transfer_to_agent"


def difference(recorded: Any, made: Any) -> str:
    """What differs, as a unified diff; empty when nothing does."""
    one, other = (_lines(comparable(normal_form(value))) for value in (recorded, made))
    if one == other:
        return ""
    lines = list(unified_diff(one, other, "recorded", "this call", n=2, lineterm=""))
    left_out = len(lines) - _SHOWN
    return "\n".join(lines[:_SHOWN] + ([f"… {left_out} more lines"] if left_out > 0 else []))


def comparable(value: Any) -> Any:
    """What is compared of a value in normal form: ids of calls, schemas and how things are put are not."""
    if isinstance(value, str):
        return _data_in(value)
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    every = {key: comparable(item) for key, item in value.items() if key not in _IGNORED}
    found = {key: item for key, item in every.items() if item not in ({}, [])}  # absent equals empty
    if "function_declarations" in found:
        found["function_declarations"] = [_declaration(one) for one in found["function_declarations"]]
    for key in ("function_call", "function_response"):
        if isinstance(found.get(key), dict):
            found[key] = {name: item for name, item in found[key].items() if name != "id"}
    return found


def _declaration(declaration: Any) -> Any:
    """A declaration is its name and the words of its description."""
    if not isinstance(declaration, dict):
        return declaration
    kept = {name: item for name, item in declaration.items() if name != "response"}
    if declaration.get("name") == _TRANSFER:
        kept.pop("description", None)
    elif isinstance(kept.get("description"), str):
        kept["description"] = " ".join(kept["description"].split())
    return kept


def _data_in(text: str) -> Any:
    """A text that is JSON, or a literal of Python, as its value: implementations write the same data otherwise."""
    bare = text.strip()
    if not bare.startswith(("{", "[")):
        return text
    try:
        return comparable(json.loads(bare))
    except ValueError:
        pass
    try:
        return comparable(ast.literal_eval(bare))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=repr).splitlines()
