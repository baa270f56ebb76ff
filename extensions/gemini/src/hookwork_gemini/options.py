"""Options of a model from ``[tool.hookwork.gemini]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError


class _Table(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The keys of the table and their types; the meaning is that of the arguments of `GeminiModel`."""

    api_key: str | None = None
    vertexai: bool | None = None
    project: str | None = None
    location: str | None = None
    base_url: str | None = None
    api_version: str | None = None
    timeout: float | None = None
    headers: dict[str, str] | None = None
    retry: bool | int | dict[str, Any] | None = None
    context_cache: bool | dict[str, Any] | None = None
    interactions: bool | dict[str, Any] | None = None
    unsupported: str | None = None


def options_from(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for `GeminiModel`.

    Raises:
        ConfigurationError: an unknown key, with the nearest known one, or a wrong type.
    """
    known = _Table.__struct_fields__
    for key in settings:
        if key not in known:
            raise ConfigurationError(
                f"[tool.hookwork.gemini]: unknown key {key!r}{did_you_mean(key, known)}; known keys: {', '.join(known)}"
            )
    try:
        table = msgspec.convert(dict(settings), _Table)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"[tool.hookwork.gemini]: {error}") from error
    given = {name: getattr(table, name) for name in known}
    return {name: value for name, value in given.items() if value is not None}
