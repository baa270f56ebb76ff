"""Options of the services, from a URL's query and from ``[tool.hookwork.database]`` (services URL-2 … URL-5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hookwork.errors import ConfigurationError
from hookwork.urls import redact_url

_TRUE, _FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


def _whole_number(text: str) -> int:
    number = int(text, 10)
    if number < 0:
        raise ValueError(text)
    return number


def _at_least_one(text: str) -> int:
    number = _whole_number(text)
    if not number:
        raise ValueError(text)
    return number


def _switch(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text.strip()


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return read


class Option(NamedTuple):
    """How an option's text is read, the type it has in settings, what to call it, and whom it is for."""

    read: Callable[[str], Any]
    kind: type
    called: str
    sessions: tuple[str, ...]
    memory: bool = False


_ALL = ("sqlite", "postgresql", "mysql", "mariadb")

OPTIONS: Mapping[str, Option] = {
    "foreign_appends": Option(_one_of("absorb", "refuse"), str, "'absorb' or 'refuse'", _ALL),
    "cache_sessions": Option(_whole_number, int, "a whole number from 0", _ALL),
    "key_variable": Option(_name, str, "the name of an environment variable", _ALL),
    "unsealed": Option(_switch, bool, "true or false", (), memory=True),
    "create_schema": Option(_switch, bool, "true or false", _ALL),
    "synchronous": Option(_one_of("normal", "full"), str, "'normal' or 'full'", ("sqlite",), memory=True),
    "busy_timeout": Option(_whole_number, int, "a whole number of milliseconds", ("sqlite",), memory=True),
    "max_results": Option(_at_least_one, int, "a whole number from 1", (), memory=True),
    "ranker": Option(_one_of("none", "embeddings"), str, "'none' or 'embeddings'", (), memory=True),
    "candidates": Option(_one_of("matching", "all"), str, "'matching' or 'all'", (), memory=True),
    "pool_size": Option(_at_least_one, int, "a whole number from 1", _ALL[1:]),
    "pool_timeout": Option(_whole_number, int, "a whole number of seconds", _ALL[1:]),
    "connect_timeout": Option(_whole_number, int, "a whole number of seconds", _ALL[1:]),
    "statement_timeout": Option(_whole_number, int, "a whole number of milliseconds", _ALL[1:]),
}


def options_for(dialect: str, kind: str) -> dict[str, Option]:
    """The options that services of ``kind`` (``sessions``, ``memory``) take on a dialect."""
    if kind == "memory":
        return {name: option for name, option in OPTIONS.items() if option.memory}
    return {name: option for name, option in OPTIONS.items() if dialect in option.sessions}


def split_url(url: str) -> tuple[str, str, str]:
    """(scheme, what stands between it and the query, query)."""
    scheme, _, rest = url.partition(":")
    body, _, query = rest.partition("?")
    return scheme.lower(), body, query


def read_options(
    url: str, query: str, settings: Mapping[str, Any] | None, dialect: str, kind: str, *, strict: bool
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The options of a URL over those of the settings, and what of the query is left for the driver.

    Args:
        strict: an unknown option of the query is an error; else it goes to the driver (services URL-2).

    Raises:
        ConfigurationError: an unknown or repeated option, or a value of the wrong type.
    """
    from urllib.parse import parse_qsl

    known = options_for(dialect, kind)
    found = _from_settings(settings or {}, known)
    seen: set[str] = set()
    rest: list[tuple[str, str]] = []
    at = f"{kind} URL {redact_url(url)!r}"
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            if strict:
                raise ConfigurationError(f"{at}: unknown option {name!r}{_nearest(name, list(known))}")
            rest.append((name, text))
            continue
        if name in seen:
            raise ConfigurationError(f"{at}: option {name!r} is given twice; keep one")
        seen.add(name)
        try:
            found[name] = known[name].read(text)
        except ValueError:
            raise ConfigurationError(f"{at}: {name} must be {known[name].called}, not {text!r}") from None
    return found, rest


def _from_settings(settings: Mapping[str, Any], known: Mapping[str, Option]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        option = OPTIONS.get(name)
        if option is None:
            raise ConfigurationError(
                f"[tool.hookwork.database]: unknown option {name!r}{_nearest(name, list(OPTIONS))}"
            )
        try:
            if type(value) is not option.kind:
                raise ValueError(name)
            read = option.read(str(value).lower() if option.kind is bool else str(value))
        except ValueError:
            message = f"[tool.hookwork.database]: {name} must be {option.called}, not {value!r}"
            raise ConfigurationError(message) from None
        if name in known:
            found[name] = read
    return found


def _nearest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.4)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"


def sqlite_path(url: str, body: str) -> str:
    """The file of a ``sqlite:`` URL: three slashes are relative, four absolute (services URL-5).

    Raises:
        ConfigurationError: a host, or no file.
    """
    from urllib.parse import unquote

    if body in ("", "//", "///", ":memory:", "//:memory:", "///:memory:"):
        return ":memory:"
    if not body.startswith("///"):
        raise ConfigurationError(
            f"{redact_url(url)!r} names a host; a SQLite URL has three slashes before a relative path "
            "(sqlite:///file.db) and four before an absolute one"
        )
    return unquote(body[3:])
