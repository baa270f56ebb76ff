"""The grammar of names: ``apigee/[provider/][version/]model`` (models APG-1)."""

from __future__ import annotations

from typing import NamedTuple

from hookwork.errors import ConfigurationError

PREFIX = "apigee/"
PROVIDERS = ("vertex_ai", "gemini", "openai")


class Route(NamedTuple):
    """What a name says. ``provider`` and ``version`` are ``""`` where it says nothing."""

    provider: str
    version: str
    model: str


def route_of(name: str) -> Route:
    """The route of a name. Raises ConfigurationError: it has another form."""
    segments = name.removeprefix(PREFIX).split("/")
    if name.startswith(PREFIX) and all(segments) and len(segments) <= 3:
        *leading, model = segments
        provider = leading.pop(0) if leading and leading[0] in PROVIDERS else ""
        version = leading.pop(0) if leading and leading[0].startswith("v") else ""
        if not leading:
            return Route(provider, version, model)
    raise ConfigurationError(
        f"model {name!r}: the form is apigee/[provider/][version/]model, with a provider of {', '.join(PROVIDERS)} "
        "and a version such as v1, e.g. apigee/vertex_ai/v1beta/gemini-2.5-flash"
    )
