"""A model that answers what it was asked before from memory (models Beyond, WRP-3)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from hookwork import Model, ModelRequest, ModelResponse
from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError
from hookwork.model_streams import open_stream
from hookwork.resolve import resolve_model
from hookwork.settings import settings_in_force
from hookwork_cache.answers import as_hit, is_complete, without_ids
from hookwork_cache.keys import key_of
from hookwork_cache.store import Store, check_bounds

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hookwork import LiveConnection, LiveRunConfig

#: Options that settings may give.
_OPTIONS = ("ttl", "max_entries", "max_bytes", "include_tools")


class CachedModel(Model):
    """Asks another model only what it was not asked before; ``cached:NAME`` by name.

    A model knows no users: everybody who asks the same is answered alike. Where users must not share answers, use the
    plugin `hookwork_cache.Cache`. Live sessions go to the model.

    Args:
        model: a model or a name.
        ttl: seconds an answer may be used.
        max_entries: number of answers kept; the least recently used one goes first.
        max_bytes: bytes of their JSON text together.
        include_tools: keep answers with function calls too. The calls are then made again, with new ids.
        name: default ``cached:`` and the model's name.

    Attributes:
        hits, misses: how often a request was, or was not, found.

    Raises:
        UnknownModelError: nobody takes the name.
        ConfigurationError: a bound that is not positive.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        ttl: float = 3600.0,
        max_entries: int = 1000,
        max_bytes: int = 64 * 1024 * 1024,
        include_tools: bool = False,
        name: str = "",
    ) -> None:
        self.model = resolve_model(model, settings_in_force())
        self.name = name or f"cached:{self.model.name}"
        self.capabilities = self.model.capabilities
        check_bounds(f"model {self.name!r}", ttl=ttl, max_entries=max_entries, max_bytes=max_bytes)
        self._include_tools = include_tools
        self._store = Store(ttl=ttl, max_entries=max_entries, max_bytes=max_bytes)
        self.hits = 0
        self.misses = 0

    @classmethod
    def named(cls, model: str, settings: Mapping[str, Any]) -> Self:
        """The model of a name with the options of ``[tool.hookwork.cached]``.

        Raises:
            ConfigurationError: an unknown option, or one of a wrong value.
        """
        if not model:
            raise ConfigurationError("'cached:' names no model; write cached:NAME")
        for key, value in settings.items():
            if key not in _OPTIONS:
                near = did_you_mean(key, _OPTIONS)
                raise ConfigurationError(f"[tool.hookwork.cached]: unknown key {key!r}{near}")
            if key == "include_tools" and not isinstance(value, bool):
                raise ConfigurationError(f"[tool.hookwork.cached]: {key} is true or false, not {value!r}")
        return cls(model, **settings)

    def clear(self) -> None:
        """Forget all answers."""
        self._store.clear()

    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        """See `Model.generate`. A kept answer comes in one piece."""
        return self._generate(request, stream)

    async def _generate(self, request: ModelRequest, stream: bool) -> AsyncGenerator[ModelResponse, None]:
        key = key_of(request, model=self.model.name)
        kept = self._store.get(key)
        if kept is not None:
            self.hits += 1
            yield as_hit(kept)
            return
        self.misses += 1
        async with aclosing(open_stream(self.model, self._addressed(request), stream=stream)) as responses:
            async for response in responses:
                if not response.partial:
                    response = response.replace(model_version=response.model_version or self.model.name)
                    if is_complete(response, tools=self._include_tools):
                        self._store.put(key, without_ids(response))
                yield response

    def _addressed(self, request: ModelRequest) -> ModelRequest:
        return ModelRequest(
            model=self.model.name, contents=request.contents, config=request.config, tools=request.tools
        )

    def connect(self, request: ModelRequest, config: LiveRunConfig) -> AbstractAsyncContextManager[LiveConnection]:
        """The model's own connection."""
        return self.model.connect(self._addressed(request), config)

    async def check(self) -> None:
        """Whether the model is ready, where it can say so. Raises what it says."""
        asked = getattr(self.model, "check", None)
        found = asked() if asked is not None else None
        if inspect.isawaitable(found):
            await found

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()
