"""Nodes without hookwork-workflow: the kernel's contract and their activations (workflow HK-1, HK-2; core ACV-1)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import (
    Agent,
    Event,
    Node,
    NodeConfig,
    NodeContext,
    NodeOutcome,
    Pause,
    Plugin,
    RequestInput,
    Runner,
    Standing,
    build_node,
    text_content,
)
from hookwork.asking import request_input_event
from hookwork.errors import GraphError, InvalidRunNodeContext, NodeFailed
from hookwork_inmemory import InMemorySessionService


class Double(Node):
    """A node as an extension of its own would bring it."""

    name = "double"

    async def run(self, ctx: NodeContext, input: Any) -> AsyncIterator[Event]:
        yield Event(content=text_content("doubling"))
        yield Event(output=input * 2)


class Ask(Node):
    name = "ask"

    async def run(self, ctx: NodeContext, input: Any) -> AsyncIterator[Event]:
        yield RequestInput(interrupt_id="q")  # type: ignore[misc]


def around(node: Node, input: Any = 21) -> Agent:
    """An agent whose body runs a node below itself."""

    async def body(ctx: Any) -> AsyncIterator[Event]:
        activation = ctx.activate(node, input)
        async for event in activation:
            yield event
        if activation.status == "paused":
            raise Pause
        yield Event(content=text_content(f"{activation.status} {activation.output}"))

    return Agent(name="root", body=body)


async def run(agent: Agent, service: Any, message: Any = "hi", plugins: Any = ()) -> tuple[list[Event], Any]:
    async with Runner(agent, sessions=service, plugins=list(plugins)) as runner:
        handle = runner.run(user_id="u", session_id="s", message=message)
        return [event async for event in handle], handle.outcome


async def test_acv_1_a_node_is_an_activation_below_an_agent() -> None:
    events, outcome = await run(around(Double()), InMemorySessionService())
    assert [(event.path, event.author, event.text, event.output) for event in events][:3] == [
        ("root@1/double@1", "root", "doubling", None),
        ("root@1/double@1", "root", "", 42),
        ("root@1", "root", "completed 42", None),
    ]
    assert outcome.kind == "completed"


async def test_hk_1_build_node_takes_nodes_and_says_what_it_cannot_take() -> None:
    double = Double()
    assert build_node(double) is double
    with pytest.raises(GraphError, match="int"):
        build_node(7)


async def test_hk_1_a_node_pauses_and_hands_off_without_the_extension() -> None:
    """ANS-9: the answer is its output."""
    from hookwork import Content, FunctionResponse, Part

    service = InMemorySessionService()
    _, outcome = await run(around(Ask()), service)
    assert [call.id for call in outcome.open_calls] == ["q"]
    response = FunctionResponse(id="q", name="x", response={"result": "yes"})
    events, outcome = await run(around(Ask()), service, Content(role="user", parts=[Part(function_response=response)]))
    assert [event.text for event in events if event.text] == ["completed yes"]


async def test_hk_2_hooks_reach_it() -> None:
    class Instead(Plugin):
        name = "instead"

        async def before_node(self, ctx: Any, input: Any) -> NodeOutcome:
            return NodeOutcome(output=[ctx.node.name, input])

    events, _ = await run(around(Double()), InMemorySessionService(), plugins=[Instead()])
    assert [event.output for event in events if event.output is not None] == [["double", 21]]


class Wrong(Node):
    name = "wrong"

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        yield 7  # type: ignore[misc]


async def test_fail_1_its_error_is_the_runs() -> None:
    with pytest.raises(NodeFailed, match="yielded int"):
        await run(around(Wrong()), InMemorySessionService())


async def test_rty_3_any_object_with_the_two_questions_is_a_retry_policy() -> None:
    class Twice:
        def should_retry(self, error: BaseException, k: int) -> bool:
            return k < 2

        def delay(self, k: int, random: Any) -> float:
            return 0.0

    class Flaky(Node):
        name = "flaky"
        config = NodeConfig(retry=Twice())

        async def run(self, ctx: NodeContext, input: Any) -> AsyncIterator[Event]:
            if ctx.attempt == 1:
                raise OSError("once")
            yield Event(output=ctx.attempt)

    events, _ = await run(around(Flaky()), InMemorySessionService())
    assert [event.output for event in events if event.output is not None] == [2]


@pytest.mark.parametrize("name", ["run_node", "request_input"])
async def test_dyn_1_elsewhere_children_and_questions_are_refused(name: str) -> None:
    """The error says where they are to be had."""
    caught: list[Exception] = []

    async def body(ctx: Any) -> AsyncIterator[Event]:
        try:
            getattr(ctx, name)
        except InvalidRunNodeContext as error:
            caught.append(error)
        yield Event(content=text_content("x"))

    await run(Agent(name="root", body=body), InMemorySessionService())
    assert "a node" in str(caught[0])


def test_ask_2_the_request_is_the_kernels() -> None:
    assert request_input_event(RequestInput(interrupt_id="q")).function_calls[0].name == "adk_request_input"


def test_standings_of_a_node_are_those_of_every_activation() -> None:
    assert {standing.value for standing in Standing} == {"done", "waiting", "handed", "pending"}


def test_a_run_without_nodes_loads_none_of_it() -> None:
    """HK-3: what nodes need is loaded by nodes."""
    script = """
import asyncio, sys
from hookwork import Agent, Event, Runner, text_content
async def body(ctx):
    yield Event(content=text_content("x"))
async def main():
    async with Runner(Agent(name="a", body=body), sessions="memory:") as runner:
        assert await runner.ask("hi", user_id="u", session_id="s") == "x"
asyncio.run(main())
print([name for name in sys.modules if name.startswith(("hookwork.node_", "hookwork.starting", "hookwork.asking"))])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
