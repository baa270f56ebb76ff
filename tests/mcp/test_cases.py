"""CASE-MCP-1 and CASE-MCP-2: sessions across tasks, servers that refuse (tools-plugins MCP-10 … MCP-13)."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.fake import FakeServer, HangUp, Refusal
from tests.mcp.looking import by_name, is_gone, other_tasks
from tests.mcp.server import SCRIPT, make_server

from hookwork import Plugin, Runner
from hookwork.errors import HookworkError
from hookwork_llm import LlmAgent, tool
from hookwork_mcp import McpConnectionError, McpToolset, Stdio, StreamableHttp
from hookwork_mcp.errors import McpToolError
from hookwork_testkit import ScriptedModel, call, make_context

# --- CASE-MCP-1 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_case_mcp_1_opened_here_used_there_closed_elsewhere(
    kind: str, http_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    before = other_tasks()
    toolset = McpToolset(Stdio(sys.executable, [SCRIPT]) if kind == "stdio" else StreamableHttp(http_url))
    tools = await asyncio.create_task(by_name(toolset))
    answer = await asyncio.create_task(tools["pid"].run(make_context("tool"), {}))
    pid = answer["output"]["result"]
    assert (pid == os.getpid()) == (kind == "http")
    await asyncio.create_task(toolset.close())
    await toolset.close()
    assert toolset.live_sessions == 0
    assert other_tasks() - before == set() or kind == "http"
    assert [t for t in other_tasks() if "mcp session" in t.get_name()] == []
    assert kind == "http" or is_gone(pid)
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_case_mcp_1_cancelled_while_connecting(kind: str, http_url: str) -> None:
    toolset = McpToolset(Stdio(sys.executable, [SCRIPT]) if kind == "stdio" else StreamableHttp(http_url))
    for turns in (1, 3, 8, 20):
        first = asyncio.create_task(by_name(toolset))
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    assert "add" in await by_name(toolset)
    await toolset.close()
    assert toolset.live_sessions == 0
    assert [t for t in other_tasks() if "mcp session" in t.get_name()] == []


async def test_case_mcp_1_one_of_two_waiting_callers_is_cancelled() -> None:
    """The connection is made for the one who still waits."""
    release = asyncio.Event()

    async def initialize(_: Any) -> Any:
        await release.wait()
        return fake._initialize(None)

    async with FakeServer(initialize=initialize) as fake:
        toolset = McpToolset(endpoint=fake.url, protocol="legacy")
        first, second = asyncio.create_task(by_name(toolset)), asyncio.create_task(by_name(toolset))
        while not fake.seen:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        release.set()
        assert "echo" in await second
        assert fake.methods().count("initialize") == 1
        await toolset.close()


def test_case_mcp_1_the_loop_ends_without_close() -> None:
    """`asyncio.run` cancels the owner; no child is left, and close in a new loop does not hang."""
    toolset = McpToolset(Stdio(sys.executable, [SCRIPT]))

    async def use() -> int:
        tools = await by_name(toolset)
        return (await tools["pid"].run(make_context("tool"), {}))["output"]["result"]  # type: ignore[no-any-return]

    pid = asyncio.run(use())
    assert is_gone(pid)
    asyncio.run(toolset.close())
    assert asyncio.run(use()) != pid  # and it can be used again
    asyncio.run(toolset.close())
    gc.collect()


def test_case_mcp_1_a_blocking_run_and_close_from_another_loop(runner_factory: Callable[..., Runner]) -> None:
    """`run_sync` drives its own loop in a thread; the toolset is closed from a third one."""
    toolset = McpToolset(Stdio(sys.executable, [SCRIPT]))
    model = ScriptedModel([call("pid"), "ok"])
    runner = runner_factory(LlmAgent(name="a", model=model, tools=[toolset]))
    events: list[Any] = list(runner.run_sync(user_id="u", session_id="s", message="go"))
    (answer,) = [r.response for event in events for r in event.content.function_responses]
    assert toolset.live_sessions == 1
    asyncio.run(runner.close())
    assert toolset.live_sessions == 0
    assert is_gone(answer["output"]["result"])


async def test_mcp_10_a_server_that_does_not_end_is_killed(tmp_path: Path) -> None:
    """close() is bounded whatever the child does."""
    script = tmp_path / "stubborn.py"
    script.write_text(
        "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.mcp.server import make_server\nmake_server().run('stdio')\n"
        "while True: signal.pause()\n"
    )
    toolset = McpToolset(Stdio(sys.executable, [str(script)]))
    tools = await by_name(toolset)
    pid = (await tools["pid"].run(make_context("tool"), {}))["output"]["result"]
    started = time.monotonic()
    await toolset.close()
    assert time.monotonic() - started < 10
    assert is_gone(pid)


# --- CASE-MCP-2 -------------------------------------------------------------------------------------------------------


@tool
def local(x: int) -> int:
    """Another tool of the turn."""
    return x + 1


def refuse(status: int) -> Callable[[Any], Any]:
    def answer(_: Any) -> Any:
        raise Refusal(status)

    return answer


def hang_up(_: Any) -> Any:
    raise HangUp


@pytest.mark.parametrize(
    ("answer", "told"),
    [(refuse(403), "HTTP 403 Forbidden"), (refuse(500), "HTTP 500 Internal Server Error"), (hang_up, "Error")],
    ids=["403", "500", "closed"],
)
async def test_case_mcp_2_a_refused_call_ends_at_once(
    answer: Any, told: str, runner_factory: Callable[..., Runner]
) -> None:
    errors: list[BaseException] = []

    class Watch(Plugin):
        name = "watch"

        def on_tool_error(self, ctx: Any, tool: Any, args: Any, error: Any) -> None:
            errors.append(error)

    async with FakeServer(tools_call=answer) as fake:
        toolset = McpToolset(endpoint=fake.url.replace("//", "//me:pass-word@"))
        model = ScriptedModel([[call("echo"), call("local", x=1)], "Sorry."])
        agent = LlmAgent(name="a", model=model, tools=[toolset, local])
        started = time.monotonic()
        async with runner_factory(agent, plugins=[Watch()]) as runner:
            events: list[Any] = [event async for event in runner.run(user_id="u", session_id="s", message="go")]
        assert time.monotonic() - started < 5
    remote, beside = [r.response for e in events for r in e.content.function_responses]
    assert remote["error"].startswith("the call of tool 'echo' failed: ")
    assert told in remote["error"]
    assert beside == {"result": 2}
    assert [type(error) for error in errors] == [McpToolError]
    assert "pass-word" not in remote["error"]
    assert fake.methods().count("tools/call") == 1  # not sent twice


@pytest.mark.parametrize("optional", [False, True])
async def test_case_mcp_2_an_unreachable_server(
    optional: bool, unused_tcp_port: int, runner_factory: Callable[..., Runner], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"http://me:pass-word@127.0.0.1:{unused_tcp_port}/mcp"
    toolset = McpToolset(endpoint=url, name="far", optional=optional)
    model = ScriptedModel(["Hello."])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[toolset])) as runner:
        run = runner.run(user_id="u", session_id="s", message="go")
        if optional:
            outcome = await run.wait()
            assert outcome.kind == "completed"
            assert model.requests[0].config.tools == ()
        else:
            with pytest.raises(HookworkError, match="toolset 'far'") as caught:
                await run.wait()
            assert isinstance(caught.value.__cause__, McpConnectionError)
            assert "pass-word" not in str(caught.value)
    assert "pass-word" not in caplog.text


async def test_mcp_13_over_sse_a_refused_call_ends_at_once(serve: Any) -> None:
    """There the answer would come on another stream, so the SDK would wait for it."""
    from hookwork_mcp import Sse

    app = make_server().sse_app()

    async def gate(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and refusing:
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    refusing = False
    async with serve(gate) as url:
        toolset = McpToolset(Sse(f"{url}/sse"))
        tools = await by_name(toolset)
        refusing = True
        started = time.monotonic()
        with pytest.raises(McpToolError, match="HTTP 403 Forbidden") as caught:
            await tools["add"].run(make_context("tool"), {"a": 1, "b": 2})
        assert time.monotonic() - started < 5
        assert caught.value.status == 403
        refusing = False
        assert await tools["add"].run(make_context("tool"), {"a": 1, "b": 2}) == {"output": {"result": 3}}
        await toolset.close()
