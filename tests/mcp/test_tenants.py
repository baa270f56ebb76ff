"""CASE-MCP-3 and the headers behind it (tools-plugins MCP-02, MCP-12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.mcp.fake import FakeServer
from tests.mcp.looking import by_name, other_tasks, readonly

from hookwork import Runner
from hookwork.errors import ConfigurationError
from hookwork_llm import LlmAgent
from hookwork_mcp import McpToolset, StreamableHttp
from hookwork_testkit import ScriptedModel, call, make_context


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
