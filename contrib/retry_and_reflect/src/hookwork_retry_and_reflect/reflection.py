"""What the model reads about a failed call (tools-plugins SP-01)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: ``response_type`` of these results; other ADKs' front ends know it.
RESPONSE_TYPE = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"

_CHECKLIST = """\
Before you call again, consider:
1. Arguments: are all required ones given, of the right type, and within what the tool accepts?
2. State: does the call need something that is missing, or that an earlier step has to do first?
3. Another way: would another tool, or other arguments, reach the same end?
4. Smaller steps: can the task be split into calls that are easier to get right?
5. The name: is this the tool you meant? A name that does not exist fails again however often it is called.
Do not repeat exactly the same call."""


def retry(tool: str, error: Any, args: Mapping[str, Any], count: int, limit: int) -> dict[str, Any]:
    """The result that asks for another, better attempt; ``count`` from 1."""
    guidance = f"{_failed(tool, error, args)}\nThis is attempt {count} of {limit} to get it right.\n{_CHECKLIST}"
    return _result(error, count, guidance)


def give_up(tool: str, error: Any, args: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The result that asks to stop using the tool."""
    guidance = (
        f"{_failed(tool, error, args)}\nThe tool {tool!r} has failed more often than the {limit} retries it is given. "
        "Do not call it again for this task. Go on with what you know or with other tools, or tell the user plainly "
        "what could not be done and why."
    )
    return _result(error, limit, guidance)


def _failed(tool: str, error: Any, args: Mapping[str, Any]) -> str:
    # A model's arguments are JSON; what a hook put there is shown by its repr.
    shown = json.dumps(args, ensure_ascii=False, default=repr)
    return f"The call of the tool {tool!r} failed.\nError: {_type(error)}: {error}\nArguments: {shown}"


def _result(error: Any, count: int, guidance: str) -> dict[str, Any]:
    return {
        "response_type": RESPONSE_TYPE,
        "error_type": _type(error),
        "error_details": str(error),
        "retry_count": count,
        "reflection_guidance": guidance,
    }


def _type(error: Any) -> str:
    return type(error).__name__ if isinstance(error, BaseException) else "ToolError"
