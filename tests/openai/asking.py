"""Short ways to ask: models on a scripted service, requests, bodies without any network."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from tests.openai.server import Service

from hookwork import (
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateContentConfig,
    Model,
    ModelRequest,
    ModelResponse,
    Part,
    ToolDeclaration,
    user_content,
)
from hookwork_openai import OpenAIModel
from hookwork_openai.call import Call
from hookwork_openai.chat.request import request_body as chat_body
from hookwork_openai.options import Options
from hookwork_openai.responses.request import request_body as responses_body

KEY = "sk-test-0123456789"


def model_on(service: Service, name: str = "gpt-5.2", **options: Any) -> OpenAIModel:
    """A model of the Responses API on a service."""
    return OpenAIModel(name, **{"base_url": service.base_url, "api_key": KEY, "api": "responses", **options})


def chat_model_on(service: Service, name: str = "local-model", **options: Any) -> OpenAIModel:
    """A model of Chat Completions on a service."""
    return model_on(service, name, **{"api": "chat", **options})


def asked(*contents: Content | str, **config: Any) -> ModelRequest:
    """A request; texts are the user's, no contents: one short question."""
    listed = [user_content(item) if isinstance(item, str) else item for item in contents or ("hi",)]
    return ModelRequest(contents=listed, config=GenerateContentConfig(**config))


def user(*parts: Part) -> Content:
    return Content(role="user", parts=list(parts))


def said(*parts: Part | str) -> Content:
    return Content(role="model", parts=[Part(text=item) if isinstance(item, str) else item for item in parts])


def call(name: str, args: dict[str, Any] | None = None, id: str | None = None) -> Part:
    return Part(function_call=FunctionCall(id=id, name=name, args=args))


def answer(name: str, response: dict[str, Any] | None = None, id: str | None = None, **fields: Any) -> Part:
    return Part(function_response=FunctionResponse(id=id, name=name, response=response, **fields))


def declared(*names: str) -> tuple[ToolDeclaration, ...]:
    return (ToolDeclaration(function_declarations=tuple(FunctionDeclaration(name=name) for name in names)),)


def a_call(name: str = "gpt-4.1", *, chat: bool = False, official: bool = True, **options: Any) -> Call:
    return Call(model=name, chat=chat, official=official, options=Options(**options))


def body(request: ModelRequest, name: str = "gpt-4.1", **options: Any) -> dict[str, Any]:
    """The body of a Responses request."""
    return responses_body(a_call(name, **options), request)


def body_for_chat(
    request: ModelRequest, name: str = "local-model", official: bool = False, **options: Any
) -> dict[str, Any]:
    """The body of a Chat Completions request, by default for a compatible server."""
    return chat_body(a_call(name, chat=True, official=official, **options), request)


async def ask(model: Model, request: ModelRequest | None = None, *, stream: bool = False) -> list[ModelResponse]:
    """All responses of one call."""
    async with aclosing(model.generate(request or asked(), stream=stream)) as responses:  # type: ignore[type-var]
        return [response async for response in responses]


async def whole(model: Model, request: ModelRequest | None = None, *, stream: bool = False) -> ModelResponse:
    """The last response of one call."""
    return (await ask(model, request, stream=stream))[-1]


def open_clients() -> int:
    """How many SDK clients are open in this process; those of loops that are gone do not count."""
    from hookwork_openai.sdk import POOL

    gc.collect()
    return POOL.count()


def texts(responses: Iterable[ModelResponse]) -> list[str]:
    """The texts of responses, thoughts in brackets, calls by name."""
    found = []
    for response in responses:
        for part in response.content.parts if response.content else ():
            if part.function_call is not None:
                found.append(f"{part.function_call.name}()")
            else:
                found.append(f"[{part.text}]" if part.thought else part.text or "")
    return found
