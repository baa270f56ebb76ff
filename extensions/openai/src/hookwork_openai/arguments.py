"""The arguments of a call, out of what services write there (models OAI-28)."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

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
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadArguments):
            raise
        place = f" (character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise BadArguments(f"they are no JSON{place}") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadArguments("a number is out of range")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise BadArguments(f"JSON has no {text}")
