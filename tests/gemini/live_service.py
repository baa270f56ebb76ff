"""A local live server: real WebSockets, the published frames of BidiGenerateContent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.gemini.service import camel
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

Talk = Callable[["Line"], Awaitable[None]]


class Line:
    """The server's end of one connection, after its setup."""

    def __init__(self, socket: ServerConnection, setup: dict[str, Any]) -> None:
        self._socket = socket
        self.setup = setup

    async def send(self, **message: Any) -> None:
        await self._socket.send(json.dumps(message))

    async def send_text(self, text: str) -> None:
        await self._socket.send(text)

    async def get(self) -> dict[str, Any]:
        """The next frame of the client."""
        return camel(json.loads(await self._socket.recv()))  # type: ignore[no-any-return]

    async def say(self, *texts: str, done: bool = True) -> None:
        """A spoken turn in pieces."""
        for text in texts:
            await self.send(serverContent={"modelTurn": {"parts": [{"text": text}]}})
        if done:
            await self.send(serverContent={"turnComplete": True})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._socket.close(code, reason)

    async def cut(self) -> None:
        """End the line without a close frame."""
        self._socket.transport.abort()

    async def hang_up(self) -> None:
        """Wait until the client leaves."""
        await self._socket.wait_closed()


class LiveServer:
    """Plays one talk per connection and keeps what each connection was set up with."""

    def __init__(self) -> None:
        self.talks: list[Talk] = []
        self.setups: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[Any] = []
        self.refuse_setup: tuple[int, str] | None = None
        self.refuse_handshake: int | None = None
        self.session_id = ""
        self.url = ""

    async def __call__(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.paths.append(socket.request.path)
        self.headers.append(socket.request.headers)
        try:
            setup = camel(json.loads(await socket.recv()))["setup"]
            self.setups.append(setup)
            if self.refuse_setup is not None:
                await socket.close(*self.refuse_setup)
                return
            await socket.send(json.dumps({"setupComplete": {"sessionId": self.session_id} if self.session_id else {}}))
            await self.talks.pop(0)(Line(socket, setup))
        except ConnectionClosed:
            pass

    def process_request(self, socket: ServerConnection, request: Any) -> Any:
        if self.refuse_handshake is not None:
            return socket.respond(self.refuse_handshake, "no")
        return None


@asynccontextmanager
async def live_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LiveServer]:
    """A server, and an SDK that reaches it without TLS (SDK-7: it always dials wss)."""
    from google.genai import live

    def plain(uri: str, *, ssl: Any = None, **options: Any) -> Any:
        return connect(uri.replace("wss://", "ws://", 1), **options)

    monkeypatch.setattr(live, "ws_connect", plain)
    played = LiveServer()
    async with serve(played, "127.0.0.1", 0, process_request=played.process_request) as server:
        played.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield played
