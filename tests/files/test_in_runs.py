"""Runs whose artifacts lie in a folder (services ART-13, URL-9; core REW-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.files.runs import check_runs

from hookwork import Agent, Event, FunctionPlugin, InvocationContext, Runner, Settings, text_content
from hookwork.errors import UnsupportedOperationError


async def chunks() -> AsyncIterator[bytes]:
    yield b"one,"
    yield b"two"


async def saving(ctx: InvocationContext) -> AsyncIterator[Event]:
    version = await ctx.artifacts.save_stream("log.csv", chunks())
    described, stream = await ctx.artifacts.open("log.csv")
    async with aclosing(stream) as pieces:
        content = b"".join([piece async for piece in pieces])
    yield Event(content=text_content(f"{version} {described.mime_type} {content.decode()}"))


@pytest.mark.parametrize("carried_out", [False, True])
async def test_art_16_art_13_an_agent_saves_and_reads_a_stream(tmp_path: Path, carried_out: bool) -> None:
    calls: list[dict[str, Any]] = []

    async def perform_write(call: Any) -> Any:
        calls.append(call.to_json())
        return await call.default()

    plugins = [FunctionPlugin("writes", perform_write=perform_write)] if carried_out else []
    runner = Runner(Agent(name="root", body=saving), artifacts=tmp_path.as_uri(), plugins=plugins, settings=Settings())
    async with runner, runner.run(user_id="u", message="hi") as run:
        events = [event async for event in run]
    assert events[0].text == "1 text/csv one,two"
    assert events[0].actions.artifact_delta == {"log.csv": 1}
    saves = [call["payload"] for call in calls if call["op"] == "save_artifact_stream"]
    assert saves == [{"filename": "log.csv", "mimeType": None, "customMetadata": {}}] * carried_out


async def test_art_16_a_service_that_cannot_stream_says_so() -> None:
    runner = Runner.in_memory(Agent(name="root", body=saving), settings=Settings())
    with pytest.raises(UnsupportedOperationError, match="cannot stream; use save_artifact"):
        await runner.run(user_id="u", message="hi").wait()


async def test_art_13_rew_4_runs_and_rewinds_on_files(tmp_path: Path) -> None:
    await check_runs(tmp_path.as_uri())
    assert list(tmp_path.iterdir()) == [tmp_path / "apps"]
