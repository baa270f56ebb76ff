"""Gemini models as a Hookwork Model (models §6)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hookwork.errors import ConfigurationError, ModelError
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.records.content import Content
from hookwork.records.metadata import ModelResponse
from hookwork_gemini.cached_calls import CachedCalls
from hookwork_gemini.caching import ContextCache
from hookwork_gemini.calling import stream_of, whole_of
from hookwork_gemini.capabilities import by_interactions, capabilities_of
from hookwork_gemini.client import CLIENTS, ClientConfig, make_client, uses_vertexai
from hookwork_gemini.counts import counted
from hookwork_gemini.interactions.settings import Interactions
from hookwork_gemini.requests import Door, Prepared
from hookwork_gemini.strictness import Strictness
from hookwork_modelkit import (
    ModelClients,
    RetryPolicy,
    StreamAggregator,
    convert_response,
    guarded,
    whole_response,
    with_retries,
)

if TYPE_CHECKING:
    from hookwork.live import LiveConnection, LiveRunConfig
    from hookwork_gemini.interactions.calls import InteractionCalls

Responses = AsyncGenerator[ModelResponse, None]

#: What becomes of an answer that has not one known field: it is no answer of this API.
_NOTHING = ModelResponse(content=Content(role="model", parts=[]), turn_complete=True)
#: A resource name of Vertex AI says where it is.
_PLACE = re.compile(r"^projects/([^/]+)/locations/([^/]+)/")


def _backend(name: str, vertexai: bool | None, *, api_key: Any, credentials: Any, place: Any) -> bool:
    """Whether a model is one of Vertex AI.

    Raises:
        ConfigurationError: no name, or arguments that exclude each other.
    """
    if not name:
        raise ConfigurationError("a Gemini model needs a name, 'gemini-2.5-flash' for example")
    if api_key and credentials is not None:
        raise ConfigurationError(f"model {name!r}: api_key and credentials exclude each other; give one of them")
    of_vertexai = bool(place or credentials is not None)
    if vertexai is False and of_vertexai:
        raise ConfigurationError(f"model {name!r}: project, location and credentials are for Vertex AI only")
    return of_vertexai or name.startswith("projects/") or uses_vertexai() if vertexai is None else vertexai


class GeminiModel(Model):
    """A model of the Gemini API or of Vertex AI, called through google-genai.

    Args:
        name: ``gemini-2.5-flash``, ``models/…``, ``publishers/google/models/…`` or a full Vertex AI resource name.
        api_key: of the Gemini API, or of Vertex AI in express mode. Default: ``GOOGLE_API_KEY``, ``GEMINI_API_KEY``.
        vertexai: the backend. Default: Vertex AI when project, location or credentials are given or the name is a
            resource name of one; else what ``GOOGLE_GENAI_USE_ENTERPRISE`` or ``GOOGLE_GENAI_USE_VERTEXAI`` say.
        project, location: of Vertex AI. Default: those of a resource name, ``GOOGLE_CLOUD_PROJECT``,
            ``GOOGLE_CLOUD_LOCATION``.
        credentials: google.auth credentials. Default: those of the environment.
        base_url: another address of the API, a proxy's for example.
        api_version: ``v1``, ``v1beta`` … Default: ``GOOGLE_GENAI_API_VERSION``, else the SDK's.
        timeout: seconds to wait for a connection, and for each further piece of an answer; None: no limit. The service
            is told of it too.
        headers: sent with every call.
        http_client: an ``httpx2.AsyncClient`` or ``httpx.AsyncClient``; used, never changed, never closed.
        http_options: further options of google-genai's client (HttpOptions or a dict). Its retries are off.
        retry: a `hookwork_modelkit.RetryPolicy`, a dict of its fields, a number of attempts, or True. Default: none.
        context_cache: a `hookwork_gemini.ContextCache`, a dict of its fields, or True: keep long beginnings of
            conversations on the server. Default: no caches.
        interactions: `hookwork_gemini.Interactions`, a dict of its fields, or True: speak the Interactions API, where
            the service keeps conversations. Default: generateContent.
        unsupported: what becomes of a setting that the service lacks: ``error``, or ``warn``: it is left out, with one
            warning.

    Raises:
        ConfigurationError: no name, or arguments that exclude each other. Nothing is connected before the first call.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        vertexai: bool | None = None,
        project: str | None = None,
        location: str | None = None,
        credentials: Any = None,
        base_url: str | None = None,
        api_version: str | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        http_client: Any = None,
        http_options: Any = None,
        retry: RetryPolicy | Mapping[str, Any] | bool | int | None = None,
        context_cache: ContextCache | Mapping[str, Any] | bool | None = None,
        interactions: Interactions | Mapping[str, Any] | bool | None = None,
        unsupported: str = "error",
    ) -> None:
        vertexai = _backend(name, vertexai, api_key=api_key, credentials=credentials, place=project or location)
        found = _PLACE.match(name)
        if found is not None and vertexai and not api_key:
            project, location = project or found[1], location or found[2]
        self.name = name
        self.capabilities: ModelCapabilities = capabilities_of(name, vertexai=vertexai)
        self.retry = RetryPolicy.of(retry)
        self._config = ClientConfig(
            vertexai=vertexai,
            api_key=api_key,
            project=project,
            location=location,
            credentials=credentials,
            base_url=base_url,
            api_version=api_version,
            timeout=timeout,
            headers=tuple(sorted((headers or {}).items())),
            http_client=http_client,
            http_options=http_options,
        )
        self._config.check(name)
        self._strictness = strictness = Strictness(self.capabilities.provider, unsupported)
        self._door = Door(name, self.capabilities.provider, vertexai=vertexai, strictness=strictness)
        cache = ContextCache.of(context_cache)
        self._interactions = self._spoken(Interactions.of(interactions), strictness)
        if cache is not None and self._interactions is not None:
            raise ConfigurationError(
                f"model {name!r}: interactions keep conversations by themselves; leave out context_cache"
            )
        self._caching = CachedCalls(cache, self._door) if cache is not None else None
        self._clients: ModelClients[Any] = ModelClients(CLIENTS)
        self._making: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def _spoken(self, settings: Interactions | None, strictness: Strictness) -> InteractionCalls | None:
        if settings is None:
            return None
        from hookwork_gemini.interactions.calls import InteractionCalls

        self.capabilities = by_interactions(self.capabilities)
        return InteractionCalls(settings, self.name, self.capabilities.provider, strictness)

    def __repr__(self) -> str:
        return f"GeminiModel({self.name!r}, vertexai={self._config.vertexai})"

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> Responses:
        """As `hookwork.model.Model.generate`; raises ModelError."""
        model = request.model or self.name
        provider = self.capabilities.provider

        def call() -> Responses:
            received: list[Any] = []

            def translated(error: Exception, started: bool) -> ModelError | None:
                from hookwork_gemini.errors import translate

                return translate(provider, model, error, started=started, answered=bool(received))

            return guarded(self._called(request, stream, received), provider, model, translated)

        async with aclosing(with_retries(call, self.retry)) as responses:
            async for response in responses:
                yield response

    async def _called(self, request: ModelRequest, stream: bool, received: list[Any]) -> Responses:
        client = await self._client()
        if self._interactions is not None:
            async with aclosing(self._interactions.responses(client, request, stream, received)) as responses:
                async for response in responses:
                    yield response
            return

        def ask(asked: ModelRequest) -> Responses:
            prepared = self._door.prepare(asked)
            return (self._leniently if self._strictness.warns else self._asked)(client, prepared, stream, received)

        caching = self._caching
        if caching is None or request.config.cached_content is not None or not request.contents:
            responses = ask(request)
        else:
            responses = caching.responses(client, request, ask)
        async with aclosing(responses):
            async for response in responses:
                yield response

    async def _leniently(self, client: Any, prepared: Prepared, stream: bool, received: list[Any]) -> Responses:
        """As `_asked`; a setting that the SDK knows for the other backend only is left out (``unsupported="warn"``)."""
        while True:
            try:
                async with aclosing(self._asked(client, prepared, stream, received)) as responses:
                    async for response in responses:
                        yield response
                return
            except ValueError as error:  # before anything was sent
                config = self._strictness.without_lacking(prepared.model, prepared.config, error)
                if config is None:
                    raise
                prepared = prepared._replace(config=config)

    async def _asked(self, client: Any, prepared: Prepared, stream: bool, received: list[Any]) -> Responses:
        from hookwork_gemini.conversion import as_text

        provider, model = self.capabilities.provider, prepared.model
        if not stream:
            whole = counted(whole_response(as_text(await whole_of(client, *prepared, received))))
        else:
            aggregator = StreamAggregator(provider=provider, model=model)
            async with aclosing(stream_of(client, *prepared, received)) as chunks:
                async for chunk in chunks:
                    yield aggregator.add(counted(convert_response(as_text(chunk))))
            whole = aggregator.finish()
        if whole == _NOTHING:
            from hookwork_gemini.errors import no_response

            raise no_response(provider, model, received)
        yield whole

    @asynccontextmanager
    async def connect(self, request: ModelRequest, config: LiveRunConfig) -> AsyncIterator[LiveConnection]:
        """As `hookwork.model.Model.connect`."""
        from hookwork_gemini.live.connection import opened

        async with opened(await self._client(), self._door, request, config) as connection:
            yield connection

    async def check(self) -> None:
        """See whether there is a key, or there are credentials, without a call; `hookwork doctor` asks this.

        Raises:
            ModelError: of kind ``auth``, with what to do.
        """
        await self._client()
        if self._config.vertexai and self._config.credentials is None and self._config.api_key is None:
            await asyncio.to_thread(self._check_credentials)

    def _check_credentials(self) -> None:
        """The SDK looks for Application Default Credentials at the first call only."""
        import google.auth
        from google.auth.exceptions import GoogleAuthError

        from hookwork_gemini.errors import unusable_client

        try:
            google.auth.default()
        except GoogleAuthError as error:
            raise unusable_client(self.capabilities.provider, self.name, error, vertexai=True, has_key=False) from error

    async def _client(self) -> Any:
        """The SDK's client for the running loop (GEM-13: it stays in here).

        Raises:
            ModelError: of kind ``auth``: there is no key, or there are no credentials.
        """
        held = self._clients.held()
        if held is not None:
            return held
        lock = self._making.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            held = self._clients.held()
            if held is not None:
                return held
            key = self._config.key()
            shared = self._clients.share(key)
            if shared is not None:
                return shared
            # Importing the SDK, reading certificates and looking for credentials would keep the loop waiting.
            made = await asyncio.to_thread(self._made)
            return await self._clients.adopt(key, made)

    def _made(self) -> Any:
        from google.auth.exceptions import GoogleAuthError

        from hookwork_gemini.errors import unusable_client, unusable_key

        provider, vertexai, key = self.capabilities.provider, self._config.vertexai, self._config.found_key()
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise unusable_key(provider, self.name)
        try:
            return make_client(self._config)
        except (ValueError, GoogleAuthError) as error:
            has_key = key is not None
            raise unusable_client(provider, self.name, error, vertexai=vertexai, has_key=has_key) from error

    async def close(self) -> None:
        """Let go of the clients; a client is closed when no other model uses it. Idempotent."""
        client = self._clients.held()
        if self._caching is not None and client is not None:
            await self._caching.close(client)
        await self._clients.close()
