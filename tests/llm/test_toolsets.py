"""Toolsets, and tools that change a request (tools-plugins TL-03 … TL-07, core REQ-2 … REQ-4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool, Toolset, pack_tool
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call


class Raw(Tool):
    """A tool of the plain contract: a name and a `run`."""

    def __init__(self, name: str, run: Any, **fields: Any) -> None:
        self.name = name
        self._run = run
        for key, value in fields.items():
            setattr(self, key, value)

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.name)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        result = self._run(ctx, args)
        return await result if asyncio.iscoroutine(result) else result


def agent_of(model: ScriptedModel, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


def responses_of(turn: Any, position: int = 1) -> list[Any]:
    return [response.response for response in turn.events[position].function_responses]


# --- toolsets ---------------------------------------------------------------------------------------------------------


class Listing(Toolset):
    """Counts how often it is listed."""

    name = "listing"

    def __init__(self, *tools: Tool, error: Exception | None = None, optional: bool = False) -> None:
        self._tools = list(tools)
        self._error = error
        self.optional = optional
        self.listed: list[Any] = []

    async def tools(self, ctx: Any) -> list[Tool]:
        self.listed.append(ctx)
        if self._error is not None:
            raise self._error
        return self._tools


async def test_tl_03_a_toolset_is_listed_once_per_agent_call(runner_factory: Any, play: Any) -> None:
    listing = Listing(Raw("t", lambda ctx, args: {}))
    model = ScriptedModel([call("t"), call("t"), "done", "again"])
    async with runner_factory(agent_of(model, listing)) as runner:
        await play(runner)
        assert (len(listing.listed), model.calls) == (1, 3)
        await play(runner)
    assert len(listing.listed) == 2
    with pytest.raises(TypeError):
        listing.listed[0].state["x"] = 1  # TL-02: read-only
    assert model.requests[0].declared == ["t"]


async def test_tl_04_a_toolset_error_names_the_toolset_and_fails_the_run(runner_factory: Any, play: Any) -> None:
    cause = ConnectionError("refused")
    async with runner_factory(agent_of(ScriptedModel(), Listing(error=cause))) as runner:
        turn = await play(runner)
    assert "'listing'" in str(turn.error)
    assert "refused" in str(turn.error)
    assert turn.error.__cause__ is cause
    assert turn.outcome.kind == "failed"


async def test_tl_04_an_optional_toolset_contributes_nothing(
    runner_factory: Any, play: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel(["done"])
    listing = Listing(error=ConnectionError("refused"), optional=True)
    async with runner_factory(agent_of(model, listing, Raw("t", lambda ctx, args: {}))) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: done"]
    assert model.requests[0].declared == ["t"]
    assert "listing" in caplog.text


async def test_tl_07_an_error_in_a_toolsets_process_request_names_it(runner_factory: Any, play: Any) -> None:
    class Broken(Listing):
        async def process_request(self, ctx: Any, request: Any) -> None:
            raise OSError("disk")

    async with runner_factory(agent_of(ScriptedModel(), Broken())) as runner:
        turn = await play(runner)
    assert "'listing'" in str(turn.error)
    assert isinstance(turn.error.__cause__, OSError)


async def test_tl_12_two_tools_of_one_name_in_a_request_fail_the_run(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel()
    agent = agent_of(model, Raw("t", lambda ctx, args: {}), Listing(Raw("t", lambda ctx, args: {})))
    async with runner_factory(agent) as runner:
        turn = await play(runner)
    assert type(turn.error).__name__ == "DuplicateToolError"
    assert "'t'" in str(turn.error)


async def test_tl_06_state_written_while_a_request_is_built_is_stored(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    class Counts(Raw):
        async def process_request(self, ctx: ToolContext, request: Any) -> None:
            ctx.state["asked"] = ctx.state.get("asked", 0) + 1
            assert ctx.function_call_id.startswith("adk-")
            pack_tool(request, self)

    model = ScriptedModel([call("t"), "done"])
    async with runner_factory(agent_of(model, Counts("t", lambda ctx, args: {}))) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert [dict(event.actions.state_delta) for event in turn.events] == [{"asked": 1}, {}, {"asked": 2}]
    assert session.state["asked"] == 2


async def test_dlt_6_writes_of_a_request_that_is_never_sent_ride_on_an_event_of_their_own(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    class Ends(Raw):
        async def process_request(self, ctx: ToolContext, request: Any) -> None:
            ctx.state["noted"] = 1
            ctx.end_invocation("budget")

    model = ScriptedModel()
    async with runner_factory(agent_of(model, Ends("t", lambda ctx, args: {}))) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert turn.scene == ["a: δnoted"]
    assert (turn.outcome.kind, model.calls, session.state["noted"]) == ("ended", 0, 1)


async def test_req_2_a_tool_may_be_there_for_one_step_only(runner_factory: Any, play: Any) -> None:
    """Dynamic tools: what `process_request` packs is callable in that step and nowhere else."""

    class Once(Tool):
        name = "once"

        async def process_request(self, ctx: ToolContext, request: Any) -> None:
            if not ctx.state.get("used"):
                pack_tool(request, Raw("extra", self._extra))

        @staticmethod
        def _extra(ctx: ToolContext, args: Any) -> dict[str, Any]:
            ctx.state["used"] = True
            return {"extra": True}

    model = ScriptedModel([call("extra"), call("extra"), "done"])
    async with runner_factory(agent_of(model, Once())) as runner:
        turn = await play(runner)
    assert responses_of(turn, 1) == [{"extra": True}]
    assert "there is no tool 'extra'" in responses_of(turn, 3)[0]["error"]
    assert [request.declared for request in model.requests] == [["extra"], [], []]
