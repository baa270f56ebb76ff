"""Context caches on the server: the unchanged beginning of a conversation is sent, and paid for in full, once.

A cache holds instruction, tools and the first contents of a request. One is made when a request begins as an earlier
one did and that beginning was long enough; later requests that begin so name the cache and send only the rest.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

import msgspec

from hookwork.errors import ConfigurationError
from hookwork.model import ModelRequest
from hookwork.platform import now
from hookwork.records.codec import dump_json
from hookwork.records.metadata import ModelResponse
from hookwork.records.request import GenerateContentConfig
from hookwork_gemini.chosen import chosen

#: Beginnings and caches remembered by one model.
_REMEMBERED = 1_000
#: A cache this near to its end is not used any more: the call may take a while to arrive.
_MARGIN = timedelta(seconds=30)

#: Key of ``custom_metadata`` that names the cache a response was made with.
USED_CACHE = "gemini_context_cache"


class ContextCache(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When caches are made.

    Attributes:
        ttl: seconds a cache is kept on the server, and paid for.
        min_tokens: a shorter beginning is not worth one. The service refuses caches below a limit of its own (1,024
            to 4,096 tokens, by model).
        max_uses: after so many calls a new cache is made, which holds the conversation up to then.
    """

    ttl: int = 1800
    min_tokens: int = 4096
    max_uses: int = 10

    def __post_init__(self) -> None:
        if self.ttl < 60 or self.min_tokens < 1 or self.max_uses < 1:
            raise ConfigurationError(
                f"context_cache: ttl is at least 60 seconds, min_tokens and max_uses are at least 1, not {self!r}"
            )

    @classmethod
    def of(cls, value: Self | Mapping[str, Any] | bool | None) -> Self | None:
        """Settings from what a user writes: an object, a table, True for the defaults; None and False: no caches.

        Raises:
            ConfigurationError: anything else, an unknown key or a wrong type.
        """
        return chosen(cls, value, "context_cache")


class Beginning(NamedTuple):
    """The first ``length`` contents of a request, with instruction and tools, by their fingerprint."""

    length: int
    mark: str


class _Cache:
    """A cache on the server."""

    __slots__ = ("expires", "name", "uses")

    def __init__(self, name: str, expires: datetime) -> None:
        self.name = name
        self.expires = expires
        self.uses = 0


class CacheTable:
    """What one model knows of its caches. Shared by its calls: everything here is one step, without waiting."""

    __slots__ = ("_caches", "_making", "_refused", "_tokens", "settings")

    def __init__(self, settings: ContextCache) -> None:
        self.settings = settings
        self._caches: OrderedDict[str, _Cache] = OrderedDict()
        #: beginnings that were sent → their tokens, as the service counted them.
        self._tokens: OrderedDict[str, int] = OrderedDict()
        self._making: set[str] = set()
        self._refused: OrderedDict[str, None] = OrderedDict()

    def find(self, beginnings: list[Beginning]) -> tuple[Beginning, str] | None:
        """The longest beginning that a usable cache holds, and the cache's name; its use is counted."""
        for beginning in reversed(beginnings):
            cache = self._caches.get(beginning.mark)
            if cache is None:
                continue
            if cache.uses >= self.settings.max_uses or cache.expires - _MARGIN <= now():
                del self._caches[beginning.mark]
                continue
            cache.uses += 1
            return beginning, cache.name
        return None

    def wanted(self, beginnings: list[Beginning]) -> Beginning | None:
        """The longest beginning that was sent before and is worth a cache; it counts as being made from now on."""
        for beginning in reversed(beginnings):
            tokens = self._tokens.get(beginning.mark)
            if tokens is None:
                continue
            if tokens < self.settings.min_tokens or beginning.mark in self._making:
                return None
            if beginning.mark in self._refused:
                return None
            self._making.add(beginning.mark)
            return beginning
        return None

    def made(self, beginning: Beginning, name: str, expires: datetime | None) -> None:
        """A cache was made; it serves the call that made it."""
        self._making.discard(beginning.mark)
        cache = _Cache(name, expires or now() + timedelta(seconds=self.settings.ttl))
        cache.uses = 1
        _remember(self._caches, beginning.mark, cache)

    def not_made(self, beginning: Beginning, *, refused: bool) -> None:
        """No cache was made; ``refused``: the service does not want this one, so it is not asked again."""
        self._making.discard(beginning.mark)
        if refused:
            _remember(self._refused, beginning.mark, None)

    def lost(self, beginning: Beginning) -> None:
        """The service does not know the cache any more."""
        self._caches.pop(beginning.mark, None)

    def sent(self, whole: Beginning, response: ModelResponse) -> None:
        """A request was answered: its length is known now."""
        usage = response.usage_metadata
        if usage is not None and usage.prompt_token_count is not None:
            _remember(self._tokens, whole.mark, usage.prompt_token_count)

    def forget(self) -> list[str]:
        """Forget all caches; the names of those that are left on the server."""
        names = [cache.name for cache in self._caches.values()]
        self._caches.clear()
        return names


def _remember(table: OrderedDict[str, Any], key: str, value: Any) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > _REMEMBERED:
        table.popitem(last=False)


def beginnings_of(model: str, request: ModelRequest) -> list[Beginning]:
    """All beginnings of a request, the whole one last: each is told by what the service would see of it."""
    given = request.config
    fixed = GenerateContentConfig(
        system_instruction=given.system_instruction, tools=given.tools, tool_config=given.tool_config
    )
    digest = hashlib.sha256(model.encode())
    digest.update(dump_json(fixed))
    found = []
    for i, content in enumerate(request.contents, 1):
        digest.update(dump_json(content))
        found.append(Beginning(i, digest.copy().hexdigest()))
    return found
