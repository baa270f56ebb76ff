"""Whole runs on Agent Engine sessions and Memory Bank, by URL (cases SESS-1 … SESS-4, STATE-1, STATE-2; URL-9)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.vertexai.credentials import key_file
from tests.vertexai.fake import FakeVertex, Fault
from tests.vertexai.steps import sessions, waits

from hookwork import Runner, ToolContext
from hookwork.records.metadata import ModelResponse
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call
from hookwork_testkit.suites.base import say

KEY: dict[str, Any] = {"user_id": "u", "session_id": "s"}


@pytest.fixture
def url(fake: FakeVertex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file(tmp_path, fake)))
    return f"vertexai://p/us-central1/42?base_url={fake.url}"


def runner_with(url: str, model: ScriptedModel, *tools: Any, **options: Any) -> Runner:
    return Runner(LlmAgent(name="root", model=model, tools=list(tools)), sessions=url, **options)


async def run(runner: Runner, message: str = "hi") -> None:
    async with runner.run(**KEY, message=message) as events:
        async for _ in events:
            pass


async def stored(fake: FakeVertex) -> Any:
    """The session as another process reads it."""
    service = sessions(fake, engine="42")
    session = await service.get_session(app_name="root", **KEY)
    await service.close()
    return session


async def test_case_sess_1_two_messages_in_a_row(fake: FakeVertex, url: str) -> None:
    entered, booked = asyncio.Event(), []

    async def book(n: int) -> str:
        entered.set()
        booked.append(n)
        return "ok"

    model = ScriptedModel([call("book", n=1), "first", call("book", n=2), "second"])
    async with runner_with(url, model, book) as runner:
        await runner.sessions.create_session(app_name="root", **KEY)
        one = asyncio.ensure_future(run(runner, "one"))
        await entered.wait()
        await asyncio.gather(one, run(runner, "two"))
        session = await stored(fake)
    assert booked == [1, 2]
    assert [event.text for event in session.events if event.text] == ["one", "first", "two", "second"]


async def test_case_sess_2_a_write_from_the_side_during_a_run(fake: FakeVertex, url: str) -> None:
    async def bridge(ctx: ToolContext) -> str:
        other = await runner.sessions.get_session(app_name="root", **KEY)
        await runner.sessions.append_event(other, say("side", delta={"note": 1}))
        return "ok"

    async with runner_with(url, ScriptedModel([call("bridge"), "done"]), bridge) as runner:
        await run(runner)
        session = await stored(fake)
    assert session.state["note"] == 1
    assert [event.text for event in session.events if event.text] == ["hi", "side", "done"]


async def test_case_sess_3_a_very_long_error_message(fake: FakeVertex, url: str) -> None:
    failed = ModelResponse(error_code="MALFORMED_FUNCTION_CALL", error_message="x" * 20000)
    async with runner_with(url, ScriptedModel([failed, "fine"])) as runner:
        await run(runner)
        await run(runner, "again")
        session = await stored(fake)
    assert [event.error_message for event in session.events if event.error_code] == ["x" * 20000]
    assert session.events[-1].text == "fine"


async def test_case_sess_4_text_no_database_can_hold(fake: FakeVertex, url: str) -> None:
    async def read() -> dict[str, Any]:
        return {"out": "a\x00b\ud83dc", "k\x00": 1}

    model = ScriptedModel([call("read"), "done", "again"])
    async with runner_with(url, model, read) as runner:
        await run(runner)
        await run(runner, "next")
        session = await stored(fake)
    (response,) = [found for event in session.events for found in event.function_responses]
    assert response.response == {"out": "a\ufffdb\ufffdc", "k\ufffd": 1}


async def test_case_state_1_parallel_calls_that_append_to_one_list(fake: FakeVertex, url: str) -> None:
    late = asyncio.Event()

    async def add(item: str, ctx: ToolContext) -> str:
        if item == "a":
            await late.wait()
        ctx.state["items"] = [*ctx.state.get("items", []), item]
        late.set()
        return "ok"

    async with runner_with(url, ScriptedModel([[call("add", item="a"), call("add", item="b")], "done"]), add) as runner:
        await run(runner)
        live = await runner.sessions.get_session(app_name="root", **KEY)
        session = await stored(fake)
    assert session.state["items"] == live.state["items"] == ["b", "a"]


async def test_case_state_2_an_in_place_change_is_refused_by_name(fake: FakeVertex, url: str) -> None:
    async def change(ctx: ToolContext) -> str:
        ctx.state["cart"]["lines"].append("x")
        return "ok"

    async with runner_with(url, ScriptedModel([call("change"), "done"]), change) as runner:
        await runner.sessions.create_session(app_name="root", **KEY, state={"cart": {"lines": []}})
        await run(runner)
        session = await stored(fake)
    (refused,) = [found.response for event in session.events for found in event.function_responses]
    assert "cart" in str(refused["error"])
    assert session.state["cart"] == {"lines": []}


async def test_vtx_13_a_run_outlives_quotas_and_lost_answers(fake: FakeVertex, url: str) -> None:
    async with runner_with(url, ScriptedModel(["one", "two"])) as runner:
        await run(runner)
        fake.fail("append", 429, Fault(drop=True, carried_out=True), Fault(503, carried_out=True), 500)
        fake.fail("get", 503)
        with waits():
            await run(runner, "again")
        session = await stored(fake)
    assert [event.text for event in session.events] == ["hi", "one", "again", "two"]
    assert len({event.id for event in session.events}) == 4


async def test_mem_5_tools_remember_and_search(fake: FakeVertex, url: str) -> None:
    async def keep(ctx: ToolContext) -> str:
        await ctx.add_session_to_memory()
        return "kept"

    async def search(ctx: ToolContext) -> str:
        found = await ctx.search_memory("tea")
        return " / ".join(entry.content.text for entry in found if entry.content)

    model = ScriptedModel([call("keep"), "done", call("search"), "told"])
    async with runner_with(url, model, keep, search, memory=url) as runner:
        await run(runner, "I like green tea")
        await run(runner, "what do I like?")
        session = await stored(fake)
    assert fake.sent("memory.generate")[0].body["scope"] == {"app_name": "root", "user_id": "u"}
    results = [found.response for event in session.events for found in event.function_responses]
    assert results == [{"result": "kept"}, {"result": "I like green tea"}]


async def test_rew_1_a_rewind_lasts(fake: FakeVertex, url: str) -> None:
    async with runner_with(url, ScriptedModel(["one", "two"])) as runner:
        await run(runner, "first")
        async with runner.run(**KEY, message="second") as events:
            async for _ in events:
                pass
        assert events.invocation_id is not None
        await runner.rewind(before_invocation_id=events.invocation_id, **KEY)
        session = await stored(fake)
    assert [event.text for event in session.live_events] == ["first", "one"]
