"""Options of the services, from a URL's query and the extension's settings table (services URL-2, URL-3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.errors import ConfigurationError
from hookwork.service_options import SECONDS, SWITCH, WHOLE_NUMBER, Option, words
from hookwork.service_options import options_of as read_options

#: kind of service → its options.
OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "sessions": {"max_sessions": WHOLE_NUMBER, "foreign_appends": words("absorb", "refuse")},
    "artifacts": {
        "first_version": WHOLE_NUMBER,
        "nested_names": SWITCH,
        "reuse_versions": SWITCH,
        "keep_versions": WHOLE_NUMBER,
        "max_age": SECONDS,
    },
    "memory": {"max_results": WHOLE_NUMBER},
}


def options_of(url: str, settings: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """Keyword arguments for the service of ``kind``: the query of ``url`` over ``[tool.hookwork.inmemory]``.

    Raises:
        ConfigurationError: a host or path, an unknown or repeated option, or a value of the wrong type.
    """
    rest, _, query = url.partition(":")[2].partition("?")
    if rest not in ("", "//"):
        raise ConfigurationError(f"a {kind} URL 'memory:' takes no host or path; write memory: or memory:?option=value")
    return read_options(
        query,
        settings,
        OPTIONS[kind],
        extension="inmemory",
        at=f"{kind} URL 'memory:'",
        others={name: option for options in OPTIONS.values() for name, option in options.items()},
    )
