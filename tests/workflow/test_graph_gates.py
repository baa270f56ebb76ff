"""Gates of function nodes (workflow WB-3), and nodes as tools of LLM agents (WB-7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from hookwork import Content, FunctionResponse, Part
from hookwork.errors import ConfigurationError
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import DEFAULT, START, GraphError, Join, NodeContext, NodeTool, Workflow, node

ran: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@dataclass
class Payment:
    to: str
    amount: int


@node(require_confirmation=True)
async def pay(payment: Payment) -> str:
    ran.append(payment)
    return f"paid {payment.amount} to {payment.to}"


@node(require_confirmation=lambda payment: payment.amount > 100)
async def pay_much(payment: Payment) -> str:
    ran.append(payment)
    return "paid"


# --- gates -----------------------------------------------------------------------------------------------------------


async def test_wb_3_a_function_waits_for_an_approval() -> None:
    trial = await pay.test({"to": "Ann", "amount": 5})
    [question] = trial.interrupts
    assert question.kind == "confirmation"
    assert question.id == f"wf_tool_confirmation:{trial.events[0].invocation_id}:trial@1/pay@1"
    assert question.args["originalFunctionCall"]["args"] == {"to": "Ann", "amount": 5}
    assert (ran, trial.output) == ([], None)


async def test_wb_3_approved_it_runs_once() -> None:
    trial = await pay.test({"to": "Ann", "amount": 5}, answers={"pay": True})
    assert trial.output == "paid 5 to Ann"
    assert ran == [Payment("Ann", 5)]


async def test_wb_3_rejected_it_never_runs_and_the_graph_goes_on() -> None:
    trial = await pay.test(Payment("Ann", 5), answers={"pay": {"confirmed": False, "payload": "too dear"}})
    assert trial.output == {"error": "This tool call is rejected.", "payload": "too dear"}
    assert ran == []

    @node
    async def thanks(text: str) -> str:
        return f"thanks, {text}"

    @node
    async def sorry(outcome: Any) -> str:
        return "sorry"

    flow = Workflow("flow", START >> pay, pay.on({"rejected": sorry, DEFAULT: thanks}))
    assert (await flow.test({"to": "Ann", "amount": 5}, answers={"pay": False})).output == "sorry"
    assert (await flow.test({"to": "Ann", "amount": 5}, answers={"pay": True})).output == "thanks, paid 5 to Ann"


async def test_wb_3_a_predicate_sees_the_input() -> None:
    assert (await pay_much.test({"to": "Ann", "amount": 5})).output == "paid"
    assert (await pay_much.test({"to": "Ann", "amount": 500})).interrupts != ()

    async def always(payment: Payment) -> bool:
        return True

    asked = node(pay.func, require_confirmation=always)
    assert (await asked.test({"to": "Ann", "amount": 5})).interrupts != ()


async def test_wb_3_a_gate_and_a_question_in_one_node() -> None:
    @node(require_confirmation=True)
    async def ask(x: int, ctx: NodeContext) -> list[Any]:
        return [x, await ctx.request_input("why", "Why?")]

    trial = await ask.test(1, answers={"ask": True})
    assert [question.kind for question in trial.interrupts] == ["input"]
    assert (await ask.test(1, answers={"ask": True, "why": "so"})).output == [1, "so"]


async def test_wb_3_a_gated_function_is_no_leaf() -> None:
    """EFF-8: an engine may not carry it out without the approval."""
    assert pay.takes_context
    assert not node(pay.func).takes_context


def test_wb_3_is_for_functions() -> None:
    with pytest.raises(GraphError, match=r"require_confirmation of node\(\) is for functions and tools"):
        node(Join("both"), require_confirmation=True)


async def test_wb_3_an_input_that_is_no_object_is_shown_too() -> None:
    @node(require_confirmation=True)
    async def send(text: str) -> str:
        return text

    [question] = (await send.test("hi")).interrupts
    assert question.args["originalFunctionCall"]["args"] == {"input": "hi"}


# --- nodes as tools --------------------------------------------------------------------------------------------------


def flow() -> Workflow:
    @node
    async def check(payment: Payment) -> Payment:
        ran.append("check")
        return payment

    @node
    async def approve(payment: Payment, ctx: NodeContext) -> str:
        answer = await ctx.request_input("approve", f"Pay {payment.amount}?")
        ran.append(answer)
        return f"paid {payment.amount}" if answer == "yes" else "not paid"

    return Workflow("payment", START >> check >> approve, description="Pays somebody.", input_schema=Payment)


def test_wb_7_the_parameters_are_the_fields_of_the_input() -> None:
    made = flow().as_tool()
    assert isinstance(made, NodeTool)
    declaration = made.declaration()
    assert (declaration.name, declaration.description) == ("payment", "Pays somebody.")
    parameters = dict(declaration.parameters_json_schema or {})
    assert list(parameters["properties"]) == ["to", "amount"]
    assert list(parameters["required"]) == ["to", "amount"]


def test_wb_7_any_other_input_is_one_parameter() -> None:
    @node
    async def double(x: int) -> int:
        """Doubles."""
        return 2 * x

    parameters = dict(double.as_tool(name="twice").declaration().parameters_json_schema or {})
    assert parameters == {"type": "object", "properties": {"input": {"type": "integer"}}, "required": ["input"]}
    assert double.as_tool(name="twice").name == "twice"
    with pytest.raises(ConfigurationError, match="needs a description"):
        Join("both").as_tool()
    assert Join("both").as_tool(description="Joins.").description == "Joins."


async def test_wb_7_a_model_calls_a_node() -> None:
    @node
    async def double(x: int) -> int:
        """Doubles."""
        return 2 * x

    model = ScriptedModel([call("double", input=21), "It is 42."])
    trial = await node(LlmAgent(name="clerk", model=model, tools=[double.as_tool()])).test("twice 21?")
    assert trial.output == "It is 42."
    [response] = [r for event in trial.events for r in event.function_responses]
    assert response.response == {"result": 42}


async def test_wb_7_what_waits_inside_lets_the_call_wait(kit: Any) -> None:
    """A workflow as a tool: its question comes up as the run's, and what is done is not done again."""

    def build() -> Any:
        steps = [call("payment", to="Ann", amount=5), "Done."]
        return kit.llm("clerk", *steps, tools=[flow().as_tool()])

    lab = kit.Lab(build)
    turn = await lab.run("pay Ann 5")
    [question] = turn.outcome.open_calls
    assert (question.message, ran) == ("Pay 5?", ["check"])
    answer = FunctionResponse(id=question.id, name=question.name, response={"result": "yes"})
    turn = await lab.run(Content(role="user", parts=[Part(function_response=answer)]))
    assert turn.outcome.kind == "completed"
    assert ran == ["check", "yes"]
    responses = [r.response for event in turn.events for r in event.function_responses if r.name == "payment"]
    assert responses == [{"result": "paid 5"}]
    assert turn.events[-1].text == "Done."


async def test_wb_7_a_result_that_is_an_object_is_the_response() -> None:
    inner = Workflow("inner", START >> pay_much, pay_much.on({DEFAULT: Join("end", "any")}), description="Pays.")
    model = ScriptedModel([call("inner", input={"to": "Ann", "amount": 5}), "Done."])
    trial = await node(LlmAgent(name="clerk", model=model, tools=[inner.as_tool()])).test("pay")
    [response] = [r for event in trial.events for r in event.function_responses]
    assert response.response == {"pay_much": "paid"}
