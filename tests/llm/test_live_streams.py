"""Streaming tools in live sessions: answered at once, then piece by piece (core LIVE-8, models LIVE-15, FN-27)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.llm.live_talks import Talk

from hookwork import (
    Plugin,
    ToolContext,
)
from hookwork_llm import StreamingTool, tool
from hookwork_testkit import Hear, call
from hookwork_testkit.live import calls, turn_complete

ran: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


@tool
def look(what: str = "it") -> dict[str, Any]:
    """Look at something."""
    ran.append(f"look {what}")
    return {"seen": what}


def answers(talk: Talk) -> dict[str | None, Any]:
    """id → response, of all function responses that the model got."""
    return {response.id: response.response for line in talk.connections for response in line.responses}


async def count(upto: int) -> AsyncIterator[str]:
    """Count up."""
    try:
        for number in range(1, upto + 1):
            yield str(number)
    finally:
        ran.append("count ended")


async def test_fn_27_a_stream_is_answered_at_once_and_each_piece_goes_to_the_model() -> None:
    talk = await Talk(
        [Hear(1), call("count", "c1", upto=2), Hear(3), "ok", turn_complete()], tools=[StreamingTool(count)]
    ).hold("go")
    assert list(answers(talk)) == ["c1"]
    assert "pending" in answers(talk)["c1"]["status"]
    assert talk.line.texts[2:] == ["Function count returned: 1", "Function count returned: 2"]
    stored = await talk.stored()
    pieces = [(event.author, event.content.role) for event in stored if "returned" in event.text]  # type: ignore[union-attr]
    assert pieces == [("voice", "user")] * 2
    assert ran == ["count ended"]


async def test_fn_27_an_error_of_the_stream_is_told_and_ends_only_the_stream(caplog: Any) -> None:
    async def fails() -> AsyncIterator[str]:
        """Fail."""
        yield "one"
        raise ValueError("no more")

    talk = await Talk(
        [Hear(1), call("fails", "c1"), Hear(3), "ok", turn_complete()], tools=[StreamingTool(fails)]
    ).hold("go")
    assert talk.line.texts[2:] == ["Function fails returned: one", "Function fails failed: ValueError: no more"]
    assert "'fails' raised" in caplog.text
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"


async def test_fn_27_a_stream_ends_with_the_session() -> None:
    async def forever() -> AsyncIterator[str]:
        """Go on."""
        try:
            yield "one"
            await asyncio.get_running_loop().create_future()
        finally:
            ran.append("forever ended")

    await Talk([Hear(1), call("forever", "c1"), Hear(2)], tools=[StreamingTool(forever)]).hold("go")
    assert ran == ["forever ended"]


async def test_fn_27_state_that_a_stream_writes_goes_with_its_pieces() -> None:
    async def counted(tool_context: ToolContext) -> AsyncIterator[str]:
        """Count in state."""
        for number in (1, 2):
            tool_context.state["n"] = number
            yield str(number)
        tool_context.state["n"] = 3

    talk = Talk([Hear(1), call("counted", "c1")], tools=[StreamingTool(counted)], close=False)
    await talk.run.send("go")
    async for event in talk.run:
        if event.actions.state_delta.get("n") == 3:
            await talk.run.close()
    deltas = [event.actions.state_delta["n"] for event in await talk.stored() if event.actions.state_delta]
    assert deltas == [1, 2, 3]


async def test_fn_28_stop_streaming_is_declared_stops_all_of_that_name_and_has_no_hooks() -> None:
    seen: list[str] = []

    async def tick(n: int) -> AsyncIterator[str]:
        """Tick."""
        try:
            yield f"tick {n}"
            await asyncio.get_running_loop().create_future()
        finally:
            ran.append(f"tick {n} ended")

    talk = await Talk(
        [
            Hear(1),
            calls(call("tick", "c1", n=1), call("tick", "c2", n=2)),
            Hear(3),
            call("stop_streaming", "c3", function_name="tick"),
            Hear(1),
            call("stop_streaming", "c4", function_name="tick"),
            Hear(1),
            "ok",
            turn_complete(),
        ],
        tools=[StreamingTool(tick)],
        before_tool=lambda ctx, tool, args: seen.append(tool.name),
    ).hold("go")
    assert "stop_streaming" in talk.line.request.declared
    assert sorted(ran) == ["tick 1 ended", "tick 2 ended"]
    assert seen == ["tick", "tick"]
    assert answers(talk)["c3"] == {"status": "stopped 'tick'"}
    assert "no running call" in answers(talk)["c4"]["status"]


async def test_fn_28_without_streaming_tools_it_is_not_declared() -> None:
    talk = await Talk([Hear(1), "ok", turn_complete()], tools=[look]).hold("go")
    assert talk.line.request.declared == ["look"]


async def test_fn_29_before_tool_and_after_tool_see_a_stream() -> None:
    log: list[Any] = []

    class Watch(Plugin):
        name = "watch"

        def before_tool(self, tool: Any) -> None:
            log.append(f"before {tool.name}")

        def after_tool(self, result: Any) -> None:
            log.append("pending" in result["status"])

    await Talk([Hear(1), call("count", "c1", upto=1), Hear(2), "ok", turn_complete()], plugins=[Watch()],
               tools=[StreamingTool(count)]).hold("go")  # fmt: skip
    assert log == ["before count", True]


async def test_fn_29_a_policy_can_deny_a_stream() -> None:
    talk = await Talk(
        [Hear(1), call("count", "c1", upto=2), Hear(1), "ok", turn_complete()],
        tools=[StreamingTool(count)],
        before_tool=lambda ctx, tool, args: {"error": "denied"},
    ).hold("go")
    assert answers(talk) == {"c1": {"error": "denied"}}
    assert (talk.line.texts[2:], ran) == ([], [])


async def test_fn_29_arguments_of_a_stream_are_checked_before_it_starts() -> None:
    talk = await Talk([Hear(1), call("count", "c1", upto="two"), Hear(1), "ok", turn_complete()],
                      tools=[StreamingTool(count)]).hold("go")  # fmt: skip
    assert "upto" in answers(talk)["c1"]["error"]
    assert ran == []
