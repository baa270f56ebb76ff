"""Function names as the service takes them: letters, digits, ``_`` and ``-``, at most 64 (OpenAI's API reference).

Names of MCP servers and other kits have dots, slashes, blanks or letters of any script. Such a name goes out as a
legal one and comes back as itself; the same name is the same on the wire in each request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 64


class FunctionNames:
    """The names of one request, there and back; make one per request."""

    __slots__ = ("_own", "_wire")

    def __init__(self) -> None:
        #: name in the declarations → name on the wire, where they differ.
        self._wire: dict[str, str] = {}
        #: name on the wire → name in the declarations.
        self._own: dict[str, str] = {}

    def reserve(self, names: Iterable[str]) -> None:
        """Keep the legal ones of these names for themselves: no made name may be one of them."""
        for name in names:
            if _LEGAL.fullmatch(name):
                self._own.setdefault(name, name)

    def wire(self, name: str) -> str:
        """The name as it is sent."""
        if _LEGAL.fullmatch(name):
            return name
        known = self._wire.get(name)
        if known is None:
            known = self._made(name)
            self._wire[name] = known
            self._own[known] = name
        return known

    def own(self, wire: str) -> str:
        """The name that one on the wire stands for; a name that was never sent stays as it is."""
        return self._own.get(wire, wire)

    def _made(self, name: str) -> str:
        """A readable beginning and a hash of the whole name, so that no two names meet."""
        readable = _ILLEGAL.sub("_", name).strip("_") or "function"
        salt = 0
        while True:
            digest = hashlib.sha256(f"{salt or ''}{name}".encode("utf-8", "replace")).hexdigest()[:8]
            made = f"{readable[: _LONGEST - 9]}_{digest}"
            if made not in self._own:
                return made
            salt += 1
