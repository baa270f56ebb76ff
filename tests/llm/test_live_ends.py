"""How live sessions end, and what they leave behind: nothing (models LIVE-13, core INV-3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.llm.live_talks import Talk

from hookwork.errors import LiveConnectionClosed, ModelError
from hookwork.platform import use_sleep
from hookwork_llm import tool
from hookwork_testkit import Cut, Hear, call
from hookwork_testkit.live import turn_complete


class Clock:
    """Notes every wait and takes no time."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Any:
    clock = Clock()
    with use_sleep(clock.sleep):
        yield clock


def _tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["close", "stop", "leave", "cancel", "error", "history"])
async def test_live_13_no_task_and_no_line_outlives_the_session(way: str) -> None:
    before = _tasks()
    ended: list[str] = []
    started = asyncio.Event()

    async def until_started(_: Any) -> None:
        await started.wait()

    @tool
    async def forever() -> dict[str, Any]:
        """Take for ever."""
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("forever")
        return {}

    script = [Hear(1), call("forever", "c1"), until_started, "text"]
    talk = Talk(script, close=False, tools=[forever], responses=["typed"])
    if way == "history":
        async for _ in talk.runner.run(user_id="u", session_id="s", message="before"):
            pass
        talk = Talk([], close=False, options={"sessions": talk.runner.sessions})
        await _breaks_in_history(talk)
        assert talk.line.closed
        assert _tasks() == before
        return

    async def hold() -> None:
        async with talk.run:
            await talk.run.send("go")
            async for event in talk.run:
                if event.partial:
                    if way == "close":
                        await talk.run.close()
                    elif way == "leave":
                        break
                    elif way == "stop":
                        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(talk.run.stop()))
                    elif way == "error":
                        talk.line.cut(1007)

    holding = asyncio.create_task(hold())
    if way == "cancel":
        await started.wait()
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
    elif way == "error":
        with pytest.raises(LiveConnectionClosed):
            await holding
    else:
        await holding
    assert talk.run.outcome is not None
    kinds = {"close": "completed", "error": "failed"}
    assert talk.run.outcome.kind == kinds.get(way, "closed")
    assert ended == ["forever"]
    assert talk.line.closed
    for _ in range(3):
        await asyncio.sleep(0)
    assert _tasks() == before


async def _breaks_in_history(talk: Talk) -> None:
    from hookwork_testkit import ScriptedConnection

    async def broken(self: ScriptedConnection, contents: Any) -> None:
        raise ModelError("history refused", kind="invalid_request")

    original = ScriptedConnection.send_history
    ScriptedConnection.send_history = broken  # type: ignore[method-assign]
    try:
        with pytest.raises(ModelError, match="history refused"):
            await talk.hold()
    finally:
        ScriptedConnection.send_history = original  # type: ignore[method-assign]


async def test_live_13_a_stray_cancellation_of_the_client_is_a_lost_line(clock: Clock) -> None:
    talk = await Talk([Hear(1), asyncio.CancelledError()], [Hear(1), "yes", turn_complete()]).hold("hi")
    assert len(talk.connections) == 2
    assert [event.text for event in await talk.stored() if event.content] == ["hi", "yes"]


async def test_live_10_closing_while_there_is_no_line_ends_the_session_at_once() -> None:
    async def never(_: float) -> None:
        await talk.run.close()
        await asyncio.get_running_loop().create_future()

    talk = Talk([Hear(1), "a", turn_complete(), Cut(1006)], close=False)
    with use_sleep(never):
        await talk.hold("hi")
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"
    assert len(talk.connections) == 1
