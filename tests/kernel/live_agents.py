"""Agents with a live body of their own, for tests of the live run without any model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import ClassVar

from hookwork import Agent, Blob, Content, Event, InvocationContext, Part, text_content
from hookwork.live_run import channel_of


class Echo(Agent):
    """Says every content it hears, and hands on what comes in real time as it is."""

    @property
    def live(self) -> bool:
        return True

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=text_content("typed"))

    async def live_body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        channel = channel_of(ctx)
        while (request := await channel.next()) is not None:
            if isinstance(request.realtime_input, Blob):
                yield Event(content=Content(role="model", parts=[Part(inline_data=request.realtime_input)]))
            if request.content is None:
                continue
            heard = await channel.take(request.content)
            if heard is None:
                continue
            if heard.text == "stop":
                return
            if heard.text == "break":
                raise ValueError("broken on purpose")
            yield Event(content=text_content(f"part of {heard.text}"), partial=True)
            yield Event(content=text_content(f"you said {heard.text}"))


class Deaf(Echo):
    """Never takes anything; ends by being ended."""

    ended: ClassVar[list[str]] = []

    async def live_body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        try:
            yield Event(content=text_content("here"))
            await asyncio.get_running_loop().create_future()
        finally:
            self.ended.append(ctx.agent_name)
