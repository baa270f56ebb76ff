"""Events on their way to memory from a call site (services BEY-6, GEN-8; tools-plugins EFF-9, EFF-10)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import Agent, Event, InvocationContext, MemoryEntry, MemoryService, Plugin, Runner, Session, text_content
from hookwork.effects import EffectCall, WriteResult
from hookwork.errors import UnsupportedOperationError
from hookwork.settings import Settings
from hookwork_inmemory import InMemoryMemoryService, InMemorySessionService
from hookwork_testkit import make_context
from hookwork_testkit.suites.base import say

SCOPE = {"app_name": "root", "user_id": "u"}


async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
    await ctx.add_events_to_memory(ctx.session.events, flush=True)
    yield Event(content=text_content("done"))


async def texts(memory: MemoryService) -> list[str]:
    found = await memory.search_memory(**SCOPE, query="oslo")
    return [entry.content.text for entry in found if entry.content is not None]


async def test_bey_6_events_of_this_session_are_taken_in() -> None:
    memory = InMemoryMemoryService()
    runner = Runner(Agent(name="root", body=body), sessions="memory:", memory=memory, settings=Settings())
    await runner.run(user_id="u", session_id="s", message="I live in Oslo").wait()
    (entry,) = await memory.search_memory(**SCOPE, query="oslo")
    assert (entry.session_id, entry.author) == ("s", "user")


async def test_eff_9_the_write_is_an_effect_and_can_be_carried_out_elsewhere() -> None:
    """The description names the events; who carries it out reads them from the session."""
    memory, sessions, seen = InMemoryMemoryService(), InMemorySessionService(), list[Any]()

    class Elsewhere(Plugin):
        name = "elsewhere"

        async def perform_write(self, call: EffectCall) -> WriteResult:
            if call.op != "add_events_to_memory":
                return await call.default()
            seen.append(call.payload)
            return WriteResult(payload=(await worker.carry_out(call.to_json()))["payload"])

    agent = Agent(name="root", body=body)
    worker = Runner(agent, sessions=sessions, memory=memory, settings=Settings())
    runner = Runner(agent, sessions=sessions, memory="memory:", plugins=[Elsewhere()], settings=Settings())
    await runner.run(user_id="u", session_id="s", message="I live in Oslo").wait()
    session = await sessions.get_session(**SCOPE, session_id="s")
    assert seen == [{"events": [session.events[0].id], "flush": True}]
    assert await texts(memory) == ["I live in Oslo"]


async def test_cm_12_a_service_that_takes_whole_sessions_only_says_so() -> None:
    class Whole(MemoryService):
        async def add_session_to_memory(self, session: Session) -> None: ...

        async def search_memory(self, *, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
            return []

    ctx = make_context("tool", memory=Whole())
    with pytest.raises(UnsupportedOperationError, match="add_session_to_memory"):
        await ctx.add_events_to_memory([say("x")])
