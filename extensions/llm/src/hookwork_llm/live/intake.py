"""What the user sends during a live session, on its way to the model (core LIVE-3, HITL-16)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hookwork.confirmation import REQUEST_CONFIRMATION
from hookwork.live import LiveRequest, RealtimeInput
from hookwork.records.content import Blob, Content, Part
from hookwork.records.history import KINDS
from hookwork_llm.live.inbox import Closed, Said

if TYPE_CHECKING:
    from hookwork_llm.live.session import LiveSession


class Intake:
    """Takes requests off the run's channel. `listen` is the work of a task; `said` belongs to the session's own."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._writes_sound = session.channel.config.input_audio_transcription is not None

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
        if not self._writes_sound and (item.mime_type or "audio/").lower().startswith("audio/"):
            self._session.recovery.unwritten = True

    async def said(self, content: Content) -> None:
        """Store a content and send it; answers of a person to requests are carried out instead."""
        session = self._session
        taken = await session.channel.take(content)
        if taken is None:
            return
        answers = [part for part in taken.parts if part.function_response is not None]
        if any(_name(part) == REQUEST_CONFIRMATION for part in answers):
            session.tools.run_approved()
        to_model = [part for part in answers if _name(part) not in KINDS]  # no model made the calls of the kit
        if to_model:
            session.answer(Content(role="user", parts=to_model))
        if not answers:
            session.outbox.content(taken)
        elif len(answers) < len(taken.parts):
            other = [part for part in taken.parts if part.function_response is None]
            session.outbox.content(Content(role="user", parts=other))


def _name(part: Part) -> str:
    response = part.function_response
    return (response.name or "") if response is not None else ""
