"""Features that a user switches on with a word, or with their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from hookwork.errors import ConfigurationError

S = TypeVar("S", bound=msgspec.Struct)


def chosen(kind: type[S], value: S | Mapping[str, Any] | bool | None, option: str) -> S | None:
    """Settings from what a user writes: an object, a table, True for the defaults; None and False: not at all.

    ``option`` names the setting in errors.

    Raises:
        ConfigurationError: anything else, an unknown key or a wrong type.
    """
    if value is None or value is False:
        return None
    if isinstance(value, kind):
        return value
    if value is True:
        return kind()
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{option}: {error}; known keys: {', '.join(kind.__struct_fields__)}") from error
