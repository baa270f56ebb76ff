"""The kit's own suite for live connections, over a real WebSocket, in the published frames (models §7, §8b)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.openai.asking import KEY
from tests.openai.realtime_service import Frame, audio, begun, called, ended, text, transcript
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from hookwork import ModelResponse
from hookwork_openai import OpenAIModel
from hookwork_testkit.live import Cut, Hear, LiveStep
from hookwork_testkit.suites.leftovers import settle
from hookwork_testkit.suites.live import LiveConnectionSuite, LivePeer

_HEARD = "conversation.item.input_audio_transcription.delta"


class _Line:
    """The server's side of one connection: plays the script in frames, reports what it hears as contents."""

    def __init__(self, ws: ServerConnection, script: tuple[LiveStep, ...], note: Callable[[str, Any], None]) -> None:
        self._ws = ws
        self._script = script
        self._note = note
        self._items: list[Frame] = []
        self._contents = asyncio.Semaphore(0)
        self._responding = False
        self._cut_off = False
        self._waiting: asyncio.Task[None] | None = None

    async def run(self) -> None:
        player = asyncio.create_task(self._play())
        try:
            async for message in self._ws:
                self._hear(json.loads(message))
        finally:
            tasks = [player] if self._waiting is None else [player, self._waiting]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    # --- in -----------------------------------------------------------------------------------------------------------

    def _hear(self, frame: Frame) -> None:
        kind = frame["type"]
        if kind == "input_audio_buffer.append":
            assert base64.b64decode(frame["audio"])
            self._note("blob", "audio/pcm")
        elif kind == "response.create":
            if self._items:
                self._told(asks=True)
            self._contents.release()
        elif kind == "conversation.item.create":
            item = frame["item"]
            if item["type"] == "function_call_output":
                self._note("response", (item["call_id"], json.loads(item["output"])))
            else:
                self._items.append(item)
                if item["role"] == "assistant":  # a history; does more of it come?
                    self._waiting = asyncio.create_task(self._wait_for_more(len(self._items)))

    async def _wait_for_more(self, count: int) -> None:
        await asyncio.sleep(0.1)
        await settle()  # what has arrived meanwhile is heard first
        if len(self._items) == count:
            self._told(asks=False)

    def _told(self, *, asks: bool) -> None:
        texts = [piece["text"] for item in self._items for piece in item["content"]]
        single = len(self._items) == 1 and self._items[0]["role"] == "user"
        self._items = []
        self._note(*(("text", texts[0]) if single else ("history", (texts, asks))))

    # --- out ----------------------------------------------------------------------------------------------------------

    async def _play(self) -> None:
        for step in self._script:
            if isinstance(step, Hear):
                for _ in range(step.contents):
                    await self._contents.acquire()
            elif isinstance(step, Cut):
                if step.code == 1006:
                    self._ws.transport.abort()
                else:
                    await self._ws.close(step.code)
            else:
                for frame in self._frames(step):
                    await self._ws.send(json.dumps(frame))

    def _frames(self, step: str | ModelResponse) -> Iterator[Frame]:
        if isinstance(step, str):
            yield from self._begin()
            yield text(step)
        elif step.turn_complete:
            yield from self._begin()
            cut = {"type": "cancelled", "reason": "turn_detected"}
            yield ended("cancelled", details=cut) if self._cut_off else ended()
            self._responding = self._cut_off = False
        elif step.interrupted:
            self._cut_off = True
            yield {"type": "input_audio_buffer.speech_started", "item_id": "i", "audio_start_ms": 0}
        elif step.input_transcription is not None:
            yield {"type": _HEARD, "item_id": "i", "content_index": 0, "delta": step.input_transcription.text}
        elif step.output_transcription is not None:
            yield from self._begin()
            yield transcript(step.output_transcription.text or "")
        elif step.content is not None:
            yield from self._content(step.content.parts)

    def _content(self, parts: Any) -> Iterator[Frame]:
        yield from self._begin()
        made: list[Mapping[str, Any]] = []
        for part in parts:
            if part.inline_data is not None:
                yield audio(base64.b64encode(part.inline_data.data).decode())
            elif part.function_call is not None:
                call = part.function_call
                made.append({"type": "function_call", "call_id": call.id, "name": call.name})
                yield called(call.name, json.dumps(dict(call.args or {})), call.id)
        if made:
            yield ended("completed", *[dict(item) for item in made])
            self._responding = False

    def _begin(self) -> Iterator[Frame]:
        if not self._responding:
            self._responding = True
            yield begun()


class _Peer(LivePeer):
    def __init__(self, script: tuple[LiveStep, ...]) -> None:
        super().__init__()
        self._script = script
        self._lines: list[ServerConnection] = []

    async def talk(self, ws: ServerConnection) -> None:
        self._lines.append(ws)
        await _Line(ws, self._script, self.note).run()

    def open_lines(self) -> int:
        return sum(ws.state.name == "OPEN" for ws in self._lines)


class TestRealtime(LiveConnectionSuite):
    plays = LiveConnectionSuite.plays - {"handle"}  # RT-4

    @pytest.fixture(autouse=True)
    async def _server(self) -> AsyncIterator[None]:
        """One server for all peers of a test, told apart by their path: a peer may be cancelled at any time."""
        self._peers: list[_Peer] = []

        async def talk(ws: ServerConnection) -> None:
            assert ws.request is not None
            with suppress(ConnectionClosed):
                await self._peers[int(ws.request.path.split("/")[1])].talk(ws)

        async with serve(talk, "127.0.0.1", 0) as server:
            self._address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield

    @asynccontextmanager
    async def peer(self, *script: LiveStep) -> AsyncIterator[LivePeer]:
        peer = _Peer(script)
        self._peers.append(peer)
        address = f"{self._address}/{len(self._peers) - 1}/v1"
        peer.model = OpenAIModel("gpt-realtime-2", base_url=address, api_key=KEY)
        try:
            yield peer
        finally:
            await peer.model.close()
