"""The arguments of a call, out of what services write there (models OAI-28)."""

from __future__ import annotations

import json
from typing import Any

from hookwork.errors import ValidationError
from hookwork.records.frozen import freeze
from hookwork_openai.call import Call


class BadArguments(ValueError):
    """The text is no JSON object."""


def parse_arguments(raw: Any) -> dict[str, Any]:
    """The frozen arguments: JSON text of an object, or an object (compatible servers); nothing at all is ``{}``.

    Of a key that comes twice the last value counts.

    Raises:
        BadArguments: anything else, or a number that JSON cannot hold. Its text never quotes the arguments.
    """
    value = _decoded(raw) if isinstance(raw, str) else raw
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise BadArguments("they are no JSON object")
    try:
        frozen: dict[str, Any] = freeze(value)
    except ValidationError as error:
        raise BadArguments(f"JSON cannot hold a value at {error.path or 'their top'}") from error
    return frozen


def read_arguments(call: Call, raw: Any, *, name: str, call_id: str) -> dict[str, Any]:
    """`parse_arguments`, for an answer that claims to be whole.

    Raises:
        ModelError: of kind ``invalid_response``, naming function and call id.
    """
    try:
        return parse_arguments(raw)
    except BadArguments as error:
        raise call.unreadable(
            "bad_call_arguments", f"the arguments of {name!r} (call {call_id!r}) cannot be used: {error}"
        ) from error


def _decoded(text: str) -> Any:
    """The value of JSON text; numbers that JSON cannot hold (``NaN``, ``1e400``) are refused when it is frozen."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f" (character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise BadArguments(f"they are no JSON{place}") from None
