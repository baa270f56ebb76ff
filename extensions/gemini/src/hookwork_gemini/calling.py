"""One call of google-genai with an eye on its HTTP traffic: what was received, and that it is closed (MOD-4)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

#: Where the HTTP responses of the running call are noted. httpx and httpx2 only: aiohttp has no such hook.
_responses: ContextVar[list[Any] | None] = ContextVar("hookwork_gemini_responses", default=None)


async def note(response: Any) -> None:
    """The hook of an HTTP client that notes the responses of the running call."""
    noted = _responses.get()
    if noted is not None:
        noted.append(response)


@contextmanager
def noting(noted: list[Any]) -> Iterator[None]:
    """Add the HTTP responses of what is awaited inside to ``noted``."""
    token = _responses.set(noted)
    try:
        yield
    finally:
        _responses.reset(token)


async def whole_of(client: Any, model: str, contents: list[Any], config: Any, noted: list[Any]) -> Any:
    """The answer of an unstreamed call; HTTP responses are added to ``noted`` as they come."""
    with noting(noted):
        return await client.aio.models.generate_content(model=model, contents=contents, config=config)


async def stream_of(
    client: Any, model: str, contents: list[Any], config: Any, noted: list[Any]
) -> AsyncGenerator[Any, None]:
    """The chunks of a streamed call. Left early, the HTTP response is closed before this returns (MOD-4).

    The SDK nests async generators and closes only the outermost; the others would be left to the garbage collector,
    which ends them in tasks of its own. So the response is closed here and the chain is read to its end.
    """
    chunks = await client.aio.models.generate_content_stream(model=model, contents=contents, config=config)
    try:
        while True:
            with noting(noted):
                chunk = await anext(chunks, None)
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
