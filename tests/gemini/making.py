"""Models that talk to the local service."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from tests.gemini.service import KEY, Service

from hookwork import ModelRequest, ModelResponse, user_content
from hookwork_gemini import GeminiModel

#: Reading the system's certificates takes most of the time of a test; nothing here is encrypted.
NO_TLS = {"client_args": {"verify": False}, "async_client_args": {"verify": False}}


def api_model(service: Service, name: str = "gemini-2.5-flash", **options: Any) -> GeminiModel:
    """On the Gemini API."""
    return GeminiModel(
        name, **{"api_key": KEY, "base_url": service.url, "api_version": "v1beta", "http_options": NO_TLS, **options}
    )


def vertex_model(service: Service, name: str = "gemini-2.5-flash", **options: Any) -> GeminiModel:
    """On Vertex AI, with a token that is good for ever."""
    from google.oauth2.credentials import Credentials

    given = {"project": "p1", "location": "europe-west4", "credentials": Credentials(token="token-77")}
    return GeminiModel(name, **{**given, "base_url": service.url, "http_options": NO_TLS, **options})


def asking(text: str = "hi", **config: Any) -> ModelRequest:
    """A request of one user text."""
    request = ModelRequest(contents=[user_content(text)])
    if config:
        request.update_config(**config)
    return request


async def responses_of(
    model: GeminiModel, request: ModelRequest | None = None, *, stream: bool = False
) -> list[ModelResponse]:
    """All responses of one call; the model is closed afterwards."""
    try:
        async with aclosing(model.generate(request or asking(), stream=stream)) as responses:
            return [response async for response in responses]
    finally:
        await model.close()


async def whole_of(model: GeminiModel, request: ModelRequest | None = None, *, stream: bool = False) -> ModelResponse:
    """The last response of one call."""
    return (await responses_of(model, request, stream=stream))[-1]


async def sent(service: Service, request: ModelRequest, *, vertex: bool = False, **options: Any) -> dict[str, Any]:
    """The body that a request becomes."""
    await whole_of((vertex_model if vertex else api_model)(service, **options), request)
    return service.received[-1].body
