"""The live adapters against local servers that speak the published frames, as peers of the live suite."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.gemini.live_making import LIVE_2, model_for
from tests.gemini.live_service import Line, live_server
from tests.openai import realtime_service as frames
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from hookwork import ModelResponse, text_content
from hookwork_openai import OpenAIModel
from hookwork_testkit.live import Cut, Hear, LiveStep
from hookwork_testkit.suites.live import LivePeer

Frame = dict[str, Any]
#: Seconds after which nothing more is taken to follow an item of a conversation.
QUIET = 0.05


class WirePeer(LivePeer):
    """Plays a script over sockets: `say` sends what a message is on this provider's wire."""

    def __init__(self) -> None:
        super().__init__()
        self.sockets: list[Any] = []
        self._asked = asyncio.Semaphore(0)

    def open_lines(self) -> int:
        return sum(socket.state.name == "OPEN" for socket in self.sockets)

    def asked(self) -> None:
        """The client wants an answer."""
        self._asked.release()

    async def play(
        self,
        script: Sequence[LiveStep],
        say: Callable[[ModelResponse], Awaitable[None]],
        cut: Callable[[int], Awaitable[None]],
        begin: Callable[[], Awaitable[None]],
    ) -> None:
        for step in script:
            if isinstance(step, Hear):
                await self._asked.acquire()
                await begin()
            elif isinstance(step, Cut):
                await cut(step.code)
            elif isinstance(step, str):
                await say(ModelResponse(content=text_content(step), partial=True))
            else:
                await say(step)


async def _both(playing: Awaitable[None], listening: Awaitable[None]) -> None:
    """Play, and listen until the client has gone."""
    player = asyncio.ensure_future(playing)
    try:
        await listening
    except ConnectionClosed:
        pass
    finally:
        player.cancel()
        await asyncio.gather(player, return_exceptions=True)


# --- Gemini -----------------------------------------------------------------------------------------------------------


class GeminiPeer(WirePeer):
    """Bidirectional GenerateContent over a real WebSocket."""

    def __init__(self, script: Sequence[LiveStep]) -> None:
        super().__init__()
        self.script = script

    async def talk(self, line: Line) -> None:
        socket = line._socket
        self.sockets.append(socket)

        async def say(message: ModelResponse) -> None:
            await line.send(**gemini_frame(message))

        async def cut(code: int) -> None:
            await (line.cut() if code == 1006 else line.close(code))

        async def begin() -> None:
            pass

        async def listen() -> None:
            while True:
                self.hear(await line.get())

        await _both(self.play(self.script, say, cut, begin), listen())

    def hear(self, frame: Frame) -> None:
        if content := frame.get("clientContent"):
            texts = [part["text"] for turn in content.get("turns", ()) for part in turn["parts"]]
            asks = bool(content.get("turnComplete"))
            if len(texts) > 1:
                self.note("history", (texts, asks))
            elif texts:
                self.note("text", texts[0])
            if asks:
                self.asked()
        elif answer := frame.get("toolResponse"):
            for response in answer["functionResponses"]:
                self.note("response", (response["id"], response["response"]))
            self.asked()
        elif realtime := frame.get("realtimeInput"):
            for chunk in realtime.get("mediaChunks") or [realtime.get("audio") or realtime.get("video")]:
                self.note("blob", chunk["mimeType"].partition(";")[0])


def gemini_frame(message: ModelResponse) -> Frame:
    """A message as the service sends it."""
    if message.session_resumption_handle:
        return {"sessionResumptionUpdate": {"newHandle": message.session_resumption_handle, "resumable": True}}
    content: Frame = {}
    for part in message.content.parts if message.content is not None else ():
        if part.function_call is not None:
            calls = [
                {"id": call.id, "name": call.name, "args": dict(call.args or {})}
                for call in message.content.function_calls  # type: ignore[union-attr]
            ]
            return {"toolCall": {"functionCalls": calls}}
        if part.inline_data is not None:
            data = base64.b64encode(part.inline_data.data or b"").decode()
            blob = {"inlineData": {"mimeType": part.inline_data.mime_type, "data": data}}
            content["modelTurn"] = {"parts": [blob]}
        else:
            content["modelTurn"] = {"parts": [{"text": part.text}]}
    for name, said in (
        ("inputTranscription", message.input_transcription),
        ("outputTranscription", message.output_transcription),
    ):
        if said is not None:
            content[name] = {"text": said.text}
    if message.turn_complete:
        content["turnComplete"] = True
    if message.interrupted:
        content["interrupted"] = True
    return {"serverContent": content}


@asynccontextmanager
async def gemini_peer(*script: LiveStep) -> AsyncIterator[LivePeer]:
    """A Gemini model on a local live server that plays a script on each connection."""
    peer = GeminiPeer(script)
    with pytest.MonkeyPatch.context() as patch:
        async with live_server(patch) as server:
            server.talks = [peer.talk] * 8
            peer.model = model_for(server, name=LIVE_2)
            try:
                yield peer
            finally:
                await peer.model.close()


# --- OpenAI -----------------------------------------------------------------------------------------------------------


class OpenAIPeer(WirePeer):
    """Realtime sessions over a real WebSocket."""

    def __init__(self, script: Sequence[LiveStep]) -> None:
        super().__init__()
        self.script = script

    async def talk(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        items: list[Frame] = []

        async def send(frame: Frame) -> None:
            await socket.send(json.dumps({"event_id": "e", **frame}))

        async def say(message: ModelResponse) -> None:
            for frame in openai_frames(message):
                await send(frame)

        async def cut(code: int) -> None:
            if code == 1006:
                socket.transport.abort()
            else:
                await socket.close(code)

        async def begin() -> None:
            await send(frames.begun())

        async def listen() -> None:
            while True:
                quiet = QUIET if items and items[-1]["role"] == "assistant" else None
                try:
                    async with asyncio.timeout(quiet):
                        frame = json.loads(await socket.recv())
                except TimeoutError:
                    self.note("history", (_texts(items), False))
                    items.clear()
                    continue
                self.hear(frame, items)

        await send({"type": "session.created", "session": {"model": "gpt-realtime-2"}})
        await _both(self.play(self.script, say, cut, begin), listen())

    def hear(self, frame: Frame, items: list[Frame]) -> None:
        kind = frame["type"]
        if kind == "input_audio_buffer.append":
            self.note("blob", "audio/pcm")
        elif kind == "conversation.item.create" and frame["item"]["type"] == "function_call_output":
            self.note("response", (frame["item"]["call_id"], json.loads(frame["item"]["output"])))
        elif kind == "conversation.item.create":
            items.append(frame["item"])
        elif kind == "response.create":
            if len(items) > 1:
                self.note("history", (_texts(items), True))
            elif items:
                self.note("text", _texts(items)[0])
            items.clear()
            self.asked()


def _texts(items: Sequence[Frame]) -> list[str]:
    return [piece["text"] for item in items for piece in item["content"]]


def openai_frames(message: ModelResponse) -> list[Frame]:
    """A message as the events that the service sends."""
    found: list[Frame] = []
    place = {"item_id": "item_1", "content_index": 0}
    if message.input_transcription is not None:
        kind = "conversation.item.input_audio_transcription.delta"
        found.append({"type": kind, **place, "delta": message.input_transcription.text})
    if message.output_transcription is not None:
        found.append(frames.transcript(message.output_transcription.text or ""))
    calls = []
    for part in message.content.parts if message.content is not None else ():
        if part.function_call is not None:
            call = part.function_call
            found.append(frames.called(call.name or "", json.dumps(dict(call.args or {})), call.id or ""))
            calls.append({"type": "function_call", "id": f"item_{call.id}", "call_id": call.id, "name": call.name})
        elif part.inline_data is not None:
            found.append(frames.audio(base64.b64encode(part.inline_data.data or b"").decode()))
        else:
            found.append(frames.text(part.text or ""))
    if calls:
        found.append(frames.ended("completed", *calls))
    if message.interrupted:
        found.append({"type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": "item_2"})
    if message.turn_complete:
        found.append(frames.ended())
    return found


@asynccontextmanager
async def openai_peer(*script: LiveStep) -> AsyncIterator[LivePeer]:
    """An OpenAI model on a local Realtime server that plays a script on each connection."""
    peer = OpenAIPeer(script)
    async with serve(peer.talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        peer.model = OpenAIModel("gpt-realtime-2", base_url=f"http://127.0.0.1:{port}/v1", api_key="sk-test")
        try:
            yield peer
        finally:
            await peer.model.close()
