"""Keeping the audio of a live session as artifacts (models LIVE-16, core LIVE-10)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hookwork.inside import invocation_of
from hookwork.live import with_mime_type
from hookwork.merge import cancel_and_wait
from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import Blob, Content, FileData, Part
from hookwork.records.event import Event, EventActions, NodeInfo
from hookwork.storing import append_event

if TYPE_CHECKING:
    from hookwork.context import CallbackContext

logger = logging.getLogger("hookwork.live")

#: Seconds that keeping the rest may take once the session was left.
REST_TIMEOUT = 5.0

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

    def take(self) -> _Track:
        """What is there so far, as a track of its own; this one is empty then."""
        taken = _Track()
        taken.pieces, taken.mime_type, taken.start = self.pieces, self.mime_type, self.start
        self.pieces = []
        return taken

    def put_back(self, taken: _Track) -> None:
        """What could not be saved stands before what came meanwhile."""
        self.pieces = [*taken.pieces, *self.pieces]
        self.mime_type, self.start = taken.mime_type, taken.start


class Recorder:
    """Collects audio; `keep_model` and `keep_both` save it and give the events that say where it lies.

    Whatever ends the session, nothing of it is lost. Where events can still be yielded, the end is another `keep_both`.
    Where they cannot, because the consumer left, the run was stopped or its task is being cancelled, `keep_rest` saves
    what is left and appends the events itself, as the kernel does with its closing responses: without hooks, and not
    yielded (core HND-5). It waits for that no longer than `REST_TIMEOUT`.
    """

    def __init__(self, ctx: CallbackContext, agent_name: str, info: NodeInfo) -> None:
        """``ctx``: whose artifacts the audio becomes."""
        self._ctx = ctx
        self._agent_name = agent_name
        self._info = info
        self._input = _Track()
        self._output = _Track()
        #: events that were made and not handed on yet, by id.
        self._made: dict[str, Event] = {}

    def heard(self, blob: Blob) -> None:
        """A piece of what the user said; a picture that does not say so is none (models LIVE-5)."""
        self._input.add(with_mime_type(blob))

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

    # --- the end ------------------------------------------------------------------------------------------------------

    def handed_on(self, event: Event) -> None:
        """An event goes to the consumer: storing it is the run's from here on."""
        self._made.pop(event.id, None)

    async def keep_rest(self) -> None:
        """Nobody takes events any more: save and store what is left, within `REST_TIMEOUT` seconds.

        It has a task of its own, so a cancellation does not cut it short; that is raised when it is done.
        """
        if not (self._input.pieces or self._output.pieces or self._made):
            return
        keeping = asyncio.get_running_loop().create_task(self._store_rest())
        try:
            await _until_done(keeping, REST_TIMEOUT)
        finally:
            if not keeping.done():
                logger.warning("the audio of a live session could not be kept within %s s", REST_TIMEOUT)
                await cancel_and_wait([keeping])

    async def _store_rest(self) -> None:
        for kind in ("input_audio", "output_audio"):
            try:
                await self._keep(kind)
            except Exception:
                logger.warning("%s of a live session could not be saved", kind, exc_info=True)
        inv = invocation_of(self._ctx)
        for event in list(self._made.values()):
            if inv.config.custom_metadata:
                event = event.replace(custom_metadata=inv.config.custom_metadata)
            try:
                await append_event(inv, event)
            except Exception:
                logger.warning("saved audio of a live session could not be noted in it", exc_info=True)
            self.handed_on(event)

    # --- one side -----------------------------------------------------------------------------------------------------

    async def _keep(self, kind: str) -> Event | None:
        by_user = kind == "input_audio"
        track = self._input if by_user else self._output
        if not track.pieces:
            return None
        taken = track.take()
        bare = taken.mime_type.partition(";")[0].strip().lower()
        name = f"adk_live_audio_storage_{kind}_{int(taken.start * 1000)}.{'mp3' if bare in _MP3 else 'pcm'}"
        ctx = self._ctx
        try:
            blob = Blob(data=b"".join(taken.pieces), mime_type=taken.mime_type)
            version = await ctx.artifacts.save(name, Part(inline_data=blob))
        except BaseException:
            track.put_back(taken)
            raise
        uri = f"artifact://{ctx.app_name}/{ctx.user_id}/{ctx.session_id}/{FOLDER}/{name}#{version}"
        part = Part(file_data=FileData(file_uri=uri, mime_type=taken.mime_type))
        event = Event(
            id=new_uuid(),
            timestamp=taken.start,
            invocation_id=ctx.invocation_id,
            author="user" if by_user else self._agent_name,
            content=Content(role="user" if by_user else "model", parts=[part]),
            actions=EventActions(artifact_delta={name: version}),
            branch=ctx.branch,
            isolation_scope=ctx.isolation_scope,
            node_info=self._info,
        )
        self._made[event.id] = event
        return event


async def _until_done(task: asyncio.Task[None], timeout: float) -> None:
    """Until a task has ended, or so many seconds; a cancellation meanwhile is raised afterwards."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and (left := end - loop.time()) > 0:
        try:
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
