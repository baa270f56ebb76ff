"""What the user sends during a live session, on its way to the model (core LIVE-3, HITL-16)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hookwork.live import LiveRequest, RealtimeInput, with_mime_type
from hookwork.records.content import Blob, Content, Part
from hookwork_llm.live.inbox import Closed, Said

if TYPE_CHECKING:
    from hookwork_llm.live.session import LiveSession


class Intake:
    """Takes requests off the run's channel. `listen` is the work of a task; `said` belongs to the session's own."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._writes_sound = session.channel.config.input_audio_transcription is not None
        #: answers to questions of something that a call started and that is not at rest yet.
        self._early: list[Content] = []

    async def listen(self) -> None:
        """Hand on what is sent, in order: contents once they are stored, the rest as it comes."""
        session = self._session
        while (request := await session.channel.next()) is not None:
            if request.content is not None:
                await self._hand_over(request, request.content)
            if request.realtime_input is not None:
                self._hear(request.realtime_input)
                await session.outbox.realtime(request.realtime_input)
        session.inbox.post(Closed())

    async def _hand_over(self, request: LiveRequest, content: Content) -> None:
        item = Said(content)
        try:
            await self._session.inbox.hand_over(item)
        except asyncio.CancelledError:
            if not item.taken:
                self._session.channel.put_back(request)  # for whoever listens next
            raise

    def _hear(self, item: RealtimeInput) -> None:
        if not isinstance(item, Blob):
            return
        if self._session.recorder is not None:
            self._session.recorder.heard(item)
        if not self._writes_sound and (with_mime_type(item).mime_type or "").lower().startswith("audio/"):
            self._session.recovery.unwritten = True

    async def said(self, content: Content) -> None:
        """Store a content and send it; answers of a person to requests are carried out instead."""
        if self._is_early(content):
            self._early.append(content)
        else:
            await self._take(content)

    async def take_early(self, *, all_of_them: bool = False) -> None:
        """Store the answers that had to wait, now that calls are over; ``all_of_them``: because the session ends."""
        waiting, self._early = self._early, []
        for content in waiting:
            if all_of_them:
                await self._take(content)
            else:
                await self.said(content)

    def _is_early(self, content: Content) -> bool:
        """Whether an answer is for something below a call that still runs: stored now, it would be taken for old news
        by what asks, which is on its way to wait for it.
        """
        running = self._session.tools.running.values()
        if not running or not content.function_responses:
            return False
        newest = self._session.inv.history().newest_call
        asked = [call for response in content.function_responses if (call := newest(response.id or "")) is not None]
        return any(call.path == path or call.path.startswith(f"{path}/") for call in asked for path in running)

    async def _take(self, content: Content) -> None:
        session = self._session
        task = session.tasks.listening()
        taken = await session.channel.take(content, task)
        if taken is None:
            return
        answers = [part for part in taken.parts if part.function_response is not None]
        to_model = [part for part in answers if self._is_of_model(part)]
        if len(to_model) < len(answers):
            session.tools.run_released()
        if to_model:
            session.answer(Content(role="user", parts=to_model))
        other = [part for part in taken.parts if part.function_response is None]
        if task or len(to_model) < len(answers):
            session.tasks.go_on()
        if other and not (task and not answers):
            session.outbox.content(Content(role="user", parts=other) if answers else taken)

    def _is_of_model(self, part: Part) -> bool:
        """Whether an answer is for a call that the model made: not for a request of the kit, nor for a call below."""
        response = part.function_response
        own = self._session.ctx.view.calls
        return response is not None and any(call.kind == "tool" and call.id == response.id for call in own)
