"""A real HTTP server that speaks the published wire format of the service, one scripted service per test.

It runs in a thread with a loop of its own. A service is reached at ``<server>/<its number>/v1``; it answers each
request with the next reply of its script, or with what its ``respond`` function says, and keeps what it was sent.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

PATIENCE = 10.0


@dataclass
class Sent:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Json:
    """A JSON answer."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Raw:
    """Any other answer."""

    text: str | bytes
    status: int = 200
    kind: str = "text/plain"


@dataclass
class Sse:
    """A stream of events.

    Attributes:
        events: JSON objects, or texts that stand as they are after ``data: ``.
        named: an ``event:`` line with the event's type comes first, as the Responses API sends it.
        done: ``data: [DONE]`` at the end, as Chat Completions send it.
        pieces: lengths of the pieces in which the bytes are sent, repeated; none: one piece per event.
        breaks: the connection breaks at the end.
        hangs: the stream stays open at its end until the client goes.
        hold: index of an event → an `asyncio`-free gate that is waited for before it is sent.
    """

    events: Sequence[Any]
    named: bool = True
    done: bool = False
    pieces: Sequence[int] = ()
    breaks: bool = False
    hangs: bool = False
    hold: dict[int, threading.Event] = field(default_factory=dict)
    status: int = 200

    def frames(self) -> list[bytes]:
        frames = []
        for event in self.events:
            text = event if isinstance(event, str) else json.dumps(event)
            head = f"event: {event['type']}\n" if self.named and isinstance(event, dict) and "type" in event else ""
            frames.append(f"{head}data: {text}\n\n".encode())
        if self.done:
            frames.append(b"data: [DONE]\n\n")
        return frames


Reply = Json | Raw | Sse


class Service:
    """One scripted service."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.sent: list[Sent] = []
        self.script: list[Reply] = []
        self.respond: Callable[[Sent], Reply] | None = None
        #: a stream ended because the client went.
        self.left = threading.Event()
        self.open = 0
        self._changed = threading.Condition()
        self.clients: set[Any] = set()

    def answers(self, *replies: Reply) -> Service:
        self.script.extend(replies)
        return self

    @property
    def body(self) -> dict[str, Any]:
        """The body of the last request."""
        return self.sent[-1].body

    def count(self, change: int) -> None:
        """One stream more, or one less, is open."""
        with self._changed:
            self.open += change
            self._changed.notify_all()

    def wait_idle(self) -> bool:
        """Whether all streams are closed, at last."""
        with self._changed:
            return self._changed.wait_for(lambda: self.open == 0, PATIENCE)

    def next_reply(self, sent: Sent) -> Reply:
        if self.respond is not None:
            return self.respond(sent)
        assert self.script, "the service was asked more often than its script says"
        return self.script.pop(0)


class ServiceHost:
    """The server behind all services of a test session."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._services: dict[int, Service] = {}
        route = Route("/{number:int}/v1/{path:path}", self._serve, methods=["GET", "POST"])
        config = uvicorn.Config(Starlette(routes=[route]), port=0, log_level="critical", lifespan="off", backlog=2048)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self.address = ""

    def start(self) -> None:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            self._thread.join(0.01)
        self.address = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(PATIENCE)

    def service(self) -> Service:
        number = next(self._numbers)
        service = self._services[number] = Service(f"{self.address}/{number}/v1")
        return service

    async def _serve(self, request: Request) -> Response:
        service = self._services[request.path_params["number"]]
        raw = await request.body()
        sent = Sent("/" + request.path_params["path"], dict(request.headers), json.loads(raw) if raw else {})
        service.sent.append(sent)
        service.clients.add(request.client)
        reply = service.next_reply(sent)
        if isinstance(reply, Json):
            text = json.dumps(reply.body)
            return Response(text, reply.status, headers=reply.headers, media_type="application/json")
        if isinstance(reply, Raw):
            return Response(reply.text, reply.status, media_type=reply.kind)
        return StreamingResponse(_body(service, reply), reply.status, media_type="text/event-stream")


async def _body(service: Service, reply: Sse) -> AsyncIterator[bytes]:
    service.count(1)
    try:
        if reply.pieces:
            for piece in pieces_of(b"".join(reply.frames()), reply.pieces):
                yield piece
                await asyncio.sleep(0)
        else:
            for index, frame in enumerate(reply.frames()):
                if index in reply.hold:
                    await asyncio.to_thread(reply.hold[index].wait, PATIENCE)
                yield frame
        if reply.breaks:
            raise ConnectionError("the line breaks here")
        if reply.hangs:
            await asyncio.sleep(PATIENCE)
    except (asyncio.CancelledError, GeneratorExit):
        service.left.set()
        raise
    finally:
        service.count(-1)


def pieces_of(data: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    at = 0
    for length in itertools.cycle(lengths):
        if at >= len(data):
            return
        yield data[at : at + max(1, length)]
        at += max(1, length)


@contextmanager
def running_host() -> Iterator[ServiceHost]:
    host = ServiceHost()
    host.start()
    try:
        yield host
    finally:
        host.stop()
