"""A workflow as a tool tells the model what it takes, also when only its first node says so (workflow WB-7)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import START, Workflow, node


class Order(BaseModel):
    item: str
    number: int = 1


@node
async def place(order: Order) -> str:
    return f"{order.number} x {order.item}"


@node
async def shout(text: str) -> str:
    return text.upper()


@node
async def count(text: str) -> str:
    return str(len(text))


def parameters(flow: Workflow) -> dict[str, Any]:
    return dict(flow.as_tool(description="Does it.").declaration().parameters_json_schema or {})


def test_the_type_of_the_first_node_is_declared() -> None:
    assert parameters(Workflow("w", START >> shout >> count))["properties"]["input"]["type"] == "string"


def test_also_through_a_workflow_in_front() -> None:
    inner = Workflow("inner", START >> shout)
    assert parameters(Workflow("w", START >> inner >> count))["properties"]["input"]["type"] == "string"


def test_two_first_nodes_leave_it_open() -> None:
    flow = Workflow("w", START >> (shout, count))
    assert parameters(flow)["properties"]["input"] == {}


def test_what_the_workflow_says_itself_wins() -> None:
    flow = Workflow("w", START >> shout, input_schema={"type": "string", "enum": ["a", "b"]})
    assert parameters(flow)["properties"]["input"]["enum"] == ["a", "b"]


async def test_the_fields_of_an_object_are_declared_and_it_arrives() -> None:
    flow = Workflow("w", START >> place >> shout)
    assert set(parameters(flow)["properties"]["input"]["properties"]) == {"item", "number"}
    model = ScriptedModel([call("w", input={"item": "pear", "number": 2}), "Done."])
    clerk = LlmAgent(name="clerk", model=model, tools=[flow.as_tool(description="Places an order.")])
    assert (await node(clerk).test("two pears")).output == "Done."
    response = model.prompts[-1][-1].function_responses[0].response
    assert response == {"result": "2 X PEAR"}
