"""Completions that a server asks of the client (sampling), answered by a model of the kit."""

from __future__ import annotations

import base64
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.model import Model, ModelRequest
from hookwork.model_streams import answer_of
from hookwork.records.content import Blob, Content, Part
from hookwork.records.request import GenerateContentConfig
from hookwork_mcp.calls import Calls

if TYPE_CHECKING:
    from hookwork.records.metadata import ModelResponse

logger = logging.getLogger("hookwork.mcp")

#: Takes the ModelRequest and the calling tool's context (or None), gives a text or a ModelResponse; may be async.
SamplingHandler = Callable[[ModelRequest, Any], "str | ModelResponse | Awaitable[str | ModelResponse]"]

_STOPS = {"STOP": "endTurn", "MAX_TOKENS": "maxTokens"}


def sample_with(model: Model) -> SamplingHandler:
    """A handler that lets ``model`` answer, without tools.

    The server decides what is asked, the app pays for it: give a model only to servers you trust, or write a handler
    that asks somebody first.
    """

    async def sample(request: ModelRequest, ctx: Any) -> ModelResponse:
        return await answer_of(model, request)

    return sample


def request_of(params: Any) -> ModelRequest:
    """A sampling request as a ModelRequest."""
    contents = [
        Content(role="model" if message.role == "assistant" else "user", parts=_parts(message.content))
        for message in params.messages
    ]
    system = Content(role="user", parts=[Part(text=params.system_prompt)]) if params.system_prompt else None
    config = GenerateContentConfig(
        system_instruction=system,
        temperature=params.temperature,
        max_output_tokens=params.max_tokens,
        stop_sequences=tuple(params.stop_sequences) if params.stop_sequences else None,
    )
    return ModelRequest(contents=contents, config=config)


def _parts(content: Any) -> list[Part]:
    blocks: Sequence[Any] = content if isinstance(content, list) else [content]
    return [part for block in blocks if (part := _part(block)) is not None]


def _part(block: Any) -> Part | None:
    if block.type == "text":
        return Part(text=block.text)
    if block.type in ("image", "audio"):
        return Part(inline_data=Blob(data=base64.b64decode(block.data), mime_type=block.mime_type))
    return None


def sampling_callback(handler: SamplingHandler, calls: Calls) -> Any:
    """The SDK's callback."""
    import mcp_types as types

    async def sample(context: Any, params: Any) -> Any:
        try:
            answer = handler(request_of(params), calls.current())
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # the server is told; our caller is a protocol engine
            logger.warning("the sampling handler raised", exc_info=error)
            return types.ErrorData(code=types.INTERNAL_ERROR, message=f"sampling failed: {type(error).__name__}")
        if isinstance(answer, str):
            text, model, stop = answer, "hookwork", "endTurn"
        else:
            text = answer.content.text if answer.content is not None else ""
            model = answer.model_version or "hookwork"
            stop = _STOPS.get(answer.finish_reason or "STOP", "endTurn")
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text=text), model=model, stop_reason=stop
        )

    return sample
