"""A local server that speaks the published wire format of the Gemini API and of Vertex AI (generateContent)."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn

KEY = "test-key-6d1f"


class Received(NamedTuple):
    """One request as it arrived."""

    path: str
    query: str
    headers: dict[str, list[str]]
    body: dict[str, Any]

    @property
    def streams(self) -> bool:
        return self.path.endswith(":streamGenerateContent")


class Reply:
    """An answer in chunks: joined to one response when the call does not stream.

    Attributes:
        pieces: how the bytes of an event stream are cut before they are sent.
        breaks: the line is cut after the chunks.
        hangs: the line stays open after the chunks until the client leaves.
    """

    def __init__(
        self,
        *chunks: dict[str, Any],
        whole: dict[str, Any] | None = None,
        pieces: Callable[[bytes], Sequence[bytes]] | None = None,
        breaks: bool = False,
        hangs: bool = False,
    ) -> None:
        self.chunks = chunks
        self.whole = whole if whole is not None else joined(chunks)
        self.pieces = pieces
        self.breaks = breaks
        self.hangs = hangs


class Failure(NamedTuple):
    """An error as the API gives it."""

    status: int
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


def camel(value: Any) -> Any:
    """A request body in one spelling: the SDK mixes camelCase and snake_case, and the API takes both (ECO-GEN-2)."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, item in value.items():
        first, *rest = key.split("_")
        result[first + "".join(word.capitalize() for word in rest)] = camel(item)
    return result


def error_body(status: int, name: str, message: str = "refused", *details: dict[str, Any]) -> dict[str, Any]:
    """The body of an error: google.rpc.Status under ``error``."""
    return {"error": {"code": status, "message": message, "status": name, "details": list(details)}}


def chunk(*parts: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A GenerateContentResponse of one candidate."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    for name in ("groundingMetadata", "citationMetadata", "avgLogprobs", "logprobsResult", "finishMessage"):
        if name in fields:
            candidate[name] = fields.pop(name)
    return {"candidates": [candidate], "modelVersion": "gemini-served", **fields}


def joined(chunks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The unstreamed response of a stream whose parts need no merging but texts of one kind."""
    parts: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    candidate: dict[str, Any] = {}
    for one in chunks:
        result |= {key: value for key, value in one.items() if key != "candidates"}
        for found in one.get("candidates", ()):
            candidate |= {key: value for key, value in found.items() if key != "content"}
            for part in found.get("content", {}).get("parts", ()):
                last = parts[-1] if parts else None
                if not part:
                    continue
                if last and "text" in last and "text" in part and last.get("thought") == part.get("thought"):
                    parts[-1] = {**part, **last, "text": last["text"] + part["text"]}
                else:
                    parts.append(part)
    if candidate or parts:
        result["candidates"] = [{"content": {"role": "model", "parts": parts}, **candidate}]
    return result


Script = Reply | Failure | Callable[[Received], "Reply | Failure"]


class Service:
    """The server's side. ``scripts`` are played one per request; when none is left, ``always`` answers."""

    def __init__(self) -> None:
        self.url = ""
        self.scripts: list[Script] = []
        self.always: Script = Reply(chunk({"text": "Hello."}, finish="STOP"))
        self.received: list[Received] = []
        self.left = threading.Event()
        self.now_open = 0
        self.most_open = 0

    def reset(self) -> None:
        """Forget everything but the address."""
        url = self.url
        Service.__init__(self)
        self.url = url

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode().lower(), []).append(value.decode())
        received = Received(scope["path"], scope["query_string"].decode(), headers, camel(json.loads(body or b"{}")))
        self.received.append(received)
        script = self.scripts.pop(0) if self.scripts else self.always
        answer = script(received) if callable(script) else script
        self.now_open += 1
        self.most_open = max(self.most_open, self.now_open)
        try:
            if isinstance(answer, Failure):
                await self._fail(answer, send)
            elif received.streams:
                await self._stream(answer, receive, send)
            else:
                await self._send(send, 200, json.dumps(answer.whole).encode(), "application/json")
        finally:
            self.now_open -= 1

    async def _fail(self, failure: Failure, send: Any) -> None:
        body = failure.body if failure.body is not None else error_body(failure.status, "UNKNOWN")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self._send(send, failure.status, data, failure.content_type, failure.headers)

    async def _send(self, send: Any, status: int, data: bytes, kind: str, more: Any = ()) -> None:
        headers = [(b"content-type", kind.encode()), *((n.encode(), v.encode()) for n, v in more)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _stream(self, reply: Reply, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        data = b"".join(b"data: " + json.dumps(one, ensure_ascii=False).encode() + b"\r\n\r\n" for one in reply.chunks)
        pieces = reply.pieces(data) if reply.pieces is not None else [data]
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if reply.hangs:
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return
        if reply.breaks:
            raise ConnectionAbortedError("the script says so")
        await send({"type": "http.response.body", "body": b""})


@contextmanager
def served(app: Any) -> Iterator[str]:
    """An ASGI app behind uvicorn in a thread of its own; the base URL."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
    started = threading.Event()

    async def main() -> None:
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0)
        started.set()
        await task

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert started.wait(10), "the server did not start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
