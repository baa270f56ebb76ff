"""Calls that use, and now and then make, context caches on the server."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from hookwork.model import ModelRequest
from hookwork.records.frozen import thaw
from hookwork.records.metadata import ModelResponse
from hookwork_gemini.caching import USED_CACHE, Beginning, CacheTable, ContextCache, beginnings_of
from hookwork_gemini.conversion import warn_once
from hookwork_gemini.requests import Door

logger = logging.getLogger("hookwork.gemini")

Responses = AsyncGenerator[ModelResponse, None]

#: Answers to a call with a cache that has gone: it was deleted, has expired, or belongs to somebody else.
_GONE = (400, 403, 404)


class CachedCalls:
    """The caches of one model."""

    __slots__ = ("_door", "_table")

    def __init__(self, settings: ContextCache, door: Door) -> None:
        self._table = CacheTable(settings)
        self._door = door

    async def responses(
        self, client: Any, request: ModelRequest, ask: Callable[[ModelRequest], Responses]
    ) -> Responses:
        """The responses of a request, asked with a cache where there is one; without it when the cache has gone."""
        from google.genai.errors import APIError

        model = request.model or self._door.name
        *beginnings, whole = beginnings_of(model, request)
        use = await self._use(client, model, request, beginnings)
        if use is not None:
            beginning, name = use
            started = False
            try:
                async with aclosing(ask(_shortened(request, beginning.length, name))) as responses:
                    async for response in responses:
                        started = True
                        yield self._noted(response, whole, name)
                return
            except APIError as error:
                if started or error.code not in _GONE:
                    raise
                self._table.lost(beginning)
        async with aclosing(ask(request)) as responses:
            async for response in responses:
                yield self._noted(response, whole, None)

    def _noted(self, response: ModelResponse, whole: Beginning, name: str | None) -> ModelResponse:
        if response.partial:
            return response
        self._table.sent(whole, response)
        if name is None:
            return response
        return response.replace(custom_metadata={**thaw(response.custom_metadata or {}), USED_CACHE: name})

    async def _use(
        self, client: Any, model: str, request: ModelRequest, beginnings: list[Beginning]
    ) -> tuple[Beginning, str] | None:
        found = self._table.find(beginnings)
        if found is not None:
            return found
        wanted = self._table.wanted(beginnings)
        if wanted is None:
            return None
        name = await self._make(client, model, request, wanted)
        return None if name is None else (wanted, name)

    async def _make(self, client: Any, model: str, request: ModelRequest, beginning: Beginning) -> str | None:
        """The name of a new cache; None when the service makes none, which is no reason to fail the call."""
        from google.genai import types
        from google.genai.errors import APIError

        given = self._door.config(model, request.config)
        config = types.CreateCachedContentConfig(
            contents=[self._door.content(content) for content in request.contents[: beginning.length]],
            system_instruction=given.system_instruction,
            tools=given.tools,
            tool_config=given.tool_config,
            ttl=f"{self._table.settings.ttl}s",
            http_options=given.http_options,
        )
        refused = False
        try:
            made = await client.aio.caches.create(model=model, config=config)
        except (APIError, ValueError) as error:
            code = error.code if isinstance(error, APIError) else None
            refused = code is None or code in _GONE
            warn_once(
                f"cache {code}",
                "the service made no context cache (%s); calls go on without",
                f"HTTP {code}" if code is not None else type(error).__name__,
            )
            return None
        else:
            self._table.made(beginning, made.name, made.expire_time)
            return str(made.name)
        finally:
            self._table.not_made(beginning, refused=refused)

    async def close(self, client: Any) -> None:
        """Delete the caches on the server, as far as that works: they end by themselves too."""
        from google.genai.errors import APIError

        for name in self._table.forget():
            try:
                await client.aio.caches.delete(name=name)
            except APIError as error:
                logger.info("context cache %s could not be deleted (HTTP %s); it ends by itself", name, error.code)


def _shortened(request: ModelRequest, length: int, name: str) -> ModelRequest:
    """The rest of a request behind a cache, which holds instruction and tools as well."""
    config = request.config.replace(system_instruction=None, tools=(), tool_config=None, cached_content=name)
    return ModelRequest(model=request.model, contents=list(request.contents[length:]), config=config)
