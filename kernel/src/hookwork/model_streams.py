"""The stream of a model, held to the contract of `Model.generate`: what is wrong is said of the model, by name."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import AsyncGeneratorType
from typing import Any

from hookwork.errors import ConfigurationError, ModelError
from hookwork.model import Model, ModelRequest
from hookwork.records.metadata import ModelResponse

_FORM = (
    "write it as an async generator, `async def generate(self, request, *, stream=False)`, that yields ModelResponse "
    "objects, e.g. ModelResponse(content=text_content('hello'))"
)


def open_stream(model: Model, request: ModelRequest, *, stream: bool = False) -> AsyncGenerator[ModelResponse, None]:
    """The responses of a model as a generator that can be closed.

    Whatever the call itself raises, or gives in place of a stream, is raised on the first iteration, as an error of
    the model's work would be (models MOD-7): ConfigurationError when the contract is broken.
    """
    try:
        source: Any = model.generate(request, stream=stream)
    except TypeError as error:
        # Without a frame of its own it was the call that failed: the signature, not the body.
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            return _failing(error)
        failed = broken(model, f"cannot be called as generate(request, stream={stream}) ({error})")
        failed.__cause__ = error
        return _failing(failed)
    except Exception as error:  # noqa: BLE001 - raised where the stream is read
        return _failing(error)
    if type(source) is AsyncGeneratorType:
        return source
    if hasattr(source, "__aiter__"):
        return source if hasattr(source, "__anext__") and hasattr(source, "aclose") else _closable(source)
    if inspect.iscoroutine(source) or inspect.isgenerator(source):
        source.close()  # else its end would be warned about far from here
    return _failing(broken(model, f"gave {_described(source)}"))


async def answer_of(model: Model, request: ModelRequest) -> ModelResponse:
    """The one whole response of an unstreamed call, for those who ask a model outside of a run; the stream is closed.

    Raises:
        ConfigurationError: the model breaks the contract of `Model.generate`. ModelError: it gave no response
            (kind ``stream``), or what it raised itself.
    """
    async with aclosing(open_stream(model, request)) as responses:
        async for response in responses:
            if not isinstance(response, ModelResponse):
                raise not_a_response(model, response)
            if not response.partial:
                return response
    raise ModelError(
        f"model {model.name!r} gave no response", provider=model.capabilities.provider, model=model.name, kind="stream"
    )


def not_a_response(model: Model, item: Any) -> ConfigurationError:
    """The error for an item of a stream that is no ModelResponse."""
    return broken(model, f"yielded {_described(item)}")


def broken(model: Model, what: str) -> ConfigurationError:
    """The error that names the model and its class, what its ``generate`` does, and what to write."""
    kind = type(model)
    return ConfigurationError(f"model {model.name!r} ({kind.__module__}.{kind.__qualname__}): generate {what}; {_FORM}")


def _described(value: Any) -> str:
    if value is None:
        return "None"
    if inspect.iscoroutine(value):
        return "a coroutine"
    if inspect.isgenerator(value):
        return "a generator that is not async"
    return type(value).__name__


async def _failing(error: Exception) -> AsyncGenerator[ModelResponse, None]:
    raise error
    yield  # makes it a generator


async def _closable(source: Any) -> AsyncGenerator[ModelResponse, None]:
    """An async iterable without ``aclose`` of its own."""
    responses = aiter(source)
    if hasattr(responses, "aclose"):
        async with aclosing(responses):
            async for response in responses:
                yield response
    else:
        async for response in responses:
            yield response
