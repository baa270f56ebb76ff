"""One open session (models RT-2…4). Imported with the SDK, at the first connect."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from openai.resources.realtime.realtime import AsyncRealtimeConnection
from websockets.exceptions import ConnectionClosed

from hookwork.errors import LiveConnectionClosed
from hookwork.live import (
    ActivityEnd,
    ActivityStart,
    LiveConnection,
    RealtimeInput,
    check_content,
    check_realtime,
    with_mime_type,
    without_audio,
)
from hookwork.records.content import Blob, Content
from hookwork.records.metadata import ModelResponse
from hookwork_openai.call import Call
from hookwork_openai.media import inline_item
from hookwork_openai.realtime.events import SESSION_UPDATE, ServerEvents
from hookwork_openai.realtime.items import answer_items, conversation_items
from hookwork_openai.realtime.session import audio_format, has_turn_detection

#: The WebSocket close code that stands for "no close frame came" (RFC 6455 §7.4.1).
_NO_CLOSE_FRAME = 1006


class RealtimeConnection(LiveConnection):
    """A connection; see `hookwork.live.LiveConnection`.

    The service gives one response at a time. One that is due while another is being given is asked for afterwards: to
    answers of calls once all calls have theirs, to what the user said in any case: a call may stay open for long.
    """

    def __init__(self, call: Call, connection: AsyncRealtimeConnection, session: Mapping[str, Any]) -> None:
        self._call = call
        self._connection = connection
        self._session = session
        self._detects_turns = has_turn_detection(session)
        given, made = session["audio"]["input"]["format"], session["audio"]["output"]["format"]
        self._audio_format = given
        rate = f";rate={made['rate']}" if "rate" in made else ""
        self._events = ServerEvents(call, f"{made['type']}{rate}")
        self._response_due = self._user_waits = False
        self._closed = False

    @property
    def session_id(self) -> str:
        return self._events.session_id

    async def configure(self) -> None:
        """Send the settings; the service's refusal is raised by `receive`."""
        await self._send({"type": "session.update", "event_id": SESSION_UPDATE, "session": self._session})

    # --- out ----------------------------------------------------------------------------------------------------------

    async def send_history(self, contents: Sequence[Content]) -> None:
        kept = [content for content in without_audio(contents) if content.parts]
        if not kept:
            return
        for item in conversation_items(self._call, kept):
            await self._create(item)
        if (kept[-1].role or "user") == "user":
            await self._ask_for_response()

    async def send_content(self, content: Content) -> None:
        check_content(content)
        if content.parts[0].function_response is not None:
            for item in answer_items(self._call, content):
                await self._create(item)
                self._events.open_calls.discard(item["call_id"])
            if self._events.open_calls:
                return  # the model is asked once, when it has all it waits for
        else:
            for item in conversation_items(self._call, [content]):
                await self._create(item)
            self._user_waits = self._events.responding
        await self._ask_for_response()

    async def send_realtime(self, item: RealtimeInput) -> None:
        check_realtime(item)
        if isinstance(item, Blob):
            await self._media(with_mime_type(item))
        elif self._detects_turns:
            return  # the service marks activity itself
        elif isinstance(item, ActivityStart):
            if self._events.responding:  # the user speaks over the model
                await self._send({"type": "response.cancel"})
        elif isinstance(item, ActivityEnd):
            await self._send({"type": "input_audio_buffer.commit"})
            await self._ask_for_response()

    async def _media(self, blob: Blob) -> None:
        mime = blob.mime_type or ""
        if mime.startswith("image/"):
            message = {"type": "message", "role": "user", "content": [inline_item(self._call, blob)]}
            await self._create(message)
            return
        if audio_format(self._call, mime) != self._audio_format:
            wanted = self._audio_format["type"]
            raise self._call.refused("unsupported_audio", f"this session takes {wanted}, and {mime!r} was sent")
        audio = base64.b64encode(blob.data or b"").decode()
        await self._send({"type": "input_audio_buffer.append", "audio": audio})

    async def _create(self, item: Mapping[str, Any]) -> None:
        await self._send({"type": "conversation.item.create", "item": item})

    async def _ask_for_response(self) -> None:
        if self._events.responding:
            self._response_due = True
            return
        self._response_due = self._user_waits = False
        self._events.responding = True
        await self._send({"type": "response.create"})

    async def _send(self, event: Mapping[str, Any]) -> None:
        try:
            await self._connection.send_raw(json.dumps(event))
        except ConnectionClosed as error:
            raise self._lost(error) from error

    # --- in -----------------------------------------------------------------------------------------------------------

    async def receive(self) -> AsyncIterator[ModelResponse]:
        while True:
            try:
                data = await self._connection.recv_bytes()
            except ConnectionClosed as error:
                if self._closed:
                    return
                raise self._lost(error) from error
            response = self._read(data)
            if self._events.refused_response:
                self._events.refused_response, self._response_due = False, True
            may_ask = self._user_waits or not self._events.open_calls
            if self._response_due and not self._events.responding and may_ask:
                await self._ask_for_response()
            if response is not None:
                yield response

    def _read(self, data: bytes) -> ModelResponse | None:
        try:
            return self._events.read(json.loads(data))
        except (ValueError, RecursionError) as error:  # no JSON, or a value in it that no record can hold
            raise self._call.unreadable("bad_frame", "the service sent a frame that cannot be read") from error

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._connection.close()

    def _lost(self, error: ConnectionClosed) -> LiveConnectionClosed:
        code = error.rcvd.code if error.rcvd is not None else _NO_CLOSE_FRAME
        return LiveConnectionClosed(
            f"{self._call.provider} {self._call.model!r}: the session was closed (code {code})",
            close_code=code,
            provider=self._call.provider,
            model=self._call.model,
        )
