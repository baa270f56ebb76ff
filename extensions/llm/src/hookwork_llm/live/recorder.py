"""Keeping the audio of a live session as artifacts (models LIVE-16, core LIVE-10)."""

from __future__ import annotations

from collections.abc import Callable

from hookwork.context import CallbackContext
from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import Blob, Content, FileData, Part
from hookwork.records.event import Event, NodeInfo
from hookwork.state import DeltaBuffer

#: What audio is when nobody says.
DEFAULT_TYPE = "audio/pcm"
_MP3 = ("audio/mp3", "audio/mpeg")
#: Where the URI of such a file says that it lies.
FOLDER = "_adk_live"


class _Track:
    """The audio of one side since it was last kept; type and time are those of its first piece."""

    __slots__ = ("mime_type", "pieces", "start")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.mime_type = DEFAULT_TYPE
        self.start = 0.0

    def add(self, blob: Blob) -> None:
        mime_type = (blob.mime_type or DEFAULT_TYPE).lower()
        if not blob.data or not mime_type.startswith("audio/"):
            return
        if not self.pieces:
            self.mime_type = blob.mime_type or DEFAULT_TYPE
            self.start = timestamp()
        self.pieces.append(blob.data)


class Recorder:
    """Collects audio; `keep_model` and `keep_both` save it and give the events that say where it lies."""

    def __init__(self, ctx_of: Callable[[DeltaBuffer], CallbackContext], agent_name: str, info: NodeInfo) -> None:
        self._ctx_of = ctx_of
        self._agent_name = agent_name
        self._info = info
        self._input = _Track()
        self._output = _Track()

    def heard(self, blob: Blob) -> None:
        """A piece of what the user said."""
        self._input.add(blob)

    def spoke(self, event: Event) -> None:
        """What the model said, as it passes."""
        for part in event.content.parts if event.content is not None else ():
            if part.inline_data is not None:
                self._output.add(part.inline_data)

    async def keep_model(self) -> list[Event]:
        """The user interrupted: what the model had said."""
        event = await self._keep("output_audio")
        return [event] if event is not None else []

    async def keep_both(self) -> list[Event]:
        """The turn, or the session, is over."""
        events = [await self._keep("input_audio"), await self._keep("output_audio")]
        return [event for event in events if event is not None]

    async def _keep(self, kind: str) -> Event | None:
        by_user = kind == "input_audio"
        track = self._input if by_user else self._output
        if not track.pieces:
            return None
        if by_user:
            self._input = _Track()
        else:
            self._output = _Track()
        bare = track.mime_type.partition(";")[0].strip().lower()
        name = f"adk_live_audio_storage_{kind}_{int(track.start * 1000)}.{'mp3' if bare in _MP3 else 'pcm'}"
        buffer = DeltaBuffer()
        ctx = self._ctx_of(buffer)
        blob = Blob(data=b"".join(track.pieces), mime_type=track.mime_type)
        version = await ctx.artifacts.save(name, Part(inline_data=blob))
        uri = f"artifact://{ctx.app_name}/{ctx.user_id}/{ctx.session_id}/{FOLDER}/{name}#{version}"
        part = Part(file_data=FileData(file_uri=uri, mime_type=track.mime_type))
        event = Event(
            id=new_uuid(),
            timestamp=track.start,
            invocation_id=ctx.invocation_id,
            author="user" if by_user else self._agent_name,
            content=Content(role="user" if by_user else "model", parts=[part]),
            branch=ctx.branch,
            isolation_scope=ctx.isolation_scope,
            node_info=self._info,
        )
        return ctx._inv.attach(event, buffer)
