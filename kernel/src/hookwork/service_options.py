"""Options of a service, from its URL's query and its extension's settings table (services URL-2, URL-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hookwork.errors import ConfigurationError

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


class Option(NamedTuple):
    """How an option's text is read (ValueError: it cannot be), its type in settings, what to call that in an error."""

    read: Callable[[str], Any]
    kind: type
    called: str


def _whole_number(text: str) -> int:
    return int(text, 10)


def _switch(text: str) -> bool:
    lowered = text.lower()
    if lowered not in _TRUE | _FALSE:
        raise ValueError(text)
    return lowered in _TRUE


WHOLE_NUMBER = Option(_whole_number, int, "a whole number")
SWITCH = Option(_switch, bool, "true or false")
SECONDS = Option(float, float, "a number of seconds")


def words(*allowed: str) -> Option:
    """An option that is one of some words; its service refuses others, since objects are built without a URL too."""
    return Option(str, str, " or ".join(repr(word) for word in allowed))


def options_of(
    query: str,
    settings: Mapping[str, Any] | None,
    options: Mapping[str, Option],
    *,
    extension: str,
    at: str,
    others: Mapping[str, Option] | None = None,
) -> dict[str, Any]:
    """Keyword arguments for a service: the query of its URL over ``[tool.hookwork.<extension>]``.

    Args:
        query: what follows ``?`` in the URL, still encoded.
        settings: the extension's table.
        options: those of this service.
        at: what errors call the URL, without secrets; e.g. ``sessions URL 'memory:'``.
        others: options of the extension's other services; legal in the table, not in the query.

    Raises:
        ConfigurationError: an unknown or repeated option, or a value of the wrong type.
    """
    found = _from_settings(settings or {}, options, {**(others or {}), **options}, f"[tool.hookwork.{extension}]")
    if query:
        found.update(_from_query(query, options, at))
    return found


def _from_settings(
    settings: Mapping[str, Any], options: Mapping[str, Option], known: Mapping[str, Option], at: str
) -> dict[str, Any]:
    for name, value in settings.items():
        option = known.get(name)
        if option is None:
            raise ConfigurationError(f"{at}: unknown option {name!r}{_nearest(name, list(known))}")
        if type(value) is not option.kind and not (option.kind is float and type(value) is int):
            raise ConfigurationError(f"{at}: {name} must be {option.called}, not {value!r}")
    return {name: value for name, value in settings.items() if name in options}


def _from_query(query: str, options: Mapping[str, Option], at: str) -> dict[str, Any]:
    from urllib.parse import parse_qsl

    found: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        option = options.get(name)
        if option is None:
            raise ConfigurationError(f"{at}: unknown option {name!r}{_nearest(name, list(options))}")
        if name in found:
            raise ConfigurationError(f"{at}: option {name!r} is given twice; keep one")
        try:
            found[name] = option.read(text)
        except ValueError:
            raise ConfigurationError(f"{at}: {name} must be {option.called}, not {text!r}") from None
    return found


def _nearest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.4)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"
