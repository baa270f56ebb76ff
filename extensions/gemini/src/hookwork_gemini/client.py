"""Clients of google-genai: made at the first call, shared, closed with the last model (models SDK-2, SDK-15, MOD-1)."""

from __future__ import annotations

import copy
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple

from hookwork_modelkit import ClientPool

#: What decides about a client when it is not given; part of the key under which clients are shared (SDK-3).
_ENVIRONMENT = (
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_GENAI_API_VERSION",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_GENAI_HTTP_CLIENT",
)

#: Where the HTTP responses of the running call are noted, so that it can close them itself.
_responses: ContextVar[list[Any] | None] = ContextVar("hookwork_gemini_responses", default=None)


class ClientConfig(NamedTuple):
    """What a client is made of; nothing here is changed or closed by us except the client."""

    vertexai: bool
    api_key: str | None = None
    project: str | None = None
    location: str | None = None
    credentials: Any = None
    base_url: str | None = None
    api_version: str | None = None
    timeout: float | None = None
    headers: tuple[tuple[str, str], ...] = ()
    http_client: Any = None
    http_options: Any = None

    def key(self) -> tuple[Any, ...]:
        """Equal for models that may share a client."""
        plain = self._replace(credentials=None, http_client=None, http_options=None)
        objects = tuple(id(value) for value in (self.credentials, self.http_client, self.http_options))
        return (*plain, *objects, *(os.environ.get(name) for name in _ENVIRONMENT))


async def _close(client: Any) -> None:
    await client.aio.aclose()
    client.close()


CLIENTS: ClientPool[Any] = ClientPool(_close)


def uses_vertexai() -> bool:
    """The backend the environment chooses (SDK-3): ``GOOGLE_GENAI_USE_ENTERPRISE`` before ``…_USE_VERTEXAI``."""
    for name in ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"):
        value = os.environ.get(name)
        if value is not None:
            return value.lower() in ("true", "1")
    return False


def make_client(config: ClientConfig) -> Any:
    """A client of google-genai.

    Raises:
        ValueError: no key, or no project; google.auth.exceptions.GoogleAuthError: no credentials.
    """
    from google import genai

    return genai.Client(
        vertexai=config.vertexai,
        api_key=config.api_key,
        credentials=config.credentials,
        project=config.project,
        location=config.location,
        http_options=_http_options(config),
    )


def _http_options(config: ClientConfig) -> Any:
    from google.genai import types

    given = config.http_options
    if isinstance(given, Mapping):
        given = types.HttpOptions(**given)
    options = given.model_copy() if given is not None else types.HttpOptions()
    options.retry_options = None
    if config.base_url is not None:
        options.base_url = config.base_url
    if config.api_version is not None:
        options.api_version = config.api_version
    if config.timeout is not None:
        options.timeout = round(config.timeout * 1000)
    if config.headers:
        options.headers = {**(options.headers or {}), **dict(config.headers)}
    client = config.http_client if config.http_client is not None else options.httpx_async_client
    if client is not None:
        options.httpx_async_client = _watched(client)
    else:
        arguments = dict(options.async_client_args or {})
        arguments["event_hooks"] = _with_hook(arguments.get("event_hooks"))
        options.async_client_args = arguments
    return options


def _watched(client: Any) -> Any:
    """The caller's HTTP client, sharing its connections, with our hook beside its own; theirs is not changed."""
    twin = copy.copy(client)
    twin.event_hooks = _with_hook(client.event_hooks)
    return twin


def _with_hook(hooks: Mapping[str, Any] | None) -> dict[str, list[Any]]:
    known = {name: list(listed) for name, listed in (hooks or {}).items()}
    known.setdefault("response", []).append(_note)
    return known


async def _note(response: Any) -> None:
    noted = _responses.get()
    if noted is not None:
        noted.append(response)


async def stream_of(client: Any, model: str, contents: list[Any], config: Any) -> AsyncGenerator[Any, None]:
    """The chunks of a streamed call. Left early, the HTTP response is closed before this returns (MOD-4).

    The SDK nests async generators and closes only the outermost; the others would be left to the garbage collector,
    which ends them in tasks of its own. So the response is closed here and the chain is read to its end.
    """
    noted: list[Any] = []
    chunks = await client.aio.models.generate_content_stream(model=model, contents=contents, config=config)
    try:
        while True:
            token = _responses.set(noted)
            try:
                chunk = await anext(chunks, None)
            finally:
                _responses.reset(token)
            if chunk is None:
                return
            yield chunk
    except GeneratorExit:
        for response in noted:
            await response.aclose()
        with suppress(Exception):
            async for _ in chunks:
                pass
        raise
    finally:
        await chunks.aclose()
