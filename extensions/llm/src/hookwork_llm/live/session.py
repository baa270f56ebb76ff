"""A live session of an LLM agent: what comes in from model, user and tools, as events (core LIVE-2 … LIVE-10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from hookwork.context import CallbackContext, InvocationContext
from hookwork.errors import LimitExceeded, UnsupportedOperationError
from hookwork.live import CANCELLED_CALLS, GO_AWAY
from hookwork.live_run import LiveActivation, channel_of
from hookwork.model import ModelRequest
from hookwork.node import Standing
from hookwork.platform import sleep
from hookwork.records.content import Content
from hookwork.records.event import Event
from hookwork.records.metadata import ModelResponse
from hookwork.state import DeltaBuffer
from hookwork_llm.live.calls import LiveTools
from hookwork_llm.live.events import EventMaker
from hookwork_llm.live.inbox import (
    Answered,
    Closed,
    Crew,
    Failed,
    Inbox,
    Item,
    Leave,
    LineDown,
    LineUp,
    Made,
    Received,
    Redial,
    Said,
    ToolsDone,
    acknowledge,
)
from hookwork_llm.live.intake import Intake
from hookwork_llm.live.line import Line
from hookwork_llm.live.outbox import Outbox
from hookwork_llm.live.recorder import Recorder
from hookwork_llm.live.recovery import Recovery
from hookwork_llm.live.request import LiveFlow, check_live
from hookwork_llm.live.server_calls import ServerCalls
from hookwork_llm.live.streams import Streams
from hookwork_llm.live.tasks import LiveTasks
from hookwork_llm.live.transcript import Transcript
from hookwork_llm.standing import hand_over_is_due, sort_calls

if TYPE_CHECKING:
    from hookwork_llm.agent import LlmAgent

logger = logging.getLogger("hookwork.live")

#: Seconds between the response of `task_completed` and the end of the connection, for the model to hear it (LIVE-14).
LEAVE_DELAY = 0.1
#: Seconds that the end of a session waits for a line that takes nothing more.
SEND_TIMEOUT = 5.0


async def run_live_flow(agent: LlmAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
    """One live agent call: connections, until the user closes, the agent is done, or the line is lost for good."""
    session = LiveSession(agent, ctx)
    recorder = session.recorder
    try:
        async with aclosing(session.events()) as events:
            async for event in events:
                if recorder is not None:
                    recorder.handed_on(event)
                yield event
    finally:
        if recorder is not None:
            await recorder.keep_rest()


class LiveSession:
    """What one live agent call works on. `events` is the only place that yields; everything else puts items in."""

    def __init__(self, agent: LlmAgent, ctx: InvocationContext) -> None:
        assert isinstance(ctx.activation, LiveActivation)
        check_live(agent)
        self.agent = agent
        self.ctx = ctx
        self.channel = channel_of(ctx)
        self.flow = LiveFlow(agent, ctx)
        self.inv = self.flow.inv
        self.flow.ends_by_tool = ctx.activation.ends_by_tool
        self.inbox = Inbox()
        self.crew = Crew(self.inbox)
        self.streams = Streams(self.flow, self.crew, self.say)
        self._model = self.flow.prepared.require_model()
        self.tools = LiveTools(self, self._model.capabilities.max_parallel_live_tools)
        self.tasks = LiveTasks(self)
        self.outbox = Outbox()
        self.recovery = Recovery(self.channel.take_handle())
        self.recorder: Recorder | None = None
        if self.channel.config.save_live_blob:
            kept_at = ctx.callback(DeltaBuffer(), f"live/{self.inv.user_messages}")
            self.recorder = Recorder(kept_at, agent.name, self.flow.path_info)
        self._intake = Intake(self)
        self.maker = EventMaker(self.flow)
        self._transcript = Transcript(self.flow, self.maker, self.tools.run, lambda: self.tools.batches > 0)
        self._server_calls = ServerCalls()
        self._request = ModelRequest()
        self._stage_context: CallbackContext = ctx
        self._line: Line | None = None
        self._error: Exception | None = None
        self._over = self._closing = self._transfers = False

    # --- the one place that yields ------------------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events of the session, in the order in which they are stored."""
        stage = await self.flow.begin_step()
        if stage is None:
            left = self.flow.left_writes()
            if left is not None:
                yield left
            return
        self._request, self._stage_context = stage.request, stage.ctx
        try:
            self._dial()
            self.crew.start(self._intake.listen())
            while not self._over:
                item = await self.inbox.take()
                for event in await self._dealt_with(item):
                    yield event
                    if isinstance(item, Made) and event.id == item.event.id:
                        item.event = self._as_stored(event)
                    self._transcript.stored(event)
                    self.tasks.stored(event)
                acknowledge(item)
                if self._error is not None:
                    raise self._error
                self._over = self._over or self.inv.ended
                if self._transfers:
                    self._leave_when_handed_over()
            await self.crew.end()
            for event in await self._farewell():
                yield event
            marker = self._end_marker()
            if marker is not None:
                yield marker
        except Exception:
            await self.crew.end()
            for event in await self._salvage():
                yield event
            raise
        finally:
            await self.crew.end()

    async def _dealt_with(self, item: Item) -> Sequence[Event]:
        """What an item leads to; the events to yield."""
        match item:
            case Answered():
                return self._answered(item.response)
            case Received():
                return await self._received(item.response)
            case Said():
                await self._intake.said(item.content)
            case Made():
                return self._tool_event(item.event)
            case LineUp():
                self._line_is_up()
            case LineDown():
                return await self._line_is_down(item.error)
            case ToolsDone():
                await self._intake.take_early()
                self.tasks.work()
                return self._transcript.show_what_waits()
            case Redial():
                self._dial()
            case Closed():
                self._closing = True
                await self._intake.take_early(all_of_them=True)
                self.crew.start(self._leave_after_sending())
            case Leave():
                self._over = True
            case Failed():
                raise item.error
        return ()

    # --- the line -----------------------------------------------------------------------------------------------------

    def _dial(self) -> None:
        """Open a connection: the first one, or the next (LIVE-4, models LIVE-9, LIVE-11)."""
        built, config, handle = self._request, self.channel.config, self.recovery.handle
        contents: Sequence[Content] = built.contents
        if self._line is not None and handle is None:
            contents = self.outbox.without_unanswered(self.flow.contents())
            self._server_calls.forget()
        if handle is not None:
            config = config.resuming(handle)
        elif config.session_resumption is not None:
            config = config.replace(session_resumption=config.session_resumption.replace(handle=None))
        request = ModelRequest(model=built.model, contents=contents, config=built.config, tools=dict(built.tools))
        self._line = Line(
            self.agent,
            self._model,
            request,
            self._stage_context,
            config=config,
            history=handle is None,
            inbox=self.inbox,
            outbox=self.outbox,
            server_calls=self._server_calls,
        )
        self.crew.start(self._line.run())

    def _line_is_up(self) -> None:
        assert self._line is not None
        self.flow.table = self._line.request.tools  # hooks may have put another table in its place
        self.recovery.opened()
        self.outbox.opened()

    async def _line_is_down(self, error: Exception | None) -> Sequence[Event]:
        """Decide what comes after a connection; what the user said so far is written down first."""
        self.outbox.lost()
        events = self._transcript.cut()
        if error is None or (self._closing and self.recovery.was_open):
            self._over = True
            return events
        try:
            delay = self.recovery.delay(error, self._model.name)
        except Exception as final:  # noqa: BLE001 - raised once the events are out, unless a hook answers it
            self._over = True
            try:
                return [*events, *self._answered(await self._recovered(final))]
            except Exception as unanswered:  # noqa: BLE001
                self._error = unanswered
            return events
        logger.info("live connection of agent %r lost (%s); the next one in %s s", self.agent.name, error, delay)
        self.crew.start(self._redial_after(delay))
        return events

    async def _recovered(self, error: Exception) -> ModelResponse:
        own = isinstance(error, LimitExceeded | UnsupportedOperationError)  # no failure of the model to answer
        if own or self._line is None or self._line.hook_failed:
            raise error
        return await self._line.recovered(error)

    async def _redial_after(self, delay: float) -> None:
        await sleep(delay)
        while self.recovery.handle is None and self.tools.batches:
            await self.tools.changes.next()  # their results belong to what the new connection is told
        self.inbox.post(Redial())

    # --- what the model says ------------------------------------------------------------------------------------------

    async def _received(self, message: ModelResponse) -> Sequence[Event]:
        self.recovery.received(message.session_resumption_handle)
        told = message.custom_metadata or {}
        if GO_AWAY in told:
            self.recovery.go_away = True
        if told.get(CANCELLED_CALLS):
            withdrawn = [self._server_calls.own_id(call_id) for call_id in told[CANCELLED_CALLS]]
            self.tools.withdraw(withdrawn)
            self.tasks.withdraw(withdrawn)
        self.maker.session_id = self._line.session_id if self._line is not None else ""
        self.maker.count(message, message.model_version or self._request.model or self._model.name)
        events = self._transcript.message(message)
        for event in events:
            if any(part.inline_data is not None for part in (event.content.parts if event.content else ())):
                if self.channel.config.output_audio_transcription is None:
                    self.recovery.unwritten = True
                if self.recorder is not None:
                    self.recorder.spoke(event)
        if self.recorder is not None:
            if message.turn_complete:
                events += await self.recorder.keep_both()
            elif message.interrupted:
                events += await self.recorder.keep_model()
        return events

    def _answered(self, response: ModelResponse) -> list[Event]:
        """What a hook gave in the model's place: one whole answer, and the session is over."""
        usage = response.usage_metadata
        if usage is not None:
            self.inv.usage.add(self.agent.name, response.model_version or self._model.name, usage)
        self._over = True
        return self._transcript.whole(response)

    # --- tools --------------------------------------------------------------------------------------------------------

    def _tool_event(self, event: Event) -> Sequence[Event]:
        if event.actions.transfer_to_agent:
            self._transfers = True
        return self._transcript.of_tool(event)

    async def made(self, event: Event) -> Event:
        """For tools: hand an event on; returns when it was stored, or held back (core INV-1, LIVE-6).

        Gives it as ``on_event`` left it; as it was made while it is held back, because the model waits for it.
        """
        item = Made(event)
        await self.inbox.hand_over(item)
        return item.event

    def _as_stored(self, event: Event) -> Event:
        newest = self.inv.session.events[-1:]  # nobody else appends between an event and its consumer's next step
        return newest[0] if newest and newest[0].id == event.id else event

    async def say(self, event: Event) -> None:
        """For streaming tools: hand an event on, and send its content to the model."""
        content = (await self.made(event)).content
        if content is not None:
            self.outbox.content(content)

    def answer(self, content: Content) -> None:
        """For tools: send responses to the model."""
        if self.tools.batches <= 1:  # those that came of one model call are answered by now
            self.maker.calls_answered()
        for to_send in self._server_calls.answer(content):
            self.outbox.content(to_send)

    def leave_soon(self) -> None:
        """The agent said that it is done (core LIVE-20)."""
        self.crew.start(self._leave_after_sending(LEAVE_DELAY))

    def _leave_when_handed_over(self) -> None:
        """A transfer is taken once every call of the agent is settled (ACT-18)."""
        view = self.ctx.view
        if not self.tools.batches and hand_over_is_due(view) and self.agent.standing(view) is Standing.HANDED:
            self._transfers = False
            self.crew.start(self._leave_after_sending())

    async def _leave_after_sending(self, delay: float = 0.0) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SEND_TIMEOUT):
                await self.outbox.flushed()
        if delay:
            await sleep(delay)
        self.inbox.post(Leave())

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _farewell(self) -> list[Event]:
        """The end: what is open is finished, what was held back is let go, what was cut is closed (LIVE-6, LIVE-16)."""
        events = self._transcript.finish()
        if self.recorder is not None:
            events += await self.recorder.keep_both()
        cut = [
            path
            for path, (event, _) in self.inv.in_flight.items()
            if event.author == self.agent.name and path.startswith(f"{self.ctx.path}/")
        ]
        if cut:
            events.append(self.maker.interrupted_calls([self.inv.in_flight.pop(path)[1] for path in cut]))
        left = self.flow.left_writes()
        if left is not None and not events:
            events.append(left)
        return events

    def _end_marker(self) -> Event | None:
        """The end of a call whose last event is none, because it came after the end of a turn (ACT-14)."""
        view = self.ctx.view
        if self.inv.ended or view.record is None or self.agent.standing(view) is not Standing.PENDING:
            return None
        return None if sort_calls(view, self.agent, self.ctx).executable else self.maker.end()

    async def _salvage(self) -> list[Event]:
        """The session ends by an error: what was said and done before it is stored all the same."""
        try:
            return await self._farewell()
        except Exception:
            logger.warning("the end of a live session could not be stored", exc_info=True)
            return []
