"""The SDK at its door: clients, and streams of plain JSON. Imported at the first call, since it imports the SDK.

Answers are taken as the JSON they are: the SDK's classes are built without validation, and an event it does not know
arrives as an instance of some other (models SDK-10), so nothing is gained by them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Mapping
from typing import Any, Self

from openai import AsyncOpenAI, AsyncStream, Omit, OpenAIError
from openai import __version__ as SDK_VERSION

from hookwork.errors import ModelError
from hookwork.version import VERSION
from hookwork_modelkit.clients import ClientPool
from hookwork_modelkit.errors import model_error
from hookwork_openai.call import Call
from hookwork_openai.config import Transport
from hookwork_openai.options import Options

#: Seconds that the rest of a body may take after its last event. Read to its end, a connection can be used again.
_PATIENCE = 0.1
#: Seconds that usage and ``[DONE]`` may take after a finish reason; some servers keep the line open without either.
_PATIENCE_AFTER_END = 5.0
#: Stands where there is no key, since the SDK is not built without one; never sent.
_NO_KEY = "none"
#: What a call may authenticate with: the key of the model, never an administrator's that lies in the environment.
_SECURITY = {"bearer_auth": True}


class Client:
    """A client of the SDK, entered for the time of each call: closed while calls go on, it is closed after the last.

    Attributes:
        owned: its HTTP client is closed with it.
        keyless: it has no key, so its requests carry no ``Authorization`` of its own.
    """

    __slots__ = ("_calls", "_closing", "keyless", "owned", "sdk")

    def __init__(self, sdk: AsyncOpenAI, *, owned: bool, keyless: bool) -> None:
        self.sdk = sdk
        self.owned = owned
        self.keyless = keyless
        self._calls = 0
        self._closing = False

    async def __aenter__(self) -> Self:
        self._calls += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._calls -= 1
        if self._closing:
            await self.close()

    async def close(self) -> None:
        """Close it, once no call uses it. A connection that is just being made would be left open otherwise."""
        self._closing = True
        if self.owned and not self._calls:
            await self.sdk.close()


async def _close(client: Client) -> None:
    await client.close()


#: All clients of this process.
POOL: ClientPool[Client] = ClientPool(_close)


def client_key(options: Options, address: str) -> Hashable:
    """What makes two models share a client; ``address`` is the base URL."""
    objects = (options.http_client, options.client_options)
    return (
        address,
        options.key(),
        options.organization,
        options.project,
        *(id(item) if item is not None else None for item in objects),
    )


def make_client(call: Call, address: str) -> Client:
    """A client as the options want it, without retries of its own (models OAI-38).

    Raises:
        ModelError: of kind ``auth``: OpenAI itself is asked and there is no key.
    """
    options = call.options
    key = options.key()
    headers = {"User-Agent": f"AsyncOpenAI/Python {SDK_VERSION} hookwork/{VERSION}"}
    if key is None and call.official and not (options.client_options or {}).get("api_key"):
        raise _no_key(call)
    arguments: dict[str, Any] = {
        "api_key": _given_anew(call, key) if callable(key) else _sendable(call, key or _NO_KEY),
        "base_url": address,
        "organization": options.organization,
        "project": options.project,
        "http_client": options.http_client,
        "default_headers": headers,
        "max_retries": 0,
        **(options.client_options or {}),
    }
    try:
        sdk = AsyncOpenAI(**arguments)
    except (OpenAIError, TypeError, ValueError) as error:
        raise call.refused("client_options", f"the SDK takes no such client options: {error}") from error
    return Client(sdk, owned=arguments["http_client"] is None, keyless=key is None and arguments["api_key"] == _NO_KEY)


def _no_key(call: Call) -> ModelError:
    detail = "there is no API key; set OPENAI_API_KEY or the option api_key"
    return model_error(call.provider, call.model, kind="auth", detail=detail)


def _sendable(call: Call, key: str) -> str:
    """The key as a header can carry it; else the HTTP library would refuse it and quote it."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        detail = "the API key holds characters that no header can carry; copy it anew"
        raise model_error(call.provider, call.model, kind="auth", detail=detail)
    return key


def _given_anew(call: Call, give: Callable[[], Awaitable[str]]) -> Callable[[], Awaitable[str]]:
    """A key function that must give a key: for none the SDK would look for another one in the environment."""

    async def key() -> str:
        given = await give()
        if not given:
            raise _no_key(call)
        return _sendable(call, given)

    return key


class JsonStream(AsyncStream[object]):
    """A stream of JSON values that tells whether the service said ``[DONE]`` (models CHAT-4)."""

    done = False

    async def _iter_events(self) -> AsyncIterator[Any]:
        events = super()._iter_events()
        async with contextlib.aclosing(events):  # type: ignore[type-var]
            async for event in events:
                if event.data.startswith("[DONE]"):
                    self.done = True
                yield event


async def post(client: Client, path: str, body: Mapping[str, Any], transport: Transport) -> Any:
    """The JSON answer to one request. Raises the SDK's exceptions."""
    return await client.sdk.post(
        path, cast_to=object, body=_whole(body, transport), options=_options(client, transport)
    )


async def open_stream(client: Client, path: str, body: Mapping[str, Any], transport: Transport) -> JsonStream:
    """The answer to one streamed request; read it with `events`. Raises the SDK's exceptions."""
    return await client.sdk.post(
        path,
        cast_to=object,
        body={**_whole(body, transport), "stream": True},
        options=_options(client, transport),
        stream=True,
        stream_cls=JsonStream,
    )


def _whole(body: Mapping[str, Any], transport: Transport) -> dict[str, Any]:
    return {**body, **transport.extra_body}


def _options(client: Client, transport: Transport) -> Any:
    headers: dict[str, Any] = dict(transport.headers)
    if client.keyless and not any(name.lower() == "authorization" for name in headers):
        headers["Authorization"] = Omit()
    options: dict[str, Any] = {"security": _SECURITY}
    if headers:
        options["headers"] = headers
    if transport.timeout is not None:
        options["timeout"] = transport.timeout
    return options


async def answered_whole(stream: JsonStream) -> Any:
    """The answer of a server that was asked for a stream and gave one JSON body; None when it streams."""
    if not stream.response.headers.get("content-type", "").startswith("application/json"):
        return None
    try:
        return json.loads(await stream.response.aread())
    finally:
        await stream.close()


async def events(stream: JsonStream, ended: Callable[[], bool] | None = None) -> AsyncGenerator[Any, None]:
    """The values of a stream. However it is left, its response is closed first and nothing stays suspended.

    ``ended``: whether all that counts has come, so that what follows is not waited for much longer.
    """
    unwound = False
    try:
        while True:
            try:
                async with asyncio.timeout(_PATIENCE_AFTER_END if ended is not None and ended() else None) as limit:
                    event = await anext(stream)
            except StopAsyncIteration:
                unwound = True
                return
            except TimeoutError:
                unwound = True
                if limit.expired():
                    return
                raise
            except BaseException:
                unwound = True  # what was raised went through all generators of the SDK
                raise
            yield event
    finally:
        await stream.close()
        if not unwound:
            await _unwind(stream)


async def drain(stream: JsonStream) -> None:
    """Read what is left after the last event, so that the connection goes back to its pool; not for long."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_PATIENCE):
            while True:
                await anext(stream)


async def _unwind(stream: JsonStream) -> None:
    """Let the SDK's suspended generators run into the closed response; else the loop ends them in tasks of its own."""
    with contextlib.suppress(Exception):
        while True:
            await anext(stream)
