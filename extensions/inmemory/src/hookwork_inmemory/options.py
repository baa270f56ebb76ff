"""Options of the services, from a URL's query and the extension's settings table (services URL-2, URL-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hookwork.errors import ConfigurationError

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


def _whole_number(text: str) -> int:
    return int(text, 10)


def _switch(text: str) -> bool:
    lowered = text.lower()
    if lowered not in _TRUE | _FALSE:
        raise ValueError(text)
    return lowered in _TRUE


def _word(text: str) -> str:
    return text


#: kind of service → option → (how its text is read, its type, what to call that type in an error).
OPTIONS: Mapping[str, Mapping[str, tuple[Callable[[str], Any], type, str]]] = {
    "sessions": {
        "max_sessions": (_whole_number, int, "a whole number"),
        "foreign_appends": (_word, str, "'absorb' or 'refuse'"),
    },
    "artifacts": {
        "first_version": (_whole_number, int, "a whole number"),
        "nested_names": (_switch, bool, "true or false"),
        "reuse_versions": (_switch, bool, "true or false"),
    },
    "memory": {"max_results": (_whole_number, int, "a whole number")},
}


def options_of(url: str, settings: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """Keyword arguments for the service of ``kind``: the query of ``url`` over ``[tool.hookwork.inmemory]``.

    Raises:
        ConfigurationError: a host or path, an unknown or repeated option, or a value of the wrong type.
    """
    rest, _, query = url.partition(":")[2].partition("?")
    if rest not in ("", "//"):
        raise ConfigurationError(f"a {kind} URL 'memory:' takes no host or path; write memory: or memory:?option=value")
    found = _from_settings(settings or {}, kind)
    if query:
        found.update(_from_query(query, kind))
    return found


def _from_settings(settings: Mapping[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        owner = next((other for other, options in OPTIONS.items() if name in options), None)
        if owner is None:
            known = [option for options in OPTIONS.values() for option in options]
            raise ConfigurationError(f"[tool.hookwork.inmemory]: unknown option {name!r}{_nearest(name, known)}")
        _, wanted, called = OPTIONS[owner][name]
        if type(value) is not wanted:
            raise ConfigurationError(f"[tool.hookwork.inmemory]: {name} must be {called}, not {value!r}")
        if owner == kind:
            found[name] = value
    return found


def _from_query(query: str, kind: str) -> dict[str, Any]:
    from urllib.parse import parse_qsl

    options = OPTIONS[kind]
    found: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in options:
            raise ConfigurationError(f"{kind} URL 'memory:': unknown option {name!r}{_nearest(name, list(options))}")
        if name in found:
            raise ConfigurationError(f"{kind} URL 'memory:': option {name!r} is given twice; keep one")
        read, _, called = options[name]
        try:
            found[name] = read(text)
        except ValueError:
            raise ConfigurationError(f"{kind} URL 'memory:': {name} must be {called}, not {text!r}") from None
    return found


def _nearest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.4)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"
