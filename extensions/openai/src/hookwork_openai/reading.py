"""Fields of JSON objects from outside, by the kind they should have: what is of another kind is not there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_NOTHING: Mapping[str, Any] = {}
#: Key of the metadata, behind ``openai_`` → field of the response.
_OF_ITSELF = {"response_id": "id", "model": "model", "service_tier": "service_tier"}


def text_in(value: Mapping[str, Any], name: str) -> str:
    """A text; empty when there is none."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def object_in(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object; an empty one when there is none."""
    found = value.get(name)
    return found if isinstance(found, Mapping) else _NOTHING


def objects_in(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    found = value.get(name)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list | tuple) else []


def count_in(value: Mapping[str, Any], name: str) -> int | None:
    """A whole number from 0; None when there is none."""
    found = value.get(name)
    return found if type(found) is int and found >= 0 else None


def said_of(response: Mapping[str, Any]) -> dict[str, Any]:
    """What a response says of itself, as `custom_metadata`: its id, its model, the service tier that it was given."""
    found = {f"openai_{key}": text_in(response, field) for key, field in _OF_ITSELF.items()}
    return {name: value for name, value in found.items() if value}


def number_in(value: Mapping[str, Any], name: str) -> float | None:
    """A finite number; None when there is none."""
    found = value.get(name)
    if not isinstance(found, int | float) or isinstance(found, bool):
        return None
    try:
        return float(found) if math.isfinite(found) else None
    except OverflowError:  # an integer beyond all floats
        return None
