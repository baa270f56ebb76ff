"""A model that is reached through an Apigee proxy: a name, an address, and the adapter of what stands behind it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError
from hookwork.model import Model, ModelRequest
from hookwork.records.metadata import ModelResponse
from hookwork_apigee.names import PREFIX, Route, route_of

if TYPE_CHECKING:
    from hookwork.live import LiveConnection, LiveRunConfig

PROXY_VARIABLE = "APIGEE_PROXY_URL"
#: The SDK of the Gemini API is not built without a key; a proxy with credentials of its own takes no notice of it.
_NO_KEY = "none"


class ApigeeModel(Model):
    """A Gemini, Vertex AI or OpenAI model behind an Apigee proxy.

    Args:
        name: ``apigee/[provider/][version/]model``; provider ``vertex_ai``, ``gemini`` or ``openai``. Without one:
            Vertex AI where ``GOOGLE_GENAI_USE_ENTERPRISE`` or ``GOOGLE_GENAI_USE_VERTEXAI`` say so, else Gemini API.
        proxy_url: the proxy's address. Default: ``APIGEE_PROXY_URL``.
        headers: sent with every call, the proxy's own authentication for example.
        api_key: of the Gemini API or OpenAI. Default: what their own extension reads; none is needed.
        project, location: of Vertex AI. Default: ``GOOGLE_CLOUD_PROJECT``, ``GOOGLE_CLOUD_LOCATION``.
        credentials: google.auth credentials for Vertex AI. Default: those of the environment.
        timeout: seconds for a call. retry: see `hookwork_modelkit.RetryPolicy`. http_client: used as it is.
        unsupported: what becomes of a setting that what stands behind the proxy lacks: ``error``, or ``warn``: it is
            left out, with one warning.

    Raises:
        ConfigurationError: the name has another form, there is no proxy, or Vertex AI lacks project or location.
    """

    def __init__(
        self,
        name: str,
        *,
        proxy_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        api_key: str | None = None,
        project: str | None = None,
        location: str | None = None,
        credentials: Any = None,
        timeout: float | None = None,
        retry: Any = None,
        unsupported: str = "error",
        http_client: Any = None,
    ) -> None:
        route = route_of(name)
        proxy = proxy_url or os.environ.get(PROXY_VARIABLE)
        if not proxy:
            raise ConfigurationError(
                f"model {name!r}: no proxy is named; set {PROXY_VARIABLE}, proxy_url in [tool.hookwork.apigee], or the "
                "argument proxy_url"
            )
        self.name = name
        common = {
            "headers": headers,
            "timeout": timeout,
            "retry": retry,
            "unsupported": unsupported,
            "http_client": http_client,
        }
        if route.provider == "openai":
            self._delegate = _openai(route, proxy, api_key, common)
        elif _is_vertex(route):
            self._delegate = _vertex(name, route, proxy, project, location, credentials, common)
        else:
            self._delegate = _gemini(route, proxy, api_key, common)
        self.capabilities = self._delegate.capabilities

    def __repr__(self) -> str:
        return f"ApigeeModel({self.name!r})"

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncGenerator[ModelResponse, None]:
        """See `Model.generate`."""
        delegated: Any = self._delegate.generate(self._reduced(request), stream=stream)
        async with aclosing(delegated) as responses:
            async for response in responses:
                yield response

    @asynccontextmanager
    async def connect(self, request: ModelRequest, config: LiveRunConfig) -> AsyncGenerator[LiveConnection, None]:
        """See `Model.connect`."""
        async with self._delegate.connect(self._reduced(request), config) as connection:
            yield connection

    async def check(self) -> None:
        """Whether what stands behind the proxy has its credentials. Raises ModelError: it has none."""
        asked = getattr(self._delegate, "check", None)
        if asked is not None:
            await asked()

    async def close(self) -> None:
        """Close what stands behind the proxy. Idempotent."""
        await self._delegate.close()

    def _reduced(self, request: ModelRequest) -> ModelRequest:
        """The request as the delegate takes it: a name of ours becomes the model's id (APG-5), a copy holds it."""
        model = route_of(request.model).model if request.model.startswith(PREFIX) else request.model
        return ModelRequest(model=model, contents=request.contents, config=request.config, tools=request.tools)


def _is_vertex(route: Route) -> bool:
    from hookwork_gemini.client import uses_vertexai

    return route.provider == "vertex_ai" or (not route.provider and uses_vertexai())


def _gemini(route: Route, proxy: str, api_key: str | None, common: Mapping[str, Any]) -> Model:
    from hookwork_gemini import GeminiModel

    key = api_key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY") or _NO_KEY
    return GeminiModel(
        route.model, api_key=key, vertexai=False, base_url=proxy, api_version=route.version or None, **common
    )


def _vertex(
    name: str,
    route: Route,
    proxy: str,
    project: str | None,
    location: str | None,
    credentials: Any,
    common: Mapping[str, Any],
) -> Model:
    from hookwork_gemini import GeminiModel

    found = {
        "GOOGLE_CLOUD_PROJECT": project or os.environ.get("GOOGLE_CLOUD_PROJECT"),
        "GOOGLE_CLOUD_LOCATION": location or os.environ.get("GOOGLE_CLOUD_LOCATION"),
    }
    missing = [variable for variable, value in found.items() if not value]
    if missing:
        raise ConfigurationError(
            f"model {name!r}: Vertex AI needs {' and '.join(missing)}; set what is missing in the environment, or give "
            "project and location"
        )
    return GeminiModel(
        route.model,
        vertexai=True,
        project=found["GOOGLE_CLOUD_PROJECT"],
        location=found["GOOGLE_CLOUD_LOCATION"],
        credentials=credentials,
        base_url=proxy,
        api_version=route.version or None,
        **common,
    )


def _openai(route: Route, proxy: str, api_key: str | None, common: Mapping[str, Any]) -> Model:
    from hookwork_openai import OpenAIModel

    base = proxy.rstrip("/") + (f"/{route.version}" if route.version else "")
    return OpenAIModel(route.model, base_url=base, **({"api_key": api_key} if api_key else {}), **common)
