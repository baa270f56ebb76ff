"""Clients of google-genai: made at the first call, shared, closed with the last model (models SDK-2, SDK-15, MOD-1)."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from hookwork.errors import ConfigurationError
from hookwork_gemini.calling import note
from hookwork_gemini.identity import identified
from hookwork_modelkit import ClientPool
from hookwork_modelkit.clients import Same

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

    def check(self, model: str) -> None:
        """Raises ConfigurationError: an option of a wrong kind. What the SDK makes of it is seen at the first call."""
        if not all(isinstance(text, str) for header in self.headers for text in header):
            raise ConfigurationError(f"model {model!r}: headers are texts by name")
        if self.timeout is not None and not 0 < self.timeout < inf:
            raise ConfigurationError(f"model {model!r}: timeout is a number of seconds above 0, not {self.timeout!r}")
        given = self.http_options
        if not (given is None or isinstance(given, Mapping) or hasattr(given, "model_copy")):
            raise ConfigurationError(
                f"model {model!r}: http_options are an HttpOptions of google-genai or a dict of its fields, "
                f"not {type(given).__name__}"
            )

    def found_key(self) -> str | None:
        """The API key that the SDK will use, of whatever origin (SDK-3)."""
        return self.api_key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY") or None

    def key(self) -> tuple[Any, ...]:
        """Equal for models that may share a client."""
        plain = self._replace(credentials=None, http_client=None, http_options=None)
        objects = tuple(Same(value) for value in (self.credentials, self.http_client, self.http_options))
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
    options.retry_options = types.HttpRetryOptions(attempts=1)  # unset, interactions would be tried five times
    if config.base_url is not None:
        options.base_url = config.base_url
    if config.api_version is not None:
        options.api_version = config.api_version
    if config.timeout is not None:
        options.timeout = round(config.timeout * 1000)
    options.headers = identified({**(options.headers or {}), **dict(config.headers)})
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
    known.setdefault("response", []).append(note)
    return known
