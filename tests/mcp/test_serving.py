"""Agents and their tools as MCP servers; the client is our own toolset, so both sides are tested against each other."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.server import PNG, make_server

from hookwork import Plugin, ToolContext
from hookwork.cli import main
from hookwork.errors import ConfigurationError, ToolError
from hookwork.settings import NO_SETTINGS
from hookwork_llm import LlmAgent, tool
from hookwork_mcp import AgentServer, McpToolset, Stdio, StreamableHttp
from hookwork_mcp.errors import McpToolError
from hookwork_testkit import ScriptedModel, call, make_context

AGENT_FILE = '''
from hookwork_llm import LlmAgent

def double(x: int) -> int:
    """Twice as much."""
    return 2 * x

root_agent = LlmAgent(name="helper", description="Helps.", model="offline", tools=[double])
'''


@tool
def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@tool(require_confirmation=True)
def wipe(disk: str) -> str:
    """Dangerous."""
    return f"wiped {disk}"


def picture():  # type: ignore[no-untyped-def]
    """An image, in the form of MCP tools."""
    return {"output": [{"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}]}


def whoami(ctx: ToolContext) -> str:
    """Who calls."""
    return f"{ctx.user_id} {ctx.ephemeral['token']}"


def broken() -> str:
    """Fails."""
    raise RuntimeError("no luck")


@asynccontextmanager
async def asked(agent: Any, *, protocol: str = "auto", expose: str = "agent", **client: Any) -> AsyncIterator[Any]:
    """A served agent, and what a client sees of it: (tools by name, the server)."""
    options = client.pop("server", {})
    async with AgentServer(agent, expose=expose, settings=NO_SETTINGS, **options) as server:
        toolset = McpToolset(server.server, protocol=protocol, **client)
        try:
            yield {t.name: t for t in await toolset.tools(make_context("readonly"))}, server
        finally:
            await toolset.close()


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_an_agent_is_one_tool_and_its_conversation_goes_on(protocol: str) -> None:
    model = ScriptedModel([call("double", x=4), "Eight.", "As I said: eight."])
    agent = LlmAgent(name="helper", description="Helps.", model=model, tools=[double])
    ctx = make_context("tool")
    async with asked(agent, protocol=protocol) as (tools, _):
        assert [(t.name, t.description) for t in tools.values()] == [("helper", "Helps.")]
        first = (await tools["helper"].run(ctx, {"request": "Double 4"}))["output"]
        assert (first["text"], first["status"]) == ("Eight.", "completed")
        again = (await tools["helper"].run(ctx, {"request": "Again?", "session_id": first["session_id"]}))["output"]
        assert again["text"] == "As I said: eight."
        assert again["session_id"] == first["session_id"]
    assert [c.text for c in model.requests[2].contents if c.role == "user" and c.text] == ["Double 4", "Again?"]


async def test_progress_tells_what_the_agent_does() -> None:
    told: list[Any] = []
    agent = LlmAgent(name="helper", model=ScriptedModel([call("double", x=4), "Eight."]), tools=[double])
    async with asked(agent, on_progress=lambda ctx, tool, step, total, text: told.append((step, text))) as (tools, _):
        await tools["helper"].run(make_context("tool"), {"request": "Double 4"})
    assert told == [(1.0, "calls double"), (2.0, "Eight.")]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("approve", [True, False])
async def test_an_approval_is_asked_of_the_client_s_user(protocol: str, approve: bool) -> None:
    questions: list[Any] = []

    def answer(question: Any) -> dict[str, Any]:
        questions.append(question)
        return {"approve": approve}

    model = ScriptedModel([call("wipe", disk="C"), "So be it."])
    agent = LlmAgent(name="helper", model=model, tools=[wipe])
    async with asked(agent, protocol=protocol, elicitation=answer) as (tools, _):
        result = (await tools["helper"].run(make_context("tool"), {"request": "Wipe C"}))["output"]
    assert (result["text"], result["status"]) == ("So be it.", "completed")
    (question,) = questions
    assert 'wipe({"disk": "C"})' in question.message
    (response,) = model.requests[1].contents[-1].function_responses
    assert ("error" in (response.response or {})) is not approve


async def test_answers_are_taken_only_with_the_state_that_was_handed_out() -> None:
    """SEP-2322: state that fails its integrity check is refused; nothing runs."""
    import mcp_types as types
    from mcp import Client, MCPError

    agent = LlmAgent(name="box", model=ScriptedModel([]), tools=[wipe])
    async with AgentServer(agent, expose="tools", settings=NO_SETTINGS) as server:

        async def never(context: Any, params: Any) -> Any:
            raise AssertionError("asked by hand")

        async with Client(server.server, elicitation_callback=never) as client:
            first: Any = await client.session.call_tool("wipe", {"disk": "C"}, allow_input_required=True)
            (key,) = first.input_requests
            answer: Any = {key: types.ElicitResult(action="accept", content={"approve": True})}
            for state in (first.request_state + "x", "made-up"):
                with pytest.raises(MCPError, match="Invalid or expired requestState"):
                    await client.session.call_tool("wipe", {"disk": "C"}, input_responses=answer, request_state=state)
            done: Any = await client.session.call_tool(
                "wipe", {"disk": "C"}, input_responses=answer, request_state=first.request_state
            )
            assert done.structured_content == {"result": "wiped C"}
            with pytest.raises(MCPError, match="belong to nothing"):
                await client.session.call_tool(
                    "wipe", {"disk": "C"}, input_responses=answer, request_state=first.request_state
                )


async def test_a_client_without_forms_is_told_what_the_agent_waits_for() -> None:
    agent = LlmAgent(name="helper", model=ScriptedModel([call("wipe", disk="C")]), tools=[wipe])
    async with asked(agent) as (tools, _):
        result = (await tools["helper"].run(make_context("tool"), {"request": "Wipe C"}))["output"]
    assert result["status"] == "paused"
    assert [(w["kind"], w["name"]) for w in result["waiting"]] == [("confirmation", "adk_request_confirmation")]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_the_tools_of_an_agent_are_served_without_its_model(protocol: str) -> None:
    agent = LlmAgent(
        name="box", model=ScriptedModel([]), tools=[double, picture, broken, McpToolset(make_server(), prefix="far_")]
    )
    ctx = make_context("tool")
    async with asked(agent, protocol=protocol, expose="tools") as (tools, server):
        assert {"double", "picture", "broken", "far_add"} <= set(tools)
        assert tools["double"].description == "Twice as much."
        assert tools["double"].input_schema["required"] == ["x"]
        assert await tools["double"].run(ctx, {"x": 4}) == {"output": {"result": 8}}
        image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
        assert await tools["picture"].run(ctx, {}) == {"output": [image]}
        assert await tools["far_add"].run(ctx, {"a": 1, "b": 2}) == {"output": {"result": 3}}
        assert await tools["far_greet"].run(ctx, {"name": "Ann"}) == {"output": "Hello, Ann"}
        assert (await tools["far_picture"].run(ctx, {}))["output"][1] == image
        with pytest.raises(ToolError, match=r"Tool execution failed\. Details: RuntimeError: no luck"):
            await tools["broken"].run(ctx, {})
        runner = server.exposed.runner
        listed = await runner.sessions.list_sessions(app_name=runner.app_name, user_id="mcp_user")
        assert list(listed) == []


async def test_plugins_and_approval_stand_before_served_tools() -> None:
    class NoNegative(Plugin):
        name = "no_negative"

        def before_tool(self, ctx: Any, tool: Any, args: Any) -> dict[str, Any] | None:
            return {"error": "not negative"} if args.get("x", 0) < 0 else None

    agent = LlmAgent(name="box", model=ScriptedModel([]), tools=[double, wipe])
    ctx = make_context("tool")
    options: dict[str, Any] = {"expose": "tools", "server": {"plugins": [NoNegative()]}}
    async with asked(agent, elicitation=lambda question: {"approve": True}, **options) as (tools, _):
        with pytest.raises(ToolError, match="not negative"):
            await tools["double"].run(ctx, {"x": -1})
        assert await tools["wipe"].run(ctx, {"disk": "C"}) == {"output": {"result": "wiped C"}}
    async with asked(agent, **options) as (tools, _):
        with pytest.raises(ToolError, match="wipe was not carried out"):
            await tools["wipe"].run(ctx, {"disk": "C"})


async def test_identify_separates_users_and_fills_the_ephemeral_scope(serve: Any) -> None:
    """Over HTTP; SRV-5: the caller is established from the request, here by its headers."""

    def identify(headers: Any) -> tuple[str, dict[str, Any]]:
        token = headers["authorization"].removeprefix("Bearer ")
        return f"user of {token}", {"token": token}

    agent = LlmAgent(name="box", model=ScriptedModel([]), tools=[whoami])
    async with (
        AgentServer(agent, expose="tools", identify=identify, settings=NO_SETTINGS) as server,
        serve(server.http_app()) as url,
    ):
        for protocol in ("auto", "legacy"):
            toolset = McpToolset(
                StreamableHttp(f"{url}/mcp"),
                header_provider=lambda ctx: {"Authorization": f"Bearer {ctx.ephemeral['t']}"},
                protocol=protocol,
            )
            for token in ("a", "b"):
                (found,) = await toolset.tools(make_context("readonly", ephemeral={"t": token}))
                answer = await found.run(make_context("tool", ephemeral={"t": token}), {})  # type: ignore[attr-defined]
                assert answer == {"output": {"result": f"user of {token} {token}"}}
            await toolset.close()


async def test_a_cancelled_call_ends_the_run() -> None:
    entered, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Waits."""
        entered.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        return "unreachable"

    agent = LlmAgent(name="helper", model=ScriptedModel([call("wait")]), tools=[wait])
    async with asked(agent) as (tools, _):
        task = asyncio.create_task(tools["helper"].run(make_context("tool"), {"request": "Wait"}))
        await entered.wait()
        task.cancel()
        await asyncio.wait([task])
        await asyncio.wait_for(ended.wait(), 5)
        assert task.cancelled()


async def test_what_goes_wrong_is_told_without_internals(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Plugin):
        name = "bad"

        def before_model(self, ctx: Any, request: Any) -> None:
            raise KeyError("the password is s3cret")

    agent = LlmAgent(name="helper", model=ScriptedModel(["never"]))
    async with asked(agent, server={"plugins": [Bad()]}) as (tools, _):
        with pytest.raises(ToolError, match="helper failed; see the server's log") as caught:
            await tools["helper"].run(make_context("tool"), {"request": "hi"})
        assert "s3cret" not in str(caught.value)
        tools["helper"].mcp_name = "nobody"
        with pytest.raises(McpToolError, match="Unknown tool: nobody"):
            await tools["helper"].run(make_context("tool"), {"request": "hi"})
    with pytest.raises(ConfigurationError, match="'agent' or 'tools'"):
        AgentServer(agent, expose="everything")


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--tools"]], ids=["agent", "tools"])
async def test_hookwork_mcp_serve_on_stdio(flags: list[str], tmp_path: Path) -> None:
    file = tmp_path / "helper_agent.py"
    file.write_text(AGENT_FILE)
    arguments = ["-c", "import sys; from hookwork.cli import main; sys.exit(main())", "mcp", "serve", str(file), *flags]
    toolset = McpToolset(Stdio(sys.executable, arguments, cwd=str(tmp_path)))
    try:
        (found,) = await toolset.tools(make_context("readonly"))
        args = {"x": 4} if flags else {"request": "Hello"}
        answer = (await found.run(make_context("tool"), args))["output"]  # type: ignore[attr-defined]
        assert answer == {"result": 8} if flags else answer["status"] == "completed"
    finally:
        await toolset.close()


async def test_hookwork_mcp_serve_by_http(tmp_path: Path, unused_tcp_port: int) -> None:
    file = tmp_path / "helper_agent.py"
    file.write_text(AGENT_FILE)
    code = "import sys; from hookwork.cli import main; sys.exit(main())"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "mcp", "serve", str(file), "--http", "--tools", "--port", str(unused_tcp_port)),
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        shown = await asyncio.wait_for(process.stderr.readline(), 20)
        url = shown.decode().split()[-1]
        assert url == f"http://127.0.0.1:{unused_tcp_port}/mcp"
        toolset = McpToolset(endpoint=url, connect_timeout=10)
        async with asyncio.timeout(20):
            while True:
                try:
                    (found,) = await toolset.tools(make_context("readonly"))
                except Exception:
                    await asyncio.sleep(0.05)
                else:
                    break
        assert await found.run(make_context("tool"), {"x": 4}) == {"output": {"result": 8}}  # type: ignore[attr-defined]
        await toolset.close()
    finally:
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), 20)


def test_wrong_usage_is_exit_code_64(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "serve", "no-such-agent", "--http", "--path", "mcp"]) == 64
    assert "begins with a slash" in capsys.readouterr().err
    assert main(["mcp", "serve", "no-such-agent"]) == 1
    assert "no-such-agent" in capsys.readouterr().err
