"""The agent suite passes good agents and catches those that break one rule each (core §0, §1; activations)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from attrs import define

from hookwork.agent import Agent
from hookwork.context import InvocationContext
from hookwork.errors import ConfigurationError
from hookwork.node import Standing
from hookwork.records.content import Content, text_content
from hookwork.records.event import Event, EventActions
from hookwork.records.history import Call
from hookwork.view import View
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import RecordedRequest, ScriptedModel, call, stream
from hookwork_testkit.suites import AgentSuite
from hookwork_testkit.suites.broken import BrokenBackends, failures
from hookwork_workflow import LoopAgent, ParallelAgent, SequentialAgent

BROKEN = BrokenBackends(AgentSuite)


def said(text: str, **fields: Any) -> Event:
    """An event as a body yields it."""
    return Event(content=text_content(text), **fields)


@define(eq=False, kw_only=True, frozen=True)
class Greeter(Agent):
    """Greets in two events, with a turn of the loop before each; the broken ones change one thing."""

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        await asyncio.sleep(0)
        yield said("hello", actions=EventActions(state_delta={"greeted": True}))
        await asyncio.sleep(0)
        yield said(f"you said {ctx.user_content.text if ctx.user_content else ''}")


@define(eq=False, kw_only=True, frozen=True)
class Asker(Agent):
    """Asks with a long-running call, and is done once it was answered."""

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        calls = ctx.view.calls
        if not calls:
            yield self.question()
        elif all(one.answer for one in calls):
            yield said("thank you")

    def question(self) -> Event:
        """The event that asks."""
        content = Content(role="model", parts=[call("ask_name", "c-1")])
        return Event(content=content, long_running_tool_ids=("c-1",))


def look() -> dict[str, str]:
    """Looks at the sky."""
    return {"sky": "clear"}


@tool(require_confirmation=True)
def act() -> dict[str, bool]:
    """Acts."""
    return {"done": True}


def by_tool(name: str) -> ScriptedModel:
    """A model that calls a tool once and then says what came of it."""

    def answer(request: RecordedRequest) -> Any:
        return "it is done" if request.contents[-1].function_responses else stream("let me ", call(name))

    return ScriptedModel(answer)


class TestCustom(AgentSuite):
    def make_agent(self) -> Agent:
        return Greeter(name="greeter")


class TestAsking(AgentSuite):
    def make_agent(self) -> Agent:
        return Asker(name="asker")

    def make_answer(self, call: Call) -> dict[str, Any]:
        return {"name": "Ada"}


class TestLlmAgent(AgentSuite):
    def make_agent(self) -> Agent:
        return LlmAgent(name="root", model=by_tool("look"), tools=[look])


class TestLlmAgentThatConfirms(AgentSuite):
    def make_agent(self) -> Agent:
        return LlmAgent(name="root", model=by_tool("act"), tools=[act])

    def make_answer(self, call: Call) -> dict[str, Any]:
        return {"confirmed": True}


class TestTransfer(AgentSuite):
    def make_agent(self) -> Agent:
        expert = LlmAgent(name="expert", description="Knows.", model=ScriptedModel(lambda request: "I know"))
        model = ScriptedModel(lambda request: call("transfer_to_agent", agent_name="expert"))
        return LlmAgent(name="root", model=model, sub_agents=(expert,))


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent])
async def test_composed_agents_pass(kind: Any) -> None:
    class Composed(AgentSuite):
        deterministic = kind is not ParallelAgent  # its children's events may come in any order

        def make_agent(self) -> Agent:
            more = {"max_iterations": 2} if kind is LoopAgent else {}
            children = (Greeter(name="one"), LlmAgent(name="two", model=by_tool("look"), tools=[look]))
            agent: Agent = kind(name="root", sub_agents=children, **more)
            return agent

    assert await failures(Composed()) == {}


async def test_a_composed_agent_that_asks_passes() -> None:
    class Sequence(AgentSuite):
        def make_agent(self) -> Agent:
            return SequentialAgent(name="root", sub_agents=(Asker(name="asker"), Greeter(name="greeter")))

        def make_answer(self, call: Call) -> dict[str, Any]:
            return {"name": "Ada"}

    assert await failures(Sequence()) == {}


class _Suite(AgentSuite):
    """The suite against a broken agent."""

    def __init__(self, kind: type[Agent]) -> None:
        self.kind = kind

    def make_agent(self) -> Agent:
        return self.kind(name="broken")

    def make_answer(self, call: Call) -> dict[str, Any]:
        return {"name": "Ada"}


@BROKEN.breaks("test")
class RefusesToBeARoot(Greeter):
    def check_root(self) -> None:
        raise ConfigurationError("this agent cannot be a root")


@BROKEN.breaks("test_inv_4")
class CountsOnItself(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        object.__setattr__(self, "description", f"{self.description}.")
        async for event in super().body(ctx):
            yield event


@BROKEN.breaks("test_inv_4")
class KeepsTheLastContext(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        object.__setattr__(self, "_last", ctx)
        async for event in super().body(ctx):
            yield event


class _Connection:
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True


@BROKEN.breaks("test_gen_4")
class ClosesOnce(Greeter):
    def closables(self) -> Iterable[Any]:
        return (_Connection(),)


@BROKEN.breaks("test_agt_17")
class SpeaksForOthers(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("hello", author="somebody")


@BROKEN.breaks("test_agt_17")
class GivesAnotherInvocation(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("hello", invocation_id=ctx.invocation_id)
        yield said("hello", invocation_id="e-other")


_SHARED: list[str] = []


@BROKEN.breaks("test_agt_3")
class SharesAList(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        _SHARED[:] = [ctx.session.id]
        await asyncio.sleep(0)
        yield said("mine" if [ctx.session.id] == _SHARED else "not mine")


@BROKEN.breaks("test_inv_5", "test_agt_3", "test_agt_5")
class RollsItsOwnDice(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said(str(random.random()))


@BROKEN.breaks("test_run_a_second", "test_inv_3_a_run_left")
class KnowsOneTurn(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        if len(ctx.session.events) > 1:
            raise RuntimeError("this is not my first turn")
        yield said("hello")


@BROKEN.breaks("test_agt_5")
class NeedsARunner(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("hello" if ctx.app_name == "suite" else "who is there?")


@BROKEN.breaks("test_act_13")
class IsNeverDone(Greeter):
    def standing(self, view: View) -> Standing:
        found = super().standing(view)
        return Standing.PENDING if found is Standing.DONE else found


@BROKEN.breaks("test_act_13")
class ChangesItsMind(Greeter):
    def standing(self, view: View) -> Standing:
        _ASKED.append(1)
        return Standing.DONE if len(_ASKED) % 2 else Standing.PENDING


_ASKED: list[int] = []


@BROKEN.breaks("test_act_13", "test_res")
class ForgetsThatItAsked(Asker):
    def standing(self, view: View) -> Standing:
        found = super().standing(view)
        return Standing.DONE if found is Standing.WAITING else found

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        yield self.question()


@BROKEN.breaks("test_res")
class NeverHasEnough(Asker):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        number = len(ctx.view.calls) + 1
        content = Content(role="model", parts=[call("ask_name", f"c-{number}")])
        yield Event(content=content, long_running_tool_ids=(f"c-{number}",))


@BROKEN.breaks("test_res")
class KeepsTheAnswerToItself(Asker):
    """Goes on by what this process remembers; another one asks anew."""

    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        if ctx.resuming:
            raise RuntimeError(f"no conversation {id(self)} in this process")
        yield self.question()


@BROKEN.breaks("test_inv_3")
class LeavesATaskBehind(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        keeper = asyncio.create_task(asyncio.Event().wait())
        async for event in super().body(ctx):
            yield event
        keeper.cancel()


@BROKEN.breaks("test_inv_3_a_run_cancelled")
class SwallowsCancellation(Greeter):
    async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        yield said("hello")


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_agent_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_agent() -> None:
    assert BROKEN.uncaught(BROKEN.lines) == []
