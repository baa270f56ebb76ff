"""Against servers written by others: server-everything and server-filesystem (parts ECO-MCP-2)."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.node import EVERYTHING, FILESYSTEM, installed, node

from hookwork.errors import ToolError
from hookwork_mcp import McpToolset, Stdio, StreamableHttp, accept_defaults, sample_with
from hookwork_testkit import ScriptedModel, make_context


def everything(mode: str) -> list[str]:
    return [str(installed(EVERYTHING) / "dist" / "index.js"), mode]


@pytest.fixture(params=["stdio", "http"])
async def endpoint(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """server-everything, once as a subprocess and once over HTTP."""
    program = node(20)
    if request.param == "stdio":
        yield Stdio(program, everything("stdio"))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program,
        *everything("streamableHttp"),
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield StreamableHttp(f"http://127.0.0.1:{port}/mcp")
    finally:
        process.kill()
        await process.wait()


async def by_name(toolset: McpToolset) -> dict[str, Any]:
    return {tool.name: tool for tool in await toolset.tools(make_context("readonly"))}


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_server_everything(endpoint: Any, protocol: str) -> None:
    told: list[Any] = []
    toolset = McpToolset(
        endpoint,
        protocol=protocol,
        sampling=sample_with(ScriptedModel(["A model's word."])),
        elicitation=accept_defaults,
        on_progress=lambda ctx, tool, *progress: told.append((tool, *progress[:2])),
    )
    ctx = make_context("tool")
    try:
        tools = await by_name(toolset)
        assert {"echo", "get-sum", "get-structured-content", "get-tiny-image", "get-env"} <= set(tools)
        assert await tools["echo"].run(ctx, {"message": "hi"}) == {"output": "Echo: hi"}
        assert "42" in (await tools["get-sum"].run(ctx, {"a": 40, "b": 2}))["output"]
        weather = await tools["get-structured-content"].run(ctx, {"location": "New York"})
        assert {"temperature", "conditions", "humidity"} <= set(weather["output"])
        items = (await tools["get-tiny-image"].run(ctx, {}))["output"]
        (image,) = [item for item in items if item["type"] == "image"]
        assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
        await tools["trigger-long-running-operation"].run(ctx, {"duration": 0.3, "steps": 3})
        assert told == [("trigger-long-running-operation", float(step), 3.0) for step in (1, 2, 3)]
        sampled = await tools["trigger-sampling-request"].run(ctx, {"prompt": "Say", "maxTokens": 5})
        assert "A model's word." in sampled["output"]
    finally:
        await toolset.close()
    assert toolset.live_sessions == 0


async def test_server_everything_s_resources_and_prompts(endpoint: Any) -> None:
    ctx = make_context("readonly")
    toolset = McpToolset(endpoint)
    try:
        resources = await toolset.resources(ctx)
        assert len([r for r in resources if not r.template]) >= 7
        text = next(r for r in resources if not r.template and r.mime_type and r.mime_type.startswith("text/"))
        (part,) = await toolset.read_resource(ctx, text.uri)
        assert part.text
        prompts = {prompt.name: prompt for prompt in await toolset.prompts(ctx)}
        assert len(prompts) >= 4
        simple = next(prompt for prompt in prompts.values() if not prompt.arguments)
        assert (await toolset.prompt(ctx, simple.name))[0].text
    finally:
        await toolset.close()


async def test_stdio_servers_do_not_see_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKWORK_TEST_SECRET", "do-not-tell")
    toolset = McpToolset(Stdio(node(20), everything("stdio"), env={"SHOWN": "yes"}))
    try:
        tools = await by_name(toolset)
        shown = (await tools["get-env"].run(make_context("tool"), {}))["output"]
        assert '"SHOWN": "yes"' in shown
        assert "do-not-tell" not in shown
    finally:
        await toolset.close()


async def test_server_filesystem(tmp_path: Path) -> None:
    """Files in an allowed folder; what lies outside is the server's error, told to the model."""
    (tmp_path / "a.txt").write_text("inside")
    script = str(installed(FILESYSTEM) / "dist" / "index.js")
    toolset = McpToolset(Stdio(node(20), [script, str(tmp_path)]), tool_filter=["read_text_file", "list_directory"])
    ctx = make_context("tool")
    try:
        tools = await by_name(toolset)
        assert sorted(tools) == ["list_directory", "read_text_file"]
        assert tools["read_text_file"].idempotent
        assert (await tools["read_text_file"].run(ctx, {"path": str(tmp_path / "a.txt")}))["output"] == {
            "content": "inside"
        }
        with pytest.raises(ToolError, match="outside allowed directories"):
            await tools["read_text_file"].run(ctx, {"path": str(tmp_path.parent / "b.txt")})
    finally:
        await toolset.close()


async def test_server_filesystem_takes_its_folders_from_roots(tmp_path: Path) -> None:
    """The server is started with one folder and told another one by `roots`."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (second / "b.txt").write_text("by root")
    script = str(installed(FILESYSTEM) / "dist" / "index.js")
    toolset = McpToolset(Stdio(node(20), [script, str(first)]), roots=[str(second)], protocol="legacy")
    ctx = make_context("tool")
    try:
        tools = await by_name(toolset)
        async with asyncio.timeout(10):
            while str(second) not in str(await tools["list_allowed_directories"].run(ctx, {})):
                await asyncio.sleep(0.02)
        assert (await tools["read_text_file"].run(ctx, {"path": str(second / "b.txt")}))["output"][
            "content"
        ] == "by root"
    finally:
        await toolset.close()
