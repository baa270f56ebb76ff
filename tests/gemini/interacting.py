"""Short ways to ask the Interactions API."""

from __future__ import annotations

from typing import Any

from tests.gemini.interactions_service import InteractionsService
from tests.gemini.making import api_model, whole_of

from hookwork import Content, GenerateContentConfig, ModelRequest, ModelResponse, Part, user_content
from hookwork_gemini import GeminiModel


def model_on(service: Any, **options: Any) -> GeminiModel:
    return api_model(service, **{"interactions": True, **options})


def asked(*contents: Content | str, **config: Any) -> ModelRequest:
    listed = [user_content(item) if isinstance(item, str) else item for item in contents]
    return ModelRequest(contents=listed, config=GenerateContentConfig(**config))


def said(*parts: Part) -> Content:
    return Content(role="model", parts=list(parts))


async def body(service: InteractionsService, request: ModelRequest, **options: Any) -> dict[str, Any]:
    await whole_of(model_on(service, **options), request)
    return service.body


def parts_of(response: ModelResponse) -> list[Part]:
    assert response.content is not None
    return list(response.content.parts)
