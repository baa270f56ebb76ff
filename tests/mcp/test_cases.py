"""CASE-MCP-1 … CASE-MCP-4, and the rules of connections behind them (tools-plugins MCP-06 … MCP-14)."""

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
from tests.mcp.server import SCRIPT, make_server

from hookwork import Plugin, Runner
from hookwork.errors import ConfigurationError, HookworkError, ToolArgumentError, ToolError
from hookwork.platform import use_sleep
from hookwork_llm import LlmAgent, tool
from hookwork_mcp import McpConnectionError, McpToolset, Stdio, StreamableHttp
from hookwork_mcp.errors import McpToolError
from hookwork_testkit import ScriptedModel, call, make_context


def readonly(user: str = "u1") -> Any:
    return make_context("readonly", user_id=user)


async def by_name(toolset: McpToolset, ctx: Any = None) -> dict[str, Any]:
    return {tool.name: tool for tool in await toolset.tools(ctx or readonly())}


def other_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


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
            events = [event async for event in runner.run(user_id="u", session_id="s", message="go")]
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


# --- MCP-06, MCP-07: lost connections ---------------------------------------------------------------------------------


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


# --- CASE-MCP-3 -------------------------------------------------------------------------------------------------------


async def test_case_mcp_3_two_tenants_at_once(runner_factory: Callable[..., Runner]) -> None:
    tokens = {"u1": "t1", "u2": "t2"}

    async def headers(ctx: Any) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"Authorization": f"Bearer {ctx.ephemeral['token']}"}

    async with FakeServer() as fake:
        toolset = McpToolset(endpoint=fake.url, header_provider=headers)
        model = ScriptedModel([step for _ in range(40) for step in (call("echo"), "ok")])

        agent = LlmAgent(name="a", model=model, tools=[toolset])
        async with runner_factory(agent) as runner:

            async def turn(user: str, number: int) -> None:
                run = runner.run(
                    user_id=user, session_id=f"{user}-{number}", message="go", ephemeral={"token": tokens[user]}
                )
                await run.wait()

            for number in range(20):
                if number == 10:
                    tokens["u1"] = "t1-new"
                await turn("u1", number)
                await turn("u2", number)
            assert toolset.live_sessions == 3
        assert toolset.live_sessions == 0
        assert fake.live == set()
    owners: dict[str, set[str]] = {}
    for seen in fake.seen:
        assert seen.authorization in {"Bearer t1", "Bearer t1-new", "Bearer t2"}
        if seen.session:
            owners.setdefault(seen.session, set()).add(seen.authorization)
    assert len(owners) == 3
    assert all(len(tokens_of) == 1 for tokens_of in owners.values())
    calls = [seen.authorization for seen in fake.seen if seen.method == "tools/call"]
    assert calls == [t for n in range(20) for t in ("Bearer t1" if n < 10 else "Bearer t1-new", "Bearer t2")]


async def test_mcp_12_interleaved_users_share_no_session() -> None:
    async with FakeServer() as fake:
        toolset = McpToolset(endpoint=fake.url, header_provider=lambda ctx: {"Authorization": f"Bearer {ctx.user_id}"})
        tools = await by_name(toolset)

        async def use(user: str) -> None:
            await toolset.tools(readonly(user))
            await tools["echo"].run(make_context("tool", user_id=user), {})

        await asyncio.gather(*(use(f"u{i % 2 + 1}") for i in range(40)))
        owners: dict[str, set[str]] = {}
        for seen in fake.seen:
            if seen.session:
                owners.setdefault(seen.session, set()).add(seen.authorization)
        assert sorted(map(sorted, owners.values())) == [["Bearer u1"], ["Bearer u2"]]
        await toolset.close()


async def test_mcp_12_sessions_are_bounded_and_none_in_use_is_evicted() -> None:
    release, busy = asyncio.Event(), asyncio.Event()

    async def answer(params: Any) -> Any:
        if params["arguments"].get("wait"):
            busy.set()
            await release.wait()
        return {"content": [{"type": "text", "text": "ok"}]}

    async with FakeServer(tools_call=answer) as fake:
        toolset = McpToolset(endpoint=fake.url, header_provider=lambda ctx: {"X-User": ctx.user_id}, max_sessions=2)
        tools = await by_name(toolset)
        held = asyncio.create_task(tools["echo"].run(make_context("tool", user_id="u1"), {"wait": True}))
        await busy.wait()
        for user in ("u2", "u3", "u4"):
            await tools["echo"].run(make_context("tool", user_id=user), {})
            assert toolset.live_sessions <= 2
        release.set()
        assert await held == {"output": "ok"}
        await toolset.close()
        assert fake.live == set()


async def test_mcp_12_idle_sessions_end() -> None:
    async with FakeServer() as fake:
        toolset = McpToolset(endpoint=fake.url, idle_timeout=0.05)
        await by_name(toolset)
        (owner,) = [t for t in other_tasks() if t.get_name().startswith("mcp session")]
        await asyncio.wait_for(owner, 5)
        assert toolset.live_sessions == 0
        assert fake.live == set()
        await by_name(toolset)
        assert fake.methods().count("initialize") == 2
        await toolset.close()


class Key:
    """A credential provider as AUTH-1 and AUTH-2 say."""

    async def credential(self, ctx: Any) -> Any:
        class Bearer:
            async def apply(self, headers: Any) -> None:
                headers["authorization"] = f"Bearer of {ctx.user_id}"

        return Bearer()


async def test_mcp_02_auth_overwrites_authorization() -> None:
    async with FakeServer() as fake:
        http = StreamableHttp(fake.url, headers={"Authorization": "fixed", "X-Fixed": "1"})
        toolset = McpToolset(http, auth=Key(), header_provider=lambda ctx: {"AUTHORIZATION": "from the provider"})
        await by_name(toolset)
        await toolset.close()
    assert {(seen.authorization, seen.headers["x-fixed"]) for seen in fake.seen} == {("Bearer of u1", "1")}


async def test_mcp_02_a_header_of_two_lines_is_refused_without_its_value() -> None:
    toolset = McpToolset(endpoint="http://127.0.0.1:9/mcp", header_provider=lambda ctx: {"X-Token": "se\r\ncret: 1"})
    with pytest.raises(ConfigurationError, match="'X-Token'") as caught:
        await toolset.tools(readonly())
    assert "cret" not in str(caught.value)


# --- CASE-MCP-4 -------------------------------------------------------------------------------------------------------

ODD: dict[str, Any] = {
    "draft": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"type": "string"}},
    },
    "refs": {"type": "object", "properties": {"a": {"$ref": "#/$defs/kind"}}, "$defs": {"kind": {"enum": ["x", "y"]}}},
    "closed": {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
    "one_of": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"const": 1}, "b": True}},
    "type_list": {"type": ["object", "null"], "properties": {"a": {"type": ["string", "null"]}}},
    "booleans": {"type": "object", "properties": {"a": True, "b": False}},
    "none": None,
    "any": True,
    "far": {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}},
    "broken": {"type": "object", "properties": {"a": {"type": "no-such-type"}}},
}
GOOD = {
    "draft": {"a": "t"}, "refs": {"a": "x"}, "closed": {"a": 1}, "one_of": {"a": 1}, "type_list": {"a": None},
    "booleans": {"a": 1}, "none": {"z": 1}, "any": {}, "far": {"a": 1}, "broken": {"a": 1},
}  # fmt: skip
BAD = {
    "draft": ({"a": 1}, "/a: must be of type string"),
    "refs": ({"a": "z"}, r"/a: must be one of \['x', 'y'\]"),
    "closed": ({"b": 1}, r"value: has keys that are not allowed \(known: a\)"),
    "one_of": ({"a": 1, "b": 2}, "value: does not satisfy oneOf"),
    "type_list": ({"a": 1}, "/a: must be of type string or null"),
    "booleans": ({"b": 1}, "is not allowed"),
}


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_case_mcp_4_schemas_as_servers_write_them(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    offered = [
        {"name": name, **({"inputSchema": schema} if schema is not None else {})} for name, schema in ODD.items()
    ]
    async with FakeServer(offered) as fake:
        toolset = McpToolset(endpoint=fake.url, protocol=protocol)
        tools = await by_name(toolset)
        assert sorted(tools) == sorted(ODD)
        ctx = make_context("tool")
        for name, schema in ODD.items():
            assert tools[name].input_schema == schema
            shown = tools[name].declaration().parameters_json_schema
            assert shown == (schema if isinstance(schema, dict) else None)
            assert "output" in await tools[name].run(ctx, GOOD[name])
            assert tools[name].input_schema == schema
        calls = fake.methods().count("tools/call")
        for name, (args, told) in BAD.items():
            with pytest.raises(ToolArgumentError, match=told):
                await tools[name].run(ctx, args)
        assert fake.methods().count("tools/call") == calls
        await toolset.close()
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [("'far'" in text, "'broken'" in text) for text in warned] == [(True, False), (False, True)]


async def test_mcp_14_results_are_checked_by_the_server_s_own_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    offered = [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}]

    def answer(params: Any) -> Any:
        return {"content": [], "structuredContent": params["arguments"]}

    async with FakeServer(offered, tools_call=answer) as fake:
        toolset = McpToolset(endpoint=fake.url)
        tools = await by_name(toolset)
        assert await tools["t"].run(make_context("tool"), {"n": 1}) == {"output": {"n": 1}}
        with pytest.raises(
            ToolError, match="'t' returned structured content unlike its own output schema: /n"
        ) as caught:
            await tools["t"].run(make_context("tool"), {"n": "s3cret"})
        assert "s3cret" not in str(caught.value)
        assert tools["t"].declaration().response_json_schema == schema
        await toolset.close()
