"""Lost connections, repeats, cancellation and timeouts (tools-plugins MCP-06, MCP-07, MCP-11)."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import pytest
from tests.mcp.fake import FakeServer, HangUp, Refusal
from tests.mcp.looking import by_name, readonly
from tests.mcp.server import SCRIPT, make_server

from hookwork.errors import HookworkError
from hookwork.platform import use_sleep
from hookwork_mcp import McpConnectionError, McpToolset, Stdio, StreamableHttp
from hookwork_mcp.errors import McpToolError
from hookwork_testkit import make_context


async def test_mcp_06_a_server_that_was_started_anew_is_connected_again() -> None:
    """404 for the session id: nothing was carried out, so the call goes out on a new session."""
    known = {"s2"}

    def echo(params: Any) -> Any:
        if fake.seen[-1].session not in known:
            raise Refusal(404)
        return {"content": [{"type": "text", "text": "hi"}]}

    def alive(_: Any) -> Any:
        if fake.seen[-1].session not in known:
            raise Refusal(404)
        return {}

    async with FakeServer(tools_call=echo, ping=alive) as fake:
        toolset = McpToolset(endpoint=fake.url)
        tools = await by_name(toolset)
        assert await tools["echo"].run(make_context("tool"), {}) == {"output": "hi"}
        assert fake.methods().count("initialize") == 2
        await toolset.close()


async def test_mcp_06_listing_starts_over_once() -> None:
    answers = iter([HangUp, HangUp])

    def listing(_: Any) -> Any:
        for error in answers:
            raise error
        return {"tools": []}

    async with FakeServer(tools_list=listing) as fake:
        toolset = McpToolset(endpoint=fake.url)
        with pytest.raises(HookworkError, match="could not list its tools"):  # the second loss is an error
            await toolset.tools(readonly())
        assert await toolset.tools(readonly()) == []
        await toolset.close()
    assert fake.methods().count("tools/list") == 3


async def test_mcp_07_a_process_that_dies_under_a_call() -> None:
    """The call is not sent again; the next one finds a new process."""
    toolset = McpToolset(Stdio(sys.executable, [SCRIPT]))
    tools = await by_name(toolset)
    ctx = make_context("tool")
    before = await tools["pid"].run(ctx, {})
    started = time.monotonic()
    with pytest.raises(McpToolError, match="the call of tool 'die' failed") as caught:
        await tools["die"].run(ctx, {})
    assert time.monotonic() - started < 5
    assert caught.value.retryable
    assert await tools["pid"].run(ctx, {}) != before
    await toolset.close()


@pytest.mark.parametrize("hint", ["readOnlyHint", "idempotentHint", None])
async def test_mcp_07_only_idempotent_tools_are_sent_again(hint: str | None) -> None:
    lost = iter([HangUp])

    def answer(_: Any) -> Any:
        for error in lost:
            raise error
        return {"content": []}

    offered = {"name": "t", "inputSchema": {"type": "object"}, "annotations": {hint: True} if hint else {}}
    async with FakeServer([offered], tools_call=answer) as fake:
        toolset = McpToolset(endpoint=fake.url)
        tools = await by_name(toolset)
        assert tools["t"].idempotent is bool(hint)
        if hint:
            assert await tools["t"].run(make_context("tool"), {}) == {"output": ""}
        else:
            with pytest.raises(McpToolError):
                await tools["t"].run(make_context("tool"), {})
        await toolset.close()
    assert fake.methods().count("tools/call") == (2 if hint else 1)


async def test_reconnecting_backs_off_within_bounds() -> None:
    """Three tries, waiting longer each time, at most 2 s."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async with FakeServer(
        [{"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]
    ) as f:
        toolset = McpToolset(endpoint=f.url)
        tools = await by_name(toolset)
        await f.stop()
        with use_sleep(sleep), pytest.raises(McpToolError, match="cannot connect"):
            await tools["t"].run(make_context("tool"), {})
        await toolset.close()
    assert len(waited) == 2
    assert 0.1 <= waited[0] <= 0.2 <= waited[1] <= 0.4


async def test_a_cancelled_call_is_cancelled_on_the_server() -> None:
    """MCP-11: a caller's cancellation cancels only its request."""
    for protocol in ("auto", "legacy"):
        server: Any = make_server()
        toolset = McpToolset(server, protocol=protocol)
        tools = await by_name(toolset)
        task = asyncio.create_task(tools["forever"].run(make_context("tool"), {}))
        await server.started.wait()
        beside = asyncio.create_task(tools["add"].run(make_context("tool"), {"a": 1, "b": 1}))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await beside == {"output": {"result": 2}}
        for _ in range(50):
            await asyncio.sleep(0)
        assert server.cancelled
        assert toolset.live_sessions == 1
        await toolset.close()


async def test_a_call_has_a_timeout() -> None:
    toolset = McpToolset(make_server(), call_timeout=0.05)
    tools = await by_name(toolset)
    with pytest.raises(McpToolError, match="waiting for 'tools/call'"):
        await tools["forever"].run(make_context("tool"), {})
    assert await tools["add"].run(make_context("tool"), {"a": 1, "b": 1}) == {"output": {"result": 2}}
    await toolset.close()


async def test_a_server_that_never_answers_is_given_up() -> None:
    toolset = McpToolset(Stdio(sys.executable, ["-c", "import time; time.sleep(60)"]), connect_timeout=0.3)
    with pytest.raises(McpConnectionError, match=r"no answer within 0.3 s"):
        await toolset.tools(readonly())
    await toolset.close()
    assert toolset.live_sessions == 0


async def test_a_command_that_does_not_exist() -> None:
    toolset = McpToolset(Stdio("no-such-command-anywhere"))
    with pytest.raises(McpConnectionError, match="cannot connect to command 'no-such-command-anywhere'"):
        await toolset.tools(readonly())
    await toolset.close()


async def test_a_stream_that_breaks_in_the_middle_of_a_call(serve: Any) -> None:
    """MCP-13 with an event stream: its head came, the rest does not."""
    app = make_server().streamable_http_app()
    cut = False

    async def gate(scope: Any, receive: Any, send: Any) -> None:
        async def cutting(message: Any) -> None:
            if message["type"] == "http.response.body" and cut:
                raise RuntimeError("cut off")
            await send(message)

        await app(scope, receive, cutting)

    async with serve(gate) as url:
        toolset = McpToolset(StreamableHttp(f"{url}/mcp"))
        tools = await by_name(toolset)
        cut = True
        started = time.monotonic()
        with pytest.raises(McpToolError, match="the call of tool 'add' failed"):
            await tools["add"].run(make_context("tool"), {"a": 1, "b": 2})
        assert time.monotonic() - started < 5
        cut = False
        assert await tools["add"].run(make_context("tool"), {"a": 1, "b": 2}) == {"output": {"result": 3}}
        await toolset.close()


async def test_closing_ends_calls_that_are_under_way() -> None:
    server: Any = make_server()
    toolset = McpToolset(server)
    tools = await by_name(toolset)
    task = asyncio.create_task(tools["forever"].run(make_context("tool"), {}))
    await server.started.wait()
    await toolset.close()
    with pytest.raises(McpToolError, match="the session was closed"):
        await task
    assert toolset.live_sessions == 0


async def test_many_calls_at_once_on_one_session() -> None:
    """Safe under concurrent runs: each gets its own answer."""
    for protocol in ("auto", "legacy"):
        toolset = McpToolset(make_server(), protocol=protocol)
        tools = await by_name(toolset)
        answers = await asyncio.gather(
            *(tools["add"].run(make_context("tool"), {"a": i, "b": 1}) for i in range(100)),
            *(toolset.tools(readonly()) for _ in range(5)),
        )
        assert [answer["output"]["result"] for answer in answers[:100]] == [i + 1 for i in range(100)]
        assert toolset.live_sessions == 1
        await toolset.close()
