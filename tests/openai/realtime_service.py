"""A Realtime service on a real WebSocket that plays scripts: what it says, what it waits to hear, how it hangs up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

Frame = dict[str, Any]


@dataclass
class Hear:
    """Wait for the client's next frame of a type."""

    type: str


@dataclass
class HangUp:
    """Close with a code; None: drop the line without a close frame."""

    code: int | None


class Stay:
    """Stay on the line until the client goes."""


#: A text is sent as it is.
Step = Frame | Hear | HangUp | Stay | str


class RealtimeService:
    """What was heard, connection by connection, and the scripts to play."""

    def __init__(self, *scripts: Sequence[Step], refuse: int | None = None) -> None:
        self.scripts = [list(script) for script in scripts]
        self.refuse = refuse
        self.heard: list[list[Frame]] = []
        self.requests: list[Request] = []
        self.closed: list[int | None] = []
        self.base_url = ""

    @property
    def types(self) -> list[str]:
        """The types of the frames of the last connection, its settings left out."""
        return [frame["type"] for frame in self.heard[-1] if frame["type"] != "session.update"]

    def frames(self, type: str) -> list[Frame]:
        return [frame for frame in self.heard[-1] if frame["type"] == type]

    @property
    def session(self) -> Frame:
        found: Frame = self.frames("session.update")[0]["session"]
        return found

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        return connection.respond(self.refuse, "no") if self.refuse is not None else None

    async def _talk(self, ws: ServerConnection) -> None:
        heard: list[Frame] = []
        self.heard.append(heard)
        waiting: asyncio.Queue[Frame] = asyncio.Queue()

        async def listen() -> None:
            async for message in ws:
                frame = json.loads(message)
                heard.append(frame)
                waiting.put_nowait(frame)

        listener = asyncio.create_task(listen())
        try:
            await ws.send(
                json.dumps({"type": "session.created", "event_id": "e0", "session": {"model": "gpt-realtime-2"}})
            )
            await self._play(ws, self.scripts.pop(0), waiting, listener)
        finally:
            if not listener.done() and ws.state.name == "OPEN":
                await ws.close()
            await asyncio.wait([listener], timeout=5)
            listener.cancel()
            self.closed.append(ws.close_code)

    async def _play(
        self, ws: ServerConnection, script: Sequence[Step], waiting: asyncio.Queue[Frame], listener: asyncio.Task[None]
    ) -> None:
        for step in script:
            if isinstance(step, Hear):
                while (await asyncio.wait_for(waiting.get(), 5))["type"] != step.type:
                    pass
            elif isinstance(step, HangUp):
                if step.code is None:
                    ws.transport.abort()
                else:
                    await ws.close(step.code)
                return
            elif isinstance(step, Stay):
                await asyncio.wait([listener], timeout=5)
            else:
                await ws.send(step if isinstance(step, str) else json.dumps({"event_id": "e", **step}))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RealtimeService]:
        async with serve(self._talk, "127.0.0.1", 0, process_request=self._answer) as server:
            port = server.sockets[0].getsockname()[1]
            self.base_url = f"http://127.0.0.1:{port}/v1"
            yield self


# --- what the service says -------------------------------------------------------------------------------------------


def begun() -> Frame:
    return {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}


def text(delta: str) -> Frame:
    place = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}
    return {"type": "response.output_text.delta", **place, "delta": delta}


def transcript(delta: str) -> Frame:
    return {**text(delta), "type": "response.output_audio_transcript.delta"}


def audio(base64: str) -> Frame:
    return {**text(base64), "type": "response.output_audio.delta"}


def called(name: str, arguments: str, call_id: str = "call_1") -> Frame:
    place = {"response_id": "resp_1", "item_id": f"item_{call_id}", "output_index": 0}
    return {
        "type": "response.function_call_arguments.done",
        **place,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


def ended(status: str = "completed", *output: Frame, details: Frame | None = None, usage: Frame | None = None) -> Frame:
    response = {"id": "resp_1", "status": status, "status_details": details, "output": list(output), "usage": usage}
    return {"type": "response.done", "response": response}


def usage(given: int = 10, cached: int = 4, made: int = 6) -> Frame:
    return {
        "input_tokens": given,
        "output_tokens": made,
        "total_tokens": given + made,
        "input_token_details": {"cached_tokens": cached, "text_tokens": given - 3, "audio_tokens": 3},
        "output_token_details": {"text_tokens": 1, "audio_tokens": made - 1},
    }


def failure(code: str | None, message: str = "It broke.", event_id: str | None = None) -> Frame:
    error = {"type": "server_error", "code": code, "message": message, "event_id": event_id}
    return {"type": "error", "error": error}


A_CALL = {"type": "function_call", "id": "item_call_1", "call_id": "call_1", "name": "f"}
