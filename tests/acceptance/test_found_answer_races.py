"""One answer that reaches two processes at the same moment is acted upon once (HITL-12, CNF-6, RES-8, CASE-SESS-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookwork import Agent, FunctionResponse, Part, Plugin, Runner
from hookwork.app import App
from hookwork.errors import NothingToResume
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import START, NodeContext, Workflow, node

WHO = {"user_id": "u", "session_id": "s"}


class Work:
    """What may be done once: told when it begins, held until it may end."""

    def __init__(self) -> None:
        self.begun = 0
        self.first = asyncio.Event()
        self.go_on = asyncio.Event()

    async def do(self) -> None:
        self.begun += 1
        self.first.set()
        await self.go_on.wait()


def chat(work: Work) -> Agent:
    @tool(require_confirmation=True)
    async def pay() -> dict[str, Any]:
        """Pays."""
        await work.do()
        return {"paid": True}

    def answer(request: Any) -> Any:
        return "Paid." if request.contents[-1].function_responses else call("pay")

    return LlmAgent(name="shop", model=ScriptedModel(answer), tools=[pay])


def approved_node(work: Work) -> Agent:
    @node(require_confirmation=True)
    async def charge(text: str) -> str:
        await work.do()
        return "charged"

    return Workflow("shop", START >> charge).as_agent()


def asking_node(work: Work) -> Agent:
    @node
    async def ask(text: str, ctx: NodeContext) -> str:
        await ctx.request_input("sure", "Sure?")
        await work.do()
        return "done"

    return Workflow("shop", START >> ask).as_agent()


class Meanwhile(Plugin):
    """Once a message with an answer was looked at, and is not stored yet, something else happens."""

    def __init__(self, happen: Callable[[], Any]) -> None:
        self.happen = happen

    async def on_user_message(self, ctx: Any, message: Any) -> None:
        if message.function_responses:
            await self.happen()


@pytest.mark.parametrize("make", [chat, approved_node, asking_node])
async def test_the_second_of_two_answers_at_once_does_nothing(make: Callable[[Work], Agent], tmp_path: Path) -> None:
    work, url = Work(), f"sqlite:///{tmp_path}/s.db"
    agent = make(work)
    rival = Runner(agent, sessions=url)
    runs: list[asyncio.Task[Any]] = []

    async def happen() -> None:
        runs.append(asyncio.create_task(rival.run(message=answer, **WHO).wait()))
        await work.first.wait()

    async with rival, Runner(App("shop", agent, plugins=[Meanwhile(happen)]), sessions=url) as runner:
        asked = (await rival.run(message="go", **WHO).wait()).open_calls[0]
        response = FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True, "result": "yes"})
        answer = [Part(function_response=response)]
        late = asyncio.create_task(runner.run(message=answer, **WHO).wait())
        await work.first.wait()
        with pytest.raises(NothingToResume, match="meanwhile"):
            await asyncio.wait_for(late, 10)
        work.go_on.set()
        assert (await runs[0]).kind == "completed"
        assert work.begun == 1
        assert await runner.open_calls(**WHO) == []
