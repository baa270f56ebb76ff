"""Streaming tools in a live session: answered at once, then each piece goes to the model (tools-plugins FN-27)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.context import ToolContext
from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import Content, Part
from hookwork.records.event import Event
from hookwork.state import DeltaBuffer
from hookwork.tool import StreamingLike, Tool, ToolWrapper, capability
from hookwork_llm.tool_errors import error_text, told

if TYPE_CHECKING:
    from hookwork_llm.live.inbox import Crew
    from hookwork_llm.live.request import LiveFlow

logger = logging.getLogger("hookwork.tools")


class StreamStarter(ToolWrapper):
    """A streaming tool as the flow runs it: hooks, checks and gate are the tool's, the body starts the stream."""

    def __init__(self, inner: Tool, streams: Streams, place: str) -> None:
        super().__init__(inner)
        self._streams = streams
        #: the call's place in its turn: the stream works at the same one.
        self._place = place

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        self._streams.start(self.inner, ctx, args, self._place)
        return {"status": f"pending: {self.name} is running; its results come as messages of the user"}


class Streams:
    """The streams that run."""

    def __init__(self, flow: LiveFlow, crew: Crew, say: Callable[[Event], Awaitable[None]]) -> None:
        self._flow = flow
        self._crew = crew
        #: stores an event and sends its content to the model.
        self._say = say
        self._running: dict[str, set[asyncio.Task[None]]] = {}
        #: call id → set once the call's own answer was sent: the pieces come after it.
        self._answered: dict[str, asyncio.Event] = {}

    def start(self, tool: Tool, call: ToolContext, args: dict[str, Any], place: str) -> None:
        """Run a tool's stream beside the session, until it is exhausted, stopped, or the session closes."""
        running = self._running.setdefault(tool.name, set())
        answered = self._answered[call.function_call_id] = asyncio.Event()
        buffer = DeltaBuffer()
        ctx = self._context(call, buffer, place)
        task = self._crew.start(self._stream(tool, ctx, args, buffer, answered), then=lambda: running.discard(task))
        running.add(task)

    def call_answered(self, call_id: str) -> None:
        """A call's own answer is on its way to the model."""
        answered = self._answered.pop(call_id, None)
        if answered is not None:
            answered.set()

    async def stop(self, name: str) -> dict[str, Any]:
        """Cancel all running calls of a function; what the model is told."""
        tasks = [task for task in self._running.get(name, ()) if not task.done()]
        if not tasks:
            return {"status": f"no running call of {name!r} was found"}
        await self._crew.cancel(tasks)
        return {"status": f"stopped {name!r}"}

    async def _stream(
        self, tool: Tool, ctx: ToolContext, args: dict[str, Any], buffer: DeltaBuffer, answered: asyncio.Event
    ) -> None:
        streaming = capability(tool, StreamingLike)
        assert streaming is not None
        try:
            await answered.wait()
            chunks: Any = streaming.run_stream(ctx, args)
            async with aclosing(chunks):
                async for chunk in chunks:
                    await self._say(self._event(f"Function {tool.name} returned: {chunk}", buffer))
        except BaseException as raised:
            error = told(raised, tool.name, asyncio.current_task())
            logger.warning("streaming tool %r raised; the model is told", tool.name, exc_info=raised)
            await self._say(self._event(f"Function {tool.name} failed: {error_text(error)}", buffer))
        else:
            if buffer:
                await self._say(self._event("", buffer))
        finally:
            self._flow.inv.live.discard(buffer)

    def _context(self, call: ToolContext, buffer: DeltaBuffer, place: str) -> ToolContext:
        """The call's context, for work that goes on after the call was answered: with a buffer that is still open."""
        return ToolContext(
            self._flow.inv,
            self._flow.agent,
            call.branch,
            call.isolation_scope,
            call.path,
            parent_path=call.parent_path,
            buffer=buffer,
            place=place,
            function_call_id=call.function_call_id,
            tool_name=call.tool_name,
            tool_confirmation=call.tool_confirmation,
            resuming=call.resuming,
        )

    def _event(self, text: str, buffer: DeltaBuffer) -> Event:
        """A piece as an event of the agent with the user's role: what the model hears, and no words of a person."""
        flow = self._flow
        event = Event(
            id=new_uuid(),
            timestamp=timestamp(),
            invocation_id=flow.inv.invocation_id,
            author=flow.agent.name,
            content=Content(role="user", parts=[Part(text=text)]) if text else None,
            branch=flow.ctx.branch,
            isolation_scope=flow.ctx.isolation_scope,
            node_info=flow.path_info,
        )
        return flow.inv.attach(event, buffer)
