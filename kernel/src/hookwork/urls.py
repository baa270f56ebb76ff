"""Service URLs: their scheme, and their form without secrets (services URL-1, URL-3)."""

from __future__ import annotations

import re

from hookwork.errors import ConfigurationError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
# A password with an unescaped slash in it is hidden too: from the first colon to the last @.
_USER_INFO = re.compile(r"(?<=://)(?:[^/?#\s@]*:\S*@|[^/?#\s]*@)")
_SECRET_OPTION = re.compile(r"(?i)(?<=[?&])([^=&#\s]*(?:password|passwd|pwd|token|secret|key)[^=&#\s]*)=[^&#\s]*")

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
    """The URL with user name, password and secret options replaced by ``***``; texts show nothing else."""
    if "://" not in url:
        return f"***{url[url.rindex('@') :]}" if "@" in url else url
    return _SECRET_OPTION.sub(r"\1=***", _USER_INFO.sub("***@", url))
