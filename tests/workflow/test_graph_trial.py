"""`await node.test(...)`: one activation in memory, with what it asks answered (workflow API-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from hookwork import FunctionPlugin, NodeConfig
from hookwork.node_context import NodeContext
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import (
    DEFAULT,
    START,
    FunctionNode,
    InputValidationError,
    Join,
    RequestInput,
    Retry,
    Routed,
    Workflow,
    node,
    progress,
    routed,
)


@dataclass
class Draft:
    text: str


@node
async def shout(draft: Draft) -> str:
    return draft.text.upper()


@node
async def approve(draft: Draft, ctx: NodeContext) -> Routed[Draft, Any]:
    ok = await ctx.request_input("approve", "Send it?", payload={"text": draft.text}, schema=bool)
    return routed(ok, draft)


async def test_api_2_one_activation_gives_output_events_and_interrupts() -> None:
    trial = await shout.test({"text": "hi"})
    assert (trial.output, trial.routes, trial.interrupts) == ("HI", (), ())
    assert [event.output for event in trial.events] == ["HI"]
    assert await shout.func(Draft("hi")) == "HI"


async def test_api_2_answers_by_key_or_left_out() -> None:
    asked = await approve.test(Draft("hi"))
    assert asked.output is None
    [question] = asked.interrupts
    assert (question.message, question.payload) == ("Send it?", {"text": "hi"})
    assert question.response_schema == {"type": "boolean"}
    answered = await approve.test(Draft("hi"), answers={"approve": False})
    assert (answered.output, answered.routes, answered.interrupts) == ({"text": "hi"}, ("false",), ())


async def test_api_2_a_yielded_question_hands_the_answer_on() -> None:
    @node
    async def ask(x: Any) -> AsyncIterator[Any]:
        yield progress("thinking")
        yield RequestInput(interrupt_id="why", message="Why?")

    assert (await ask.test(1, answers={"why": "because"})).interrupts == ()
    flow = Workflow("flow", START >> ask >> shout.replace(input_schema=None))
    assert [e.text for e in (await flow.test(1)).events][:1] == ["thinking"]

    @node
    async def after(answer: str) -> str:
        return f"asked: {answer}"

    trial = await Workflow("flow", START >> ask >> after).test(1, answers={"why": "because"})
    assert trial.output == "asked: because"


async def test_api_2_state_before_and_after() -> None:
    @node
    async def count(x: Any, ctx: NodeContext, total: int = 0) -> int:
        ctx.state["total"] = total + x
        return total + x

    trial = await count.test(2, state={"total": 40, "other": "kept"})
    assert trial.output == 42
    assert trial.state == {"total": 42, "other": "kept"}


async def test_api_2_what_the_node_raises_is_raised() -> None:
    with pytest.raises(InputValidationError, match='node "shout"'):
        await shout.test({"tex": "hi"})

    @node
    async def fails(x: Any) -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        await fails.test(1)


async def test_api_2_plugins_see_the_node() -> None:
    seen = []

    async def before_node(ctx: NodeContext, input: Any) -> None:
        seen.append((ctx.node.name, input))

    await shout.test({"text": "hi"}, plugins=[FunctionPlugin("watch", before_node=before_node)])
    assert ("shout", {"text": "hi"}) in seen


async def test_api_2_any_kind_of_node_has_it() -> None:
    flow = Workflow("flow", START >> approve, approve.on({True: shout, DEFAULT: Join("kept", "any")}))
    assert (await flow.test({"text": "hi"}, answers={"approve": True})).output == "HI"
    assert (await flow.test({"text": "hi"}, answers={"approve": False})).output == {"approve": {"text": "hi"}}
    agent = node(LlmAgent(name="writer", model=ScriptedModel(["a haiku"])))
    assert (await agent.test("write")).output == "a haiku"
    assert (await Join("both").test({"a": 1})).output == {"input_of_both": {"a": 1}}


async def test_api_2_an_approval_in_an_agent_is_answered_by_the_tools_name() -> None:
    @tool(require_confirmation=True)
    def publish() -> str:
        """Publishes."""
        return "out"

    agent = node(LlmAgent(name="editor", model=ScriptedModel([call("publish"), "It is out."]), tools=[publish]))
    assert (await agent.test("go")).output is None
    agent = node(LlmAgent(name="editor", model=ScriptedModel([call("publish"), "It is out."]), tools=[publish]))
    assert (await agent.test("go", answers={"publish": True})).output == "It is out."


async def test_api_2_a_retried_node() -> None:
    """RTY-1, WT-29: Retry() is the default policy."""
    calls = []

    @node(retry=Retry(initial_delay=0))
    async def flaky(x: Any) -> int:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("again")
        return len(calls)

    assert (await flaky.test(1)).output == 3


async def test_wt_2_the_parallel_setting_is_heard_wherever_it_is_made() -> None:
    """The reference has the setting, and nobody reads it."""

    @node(parallel=True)
    async def double(x: int) -> int:
        return 2 * x

    assert (await double.test([1, 2, 3])).output == [2, 4, 6]
    by_config = FunctionNode(lambda x: 2 * x, name="double", inline=True, config=NodeConfig(parallel=True))
    assert (await Workflow("flow", START >> by_config).test([1, 2])).output == [2, 4]


async def test_an_1_one_agent_under_two_names_is_two_agents() -> None:
    """AN-1: the node's name is the agent's, so a pause in either is found again."""

    @tool(require_confirmation=True)
    def publish() -> str:
        """Publishes."""
        return "out"

    def respond(request: Any) -> Any:
        answered = any(content.role == "model" for content in request.contents)
        return "Out." if answered else call("publish")

    def flow() -> Workflow:
        editor = LlmAgent(name="editor", model=ScriptedModel(respond), tools=[publish])
        return Workflow("flow", START >> (node(editor, name="first"), node(editor, name="second")) >> Join("both"))

    waiting = {question.path for question in (await flow().test("go")).interrupts}
    assert waiting == {"trial@1/flow@1/first@1", "trial@1/flow@1/second@1"}
    trial = await flow().test("go", answers={"publish": True})
    assert trial.output == {"first": "Out.", "second": "Out."}
    assert {event.author for event in trial.events if event.text} == {"first", "second"}
