"""Reported troubles with sessions, as whole runs on a database (cases SESS-1 … SESS-4, STATE-1, STATE-2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hookwork import Runner, ToolContext
from hookwork.errors import SessionBusyError, StaleSessionError
from hookwork.records.metadata import ModelResponse
from hookwork_database import session_service
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call
from hookwork_testkit.suites.base import say

KEY: dict[str, Any] = {"user_id": "u", "session_id": "s"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


async def run(runner: Runner, message: str = "hi", **options: Any) -> None:
    async with runner.run(**KEY, message=message, **options) as events:
        async for _ in events:
            pass


async def stored(runner: Runner, url: str) -> Any:
    """The session as another process reads it."""
    service = session_service(url)
    session = await service.get_session(app_name=runner.app_name, **KEY)
    await service.close()
    return session


def runner_with(url: str, model: ScriptedModel, *tools: Any, **options: Any) -> Runner:
    return Runner(LlmAgent(name="root", model=model, tools=list(tools)), sessions=url, **options)


async def test_case_sess_1_two_messages_in_a_row(url: str) -> None:
    entered, booked = asyncio.Event(), []

    async def book(n: int) -> str:
        entered.set()
        booked.append(n)
        await asyncio.sleep(0)
        return "ok"

    model = ScriptedModel([call("book", n=1), "first", call("book", n=2), "second"])
    async with runner_with(url, model, book) as runner:
        await runner.sessions.create_session(app_name=runner.app_name, **KEY)
        one = asyncio.ensure_future(run(runner, "one"))
        await entered.wait()
        two = asyncio.ensure_future(run(runner, "two"))
        await asyncio.gather(one, two)
        session = await stored(runner, url)
    assert booked == [1, 2]
    assert [event.text for event in session.events if event.text] == ["one", "first", "two", "second"]


async def test_case_sess_1_a_reject_policy_stores_nothing_of_the_second(url: str) -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def book() -> str:
        entered.set()
        await go.wait()
        return "ok"

    async with runner_with(url, ScriptedModel([call("book"), "done"]), book, session_policy="reject") as runner:
        one = asyncio.ensure_future(run(runner, "one"))
        await entered.wait()
        with pytest.raises(SessionBusyError):
            await run(runner, "two")
        go.set()
        await one
        session = await stored(runner, url)
    assert [event.text for event in session.events if event.text] == ["one", "done"]


@pytest.mark.parametrize("key", ["note", "mine"])
async def test_case_sess_2_a_write_from_the_side_during_a_run(url: str, key: str) -> None:
    """Absorbed when the run did not touch the key; a typed error, and nothing overwritten, when it did."""

    async def bridge(ctx: ToolContext) -> str:
        other = await runner.sessions.get_session(app_name=runner.app_name, **KEY)
        await runner.sessions.append_event(other, say("side", delta={key: 1}))
        ctx.state["mine"] = 2
        return "ok"

    async with runner_with(url, ScriptedModel([call("bridge"), "done"]), bridge) as runner:
        if key == "mine":
            with pytest.raises(StaleSessionError):
                await run(runner)
        else:
            await run(runner)
        session = await stored(runner, url)
    assert session.state[key] == 1
    texts = [event.text for event in session.events if event.text]
    assert texts == (["hi", "side", "done"] if key == "note" else ["hi", "side"])


async def test_case_sess_3_a_very_long_error_message(url: str) -> None:
    """DB-25: no length limit but those of ids."""
    failed = ModelResponse(error_code="MALFORMED_FUNCTION_CALL", error_message="x" * 20000)
    async with runner_with(url, ScriptedModel([failed, "fine"])) as runner:
        await run(runner)
        await run(runner, "again")
        session = await stored(runner, url)
    assert [event.error_message for event in session.events if event.error_code] == ["x" * 20000]
    assert session.events[-1].text == "fine"


async def test_case_sess_4_text_a_database_cannot_hold(url: str) -> None:
    async def read() -> dict[str, Any]:
        return {"out": "a\x00b\ud83dc", "k\x00": 1}

    model = ScriptedModel([call("read"), "done", "again"])
    async with runner_with(url, model, read) as runner:
        await run(runner)
        await run(runner, "next")
        session = await stored(runner, url)
    (response,) = [found for event in session.events for found in event.function_responses]
    assert response.response == {"out": "a\ufffdb\ufffdc", "k\ufffd": 1}
    live, reloaded = (
        [part.function_response for content in model.requests[n].contents for part in content.parts] for n in (1, 2)
    )
    assert [found.response for found in live if found] == [found.response for found in reloaded if found]


async def test_case_state_1_parallel_calls_that_append_to_one_list(url: str) -> None:
    late = asyncio.Event()

    async def add(item: str, ctx: ToolContext) -> str:
        if item == "a":
            await late.wait()
        ctx.state["items"] = [*ctx.state.get("items", []), item]
        late.set()
        return "ok"

    async with runner_with(url, ScriptedModel([[call("add", item="a"), call("add", item="b")], "done"]), add) as runner:
        await runner.sessions.create_session(app_name=runner.app_name, **KEY, state={"items": []})
        await run(runner)
        session = await stored(runner, url)
    assert session.state["items"] == ["b", "a"]


async def test_case_state_2_an_in_place_change_is_refused_by_name(url: str) -> None:
    async def change(ctx: ToolContext) -> str:
        ctx.state["cart"]["lines"].append("x")
        return "ok"

    async def edit(ctx: ToolContext) -> int:
        with ctx.state.edit("cart") as cart:
            cart["lines"].append("x")
        return len(ctx.state["cart"]["lines"])

    async with runner_with(url, ScriptedModel([call("change"), call("edit"), "done"]), change, edit) as runner:
        await runner.sessions.create_session(app_name=runner.app_name, **KEY, state={"cart": {"lines": []}})
        await run(runner)
        session = await stored(runner, url)
    refused, edited = [found.response for event in session.events for found in event.function_responses]
    assert "cart" in str(refused["error"])
    assert edited == {"result": 1}
    assert session.state["cart"] == {"lines": ["x"]}
