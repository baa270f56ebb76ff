"""Service URLs: their scheme, and their form without secrets (services URL-1, URL-3)."""

from __future__ import annotations

import re

from hookwork.errors import ConfigurationError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
# A password with an unescaped slash in it is hidden too: from the first colon to the last @.
_USER_INFO = re.compile(r"(?s)(?<=://)(?:[^/?#\s@]*:.*@|[^/?#\s]*@)")
_LEADING_USER_INFO = re.compile(r"(?s)^.*@")
_DELIMITERS = frozenset("?#;")
# Name and value of an option. A value ends only at & or #: an unescaped ; or blank in a secret must not uncover its
# rest, and neither must an & that no name and = follow.
_OPTION = re.compile(r"([?&;])([^=&;#?]*)=([^&#]*(?:&[^=&#]*(?=[&#]|$))*)")
_SECRET_NAME = re.compile(r"(?i)pass(?:word|wd|phrase|code)|pwd|token|secret|key|signature|credential|authori[sz]ation")
# Too short to be looked for inside other words.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]")
_SECRET_WORDS = frozenset({"auth", "bearer", "cookie", "jwt", "pass", "pin", "sas", "sig"})

_EXAMPLES = {
    "sessions": "'memory:' or 'sqlite:///sessions.db'",
    "artifacts": "'memory:' or 'file:///folder'",
    "memory": "'memory:' or 'sqlite:///memory.db'",
}


def scheme_of(url: str, kind: str) -> str:
    """The lower-cased scheme of a service URL.

    Args:
        url: e.g. ``sqlite:///sessions.db``.
        kind: ``sessions``, ``artifacts`` or ``memory``; for the error's text.

    Raises:
        ConfigurationError: there is no scheme, or only a drive letter.
    """
    match = _SCHEME.match(url)
    if match is None or len(match[1]) == 1:
        what = "starts with a drive letter" if match is not None else "has no scheme"
        raise ConfigurationError(
            f"{kind} URL {redact_url(url)!r} {what}; write it like {_EXAMPLES.get(kind, 'scheme:///path')}"
        )
    return match[1].lower()


def redact_url(url: str) -> str:
    """The URL with user name, password, the values of secret options and the fragment as ``***``; texts show no more.

    Options are those of the query and of ``;name=value`` parameters; what follows a secret one up to the next ``&`` is
    taken for a part of it.
    """
    users = _USER_INFO if "://" in url else _LEADING_USER_INFO
    for match in users.finditer(url):
        if not _DELIMITERS.isdisjoint(match[0]):
            # A password with a ? in it, or an option with an @? Nobody can tell, so neither is shown.
            return f"{url[: match.start()]}***"
    shown, mark, _ = users.sub("***@", url).partition("#")
    return _options_redacted(shown) + (f"{mark}***" if mark else "")


def _options_redacted(text: str) -> str:
    """The text with the values of secret options hidden; one that is none is looked into, as it may hold a ``;``."""
    pieces, at = [], 0
    while (match := _OPTION.search(text, at)) is not None:
        if _is_secret(match[2], match[3]):
            pieces.append(f"{text[at : match.start(3)]}***")
            at = match.end()
        else:
            pieces.append(text[at : match.start(3)])
            at = match.start(3)
    return "".join([*pieces, text[at:]])


def _is_secret(name: str, value: str) -> bool:
    """Whether an option must be hidden: by its name, or because its value is a URL with user info."""
    if "%" in name or "%" in value:
        from urllib.parse import unquote  # 10 ms of import, for what is seldom there

        name, value = unquote(name), unquote(value)
    if _SECRET_NAME.search(name) or not _SECRET_WORDS.isdisjoint(_HUMP.sub("_", name).lower().split("_")):
        return True
    return "://" in value and "@" in value
