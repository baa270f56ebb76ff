"""What of a value goes into a record: plain JSON, without secrets and without the bytes of files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

REDACTED = "[redacted]"

#: Globs over keys in snake_case. ``*token`` has no star behind it: token counts are no secrets.
DEFAULT_PATTERNS = (
    *("*token", "*secret*", "*password*", "*passwd*", "*authorization*", "*credential*"),
    *("*api_key*", "*apikey*", "*private_key*", "*access_key*", "cookie", "set_cookie"),
)

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[-.\s]+")


def snake(key: str) -> str:
    """``accessToken``, ``Access-Token`` and ``ACCESS_TOKEN`` as ``access_token``."""
    return _SEPARATORS.sub("_", _HUMP.sub("_", key)).lower()


class Redactor:
    """Turns values into plain JSON in which values of secret keys read ``[redacted]``."""

    def __init__(self, patterns: Iterable[str] = DEFAULT_PATTERNS) -> None:
        self._patterns = tuple(snake(pattern) for pattern in patterns)

    def hides(self, key: str) -> bool:
        """Whether the value of that key is a secret."""
        name = snake(key)
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def plain(self, value: Any) -> Any:
        """A fresh JSON value. What JSON cannot hold is replaced by its type's name, text that UTF-8 cannot by ``?``."""
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, str):
            return value.encode("utf-8", "replace").decode()
        if isinstance(value, float):
            return value if math.isfinite(value) else repr(value)
        if isinstance(value, bytes | bytearray):
            return f"[{len(value)} bytes]"
        if isinstance(value, Mapping):
            return {self.plain(str(key)): self._entry(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.plain(item) for item in value]
        return f"[{type(value).__name__}]"

    def _entry(self, key: str, value: Any) -> Any:
        if self.hides(key):
            return REDACTED
        if snake(key) == "inline_data" and isinstance(value, Mapping) and isinstance(value.get("data"), str):
            value = {**value, "data": f"[{len(value['data'])} characters of base64]"}
        return self.plain(value)
