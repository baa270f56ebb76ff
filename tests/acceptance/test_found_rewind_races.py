"""A session that is rewound while another process is in the middle of a run (services SES-18, core REW-1, REW-2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hookwork import Runner, ToolContext, text_content
from hookwork.errors import StaleSessionError
from hookwork.records.event import EventActions, new_event
from hookwork_database import DatabaseSessionService
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call

WHO = {"user_id": "u", "session_id": "s"}
KEY = {"app_name": "a", **WHO}


@pytest.mark.parametrize("target", [0, 1])
async def test_the_run_ends_and_nothing_of_it_comes_after_the_rewind(target: int, tmp_path: Path) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def work(ctx: ToolContext) -> dict[str, Any]:
        """Works."""
        ctx.state["n"] = 1
        began.set()
        await go_on.wait()
        return {"ok": True}

    def answer(request: Any) -> Any:
        return call("work") if request.contents[-1].text == "work" else "fine"

    agent, url = LlmAgent(name="a", model=ScriptedModel(answer), tools=[work]), f"sqlite:///{tmp_path}/s.db"
    async with Runner(agent, sessions=url) as runner, Runner(agent, sessions=url) as other:
        invocations = [(await runner.run(message="one", **WHO).wait()).invocation_id]
        run = asyncio.create_task(runner.run(message="work", **WHO).wait())
        await began.wait()
        session = await other.sessions.get_session(**KEY)
        invocations.append(session.events[-1].invocation_id)
        await other.rewind(before_invocation_id=invocations[target], **WHO)
        go_on.set()
        with pytest.raises(StaleSessionError, match="rewound"):
            await run
        session = await other.sessions.get_session(**KEY)
        assert [event.text for event in session.live_events] == ["one", "fine"][: 2 * target]
        assert "n" not in session.state or session.state["n"] is None
        assert await runner.ask("two", **WHO) == "fine"


@pytest.mark.parametrize("backend", ["memory", "one process", "two processes"])
async def test_ses_18_a_rewind_is_absorbed_by_an_append_that_begins_an_invocation_and_by_no_other(
    backend: str, tmp_path: Path
) -> None:
    first: Any = InMemorySessionService() if backend == "memory" else DatabaseSessionService(f"sqlite:///{tmp_path}/s")
    other: Any = DatabaseSessionService(f"sqlite:///{tmp_path}/s") if backend == "two processes" else first
    begun = await first.create_session(**KEY)
    await first.append_event(begun, new_event("e-1", author="user", content=text_content("one", role="user")))
    fresh = await first.get_session(**KEY)
    there = await other.get_session(**KEY)
    back = EventActions(rewind_before_invocation_id="e-1")
    await other.append_event(there, new_event("e-back", author="user", actions=back))
    with pytest.raises(StaleSessionError, match="rewound"):
        await first.append_event(begun, new_event("e-1", author="a", content=text_content("answer")))
    await first.append_event(fresh, new_event("e-2", author="user", content=text_content("two", role="user")))
    session = await other.get_session(**KEY)
    assert [event.text for event in session.live_events] == ["two"]
    await first.close()
    await other.close()
