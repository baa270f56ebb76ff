"""Bodies of nodes, carried out elsewhere from what an engine was given (tools-plugins EFF-10)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.workflow.flows import outputs, step

from hookwork import Plugin, Runner, text_content
from hookwork.effects import NodeResult, ToolResult
from hookwork.errors import ConfigurationError, RemoteEffectError
from hookwork.records.codec import load
from hookwork.records.event import Event, EventActions
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import tool
from hookwork_workflow import START, Workflow, node, parallel, routed


@tool
def shout(text: str) -> str:
    """Shouts."""
    return text.upper()


def flow() -> Workflow:
    @node
    async def typed(value: str) -> Any:
        yield Event(content=text_content("on the way"))
        yield routed("on", {"n": 1})

    @node
    async def broken(value: Any) -> None:
        raise LookupError("no such thing")

    inner = Workflow("inner", START >> step("leaf"))
    items = parallel(step("item"), name="items")
    listing = step("listing", give=lambda value: [1, 2])
    return Workflow("wf", START >> typed, typed.on({"on": inner, "off": broken}), inner >> listing >> items,
                    START >> node(shout) >> step("end", give=lambda value: None))  # fmt: skip


class Elsewhere(Plugin):
    """Sends each effect, as JSON text, to another runner and takes the result back as JSON text."""

    name = "elsewhere"

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def _send(self, call: Any) -> dict[str, Any]:
        order = json.loads(json.dumps(call.to_json()))
        self.sent.append(order)
        async with Runner(flow().as_agent(), sessions=InMemorySessionService()) as other:
            return dict(json.loads(json.dumps(await other.carry_out(order))))

    async def perform_node(self, call: Any) -> NodeResult:
        found = await self._send(call)
        events = tuple(load(Event, event) for event in found["events"])
        actions = load(EventActions, found["actions"])
        return NodeResult(
            output=found["output"], routes=tuple(found["routes"]), events=events, error=found["error"], actions=actions
        )

    async def perform_tool(self, call: Any) -> ToolResult:
        found = await self._send(call)
        return ToolResult(**{**found, "actions": load(EventActions, found["actions"])})


async def test_eff_10_a_graph_whose_leaves_run_in_another_runner(kit: Any) -> None:
    engine = Elsewhere()
    lab = kit.Lab(lambda: Workflow("wf", *flow().edges).as_agent())
    turn = await lab.run('{"text": "hi"}', plugins=[engine])
    assert turn.error is None
    names = {order["node"] if order["kind"] == "node" else order["tool"] for order in engine.sent}
    assert names == {"typed", "leaf", "listing", "item", "shout", "end"}
    found = outputs(turn.events)
    assert found["wf@1/inner@1/leaf@1"] == "leaf({'n': 1})"
    assert found["wf@1/items@1"] == ["item(1)", "item(2)"]
    assert [event.text for event in turn.events if event.path == "wf@1/shout@1" and event.text] == ["HI"]
    assert [event.text for event in turn.events if event.text and event.output is None][:1] == ["on the way"]


async def test_eff_10_an_error_of_the_body_is_part_of_the_result(kit: Any) -> None:
    @node
    async def broken(value: Any) -> None:
        raise AssertionError("it ran here")

    lab = kit.Lab(lambda: Workflow("wf", START >> broken).as_agent())
    error = (await lab.run("hi", plugins=[Elsewhere()])).error
    assert isinstance(error, RemoteEffectError)
    assert error.error_type == "LookupError"
    assert "no such thing" in str(error)


@pytest.mark.parametrize(
    "order", [{"kind": "node", "node": "nobody"}, {"kind": "tool", "tool": "nobody"}, {"kind": "model"}]
)
async def test_eff_10_what_a_runner_does_not_have(order: dict[str, Any]) -> None:
    where = {"key": "k", "app_name": "wf", "user_id": "u", "session_id": "s", "invocation_id": "e", "agent": "wf"}
    async with Runner(flow().as_agent(), sessions=InMemorySessionService()) as runner:
        with pytest.raises(ConfigurationError, match="wf"):
            await runner.carry_out({**where, **order})
