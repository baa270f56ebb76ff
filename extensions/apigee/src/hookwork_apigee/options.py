"""Options of a model from ``[tool.hookwork.apigee]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError


class _Table(msgspec.Struct, kw_only=True):
    """The keys of the table and their types; the meaning is that of the arguments of `ApigeeModel`."""

    proxy_url: str | None = None
    api_key: str | None = None
    project: str | None = None
    location: str | None = None
    timeout: float | None = None
    headers: dict[str, str] | None = None
    retry: bool | int | dict[str, Any] | None = None
    unsupported: str | None = None


def options_from(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for `ApigeeModel`. Raises ConfigurationError: an unknown key or a wrong type."""
    known = _Table.__struct_fields__
    for key in settings:
        if key not in known:
            raise ConfigurationError(
                f"[tool.hookwork.apigee]: unknown key {key!r}{did_you_mean(key, known)}; known keys: {', '.join(known)}"
            )
    try:
        table = msgspec.convert(dict(settings), _Table)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"[tool.hookwork.apigee]: {error}") from error
    return {name: value for name in known if (value := getattr(table, name)) is not None}
