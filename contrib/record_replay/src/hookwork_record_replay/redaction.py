"""Secrets stay out of the file and of error texts (crosscutting CONF-10)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

REDACTED = "[redacted]"

#: Globs over keys in snake_case. ``*token`` has no star behind it: token counts are no secrets.
DEFAULT_PATTERNS = (
    *("*token", "*secret*", "*password*", "*passwd*", "*authorization*", "*credential*"),
    *("*api_key*", "*apikey*", "*private_key*", "*access_key*", "cookie", "set_cookie"),
)

#: Tables whose own keys are no secrets although they are called so: log-probabilities are told by ``token``.
_PLAIN = ("logprobsResult",)

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[-.\s]+")


def _snake(key: str) -> str:
    return _SEPARATORS.sub("_", _HUMP.sub("_", key)).lower()


class Redactor:
    """Hides values of secret keys, and given secrets wherever they stand.

    Args:
        patterns: globs over keys; ``accessToken``, ``Access-Token`` and ``access_token`` are one key.
        secrets: texts that are replaced inside of any text; empty ones are left out.
        scrub: a last change to what is about to be written; it gets fresh plain JSON and gives such.
    """

    def __init__(
        self, patterns: Iterable[str], secrets: Iterable[str] = (), scrub: Callable[[Any], Any] | None = None
    ) -> None:
        self._patterns = tuple(_snake(pattern) for pattern in patterns)
        # The longest first: a secret may be a piece of another.
        self._secrets = tuple(sorted((secret for secret in secrets if secret), key=len, reverse=True))
        self._scrub = scrub

    def __call__(self, value: Any) -> Any:
        """A fresh JSON value without secrets."""
        clean = self._clean(value)
        return clean if self._scrub is None else self._scrub(clean)

    def _clean(self, value: Any, *, keys: bool = True) -> Any:
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, REDACTED)
            return value
        if isinstance(value, Mapping):
            return {self._clean(key): self._entry(key, item, keys=keys) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(item, keys=keys) for item in value]
        return value

    def _entry(self, key: str, value: Any, *, keys: bool) -> Any:
        # A table below such a key is no secret by itself: a schema may describe a parameter of that name.
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if keys and plain and value and self._hides(key):
            return REDACTED
        return self._clean(value, keys=keys and key not in _PLAIN)

    def _hides(self, key: str) -> bool:
        name = _snake(key)
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)
